"""Nothing can answer: how many calls that costs, through a real Envoy and a real router."""

import asyncio

import pytest
from harness.envoy import KEY
from harness.eventually import eventually
from harness.outage import REQUESTS, calls_of_a_mesh_that_is_gone, dead_tiers
from tiermesh.client import AsyncClient, Unavailable

pytestmark = pytest.mark.envoy


async def test_a_hundred_requests_make_at_most_1_2_calls_each_of_tiers_that_are_down(tmp_path):
    # Without escalation L1 is asked by all, however late it is.
    async with (
        dead_tiers(tmp_path, escalation={"enabled": False}) as mesh,
        AsyncClient(mesh.target, api_key=KEY) as client,
    ):
        # L1 fails once it has all of them: what may be tried again is a share of what is in flight at that moment, and
        # not of what a machine happens to have brought so far.
        failing = asyncio.Event()
        for engine in mesh.engines["l1"]:
            engine.error, engine.steps = None, [failing, Unavailable("the device failed")]
        asked = [asyncio.create_task(client.ask(f"question {n}", deadline_s=100, cache=False)) for n in range(REQUESTS)]

        async def all_there() -> bool:
            return mesh.calls()["l1"] == REQUESTS

        await eventually(all_there)
        failing.set()
        ends = await asyncio.gather(*asked, return_exceptions=True)
        assert all(isinstance(end, Unavailable) for end in ends), ends
        calls = mesh.calls()
    # The one replica of L2 once each; those of L1 hardly more often.
    assert calls["l2"] <= REQUESTS
    assert REQUESTS <= calls["l1"] <= 1.2 * REQUESTS


async def test_a_hundred_requests_make_at_most_1_2_calls_each_of_a_mesh_that_is_gone():
    assert 1.0 < await calls_of_a_mesh_that_is_gone() <= 1.2
