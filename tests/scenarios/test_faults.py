"""Every process of the mesh is killed, hung and slowed down in turn while requests are answered."""

import asyncio

import pytest
from harness.mesh import running_mesh
from harness.scenarios import FAULTS, SETTINGS, TARGETS, run_scenario

pytestmark = [pytest.mark.scenario, pytest.mark.timeout(60)]

# They hold the caller's connection: what was under way when one of them dies cannot be ended by anyone else.
CARRIERS = {"envoy", "router (one of two)"}
# Others behind which something else can take over, so that not one request fails.
REPLACED = {"engine-l0", "classifier", "cache", "redis", "traces", "control plane"}
# The clients run on the same cores as the mesh; how late their own timers were is measured, and allowed on top.
OVERSHOOT_MS = 50


@pytest.fixture(scope="module")
def mesh(tmp_path_factory):
    """A mesh with two routers and two replicas of L1."""
    with running_mesh(tmp_path_factory.mktemp("mesh"), "lite", SETTINGS) as mesh:
        yield mesh


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
@pytest.mark.parametrize("fault", FAULTS)
def test_nothing_is_lost_or_wrong_and_the_mesh_recovers_unaided(mesh, fault, target):
    report = asyncio.run(run_scenario(mesh, target, fault))
    assert report.count("wrong") == 0, report.failures()
    assert report.count("lost") == 0, report.failures()
    if target.name not in CARRIERS:
        assert report.count("cut") == 0, report.failures()
    if target.name != "envoy":
        assert report.count("unreached") == 0, report.failures()
    assert report.recovery_s is not None, report.row()
    assert report.count("right") >= 18
    assert report.overshoot_ms <= OVERSHOOT_MS + report.client_lag_ms, report.row()
    if fault == "kill" and target.name in REPLACED:
        assert report.count("refused") == 0, report.reasons
