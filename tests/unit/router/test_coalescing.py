"""Shared runs: who runs, who takes over, what each is given."""

import asyncio

import pytest
from harness.coalescing import Run, Stage
from harness.virtual_time import VirtualTime, run_in_virtual_time
from tiermesh.api.common.v1 import answer_pb2
from tiermesh.api.router.v1 import router_pb2
from tiermesh.router.coalescing.continuation import Continuation, DivergedError
from tiermesh.router.coalescing.crew import MAX_SUCCESSORS, Crew, Promoted, Verdict
from tiermesh.router.events import Completed
from tiermesh.shared.errors import (
    BudgetExhausted,
    ContextTooLong,
    InferenceTimeout,
    InternalError,
    NoEligibleTier,
    StreamBroken,
)


def crew(**deadlines):
    first, *others = deadlines
    made = Crew(first, deadline=deadlines[first], now=0.0)
    for name in others:
        made.join(name, deadline=deadlines[name])
    return made


def test_the_run_goes_on_until_the_last_one_leaves():
    made = crew(a=10, b=10, c=10)
    assert [made.leave(name) for name in "abc"] == [Verdict.GOES_ON, Verdict.GOES_ON, Verdict.CANCELLED]
    assert made.is_over


def test_leaving_twice_or_after_the_end_changes_nothing():
    made = crew(a=10, b=10)
    made.leave("a")
    assert made.leave("a") is Verdict.GOES_ON
    made.complete()
    assert made.leave("b") is Verdict.GOES_ON


def test_the_one_with_the_most_time_takes_over():
    made = crew(a=10, b=20, c=30, d=25)
    assert made.failed(NoEligibleTier("down"), now=1.0) == Promoted("c")
    assert made.members == ("b", "c", "d")


def test_a_leader_that_has_left_leaves_its_run_to_the_others():
    made = crew(a=10, b=20)
    assert made.leave("a") is Verdict.GOES_ON
    assert made.failed(InternalError("a defect"), now=1.0) == Promoted("b")


def test_only_so_many_take_over():
    made = crew(a=10, b=20, c=20, d=20, e=20)
    for _ in range(MAX_SUCCESSORS):
        assert isinstance(made.failed(NoEligibleTier("down"), now=1.0), Promoted)
    assert made.failed(NoEligibleTier("down"), now=1.0) is Verdict.OVER


def test_what_is_wrong_with_the_request_is_wrong_for_all():
    assert crew(a=10, b=20).failed(ContextTooLong("long"), now=1.0) is Verdict.OVER


@pytest.mark.parametrize(("left", "expected"), [(5.1, Promoted("b")), (5.0, Verdict.OVER), (0.1, Verdict.OVER)])
def test_after_a_deadline_one_takes_over_only_with_more_time_than_that_took(left, expected):
    assert crew(a=5, b=5 + left).failed(InferenceTimeout("late"), now=5.0) == expected


def test_a_run_led_from_elsewhere_fails_for_nobody_here():
    made = Crew("a", deadline=10.0, now=0.0, leads=False)
    made.join("b", deadline=9.0)
    assert made.failed(StreamBroken("gone"), now=1.0) == Promoted("a")
    assert made.members == ("a", "b")


LABEL = router_pb2.RouteLabel(tier="l1", model="m")


def piece(text, choice=0, **fields):
    return answer_pb2.Delta(text=text, choice_index=choice, **fields)


def texts(given, following):
    joined = Continuation(given)
    found = [joined.admit(event) for event in following]
    return [(event.choice_index, event.text) for event in found if isinstance(event, answer_pb2.Delta)]


def test_what_is_out_already_is_not_given_again_wherever_it_was_cut():
    given = [LABEL, piece("one "), piece("你", 1), piece("tw")]
    following = [LABEL, piece("o"), piece("你好", 1), piece("ne two"), piece(" three")]
    assert texts(given, following) == [(1, "好"), (0, "o"), (0, " three")]


def test_a_first_run_is_given_as_it_is():
    assert texts([], [LABEL, piece("one"), piece("two")]) == [(0, "one"), (0, "two")]


@pytest.mark.parametrize(
    "following",
    [
        [router_pb2.RouteLabel(tier="l2", model="m")],
        [router_pb2.RouteLabel(tier="l1", model="other")],
        [LABEL, piece("two")],
        [LABEL, piece("on"), piece("X")],
        [LABEL, piece("on"), Completed([], answer_pb2.Usage(), (), False, 0.0)],
        [LABEL, piece("one two", logprobs=[answer_pb2.TokenLogprob(token="one two")])],
    ],
)
def test_another_answer_is_refused(following):
    joined = Continuation([LABEL, piece("one")])
    with pytest.raises(DivergedError):
        for event in following:
            joined.admit(event)


def play(*scripts, asks, last=None):
    loop = VirtualTime()

    async def all_of_them():
        stage = Stage(loop, *scripts, last=last)

        async def one(number, at, options):
            await asyncio.sleep(at)
            return await stage.ask(f"r{number}", **options)

        asked = await asyncio.gather(*(one(n, at, options) for n, (at, options) in enumerate(asks)))
        # Whoever was cancelled has one turn of the loop to say so.
        await asyncio.sleep(0)
        return stage, asked

    return run_in_virtual_time(all_of_them(), loop)


def test_a_follower_keeps_its_own_shorter_deadline():
    stage, (leader, follower) = play(asks=[(0, {}), (0.5, {"deadline_s": 2.0})])
    assert leader.text == "one two three"
    assert isinstance(follower.error, InferenceTimeout)
    assert follower.text == "one two "
    assert stage.runs == 1


def test_a_follower_that_was_given_nothing_ran_out_of_budget():
    _, (leader, follower) = play(asks=[(0, {}), (0.1, {"deadline_s": 0.5})])
    assert leader.end is not None
    assert isinstance(follower.error, BudgetExhausted)


def test_a_follower_with_more_time_takes_over_at_the_leaders_deadline():
    stage, (leader, follower) = play(asks=[(0, {"deadline_s": 2.5}), (0.5, {"deadline_s": 100})])
    assert isinstance(leader.error, BudgetExhausted)
    assert leader.text == "one two "
    assert follower.text == "one two three"
    assert (follower.end.from_cache, follower.label.request_id) == (False, "r1")
    assert stage.runs == 2


def test_a_follower_with_hardly_more_time_does_not_begin_again():
    stage, (leader, follower) = play(asks=[(0, {"deadline_s": 2.5}), (0.5, {"deadline_s": 2.5})])
    assert isinstance(leader.error, BudgetExhausted)
    assert isinstance(follower.error, BudgetExhausted)
    assert stage.runs == 1


def test_a_leader_that_leaves_keeps_its_run_going():
    stage, (_, follower) = play(asks=[(0, {"leave_after_s": 1.5}), (0.5, {})])
    assert follower.text == "one two three"
    assert (stage.runs, stage.cancelled) == (1, 0)
    # It was the leader's run; the follower has paid for nothing.
    assert follower.end.from_cache


def test_the_last_one_to_leave_cancels_the_run_at_once():
    stage, _ = play(asks=[(0, {"leave_after_s": 1.5}), (0.5, {"leave_after_s": 1.2})])
    assert (stage.runs, stage.cancelled, stage.open) == (1, 1, 0)


def test_one_that_comes_after_the_last_has_left_runs_anew():
    stage, (_, late) = play(asks=[(0, {"leave_after_s": 1.5}), (1.6, {})])
    assert stage.runs == 2
    assert late.text == "one two three"


def test_a_defect_of_the_run_ends_everyone_with_an_error_and_blocks_nobody():
    loop = VirtualTime()

    async def work():
        stage = Stage(loop)

        async def broken(_call):
            await asyncio.sleep(1)
            raise ZeroDivisionError
            yield

        stage.run = broken
        asked = await asyncio.gather(stage.ask("a"), stage.ask("b"))
        stage.run = Stage(loop).run
        return asked, await stage.ask("c")

    asked, after = run_in_virtual_time(work(), loop)
    assert [type(each.error) for each in asked] == [InternalError, InternalError]
    assert after.text == "one two three"


def test_pieces_of_two_answers_are_never_joined():
    broken = Run(pieces=("one ", "two "), error=NoEligibleTier("down"))
    _, (leader, follower) = play(broken, asks=[(0, {}), (0.5, {})], last=Run(pieces=("one ", "deux")))
    assert isinstance(leader.error, NoEligibleTier)
    assert isinstance(follower.error, StreamBroken)
    assert follower.text == "one two "
