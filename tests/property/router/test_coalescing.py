"""Whatever joins, leaves, fails and runs late: nobody is given a mixture, and nothing runs for nobody."""

import asyncio

from harness.coalescing import KEY, Run, Stage
from harness.virtual_time import VirtualTime, run_in_virtual_time
from hypothesis import given, settings
from hypothesis import strategies as st
from tiermesh.shared.errors import ContextTooLong, DeadlineError, InternalError, NoEligibleTier, QueueFull, StreamBroken

ANSWERS = (("one ", "two ", "three"), ("one ", "two ", "3"), ("un ", "deux"))
TEXTS = {"".join(pieces) for pieces in ANSWERS}
# Odd numbers, so that no two things are due at the same moment.
PAUSES = (0.317, 1.013)

scripts = st.lists(
    st.builds(
        lambda pieces, cut, error, pause: Run(pieces[:cut] if error is not None else pieces, pause, error),
        st.sampled_from(ANSWERS),
        st.integers(0, 2),
        st.sampled_from([None, InternalError("a defect"), QueueFull("full"), NoEligibleTier("down"), ContextTooLong("long")]),
        st.sampled_from(PAUSES),
    ),
    max_size=5,
)  # fmt: skip
asks = st.lists(
    st.tuples(
        st.floats(0, 4, allow_nan=False, width=32),
        st.sampled_from([0.55, 2.11, 50.0]),
        st.one_of(st.none(), st.floats(0, 4, allow_nan=False, width=32)),
    ),
    min_size=1,
    max_size=7,
)


def play(given_scripts, given_asks):
    loop = VirtualTime()

    async def work():
        stage = Stage(loop, *given_scripts)

        async def one(number, at, deadline_s, leave_after_s):
            await asyncio.sleep(at)
            return await stage.ask(f"r{number}", deadline_s=deadline_s, leave_after_s=leave_after_s)

        asked = await asyncio.gather(*(one(n, *ask) for n, ask in enumerate(given_asks)))
        # Cancelled runs have their turn to end.
        await asyncio.sleep(0.001)
        return stage, asked

    return run_in_virtual_time(work(), loop)


@settings(max_examples=300)
@given(given_scripts=scripts, given_asks=asks)
def test_no_interleaving_breaks_a_promise(given_scripts, given_asks):
    stage, asked = play(list(given_scripts), given_asks)
    assert stage.open == 0, "a run goes on for nobody"
    assert not stage.flights.has(KEY)
    assert stage.most_open <= 1, "the same was run twice at a time"
    for one in asked:
        if one.left:
            continue
        assert (one.end is None) != (one.error is None), "not exactly one end"
        if one.end is not None:
            assert one.text in TEXTS, "a mixture of two answers"
        assert any(text.startswith(one.text) for text in TEXTS)
        if one.error is not None:
            assert isinstance(
                one.error, DeadlineError | StreamBroken | InternalError | QueueFull | NoEligibleTier | ContextTooLong
            )


@settings(max_examples=100)
@given(given_asks=asks)
def test_where_no_run_fails_nobody_who_stays_and_has_time_goes_without(given_asks):
    stage, asked = play([], [(at, 50.0, leave) for at, _, leave in given_asks])
    for one in asked:
        assert one.left or one.text == "one two three"
    assert stage.runs <= len(given_asks)
