"""When `tiermesh cache warm` asks, waits and gives up; no time passes."""

from datetime import time

import pytest
from tiermesh.api.router.v1 import router_pb2
from tiermesh.client.cli.warmer import GIVES_UP, PAUSE_S, TRIES, Busy, Refused, Report, Warmer
from tiermesh.client.cli.warming import parse_line, parse_window

MISS, HIT, BYPASS = router_pb2.CACHE_STATUS_MISS, router_pb2.CACHE_STATUS_HIT, router_pb2.CACHE_STATUS_BYPASS
QUESTIONS = [parse_line(f'"question {n}"') for n in range(10)]


class Kit:
    """A warmer whose mesh says what it is told to, and whose clock is moved by sleeping alone."""

    def __init__(self, *replies, window=None, pause_s=0.0, at=0.0):
        self.replies, self.asked, self.done, self.slept, self.told = list(replies), [], [], [], []
        self.seconds, self.report = at, Report()
        self.warmer = Warmer(
            self.ask,
            self.done.append,
            window=parse_window(window) if window else None,
            pause_s=pause_s,
            now=lambda: time(int(self.seconds // 3600) % 24, int(self.seconds // 60) % 60),
            sleep=self.sleep,
            tell=self.told.append,
        )

    async def ask(self, request):
        self.asked.append((request, self.seconds))
        reply = self.replies.pop(0) if self.replies else MISS
        if isinstance(reply, Exception):
            raise reply
        return reply

    async def sleep(self, seconds):
        self.slept.append(seconds)
        self.seconds += seconds

    async def run(self, count):
        await self.warmer.run(QUESTIONS[:count], self.report)
        return self.report


async def test_each_is_asked_once_and_marked_before_the_next():
    kit = Kit(MISS, HIT, BYPASS)
    report = await kit.run(3)
    assert [request for request, _ in kit.asked] == kit.done == QUESTIONS[:3]
    assert (report.answered, report.cached, report.bypassed) == (3, 1, 1)
    assert not kit.slept


async def test_what_was_answered_is_marked_when_the_end_comes_in_between():
    kit = Kit(MISS, MISS, RuntimeError("the end"))
    with pytest.raises(RuntimeError, match="the end"):
        await kit.run(5)
    assert kit.done == QUESTIONS[:2]
    assert kit.report.answered == 2


async def test_a_busy_mesh_is_left_alone_for_longer_each_time():
    kit = Kit(Busy("full"), Busy("full"), MISS)
    report = await kit.run(1)
    assert kit.slept == [PAUSE_S, 2 * PAUSE_S]
    assert report.answered == 1
    assert "the mesh is busy" in kit.told


async def test_a_mesh_that_has_no_room_for_several_in_a_row_is_given_up():
    kit = Kit(MISS, *[Busy("full")] * (TRIES * GIVES_UP))
    report = await kit.run(10)
    assert len(kit.asked) == 1 + TRIES * GIVES_UP
    assert (report.answered, report.left, report.gave_up) == (1, 9, "full")


async def test_one_that_finds_no_room_does_not_keep_the_others_from_being_asked():
    kit = Kit(*[Busy("full")] * TRIES, MISS, *[Busy("full")] * TRIES, MISS)
    report = await kit.run(4)
    assert kit.done == [QUESTIONS[1], QUESTIONS[3]]
    assert (report.answered, report.left, report.gave_up) == (2, 2, "")


async def test_what_is_refused_is_counted_by_its_reason_and_not_marked():
    kit = Kit(Refused("CONTEXT_TOO_LONG"), MISS, Refused("CONTEXT_TOO_LONG"))
    report = await kit.run(3)
    assert report.refused == {"CONTEXT_TOO_LONG": 2}
    assert kit.done == [QUESTIONS[1]]
    assert len(kit.asked) == 3


async def test_nothing_is_asked_outside_the_window_not_even_again():
    # It ends at 05:30, in the middle of the second question's tries, and opens again at 01:00.
    begins = 5 * 3600 + 29 * 60 + 50
    kit = Kit(MISS, Busy("full"), Busy("full"), MISS, window="01:00-05:30", at=begins)
    report = await kit.run(2)
    assert report.answered == 2
    hours = [seconds / 3600 % 24 for _, seconds in kit.asked]
    assert all(1 <= hour < 5.5 for hour in hours)
    assert kit.asked[-1][1] >= 25 * 3600
    assert "waiting for the window" in kit.told


async def test_it_pauses_between_questions_as_told():
    kit = Kit(pause_s=2.5)
    await kit.run(3)
    assert kit.slept == [2.5] * 3
