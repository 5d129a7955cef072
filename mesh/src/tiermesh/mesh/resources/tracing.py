"""Tracing: Envoy's own spans, sent by OTLP like those of the services."""

from __future__ import annotations

from typing import Any

from envoy.config.trace.v3 import opentelemetry_pb2
from envoy.extensions.tracers.opentelemetry.samplers.v3 import (
    parent_based_sampler_pb2,
    trace_id_ratio_based_sampler_pb2,
)
from tiermesh.mesh.resources.message import typed
from tiermesh.shared.config import TracingConfig
from tiermesh.shared.endpoints import TRACES
from tiermesh.shared.headers import TENANT

_MILLION = 1_000_000


def make_tracing(config: TracingConfig, *, service: str) -> dict[str, Any]:
    """Returns the tracing section of a connection manager.

    Args:
        config: Its `sample_ratio` holds for traces that begin here; a caller's own decision is kept.
        service: `service.name` of the spans, such as `tiermesh-ingress`.
    """
    ratio = typed(
        trace_id_ratio_based_sampler_pb2.TraceIdRatioBasedSamplerConfig,
        {"sampling_percentage": {"numerator": round(config.sample_ratio * _MILLION), "denominator": "MILLION"}},
    )
    return {
        # The sampler below decides. Less than 100 here would drop traces that the caller sampled.
        "random_sampling": {"value": 100},
        "client_sampling": {"value": 100},
        "overall_sampling": {"value": 100},
        "provider": {
            "name": "envoy.tracers.opentelemetry",
            "typed_config": typed(
                opentelemetry_pb2.OpenTelemetryConfig,
                {
                    # As long as OTLP exporters wait by default: nobody waits for it, and what is late is lost.
                    "grpc_service": {"envoy_grpc": {"cluster_name": TRACES}, "timeout": "10s"},
                    "service_name": service,
                    "sampler": {
                        "name": "envoy.tracers.opentelemetry.samplers.parent_based",
                        "typed_config": typed(
                            parent_based_sampler_pb2.ParentBasedSamplerConfig,
                            {
                                "wrapped_sampler": {
                                    "name": "envoy.tracers.opentelemetry.samplers.trace_id_ratio_based",
                                    "typed_config": ratio,
                                }
                            },
                        ),
                    },
                },
            ),
        },
        "custom_tags": [{"tag": "tiermesh.tenant", "request_header": {"name": TENANT}}],
    }
