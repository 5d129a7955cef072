"""Access log: one JSON object a line on standard error; no bodies, keys or query strings."""

from __future__ import annotations

from typing import Any

from envoy.extensions.access_loggers.stream.v3 import stream_pb2
from tiermesh.mesh.resources.message import typed
from tiermesh.shared.headers import TENANT

_FIELDS = {
    "event": "request",
    "service": "envoy",
    "timestamp": "%START_TIME(%Y-%m-%dT%H:%M:%S.%3fZ)%",
    "trace_id": "%TRACE_ID%",
    "request_id": "%REQ(X-REQUEST-ID)%",
    "tenant": f"%REQ({TENANT})%",
    "method": "%REQ(:METHOD)%",
    "path": "%PATH(NQ)%",
    "authority": "%REQ(:AUTHORITY)%",
    "protocol": "%PROTOCOL%",
    "status": "%RESPONSE_CODE%",
    "grpc_status": "%GRPC_STATUS%",
    "detail": "%RESPONSE_CODE_DETAILS%",
    "flags": "%RESPONSE_FLAGS%",
    "cluster": "%UPSTREAM_CLUSTER%",
    "upstream": "%UPSTREAM_HOST%",
    "duration_ms": "%DURATION%",
    "bytes_in": "%BYTES_RECEIVED%",
    "bytes_out": "%BYTES_SENT%",
}


def make_access_log() -> dict[str, Any]:
    """Returns the access log of a connection manager."""
    return {
        "name": "envoy.access_loggers.stderr",
        "typed_config": typed(stream_pb2.StderrAccessLog, {"log_format": {"json_format": _FIELDS}}),
    }
