"""What a failed engine call means for the request: pure judgements on errors."""

from __future__ import annotations

from collections.abc import Sequence

from tiermesh.api.common.v1 import chat_pb2
from tiermesh.shared.budget import Budget
from tiermesh.shared.errors import (
    BreakerOpen,
    ContextTooLong,
    DeadlineError,
    InferenceTimeout,
    InternalError,
    NoEligibleTier,
    NotApplicable,
    OutOfMemory,
    Overloaded,
    QueueFull,
    StreamBroken,
    TiermeshError,
    Unavailable,
    error_for_reason,
)

Failures = Sequence[tuple[str, TiermeshError]]
"""Tier and error of each attempt, in order."""


def why_next(error: TiermeshError, priority: int) -> str | None:
    """Returns why the next candidate may be tried after `error`, as a label's reason, or None.

    Batch work that finds no room is not sent on: nobody waits for it, and the next tier's room is for those who do.

    To be asked only before anything of the answer has gone out.

    Only failures that another tier need not share move a request on: a deadline that has passed
    for one has passed for all, and a defect must not be hidden.
    """
    if isinstance(error, NotApplicable):
        return "declined"
    if isinstance(error, Unavailable | OutOfMemory):
        return "unavailable"
    if isinstance(error, Overloaded):
        if priority == chat_pb2.PRIORITY_BATCH:
            return None
        return "breaker_open" if isinstance(error, BreakerOpen) else "queue_full"
    if isinstance(error, ContextTooLong):
        # The router's token count is an estimate, the engine's is not.
        return "context_too_long"
    if isinstance(error, StreamBroken):
        # Nothing of it has gone out yet.
        return "broken_off"
    return None


def is_outage(error: TiermeshError) -> bool:
    """Returns whether `error` says that the tier, not the request, is in trouble."""
    return isinstance(error, Unavailable)


def is_fault(error: TiermeshError) -> bool:
    """Returns whether `error` counts against the tier when tiers are weighed."""
    return isinstance(error, Unavailable | OutOfMemory | StreamBroken | InferenceTimeout | InternalError)


def broken_off(error: TiermeshError, *, tier: str, pieces: int, budget: Budget) -> TiermeshError:
    """Returns the error of an answer that ended without its terminal event.

    Args:
        error: What the stream ended with.
        tier: The tier that was answering.
        pieces: Pieces of text that had been received.
        budget: The engine call's budget.
    """
    if isinstance(error, DeadlineError):
        return error
    if budget.exhausted:
        # Past its deadline a stream is reset, which says nothing by itself.
        return InferenceTimeout(f"the deadline passed while tier {tier} was answering; send a longer deadline")
    return StreamBroken(f"tier {tier} broke off after {pieces} pieces of its answer: {error.message}")


def failed_at(tier: str, error: TiermeshError) -> TiermeshError:
    """Returns `error` with the tier named in its message."""
    return error_for_reason(
        error.reason, f"tier {tier}: {error.message}", field=error.field, retry_after=error.retry_after
    )


def nobody_answered(failures: Failures) -> TiermeshError:
    """Returns the error of a request whose candidates have all been tried.

    No room counts most, since waiting helps; a prompt that is too long for every tier comes
    before nothing at all being there.
    """
    if len(failures) == 1:
        return failed_at(*failures[0])
    seen = "; ".join(f"tier {tier}: {error.message}" for tier, error in failures)
    full = [error for _, error in failures if isinstance(error, Overloaded)]
    if full:
        waits = [error.retry_after for error in full if error.retry_after is not None]
        return QueueFull(f"no tier has room: {seen}", retry_after=min(waits, default=None))
    if any(isinstance(error, ContextTooLong) for _, error in failures) and not any(
        isinstance(error, Unavailable) for _, error in failures
    ):
        return ContextTooLong(f"messages: {seen}", field="messages")
    return NoEligibleTier(f"no tier answers: {seen}")
