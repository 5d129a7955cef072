"""gRPC plumbing: one way to serve, one way to call."""

from tiermesh.shared.rpc._client import MAX_MESSAGE_BYTES, call_stream, call_unary, open_channel, wire_timeout
from tiermesh.shared.rpc._failure import error_of, failure_of
from tiermesh.shared.rpc._server import RunningServer, Service, open_server, serve_until_signal
from tiermesh.shared.rpc._status import (
    error_from_rpc,
    has_details,
    is_unimplemented,
    status_metadata,
    told_by_ingress,
)
from tiermesh.shared.rpc._tls import ServerTls

__all__ = [
    "MAX_MESSAGE_BYTES",
    "RunningServer",
    "ServerTls",
    "Service",
    "call_stream",
    "call_unary",
    "error_from_rpc",
    "error_of",
    "failure_of",
    "has_details",
    "is_unimplemented",
    "open_channel",
    "open_server",
    "serve_until_signal",
    "status_metadata",
    "told_by_ingress",
    "wire_timeout",
]
