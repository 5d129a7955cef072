"""Every process of the mesh is killed, hung and slowed down in turn while requests are answered."""

import asyncio

import httpx
import pytest
from harness.mesh import running_mesh
from harness.process_cluster import OTHER_ROUTER, SETTINGS, ProcessCluster
from harness.scenarios import FAULTS, run_scenario
from tiermesh.client import AsyncClient, StreamBroken

pytestmark = [pytest.mark.scenario, pytest.mark.timeout(180)]

# Others behind which something else can take over, so that not one request fails.
REPLACED = {"engine-l0", "classifier", "cache", "redis", "outcomes", "traces", "control plane"}
# The clients run on the same cores as the mesh; how late their own timers were is measured, and allowed on top.
OVERSHOOT_MS = 50


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """A mesh with two routers and two replicas of L1."""
    with running_mesh(tmp_path_factory.mktemp("mesh"), "lite", SETTINGS) as mesh:
        yield ProcessCluster(mesh)


@pytest.mark.parametrize("target", ProcessCluster.targets)
@pytest.mark.parametrize("fault", FAULTS)
def test_nothing_is_lost_or_wrong_and_the_mesh_recovers_unaided(cluster, fault, target):
    report = asyncio.run(run_scenario(cluster, target, fault))
    assert not report.failures()
    assert report.recovery_s is not None, report.row()
    assert report.count("right") >= cluster.timing.right_again
    assert report.overshoot_ms <= OVERSHOOT_MS + report.client_lag_ms, report.details()
    if fault == "kill" and target in REPLACED:
        # On a busy machine an answer may be too late for a reason of its own.
        assert set(report.reasons) <= {"BUDGET_EXHAUSTED", "INFERENCE_TIMEOUT"}, report.reasons


@pytest.mark.parametrize("target", ["router (one of two)", "engine-l1 (one of two)", "classifier", "cache"])
def test_a_process_that_is_told_to_stop_ends_what_it_has_begun_and_not_one_request_fails(cluster, target):
    report = asyncio.run(run_scenario(cluster, target, "stop"))
    assert not report.failures()
    assert report.recovery_s is not None, report.row()
    assert report.count_how("cut") == 0, report.details()
    # On a busy machine an answer may be too late for a reason of its own.
    assert set(report.reasons) <= {"BUDGET_EXHAUSTED", "INFERENCE_TIMEOUT"}, report.reasons


ROUTERS = ("router (one of two)", OTHER_ROUTER)
# Its simulated answer has more than a hundred tokens, of which L2 writes a hundred a second.
LONG = "Tell me about the number 4."


def kill_routers(cluster):
    """Kills both, as nobody outside can tell which one carries an answer."""
    for router in ROUTERS:
        cluster.kill(router)


async def recover(cluster):
    for router in ROUTERS:
        await cluster.back(router)


async def test_an_answer_whose_router_dies_midway_is_known_to_the_sdk_as_broken(cluster):
    killed = False
    async with AsyncClient(cluster.mesh.target, api_key=cluster.mesh.key) as client:
        stream = client.stream(LONG, model="tier:l2", cache=False, temperature=0.0, deadline_s=10)
        try:
            with pytest.raises(StreamBroken):
                async for _ in stream.texts():
                    if not killed:
                        killed = True
                        kill_routers(cluster)
        finally:
            stream.cancel()
            await recover(cluster)


def test_over_http_an_answer_whose_router_dies_midway_breaks_off_and_never_looks_complete(cluster):
    body = {"model": "tier:l2", "messages": [{"role": "user", "content": LONG}], "temperature": 0, "stream": True}
    lines, killed = [], False
    headers = {"authorization": f"Bearer {cluster.mesh.key}", "cache-control": "no-store"}
    try:
        with (
            cluster.mesh.http(headers=headers) as client,
            client.stream("POST", "/v1/chat/completions", json=body) as response,
        ):
            assert response.status_code == 200
            # The body does not end in good order: every HTTP client reports that.
            with pytest.raises(httpx.RemoteProtocolError):
                for line in response.iter_lines():
                    lines.append(line)
                    if '"content"' in line and not killed:
                        killed = True
                        kill_routers(cluster)
    finally:
        asyncio.run(recover(cluster))
    assert any('"content"' in line for line in lines)
    assert not [line for line in lines if "[DONE]" in line or '"finish_reason":"stop"' in line]


async def test_a_plain_http_answer_whose_router_dies_is_made_by_the_other_router(cluster):
    """Nothing of it has gone out: Envoy sends the request to the other router, once, and the caller notices nothing."""
    body = {"model": "tier:l2", "messages": [{"role": "user", "content": LONG}], "temperature": 0}
    headers = {"authorization": f"Bearer {cluster.mesh.key}", "cache-control": "no-store"}
    async with httpx.AsyncClient(base_url=cluster.mesh.url, headers=headers, timeout=30) as client:
        whole = await client.post("/v1/chat/completions", json=body)
        # Two at a time: with the fewest in hand as its rule, Envoy gives one to each router.
        asked = [asyncio.create_task(client.post("/v1/chat/completions", json=body)) for _ in range(2)]
        await asyncio.sleep(0.4)
        try:
            cluster.kill(ROUTERS[0])
            answers = await asyncio.gather(*asked)
        finally:
            await recover(cluster)
    assert [answer.status_code for answer in answers] == [200, 200]
    texts = {answer.json()["choices"][0]["message"]["content"] for answer in (whole, *answers)}
    assert len(texts) == 1
