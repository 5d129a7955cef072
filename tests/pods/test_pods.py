"""The chart's pods, run together from built images: they find each other, answer, and outlive each other.

Needs root, Linux, and images in Buildah's storage; docs/operations/kubernetes.md says how.
"""

from __future__ import annotations

import asyncio
from collections import Counter

import httpx
import pytest
import pytest_asyncio
from harness.eventually import eventually
from harness.helm import main_container, render
from harness.mesh import PATIENT
from harness.pods.cluster import KEY, running_pods

pytestmark = [pytest.mark.timeout(900), pytest.mark.asyncio(loop_scope="module")]

_LOAD_S = 20
INGRESS_PORT = 8080


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster(tmp_path_factory):
    # All pods share this machine's cores: what is to be seen is whether they find each other, not how fast.
    # A Service translates no port here.
    release = render(
        {"config": {"outcomes": {"enabled": True}, **PATIENT}, "ingress": {"service": {"port": INGRESS_PORT}}}
    )
    async with running_pods(release, tmp_path_factory.mktemp("pods")) as running:
        yield running


def chat(text):
    return {"model": "auto", "messages": [{"role": "user", "content": text}], "temperature": 0}


async def ask(client, pod, text):
    headers = {"Authorization": f"Bearer {KEY}"}
    return await client.post(f"http://{pod.address}:8080/v1/chat/completions", json=chat(text), headers=headers)


async def test_each_tier_answers_and_what_one_door_was_told_another_knows(cluster):
    one, other = cluster.of("ingress")
    async with httpx.AsyncClient(timeout=30) as client:
        for text, tier in (
            ("Hello!", "l0"),
            ("Why is the sky blue?", "l1"),
            ("写一个Python函数，合并两个有序列表。", "l2"),
        ):

            async def answered(text=text, tier=tier):
                answer = await ask(client, one, text)
                assert answer.status_code == 200, answer.text
                assert (
                    answer.headers["x-tiermesh-tier"] in {tier, "cache"} or answer.headers["x-tiermesh-cache"] == "hit"
                )
                return answer.headers["x-tiermesh-cache"] != "unavailable"

            await eventually(answered)

            async def known(text=text):
                return (await ask(client, other, text)).headers["x-tiermesh-cache"] == "hit"

            await eventually(known)


async def test_helm_test_asks_and_is_answered(cluster):
    (pod,) = cluster.release.all("Pod")
    status, said = await cluster.run_to_end(pod)
    assert status == 0, said
    assert "tier: l0" in said


async def test_what_came_of_a_request_can_be_told(cluster):
    (door, _) = cluster.of("ingress")
    async with httpx.AsyncClient(timeout=30) as client:
        answer = await ask(client, door, "Name a river.")

        async def told():
            report = {"request_id": answer.headers["x-request-id"], "score": 1}
            url, headers = f"http://{door.address}:8080/v1/feedback", {"Authorization": f"Bearer {KEY}"}
            return (await client.post(url, json=report, headers=headers)).status_code == 200

        await eventually(told)


@pytest.mark.parametrize("component", ["router", "cache", "classifier", "engine-l0"])
async def test_no_request_fails_while_a_pod_is_replaced(cluster, component):
    """Removal, hook, drain, and the sidecar last: in time, and without a kill."""
    doors, seen, pod = cluster.of("ingress"), Counter(), cluster.of(component)[0]
    ended: dict[str, int] = {}

    async def call(number):
        async with httpx.AsyncClient(timeout=30) as client:
            while not ended or not pod.is_ready:
                answer = await ask(
                    client, doors[number % 2], f"Hello! Who replaces {component}, {number}, {seen.total()}?"
                )
                seen[answer.status_code if answer.status_code == 200 else answer.text] += 1

    async def replace():
        await eventually(lambda: asyncio.sleep(0, seen.total() > 4))
        ended.update(await asyncio.to_thread(pod.replace))

    async with asyncio.timeout(300):
        await asyncio.gather(replace(), *(call(number) for number in range(4)))
    assert set(seen) == {200}, seen
    # -9 would be a drain that took longer than the grace period.
    assert -9 not in ended.values(), ended
    await eventually(lambda: asyncio.sleep(0, all(pod.is_ready for pod in cluster.pods)))


@pytest.mark.parametrize("component", ["router", "cache", "redis", "classifier", "control-plane", "engine-l0"])
async def test_no_request_fails_while_a_pod_crashes(cluster, component):
    doors, seen = cluster.of("ingress"), Counter()
    over = asyncio.get_running_loop().time() + _LOAD_S

    async def call(number):
        async with httpx.AsyncClient(timeout=30) as client:
            while asyncio.get_running_loop().time() < over:
                answer = await ask(client, doors[number % 2], f"Hello! Is {component} there, {number}, {seen.total()}?")
                seen[answer.status_code if answer.status_code == 200 else answer.text] += 1

    async def crash():
        await eventually(lambda: asyncio.sleep(0, seen.total() > 4))
        pod = cluster.of(component)[0]
        pod.kill(main_container({"spec": {"template": {"spec": pod.spec}}})["name"])

    await asyncio.gather(crash(), *(call(number) for number in range(4)))
    assert set(seen) == {200}, seen
    # Started again, and ready, before the next one.
    await eventually(lambda: asyncio.sleep(0, all(pod.is_ready for pod in cluster.pods)), within_s=120)
