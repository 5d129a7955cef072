import pytest
from tiermesh.client import Deadlines, Lane
from tiermesh.shared.config import LanesConfig


def test_without_a_measurement_the_table_decides():
    assert Deadlines().default_s(Lane.SIMPLE) == 0.5
    assert Deadlines().default_s(Lane.COMPLEX) == 3.0
    lanes = LanesConfig.model_validate(
        {"simple": {"deadline_ms": 60000, "network_ms": 500, "queue_ms": 15000, "model_ms": 10000, "finish_ms": 30000}}
    )
    deadlines = Deadlines(lanes)
    assert deadlines.default_s(Lane.SIMPLE) == 60
    assert deadlines.typical_s(Lane.SIMPLE) == 55.5


def test_a_default_is_never_under_what_answers_take():
    deadlines = Deadlines()
    for _ in range(49):
        deadlines.note(Lane.SIMPLE, 2.0)
    assert deadlines.default_s(Lane.SIMPLE) == 0.5
    deadlines.note(Lane.SIMPLE, 2.0)
    assert deadlines.typical_s(Lane.SIMPLE) == 2.0
    assert deadlines.default_s(Lane.SIMPLE) == pytest.approx(2.5)
    assert deadlines.default_s(Lane.COMPLEX) == 3.0


def test_fast_answers_do_not_shorten_the_default():
    deadlines = Deadlines()
    for _ in range(100):
        deadlines.note(Lane.COMPLEX, 0.01)
    assert deadlines.default_s(Lane.COMPLEX) == 3.0


def test_a_default_is_never_longer_than_the_mesh_allows():
    deadlines = Deadlines(longest_s=4.0)
    for _ in range(100):
        deadlines.note(Lane.COMPLEX, 30.0)
    assert deadlines.default_s(Lane.COMPLEX) == 4.0
