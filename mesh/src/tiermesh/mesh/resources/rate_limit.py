"""Rate limit: each tenant has a token bucket of its own in every Envoy of the ingress."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from envoy.extensions.filters.http.local_ratelimit.v3 import local_rate_limit_pb2
from tiermesh.mesh.resources.message import typed
from tiermesh.shared.config import LimitsConfig
from tiermesh.shared.headers import TENANT

RATE_LIMIT_FILTER = "envoy.filters.http.local_ratelimit"

_TENANT_KEY = "tenant"
_REFILLS_PER_SECOND = 10


def make_rate_limit_filter() -> dict[str, Any]:
    """Returns the filter, which limits nothing by itself; limits come with the routes."""
    return {
        "name": RATE_LIMIT_FILTER,
        "typed_config": typed(local_rate_limit_pb2.LocalRateLimit, {"stat_prefix": "ingress"}),
    }


def make_rate_limits(limits: LimitsConfig, tenants: Iterable[str]) -> Mapping[str, Any]:
    """Returns the routes' part of the filter: a bucket per tenant."""
    bucket = make_bucket(limits)
    everyone = {"numerator": 100, "denominator": "HUNDRED"}
    return typed(
        local_rate_limit_pb2.LocalRateLimit,
        {
            "stat_prefix": "ingress",
            # Tenants have buckets of their own; this one, which the filter demands, is for none of them.
            "token_bucket": bucket,
            "always_consume_default_token_bucket": False,
            "filter_enabled": {"default_value": everyone},
            "filter_enforced": {"default_value": everyone},
            "rate_limited_as_resource_exhausted": True,
            "rate_limits": [{"actions": [{"request_headers": {"header_name": TENANT, "descriptor_key": _TENANT_KEY}}]}],
            "descriptors": [
                {"entries": [{"key": _TENANT_KEY, "value": tenant}], "token_bucket": bucket} for tenant in tenants
            ],
            "response_headers_to_add": [{"header": {"key": "retry-after", "value": "1"}}],
        },
    )


def make_bucket(limits: LimitsConfig) -> dict[str, Any]:
    """Returns a bucket of `burst` tokens, refilled ten times a second where the rate allows whole tokens."""
    if limits.requests_per_second < _REFILLS_PER_SECOND:
        refill, interval = limits.requests_per_second, "1s"
    else:
        refill, interval = limits.requests_per_second // _REFILLS_PER_SECOND, "0.1s"
    return {"max_tokens": limits.burst, "tokens_per_fill": refill, "fill_interval": interval}
