"""How far a long command has come, where nobody looks at a terminal."""

from tiermesh.client.cli._progress import EVERY_S, Lines
from tiermesh.shared.testing import FakeClock


def test_lines_come_at_the_start_and_then_now_and_then():
    clock, said = FakeClock(), []
    lines = Lines("warming", 300, 4, say=said.append, clock=clock)
    assert said == ["warming: 4 of 300"]
    for _ in range(10):
        lines.advance()
    assert len(said) == 1
    clock.advance(EVERY_S)
    lines.tell("the mesh is busy")
    assert said[1:] == ["the mesh is busy: 14 of 300"]
    lines.advance()
    assert len(said) == 2
    clock.advance(EVERY_S)
    lines.advance()
    assert said[2:] == ["the mesh is busy: 16 of 300"]
