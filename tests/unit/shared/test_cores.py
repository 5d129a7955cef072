"""Which process keeps to which core."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiermesh.shared.config import (
    CacheConfig,
    CoresConfig,
    DiscoveryConfig,
    TenantConfig,
    TierConfig,
    TiermeshConfig,
)
from tiermesh.shared.cores import core_for

RULES, MODEL = TierConfig(name="l0", backend="rules"), TierConfig(name="l1", backend="vllm", model="m")
SIMULATED = TierConfig(name="l2", backend="simulated", model="m")


def make(*tiers, services="auto", **extra):
    return TiermeshConfig(
        tenants=(TenantConfig(name="local", key_env="K"),),
        tiers=tiers or (RULES, SIMULATED),
        cores=CoresConfig(services=services),
        **extra,
    )


def test_the_router_has_a_core_of_its_own():
    config, cores = make(), (4, 5, 6)
    assert core_for(config, "router", 0, cores) == 4
    assert [core_for(config, name, 0, cores) for name in ("classifier", "cache", "engine-l0", "engine-l2")] == [
        5,
        6,
    ] * 2


def test_two_cores_are_shared_as_the_work_is():
    assert core_for(make(), "router", 0, (0, 1)) == 0
    assert {core_for(make(), name, 0, (0, 1)) for name in ("classifier", "cache", "engine-l0", "engine-l2")} == {1}


@given(
    replicas=st.integers(1, 10), count=st.integers(2, 64), cluster=st.sampled_from(["router", "classifier", "cache"])
)
def test_replicas_are_spread(replicas, count, cluster):
    used = [core_for(make(), cluster, number, range(count)) for number in range(replicas)]
    room = count if cluster == "router" else count - 1
    assert len(set(used)) == min(replicas, room)


@pytest.mark.parametrize("cluster", ["router", "classifier", "cache", "engine-l0"])
def test_where_a_language_model_takes_cores_nothing_is_bound_unless_that_is_asked_for(cluster):
    assert core_for(make(RULES, MODEL), cluster, 0, (0, 1)) is None
    assert core_for(make(RULES, MODEL, services="one"), cluster, 0, (0, 1)) is not None


@pytest.mark.parametrize("services", ["auto", "one"])
def test_what_needs_more_than_one_core_is_never_bound(services):
    assert core_for(make(RULES, MODEL, services=services), "engine-l1", 0, (0, 1)) is None
    semantic = make(services=services, cache=CacheConfig(semantic_enabled=True))
    assert core_for(semantic, "cache", 0, (0, 1)) is None
    assert core_for(semantic, "router", 0, (0, 1)) is not None


@pytest.mark.parametrize(
    ("config", "cores"),
    [
        pytest.param(make(services="any"), (0, 1), id="any"),
        pytest.param(make(services="one"), (0,), id="a single core"),
        pytest.param(make(services="one", discovery=DiscoveryConfig(mode="dns")), (0, 1), id="pods"),
    ],
)
def test_otherwise_the_system_chooses(config, cores):
    assert core_for(config, "router", 0, cores) is None


@pytest.mark.parametrize("cluster", ["outcomes", "traces"])
def test_what_has_little_to_do_fills_the_gaps(cluster):
    assert core_for(make(), cluster, 0, (0, 1)) is None
