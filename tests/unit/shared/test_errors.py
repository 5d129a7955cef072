"""The error table and its way over the wire."""

import grpc
import pytest
from tiermesh.shared import errors
from tiermesh.shared.rpc import error_from_rpc, status_metadata


def every_class(cls=errors.TiermeshError):
    return {cls}.union(*(every_class(sub) for sub in cls.__subclasses__()))


def rpc_error(code, details, trailing=()):
    return grpc.aio.AioRpcError(code, grpc.aio.Metadata(), grpc.aio.Metadata(*trailing), details=details)


def test_every_class_has_a_row_and_every_row_a_class():
    assert {cls.reason for cls in every_class()} == set(errors.ERROR_TABLE)


@pytest.mark.parametrize("reason", list(errors.ERROR_TABLE))
def test_a_reason_survives_the_wire_with_field_and_retry_delay(reason):
    sent = errors.error_for_reason(reason, "what happened 发生了什么", field="messages[0].content", retry_after=1.25)
    received = error_from_rpc(rpc_error(sent.row.status, sent.message, status_metadata(sent)))
    assert type(received) is type(sent)
    assert received.reason == reason
    assert (received.message, received.field, received.retry_after) == (sent.message, sent.field, 1.25)


@pytest.mark.parametrize("reason", list(errors.ERROR_TABLE))
def test_rows_tell_what_to_do(reason):
    row = errors.ERROR_TABLE[reason]
    assert row.meaning.endswith(".")
    assert row.advice.endswith(".")
    assert 400 <= row.http_status < 600


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (grpc.StatusCode.UNAVAILABLE, errors.Unavailable),
        (grpc.StatusCode.DEADLINE_EXCEEDED, errors.BudgetExhausted),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, errors.QueueFull),
        # Of a stream that was reset after its headers, and of a server that stopped: services send details.
        (grpc.StatusCode.INTERNAL, errors.StreamBroken),
        (grpc.StatusCode.CANCELLED, errors.Unavailable),
        (grpc.StatusCode.DATA_LOSS, errors.InternalError),
    ],
)
def test_a_bare_status_from_a_proxy_maps_by_its_code(code, expected):
    assert type(error_from_rpc(rpc_error(code, "upstream connect error"))) is expected


def test_garbage_details_fall_back_to_the_code():
    error = error_from_rpc(rpc_error(grpc.StatusCode.UNAVAILABLE, "gone", (("grpc-status-details-bin", b"\xff\x00x"),)))
    assert isinstance(error, errors.Unavailable)


def test_foreign_error_info_is_not_ours():
    from google.protobuf import any_pb2
    from google.rpc import error_details_pb2, status_pb2

    detail = any_pb2.Any()
    detail.Pack(error_details_pb2.ErrorInfo(reason="QUEUE_FULL", domain="example.com"))
    raw = status_pb2.Status(code=14, details=[detail]).SerializeToString()
    error = error_from_rpc(rpc_error(grpc.StatusCode.UNAVAILABLE, "gone", (("grpc-status-details-bin", raw),)))
    assert isinstance(error, errors.Unavailable)
