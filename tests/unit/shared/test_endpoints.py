"""Port plan: no two replicas share a port, and changing one service moves no other."""

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiermesh.shared.config import (
    CacheConfig,
    ConfigError,
    NetworkConfig,
    RouterConfig,
    TenantConfig,
    TierConfig,
    TiermeshConfig,
)
from tiermesh.shared.endpoints import (
    cluster_endpoints,
    cluster_names,
    collector_endpoint,
    metrics_endpoint,
    replica_endpoint,
    span_endpoint,
)


def make(tiers=3, router=1, cache=1, tier_replicas=1, **extra):
    return TiermeshConfig(
        tenants=(TenantConfig(name="local", key_env="K"),),
        tiers=tuple(TierConfig(name=f"l{n}", backend="rules", replicas=tier_replicas) for n in range(tiers)),
        router=RouterConfig(replicas=router),
        cache=CacheConfig(replicas=cache),
        **extra,
    )


replicas = st.integers(1, 10)


@given(tiers=st.integers(1, 16), router=replicas, cache=replicas, tier_replicas=replicas)
def test_no_two_replicas_share_a_port(tiers, router, cache, tier_replicas):
    config = make(tiers, router, cache, tier_replicas)
    ports = [e.port for name in cluster_names(config) for e in cluster_endpoints(config, name)]
    assert len(ports) == len(set(ports))
    assert len(ports) == router + cache + 1 + tiers * tier_replicas


@given(before=replicas, after=replicas)
def test_changing_one_service_moves_no_other(before, after):
    one, two = make(router=before), make(router=after)
    for name in cluster_names(one):
        assert replica_endpoint(one, name, 0) == replica_endpoint(two, name, 0)


def test_services_stay_off_the_fixed_ports():
    network = NetworkConfig()
    fixed = [
        network.ingress_port,
        network.admin_port,
        network.xds_port,
        network.mesh_port,
        network.redis_port,
        network.traces_port,
    ]
    assert all(a != b for a, b in combinations(fixed, 2))
    config = make(tiers=16, router=10, cache=10, tier_replicas=10)
    used = {e.port for name in cluster_names(config) for e in cluster_endpoints(config, name)}
    assert used.isdisjoint(fixed)


def test_spans_go_to_the_store_here_and_to_the_collector_elsewhere():
    environ = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4317"}
    assert span_endpoint(make(), environ) == "http://127.0.0.1:18003"
    assert collector_endpoint(make(), environ) == "http://collector:4317"
    remote = make(discovery={"mode": "dns"})
    assert span_endpoint(remote, environ) == "http://collector:4317"
    assert span_endpoint(remote, {}) is None


def test_metrics_go_where_the_environment_says_or_the_configuration_or_nowhere():
    configured = make(metrics={"otlp_endpoint": "http://collector:4317"})
    assert metrics_endpoint(make(), {}) is None
    assert metrics_endpoint(configured, {}) == "http://collector:4317"
    environ = {"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "https://other"}
    assert metrics_endpoint(configured, environ) == "https://other"


def test_a_receiver_of_metrics_that_is_no_url_is_refused_by_its_source():
    with pytest.raises(ConfigError, match=r"metrics\.otlp_endpoint: 'collector:4317' must be a URL"):
        metrics_endpoint(make(metrics={"otlp_endpoint": "collector:4317"}), {})
    with pytest.raises(ConfigError, match="OTEL_EXPORTER_OTLP_METRICS_ENDPOINT"):
        metrics_endpoint(make(), {"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "nonsense"})
