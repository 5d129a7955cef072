"""What an Envoy is started with: who it is, where the control plane is, and its own admin page.

Everything else reaches Envoy over ADS. The document is plain data, so that the local supervisor,
the Helm chart and the tests can all write it as YAML.
"""

from __future__ import annotations

from typing import Any, Literal

from envoy.extensions.stat_sinks.open_telemetry.v3 import open_telemetry_pb2
from envoy.extensions.tracers.opentelemetry.resource_detectors.v3 import static_config_resource_detector_pb2
from google.protobuf.json_format import MessageToDict
from tiermesh.mesh.resources import make_collector_cluster
from tiermesh.mesh.resources.message import typed
from tiermesh.mesh.resources.tls import make_peer_tls
from tiermesh.mesh.role import Role
from tiermesh.shared.config import TiermeshConfig
from tiermesh.shared.endpoints import CONTROL_PLANE

XDS_CLUSTER = "xds"
"""The control plane: a static cluster."""
METRICS_CLUSTER = "metrics"
"""The receiver of Envoy's own metrics, where there is one: the other."""

_CONNECTIONS = "envoy.extensions.resource_monitors.downstream_connections.v3.DownstreamConnectionsConfig"
_HTTP2 = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"


def make_bootstrap(
    config: TiermeshConfig,
    *,
    role: Role = "local",
    node_id: str = "local",
    protocol: Literal["delta", "sotw"] = "delta",
    metrics: str | None = None,
) -> dict[str, Any]:
    """Returns the bootstrap document of an Envoy.

    Args:
        config: The mesh's configuration; its `network` and `discovery` sections are read.
        role: Which listeners the control plane gives to this Envoy.
        node_id: Name of this Envoy in the control plane's status.
        protocol: The variant of ADS to speak.
        metrics: OTLP/gRPC receiver of Envoy's own metrics, or None for none.

    Raises:
        ValueError: `metrics` is not a URL.
    """
    host, kind = config.network.bind, "STATIC"
    if config.discovery.mode == "dns":
        host = f"{config.discovery.dns_prefix}{CONTROL_PLANE}{config.discovery.dns_suffix}"
        kind = "STRICT_DNS"
    ads = {"ads": {}, "resource_api_version": "V3"}
    document: dict[str, Any] = {
        "node": {"id": node_id, "cluster": "tiermesh", "metadata": {"role": role}},
        # Loopback always: the admin page can stop Envoy and shows its configuration.
        "admin": {"address": _address("127.0.0.1", config.network.admin_port)},
        "dynamic_resources": {
            "ads_config": {
                "api_type": "DELTA_GRPC" if protocol == "delta" else "GRPC",
                "transport_api_version": "V3",
                "set_node_on_first_message_only": True,
                "grpc_services": [
                    {
                        "envoy_grpc": {
                            "cluster_name": XDS_CLUSTER,
                            # The default waits up to 30 s before it looks for a restarted control plane again.
                            "retry_policy": {"retry_back_off": {"base_interval": "0.2s", "max_interval": "3s"}},
                        }
                    }
                ],
            },
            "cds_config": ads,
            "lds_config": ads,
        },
        "overload_manager": {
            "resource_monitors": [
                {
                    "name": "envoy.resource_monitors.global_downstream_max_connections",
                    "typed_config": {
                        "@type": f"type.googleapis.com/{_CONNECTIONS}",
                        # Below what file descriptors allow on common systems, so that calls to services still get one.
                        "max_active_downstream_connections": 20_000,
                    },
                }
            ]
        },
        "layered_runtime": {
            "layers": [
                {
                    "name": "tiermesh",
                    "static_layer": {
                        # Spans leave within half a second, as those of the services do; the default is five.
                        "tracing.opentelemetry.flush_interval_ms": 500,
                        "tracing.opentelemetry.min_flush_spans": 100,
                    },
                }
            ]
        },
        "static_resources": {
            "clusters": [
                {
                    "name": XDS_CLUSTER,
                    "type": kind,
                    # As for the services.
                    "dns_lookup_family": "V4_PREFERRED",
                    "connect_timeout": "1s",
                    "typed_extension_protocol_options": {
                        _HTTP2: {
                            "@type": f"type.googleapis.com/{_HTTP2}",
                            "explicit_http_config": {
                                "http2_protocol_options": {
                                    # A control plane that is gone without a word is noticed in 20 s.
                                    "connection_keepalive": {"interval": "15s", "timeout": "5s"}
                                }
                            },
                        }
                    },
                    "load_assignment": {
                        "cluster_name": XDS_CLUSTER,
                        "endpoints": [
                            {"lb_endpoints": [{"endpoint": {"address": _address(host, config.network.xds_port)}}]}
                        ],
                    },
                }
            ]
        },
    }
    if config.tls.control_plane:
        document["static_resources"]["clusters"][0]["transport_socket"] = make_peer_tls(config, CONTROL_PLANE)
    if metrics is not None:
        _send_metrics(document, metrics, node_id=node_id, interval_s=config.metrics.interval_s)
    return document


def _send_metrics(document: dict[str, Any], endpoint: str, *, node_id: str, interval_s: float) -> None:
    # A sink is made before any cluster has come over ADS, so that of its receiver must be here.
    cluster = make_collector_cluster(METRICS_CLUSTER, endpoint)
    document["static_resources"]["clusters"].append(MessageToDict(cluster, preserving_proto_field_name=True))
    sink = {
        "grpc_service": {"envoy_grpc": {"cluster_name": METRICS_CLUSTER}, "timeout": "2s"},
        # Names without the cluster, route or listener in them: those are attributes.
        "emit_tags_as_attributes": True,
        "use_tag_extracted_name": True,
        "prefix": "envoy",
        "resource_detectors": [
            {
                "name": "envoy.tracers.opentelemetry.resource_detectors.static_config",
                "typed_config": typed(
                    static_config_resource_detector_pb2.StaticConfigResourceDetectorConfig,
                    {"attributes": {"service.name": "tiermesh-envoy", "service.instance.id": node_id}},
                ),
            }
        ],
    }
    document["stats_sinks"] = [
        {"name": "envoy.stat_sinks.open_telemetry", "typed_config": typed(open_telemetry_pb2.SinkConfig, sink)}
    ]
    document["stats_flush_interval"] = f"{interval_s:g}s"


def _address(host: str, port: int) -> dict[str, Any]:
    return {"socket_address": {"address": host, "port_value": port}}
