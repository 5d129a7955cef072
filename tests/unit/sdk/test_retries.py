import pytest
from tiermesh.client import RetryPolicy, RetryTokens
from tiermesh.client._retries import Attempts
from tiermesh.shared.budget import Budget
from tiermesh.shared.errors import (
    BudgetExhausted,
    InternalError,
    InvalidRequest,
    OutOfMemory,
    QueueFull,
    StreamBroken,
    TiermeshError,
    Unavailable,
)
from tiermesh.shared.testing import FakeClock

POLICY = RetryPolicy(attempts=3, base_s=0.1, cap_s=0.15)


def attempts(seconds: float = 10.0, *, tokens: RetryTokens | None = None, draw: float = 0.5, typical: float = 1.0):
    clock = FakeClock()
    budget = Budget.of(seconds, clock)
    return Attempts(POLICY, tokens or RetryTokens(), budget, typical_s=typical, random=lambda: draw), clock


def test_waits_are_drawn_from_a_range_that_doubles_up_to_a_cap():
    policy = RetryPolicy(base_s=0.1, cap_s=0.3)
    assert [policy.wait(made, lambda: 1.0) for made in (1, 2, 3, 9)] == pytest.approx([0.1, 0.2, 0.3, 0.3])
    assert policy.wait(1, lambda: 0.0) == 0.0
    assert policy.wait(1, lambda: 0.25) == pytest.approx(0.025)


def test_unavailable_is_tried_again_until_the_attempts_are_used_up():
    tries, _ = attempts()
    assert tries.after(Unavailable("down")) == pytest.approx(0.05)
    assert tries.after(Unavailable("down")) == pytest.approx(0.075)
    assert tries.after(Unavailable("down")) is None


@pytest.mark.parametrize(
    "error",
    [
        InvalidRequest("bad"),
        BudgetExhausted("late"),
        InternalError("defect"),
        StreamBroken("cut"),
        QueueFull("full, and no word when to come back"),
        OutOfMemory("too much"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_what_another_attempt_cannot_help_is_not_tried_again(error: TiermeshError):
    tokens = RetryTokens()
    tries, _ = attempts(tokens=tokens)
    assert tries.after(error) is None
    assert tokens.left == 10


def test_a_refusal_is_tried_again_not_before_its_retry_after():
    tries, _ = attempts(draw=0.0)
    assert tries.after(QueueFull("full", retry_after=2.5)) == 2.5


def test_a_refusal_is_final_where_the_wait_leaves_no_time_for_an_answer():
    tries, clock = attempts(10.0, draw=0.0, typical=4.0)
    clock.advance(4.0)
    assert tries.after(QueueFull("full", retry_after=2.0)) is None
    assert tries.after(QueueFull("full", retry_after=1.9)) == 1.9


def test_a_retry_after_of_the_unavailable_is_honoured():
    tries, _ = attempts(draw=0.0)
    assert tries.after(Unavailable("loading", retry_after=2.0)) == 2.0


def test_what_the_mesh_itself_calls_unavailable_is_final_unless_it_names_a_time():
    tokens = RetryTokens()
    tries, _ = attempts(tokens=tokens, draw=0.0)
    assert tries.after(Unavailable("no router"), settled=True) is None
    assert tokens.left == 10
    assert tries.after(Unavailable("loading", retry_after=2.0), settled=True) == 2.0
    assert tries.after(QueueFull("full", retry_after=2.0), settled=True) == 2.0


def test_nothing_is_tried_again_past_the_deadline():
    tries, clock = attempts(1.0)
    clock.advance(0.96)
    assert tries.after(Unavailable("down")) is None


def test_tokens_are_shared_and_come_back_with_answers():
    tokens = RetryTokens(capacity=2, refund=0.5)
    first, second, third = (attempts(tokens=tokens)[0] for _ in range(3))
    assert first.after(Unavailable("down")) is not None
    assert second.after(Unavailable("down")) is not None
    assert third.after(Unavailable("down")) is None
    tokens.succeeded()
    assert third.after(Unavailable("down")) is None
    tokens.succeeded()
    assert third.after(Unavailable("down")) is not None
