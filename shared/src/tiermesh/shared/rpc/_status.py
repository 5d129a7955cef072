"""Errors to gRPC status and back, by `google.rpc.Status` details (AIP-193)."""

from __future__ import annotations

from collections.abc import Iterable

import grpc
from google.protobuf import any_pb2, duration_pb2
from google.rpc import error_details_pb2, status_pb2
from tiermesh.shared.errors import DOMAIN, BreakerOpen, TiermeshError, error_for_reason, reason_for_status
from tiermesh.shared.headers import BREAKER, INGRESS_SERVER

DETAILS_KEY = "grpc-status-details-bin"
BREAKER_RETRY_S = 1.0
"""When a call may come again that Envoy refused: a breaker closes as soon as one of the calls under way has ended."""


def status_metadata(error: TiermeshError) -> tuple[tuple[str, str | bytes], ...]:
    """Returns the trailing metadata that carries an error's reason, field and retry delay."""
    row = error.row
    details = [error_details_pb2.ErrorInfo(reason=error.reason, domain=DOMAIN, metadata={"code": row.code})]
    packed = [_pack(details[0])]
    if error.field:
        violation = error_details_pb2.BadRequest.FieldViolation(field=error.field, description=error.message)
        packed.append(_pack(error_details_pb2.BadRequest(field_violations=[violation])))
    trailers: list[tuple[str, str | bytes]] = []
    if error.retry_after is not None:
        delay = duration_pb2.Duration()
        delay.FromMilliseconds(round(error.retry_after * 1000))
        packed.append(_pack(error_details_pb2.RetryInfo(retry_delay=delay)))
        trailers.append(("retry-after", str(max(1, round(error.retry_after)))))
    status = status_pb2.Status(code=row.status.value[0], message=error.message, details=packed)
    return ((DETAILS_KEY, status.SerializeToString()), *trailers)


def has_details(error: grpc.RpcError) -> bool:
    """Whether a failed call's status came with details, as those of services do, rather than from Envoy or gRPC."""
    if not isinstance(error, grpc.aio.AioRpcError | grpc.Call):
        return False
    return any(key == DETAILS_KEY for key, _ in error.trailing_metadata() or ())


def told_by_ingress(error: grpc.RpcError) -> bool:
    """Whether a failed call's status came from the mesh's ingress, rather than from the caller's own connection to it."""
    if not isinstance(error, grpc.aio.AioRpcError | grpc.Call):
        return False
    # With a failure before the first message, the headers come as trailers.
    told = (*(error.initial_metadata() or ()), *(error.trailing_metadata() or ()))
    return ("server", INGRESS_SERVER) in ((key, value) for key, value in told)


def is_unimplemented(error: TiermeshError) -> bool:
    """Whether a call failed because its peer, of an earlier release, does not have the method."""
    cause = error.__cause__
    return isinstance(cause, grpc.aio.AioRpcError) and cause.code() is grpc.StatusCode.UNIMPLEMENTED


def error_from_rpc(error: grpc.RpcError) -> TiermeshError:
    """Returns the error that a failed call, asynchronous or not, reports, from its details where it has any.

    A status without our details, from Envoy or gRPC itself, maps by its code and its `retry-after`; Envoy marks those of
    its circuit breakers.
    """
    if not isinstance(error, grpc.aio.AioRpcError | grpc.Call):
        return error_for_reason("INTERNAL", str(error))
    message = error.details() or error.code().name
    trailers = tuple(error.trailing_metadata() or ())
    for key, value in trailers:
        if key == DETAILS_KEY and isinstance(value, bytes):
            found = _from_details(value, message)
            if found is not None:
                return found
        if key == BREAKER:
            return BreakerOpen(message, retry_after=BREAKER_RETRY_S)
    return error_for_reason(reason_for_status(error.code()), message, retry_after=_retry_after(trailers))


def _retry_after(trailers: Iterable[tuple[str, str | bytes]]) -> float | None:
    for key, value in trailers:
        if key == "retry-after" and isinstance(value, str) and value.isdecimal():
            return float(value)
    return None


def _from_details(raw: bytes, message: str) -> TiermeshError | None:
    try:
        status = status_pb2.Status.FromString(raw)
    except Exception:  # a peer may send anything here; the bare code still counts
        return None
    reason, field, retry_after = "", "", None
    for detail in status.details:
        info, bad, retry = error_details_pb2.ErrorInfo(), error_details_pb2.BadRequest(), error_details_pb2.RetryInfo()
        if detail.Unpack(info) and info.domain == DOMAIN:
            reason = info.reason
        elif detail.Unpack(bad) and bad.field_violations:
            field = bad.field_violations[0].field
        elif detail.Unpack(retry):
            retry_after = retry.retry_delay.ToMilliseconds() / 1000
    return error_for_reason(reason, message, field=field, retry_after=retry_after) if reason else None


def _pack(
    message: error_details_pb2.ErrorInfo | error_details_pb2.BadRequest | error_details_pb2.RetryInfo,
) -> any_pb2.Any:
    packed = any_pb2.Any()
    packed.Pack(message)
    return packed
