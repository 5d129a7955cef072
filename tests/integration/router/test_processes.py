"""Two router processes of a whole mesh behind a real Envoy, with a real Redis: the leader is killed."""

import asyncio
import itertools

import grpc
import pytest
import redis.asyncio
from harness.eventually import eventually
from harness.mesh import PATIENT, running_mesh
from tiermesh.api.common.v1 import chat_pb2
from tiermesh.api.router.v1 import router_pb2, router_pb2_grpc
from tiermesh.shared.endpoints import replica_endpoint

pytestmark = pytest.mark.envoy
CHANGES = {
    "router": {"replicas": 2},
    **PATIENT,
    # No text comes for so long that a busy machine can kill the leader, or bring six requests in, before it does.
    "tiers": [{"name": "l1", "simulated_ttft_ms": 2000}, {"name": "l2", "simulated_ttft_ms": 8000}],
}
METADATA = (("x-tiermesh-tenant", "local"),)


@pytest.fixture(scope="module")
def mesh(tmp_path_factory):
    with running_mesh(tmp_path_factory.mktemp("mesh"), "lite", CHANGES) as mesh:
        yield mesh


def request(text, tier="l1"):
    message = chat_pb2.Message(role=chat_pb2.ROLE_USER, content=text)
    return router_pb2.GenerateRequest(
        model=f"tier:{tier}", messages=[message], sampling=chat_pb2.Sampling(max_tokens=8, temperature=0.0)
    )


async def whole(call):
    """Returns the text, the label and the last event of an answer."""
    events = [event async for event in call]
    return "".join(event.delta.text for event in events if event.HasField("delta")), events[0].route, events[-1]


async def test_a_killed_leader_promotes_a_follower_at_the_other_router(mesh):
    targets = [str(replica_endpoint(mesh.config, "router", n)) for n in range(2)]
    board = redis.asyncio.Redis(port=mesh.config.network.redis_port)
    async with board, grpc.aio.insecure_channel(targets[0]) as one, grpc.aio.insecure_channel(targets[1]) as two:

        async def heard():
            return len(await board.keys("tiermesh:run:1:alive:*")) == 2

        async def claimed():
            return [key for key in await board.keys("tiermesh:run:1:*") if key.count(b":") == 3]

        async def followed():
            return await board.keys("tiermesh:run:1:followers:*")

        await eventually(heard)
        leader = router_pb2_grpc.RouterServiceStub(one).Generate(
            request("What is a river?", "l2"), timeout=60, metadata=METADATA
        )
        leading = asyncio.ensure_future(whole(leader))
        await eventually(claimed)
        follower = router_pb2_grpc.RouterServiceStub(two).Generate(
            request("What is a river?", "l2"), timeout=60, metadata=METADATA
        )
        following = asyncio.ensure_future(whole(follower))
        await eventually(followed)
        mesh.process("tiermesh.router", targets[0]).kill()
        with pytest.raises(grpc.aio.AioRpcError):
            await leading
        text, route, last = await following
        assert text
        assert last.WhichOneof("event") == "done"
        # Its own run now, which it has paid for.
        assert route.cache_status in (router_pb2.CACHE_STATUS_MISS, router_pb2.CACHE_STATUS_COALESCED)
        assert last.done.usage.completion_token_count > 0


async def test_requests_through_the_ingress_share_a_run_whichever_router_they_reach(mesh):
    lakes = itertools.count(1)
    async with mesh.channel() as channel:
        stub = router_pb2_grpc.RouterServiceStub(channel)

        async def shared():
            text = f"What is lake {next(lakes)}?"
            calls = [stub.Generate(request(text), timeout=60, metadata=mesh.metadata) for _ in range(6)]
            answers = await asyncio.gather(*(whole(call) for call in calls))
            assert len({text for text, _, _ in answers}) == 1
            statuses = [router_pb2.CacheStatus.Name(route.cache_status) for _, route, _ in answers]
            # One that was held up for seconds on its way finds the answer stored.
            assert set(statuses) <= {"CACHE_STATUS_MISS", "CACHE_STATUS_COALESCED", "CACHE_STATUS_HIT"}
            # Not where the leader's router stalls for a second: its followers are right to run the request themselves.
            return statuses.count("CACHE_STATUS_MISS") == 1

        await eventually(shared)
