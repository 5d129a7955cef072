"""The image with the embedding model: another wording is known, with nothing but what the image carries.

Needs what test_pods.py needs, and the image cache-semantic.
"""

from __future__ import annotations

import pytest
import pytest_asyncio
from harness.cache import RunningCache
from harness.eventually import eventually
from harness.helm import Release, render
from harness.mesh import PATIENT
from harness.pods.cluster import running_pods
from harness.semantic import answered, ask, name
from tiermesh.api.cache.v1 import cache_pb2_grpc
from tiermesh.shared.rpc import open_channel
from tiermesh.shared.testing import recorded_tracing

pytestmark = [pytest.mark.timeout(900), pytest.mark.asyncio(loop_scope="module")]

_NEEDED = {"cache", "redis", "control-plane", "config"}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def caches(tmp_path_factory):
    config = {**PATIENT, "cache": {**PATIENT["cache"], "semantic_enabled": True}}
    release = render({"config": config, "controlPlane": {"replicas": 1}})
    objects = [o for o in release.objects if o["metadata"]["labels"]["app.kubernetes.io/component"] in _NEEDED]
    async with running_pods(Release(tuple(objects), release.notes), tmp_path_factory.mktemp("pods")) as cluster:
        one, other = cluster.of("cache")
        async with open_channel(f"{one.address}:8081") as first, open_channel(f"{other.address}:8081") as second:
            with recorded_tracing() as tracing:
                yield [
                    RunningCache(cache_pb2_grpc.CacheServiceStub(channel), tracing, channel)
                    for channel in (first, second)
                ]


@pytest.mark.parametrize(
    ("stored", "asked"),
    [
        ("How do I renew my library card?", "What are the steps to renew my library card?"),
        ("怎么取消订单", "请问如何取消订单？"),
    ],
)
async def test_another_wording_is_known_to_both_replicas(caches, stored, asked):
    first, second = caches
    await answered(first, stored)
    for cache in (first, second):

        async def known(cache=cache):
            return name(await ask(cache, asked)) == "HIT_SEMANTIC"

        await eventually(known)


async def test_what_only_sounds_alike_is_not(caches):
    first, _ = caches
    await answered(first, "Where is the key of room 12?")

    async def refused():
        return (await ask(first, "Where is the key of room 13?")).refused_by == "numbers"

    await eventually(refused)
