"""What holds of retries whatever fails."""

from hypothesis import given
from hypothesis import strategies as st
from tiermesh.client import RetryPolicy, RetryTokens
from tiermesh.client._retries import Attempts
from tiermesh.shared.budget import Budget
from tiermesh.shared.errors import InvalidRequest, QueueFull, Unavailable
from tiermesh.shared.testing import FakeClock

errors = st.one_of(
    st.builds(Unavailable, st.just("down"), retry_after=st.none() | st.floats(0, 5)),
    st.builds(QueueFull, st.just("full"), retry_after=st.none() | st.floats(0, 5)),
    st.builds(InvalidRequest, st.just("bad")),
)


@given(
    outcomes=st.lists(st.lists(errors, max_size=6), max_size=40), deadline=st.floats(0.01, 20), draw=st.floats(0, 0.999)
)
def test_attempts_keep_the_deadline_the_policy_and_the_tokens(outcomes, deadline, draw):
    tokens = RetryTokens(capacity=5, refund=0.1)
    policy = RetryPolicy()
    retries = answers = 0
    for failures in outcomes:
        clock = FakeClock()
        budget = Budget.of(deadline, clock)
        attempts = Attempts(policy, tokens, budget, typical_s=0.5, random=lambda: draw)
        made = 1
        for error in failures:
            wait = attempts.after(error)
            if wait is None:
                break
            made += 1
            retries += 1
            assert wait >= (error.retry_after or 0.0)
            assert not isinstance(error, InvalidRequest)
            clock.advance(wait)
            # Another attempt never begins past the deadline.
            assert clock.monotonic() <= budget.deadline + 1e-9
        else:
            tokens.succeeded()
            answers += 1
        assert made <= policy.attempts
    assert retries <= 5 + answers * 0.1 + 1e-6
