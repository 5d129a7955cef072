"""The ingress: where callers come in.

Filters in the order of requests, and why in this order:

1. health       answers GET /healthz before anything can refuse it
2. errors       sees responses last, so that whatever fails below gets an OpenAI body
3. auth         nothing below works for strangers
4. rate limit   needs the tenant, and comes before a body is read
5. size         needs a caller who may come in; before the transcoder, which would cut the connection
6. transcoder   JSON to gRPC
7. deadline     needs the final route, and Envoy's own timer set from the caller's header
"""

from __future__ import annotations

from typing import Any

from envoy.config.listener.v3 import listener_pb2
from envoy.extensions.filters.http.health_check.v3 import health_check_pb2
from tiermesh.mesh.resources.auth import make_auth_filter, make_tenant_strip
from tiermesh.mesh.resources.listeners import make_listener
from tiermesh.mesh.resources.lua import error_rows, make_deadline_filter, make_errors_filter, make_size_filter
from tiermesh.mesh.resources.message import typed
from tiermesh.mesh.resources.rate_limit import make_rate_limit_filter
from tiermesh.mesh.resources.routes import INGRESS_ROUTES
from tiermesh.mesh.resources.tls import make_door_tls
from tiermesh.mesh.resources.transcoder import make_transcoder_filter
from tiermesh.shared.config import TiermeshConfig
from tiermesh.shared.headers import INGRESS_SERVER

HEALTH_PATH = "/healthz"

_BUFFER_BYTES = 16 * 1024 * 1024


def make_ingress_listener(config: TiermeshConfig, *, traced: bool) -> listener_pb2.Listener:
    """Returns the listener for callers."""
    return make_listener(
        config,
        name=INGRESS_ROUTES,
        host=config.network.bind,
        port=config.network.ingress_port,
        inbound=True,
        traced=traced,
        tls=make_door_tls(config) if config.tls.ingress.enabled else None,
        filters=[
            _health(),
            make_errors_filter(),
            make_auth_filter(),
            make_rate_limit_filter(),
            make_size_filter(),
            make_transcoder_filter(config.limits),
            make_deadline_filter(),
        ],
        # A body beyond the limit is read to its end before it is refused, if it is not larger than this.
        buffer_bytes=max(_BUFFER_BYTES, config.limits.max_request_bytes),
        manager={
            # An edge: the peer's address is the caller's, and x-envoy-* from it counts for nothing.
            "use_remote_address": True,
            # An empty list would mean Envoy's own idea of inside, so it names an address that nobody has.
            "internal_address_config": {"cidr_ranges": [{"address_prefix": "255.255.255.255", "prefix_len": 32}]},
            "early_header_mutation_extensions": [make_tenant_strip()],
            "generate_request_id": True,
            "always_set_request_id_in_response": True,
            "server_header_transformation": "OVERWRITE",
            "server_name": INGRESS_SERVER,
            "normalize_path": True,
            "merge_slashes": True,
            # Model names may hold an escaped slash.
            "path_with_escaped_slashes_action": "KEEP_UNCHANGED",
            "request_headers_timeout": "10s",
            "max_request_headers_kb": 60,
            "common_http_protocol_options": {
                "idle_timeout": "3600s",
                "max_headers_count": 100,
                "headers_with_underscores_action": "REJECT_REQUEST",
            },
            # Otherwise a response that ends early over HTTP/1.1, as at a deadline, ends a second late.
            "delayed_close_timeout": "0s",
            "local_reply_config": _before_filters(),
        },
    )


def _health() -> dict[str, Any]:
    return {
        "name": "envoy.filters.http.health_check",
        "typed_config": typed(
            health_check_pb2.HealthCheck,
            {"pass_through_mode": False, "headers": [{"name": ":path", "string_match": {"exact": HEALTH_PATH}}]},
        ),
    }


def _before_filters() -> dict[str, Any]:
    """Shapes failures that no filter sees, such as a malformed request line. gRPC callers keep their plain message."""
    not_grpc = {
        "header_filter": {
            "header": {"name": "content-type", "string_match": {"prefix": "application/grpc"}, "invert_match": True}
        }
    }
    rows = error_rows()
    mappers = []
    for status in (400, 408, 431):
        error_type, code, _ = rows[status]
        error = {"message": "%LOCAL_REPLY_BODY%", "type": error_type, "param": "", "code": code}
        same = {"comparison": {"op": "EQ", "value": {"default_value": status, "runtime_key": f"tiermesh.{status}"}}}
        mappers.append(
            {
                "filter": {"and_filter": {"filters": [not_grpc, {"status_code_filter": same}]}},
                "body_format_override": {"json_format": {"error": error}, "content_type": "application/json"},
            }
        )
    return {"mappers": mappers}
