"""Errors as the last event of a stream, and back. The stream's status carries the same reason, field and delay."""

from __future__ import annotations

from tiermesh.api.common.v1 import answer_pb2, ledger_pb2
from tiermesh.shared.errors import TiermeshError, error_for_reason


def failure_of(error: TiermeshError, ledger: ledger_pb2.Ledger | None = None) -> answer_pb2.Failure:
    """Returns the terminal event that reports an error."""
    failure = answer_pb2.Failure(reason=error.reason, message=error.message, field=error.field, ledger=ledger)
    if error.retry_after is not None:
        failure.retry_after.FromMilliseconds(round(error.retry_after * 1000))
    return failure


def error_of(failure: answer_pb2.Failure) -> TiermeshError:
    """Returns the error that a terminal event reports."""
    retry_after = failure.retry_after.ToMilliseconds() / 1000 if failure.HasField("retry_after") else None
    return error_for_reason(failure.reason, failure.message, field=failure.field, retry_after=retry_after)
