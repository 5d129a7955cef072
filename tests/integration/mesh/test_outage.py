"""Nothing can answer: how many calls that costs, through a real Envoy and a real router."""

import asyncio

import pytest
from harness.envoy import KEY
from harness.outage import REQUESTS, calls_of_a_mesh_that_is_gone, dead_tiers
from tiermesh.client import AsyncClient, Unavailable

pytestmark = pytest.mark.envoy


async def test_a_hundred_requests_make_at_most_1_2_calls_each_of_tiers_that_are_down(tmp_path):
    async with dead_tiers(tmp_path) as mesh, AsyncClient(mesh.target, api_key=KEY) as client:
        asked = (client.ask(f"question {n}", deadline_s=60, cache=False) for n in range(REQUESTS))
        ends = await asyncio.gather(*asked, return_exceptions=True)
        assert all(isinstance(end, Unavailable) for end in ends), ends
        calls = mesh.calls()
    # The one replica of L2 once each; those of L1 hardly more often.
    assert calls["l2"] <= REQUESTS
    assert REQUESTS / 2 <= calls["l1"] <= 1.2 * REQUESTS


async def test_a_hundred_requests_make_at_most_1_2_calls_each_of_a_mesh_that_is_gone():
    assert 1.0 < await calls_of_a_mesh_that_is_gone() <= 1.2
