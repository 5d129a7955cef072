"""Every process of the mesh is killed, hung and slowed down in turn while requests are answered."""

import asyncio
import json

import httpx
import pytest
from harness.mesh import running_mesh
from harness.scenarios import FAULTS, SETTINGS, TARGETS, Target, back, run_scenario
from tiermesh.client import AsyncClient, StreamBroken

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
        # On a busy machine an answer may be too late for a reason of its own.
        assert set(report.reasons) <= {"BUDGET_EXHAUSTED", "INFERENCE_TIMEOUT"}, report.reasons


ROUTERS = (Target("router-0", "router", 0), Target("router-1", "router", 1))
# Its simulated answer has more than a hundred tokens, of which L2 writes a hundred a second.
LONG = "Tell me about the number 4."


def kill_routers(mesh):
    """Kills both, as nobody outside can tell which one carries an answer; returns when they were created."""
    processes = [target.find(mesh) for target in ROUTERS]
    gone = {process.create_time() for process in processes}
    for process in processes:
        process.kill()
    return gone


async def test_an_answer_whose_router_dies_midway_is_known_to_the_sdk_as_broken(mesh):
    gone = set()
    async with AsyncClient(mesh.target, api_key=mesh.key) as client:
        stream = client.stream(LONG, model="tier:l2", cache=False, temperature=0.0, deadline_s=10)
        try:
            with pytest.raises(StreamBroken):
                async for _ in stream.texts():
                    gone = gone or kill_routers(mesh)
        finally:
            stream.cancel()
            await back(mesh, ROUTERS, gone)


@pytest.mark.xfail(
    strict=True,
    raises=httpx.RemoteProtocolError,
    reason="Envoy can only break off the body of an HTTP answer whose router has died; see docs/operations/faults.md",
)
async def test_an_answer_over_http_whose_router_dies_midway_has_a_terminal_event(mesh):
    body = {"model": "tier:l2", "messages": [{"role": "user", "content": LONG}], "temperature": 0, "stream": True}
    gone, lines = set(), []
    headers = {"authorization": f"Bearer {mesh.key}", "cache-control": "no-store"}
    try:
        with (
            mesh.http(headers=headers) as client,
            client.stream("POST", "/v1/chat/completions", json=body) as response,
        ):
            assert response.status_code == 200
            for line in response.iter_lines():
                lines.append(line)
                if '"content"' in line and not gone:
                    gone = kill_routers(mesh)
    finally:
        await back(mesh, ROUTERS, gone)
    assert "error" in json.loads([line for line in lines if line][-1].removeprefix("data: "))
