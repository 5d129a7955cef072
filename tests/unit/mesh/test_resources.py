"""Resources are pure functions of the configuration."""

from pathlib import Path

import pytest
from envoy.config.core.v3 import base_pb2 as core
from envoy.extensions.clusters.dns.v3 import dns_cluster_pb2
from envoy.extensions.filters.network.http_connection_manager.v3 import http_connection_manager_pb2
from envoy.extensions.load_balancing_policies.least_request.v3 import least_request_pb2
from envoy.extensions.load_balancing_policies.maglev.v3 import maglev_pb2
from google.protobuf import descriptor_pb2
from harness.xds import CDS, EDS, LDS, RDS
from tiermesh.mesh.api_keys import ApiKeys
from tiermesh.mesh.bootstrap import make_bootstrap
from tiermesh.mesh.resources import make_cluster, make_collector_cluster, make_mesh_routes
from tiermesh.mesh.resources.lua import error_rows
from tiermesh.mesh.resources.rate_limit import make_bucket
from tiermesh.mesh.resources.transcoder import SERVICES, descriptor_set
from tiermesh.mesh.topology import make_snapshot, make_snapshots
from tiermesh.shared.config import LimitsConfig, parse_config

KEYS = ApiKeys({"acme": ("key-one-1234", "key-two-1234")})


def config(**sections):
    values = {
        "tenants": [{"name": "acme", "key_env": "K"}],
        "tiers": [{"name": "l1", "backend": "rules"}, {"name": "l2", "backend": "rules", "replicas": 2}],
        **sections,
    }
    return parse_config(values, Path("/etc/mesh.yaml"))


def names(snapshot, kind):
    return set(snapshot.of_type(kind))


def manager(listener):
    found = http_connection_manager_pb2.HttpConnectionManager()
    assert listener.message.filter_chains[0].filters[0].typed_config.Unpack(found)
    return found


def test_each_role_gets_its_doors_and_the_clusters_behind_them():
    every = {"router", "classifier", "cache", "engine-l1", "engine-l2"}
    for role, doors, clusters in (
        ("local", {"ingress", "mesh"}, every),
        ("ingress", {"ingress"}, {"router"}),
        ("sidecar", {"mesh"}, every),
    ):
        snapshot = make_snapshot(config(), KEYS, role=role, traces="http://127.0.0.1:4317")
        snapshot.check()
        assert names(snapshot, LDS) == names(snapshot, RDS) == doors
        assert names(snapshot, CDS) == clusters | {"traces"}
        assert names(snapshot, EDS) == clusters


def test_endpoints_are_the_configured_replicas():
    snapshot = make_snapshot(config(), KEYS, role="local", traces=None)
    ports = [
        e.endpoint.address.socket_address.port_value
        for e in snapshot.of_type(EDS)["engine-l2"].message.endpoints[0].lb_endpoints
    ]
    assert ports == [18220, 18221]


def resolver(cluster):
    found = dns_cluster_pb2.DnsCluster()
    assert cluster.cluster_type.typed_config.Unpack(found)
    return found


def test_dns_discovery_names_services_instead_of_endpoints():
    dns = {"mode": "dns", "dns_suffix": ".tiermesh.svc.cluster.local"}
    snapshot = make_snapshot(config(discovery=dns), KEYS, role="sidecar", traces=None)
    snapshot.check()
    assert names(snapshot, EDS) == set()
    cluster = snapshot.of_type(CDS)["engine-l1"].message
    address = cluster.load_assignment.endpoints[0].lb_endpoints[0].endpoint.address.socket_address
    assert resolver(cluster).dns_refresh_rate.ToSeconds() == 2
    assert not resolver(cluster).all_addresses_in_single_endpoint
    assert (address.address, address.port_value) == ("tiermesh-engine-l1.tiermesh.svc.cluster.local", 8081)
    listening = snapshot.of_type(LDS)["mesh"].message.address.socket_address.address
    assert listening == "127.0.0.1"


def test_no_receiver_of_spans_means_no_tracing():
    without = make_snapshot(config(), KEYS, role="local", traces=None)
    assert "traces" not in names(without, CDS)
    assert not any(manager(listener).HasField("tracing") for listener in without.of_type(LDS).values())
    traced = make_snapshot(config(), KEYS, role="local", traces="http://127.0.0.1:4317")
    assert all(manager(listener).HasField("tracing") for listener in traced.of_type(LDS).values())


@pytest.mark.parametrize(
    ("endpoint", "host", "port", "by_name", "tls"),
    [
        ("http://127.0.0.1:4317", "127.0.0.1", 4317, False, False),
        ("http://collector", "collector", 4317, True, False),
        ("https://otlp.example", "otlp.example", 443, True, True),
        ("jaeger:14317", "jaeger", 14317, True, False),
        ("http://[::1]:4317", "::1", 4317, False, False),
    ],
)
def test_the_receiver_of_spans_may_be_any_url(endpoint, host, port, by_name, tls):
    cluster = make_collector_cluster("traces", endpoint)
    address = cluster.load_assignment.endpoints[0].lb_endpoints[0].endpoint.address.socket_address
    assert (address.address, address.port_value) == (host, port)
    assert cluster.HasField("cluster_type") is by_name
    assert by_name or cluster.type == cluster.STATIC
    assert cluster.HasField("transport_socket") is tls


def test_a_receiver_that_is_no_url_is_refused():
    with pytest.raises(ValueError, match="must be a URL"):
        make_collector_cluster("traces", "http://")


def balancing(cluster):
    """Returns the short names of a cluster's policies, in order."""
    return [one.typed_extension_config.name.rpartition(".")[2] for one in cluster.load_balancing_policy.policies]


def test_engines_are_balanced_by_their_reports_where_the_tier_says_so():
    reported = config(tiers=[{"name": "l1", "backend": "rules", "balancing": "load_reports"}])
    assert balancing(make_cluster(reported, "engine-l1"))[0] == "client_side_weighted_round_robin"
    assert balancing(make_cluster(reported, "router"))[0] == "least_request"


def test_prompts_that_begin_alike_go_to_one_replica_where_the_tier_says_so():
    affine = config(tiers=[{"name": "l1", "backend": "rules", "balancing": "prefix_affinity"}])
    cluster = make_cluster(affine, "engine-l1")
    assert balancing(cluster) == ["maglev", "round_robin"]
    policy = maglev_pb2.Maglev()
    assert cluster.load_balancing_policy.policies[0].typed_extension_config.typed_config.Unpack(policy)
    # Without a bound, one popular prefix would queue at its replica while the others idle.
    assert policy.consistent_hashing_lb_config.hash_balance_factor.value == 150
    assert balancing(make_cluster(affine, "router"))[0] == "least_request"


def test_an_ejected_replica_stays_away_although_it_passes_its_health_checks():
    outliers = make_cluster(config(), "engine-l1").outlier_detection
    assert outliers.HasField("successful_active_health_check_uneject_host")
    assert not outliers.successful_active_health_check_uneject_host.value
    assert outliers.max_ejection_time.seconds == 30


def test_clusters_spread_by_load_check_health_and_leave_removed_replicas_at_once():
    cluster = make_cluster(config(), "engine-l1")
    assert balancing(cluster) == ["least_request", "round_robin"]
    fewest = least_request_pb2.LeastRequest()
    assert cluster.load_balancing_policy.policies[0].typed_extension_config.typed_config.Unpack(fewest)
    assert fewest.selection_method == least_request_pb2.LeastRequest.FULL_SCAN
    (check,) = cluster.health_checks
    assert check.HasField("grpc_health_check")
    assert check.no_traffic_interval.ToMilliseconds() == 500
    assert check.timeout.ToMilliseconds() == 1000
    patient = make_cluster(config(health={"timeout_ms": 2500}), "engine-l1")
    assert patient.health_checks[0].timeout.ToMilliseconds() == 2500
    assert cluster.common_lb_config.HasField("healthy_panic_threshold")
    assert cluster.common_lb_config.healthy_panic_threshold.value == 0
    assert cluster.ignore_health_on_host_removal
    assert all(limit.HasField("retry_budget") for limit in cluster.circuit_breakers.thresholds)


def breakers(cluster):
    return {
        core.RoutingPriority.Name(limit.priority): limit.max_requests.value
        for limit in cluster.circuit_breakers.thresholds
    }


def test_batch_work_has_circuit_breakers_of_its_own_and_a_tier_its_own_limits():
    tiers = [
        {"name": "l1", "backend": "rules", "interactive_requests": 50},
        {"name": "l2", "backend": "rules", "batch_requests": 7},
    ]
    limited = config(tiers=tiers, breakers={"interactive_requests": 90, "batch_requests": 60})
    assert breakers(make_cluster(limited, "cache")) == {"HIGH": 90, "DEFAULT": 60}
    assert breakers(make_cluster(limited, "engine-l1")) == {"HIGH": 50, "DEFAULT": 50}
    assert breakers(make_cluster(limited, "engine-l2")) == {"HIGH": 90, "DEFAULT": 7}


def test_only_an_engines_own_unavailable_ejects_it():
    def enforced(name):
        return make_cluster(config(), name).outlier_detection.enforcing_consecutive_gateway_failure.value

    assert enforced("engine-l1") == 100
    assert enforced("router") == 0
    assert make_cluster(config(), "router").outlier_detection.max_ejection_percent.value == 50


def test_mesh_routes_try_again_once_and_only_there():
    two = config(tiers=[{"name": "l1", "backend": "rules", "replicas": 2}, {"name": "l2", "backend": "rules"}])
    for host in make_mesh_routes(two).virtual_hosts:
        policy = host.routes[-1].route.retry_policy
        assert policy.num_retries.value == 1
        # The only replica is not asked again what it has just refused.
        assert ("unavailable" in policy.retry_on.split(",")) == (host.name == "engine-l1")
        assert "reset" in policy.retry_on.split(",")
    ingress = make_snapshot(config(), KEYS, role="ingress", traces=None).of_type(RDS)["ingress"].message
    for route in ingress.virtual_hosts[0].routes:
        # What a router says is final; a router that says nothing, as it has died, is not.
        assert "unavailable" not in route.route.retry_policy.retry_on.split(",")
        if route.HasField("route"):
            assert "reset" in route.route.retry_policy.retry_on.split(",")


def test_keys_limits_and_deadlines_are_in_the_routes_so_that_changing_them_drains_no_listener():
    before = make_snapshot(config(), KEYS, role="local", traces=None)
    for other in (
        make_snapshot(config(), ApiKeys({"acme": ("another-key-12",)}), role="local", traces=None),
        make_snapshot(config(limits={"requests_per_second": 5}), KEYS, role="local", traces=None),
        make_snapshot(config(deadlines={"default_ms": 5}), KEYS, role="local", traces=None),
    ):
        assert other.of_type(LDS)["ingress"].version == before.of_type(LDS)["ingress"].version
        assert other.of_type(RDS)["ingress"].version != before.of_type(RDS)["ingress"].version


def test_keys_are_in_no_listener_cluster_or_repr():
    snapshot = make_snapshot(config(), KEYS, role="local", traces=None)
    for kind in (LDS, CDS, EDS):
        for resource in snapshot.of_type(kind).values():
            assert b"key-one" not in resource.packed.SerializeToString()
    assert b"key-one" in snapshot.of_type(RDS)["ingress"].packed.SerializeToString()
    assert b"key-one" not in snapshot.of_type(RDS)["mesh"].packed.SerializeToString()
    assert "key-one" not in repr(KEYS)


def test_the_descriptors_hold_the_services_and_the_error_details():
    files = descriptor_pb2.FileDescriptorSet.FromString(descriptor_set())
    services = {f"{file.package}.{service.name}" for file in files.file for service in file.service}
    assert services >= set(SERVICES)
    present = {file.name for file in files.file}
    assert "google/rpc/error_details.proto" in present
    assert all(dependency in present for file in files.file for dependency in file.dependency)


@pytest.mark.parametrize(
    ("rate", "per_fill", "interval_ms"), [(1, 1, 1000), (9, 9, 1000), (10, 1, 100), (2000, 200, 100)]
)
def test_buckets_refill_at_the_configured_rate(rate, per_fill, interval_ms):
    bucket = make_bucket(LimitsConfig(requests_per_second=rate, burst=3))
    assert (bucket["max_tokens"], bucket["tokens_per_fill"]) == (3, per_fill)
    assert float(bucket["fill_interval"].rstrip("s")) * 1000 == interval_ms


def test_every_status_of_envoy_has_a_row_that_fits_lua():
    rows = error_rows()
    assert {400, 401, 403, 404, 413, 429, 500, 503, 504} <= rows.keys()
    assert rows[429][0] == "rate_limit_error"
    assert all("\n" not in text for row in rows.values() for text in row)


def test_span_endpoint_of_the_environment_counts_where_there_is_no_trace_store():
    dns = config(discovery={"mode": "dns"})
    assert "traces" not in names(make_snapshots(dns, KEYS, {})["ingress"], CDS)
    environ = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://jaeger:4317"}
    assert "traces" in names(make_snapshots(dns, KEYS, environ)["ingress"], CDS)


def test_bootstrap_holds_the_admin_page_on_loopback_and_only_the_control_plane():
    document = make_bootstrap(config(network={"bind": "0.0.0.0"}), role="ingress", node_id="pod-7")
    assert document["admin"]["address"]["socket_address"]["address"] == "127.0.0.1"
    assert [c["name"] for c in document["static_resources"]["clusters"]] == ["xds"]
    assert document["node"] == {"id": "pod-7", "cluster": "tiermesh", "metadata": {"role": "ingress"}}
    assert document["dynamic_resources"]["ads_config"]["api_type"] == "DELTA_GRPC"


def test_bootstrap_sends_metrics_where_somebody_receives_them():
    document = make_bootstrap(config(metrics={"interval_s": 5}), node_id="pod-7", metrics="http://collector:4317")
    xds, receiver = document["static_resources"]["clusters"]
    assert (xds["name"], receiver["name"]) == ("xds", "metrics")
    address = receiver["load_assignment"]["endpoints"][0]["lb_endpoints"][0]["endpoint"]["address"]["socket_address"]
    assert address == {"address": "collector", "port_value": 4317}
    (sink,) = document["stats_sinks"]
    assert sink["typed_config"]["grpc_service"]["envoy_grpc"]["cluster_name"] == "metrics"
    assert document["stats_flush_interval"] == "5s"
    assert "stats_sinks" not in make_bootstrap(config())


def test_bootstrap_finds_the_control_plane_by_name_where_discovery_does():
    dns = config(discovery={"mode": "dns", "dns_suffix": ".x"})
    (cluster,) = make_bootstrap(dns, protocol="sotw")["static_resources"]["clusters"]
    address = cluster["load_assignment"]["endpoints"][0]["lb_endpoints"][0]["endpoint"]["address"]["socket_address"]
    assert cluster["type"] == "STRICT_DNS"
    assert address == {"address": "tiermesh-mesh.x", "port_value": 18000}
