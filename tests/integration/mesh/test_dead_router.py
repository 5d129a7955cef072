"""Two routers behind a real Envoy, one of which dies with requests in hand."""

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

import pytest
from harness.control_plane import running_control_plane
from harness.envoy import KEY, RunningEnvoy, mesh_config, running_envoy
from harness.eventually import eventually
from harness.link import Link, open_link
from harness.ports import free_port_base
from harness.stub_services import RunningStub, running_stub
from tiermesh.client import AsyncClient, StreamBroken, Unavailable
from tiermesh.shared.endpoints import Endpoint, replica_endpoint

pytestmark = pytest.mark.envoy


@dataclass
class TwoRouters:
    """The ways to both routers, and the routers."""

    envoy: RunningEnvoy
    links: list[Link]
    stubs: list[RunningStub]

    def calls(self) -> list[int]:
        return [len(stub.seen.calls) for stub in self.stubs]

    async def called(self, total: int) -> list[int]:
        """Waits until both have been called so often together."""

        async def enough() -> bool:
            return sum(self.calls()) >= total

        await eventually(enough)
        return self.calls()

    def client(self, waits: list[float]) -> AsyncClient:
        async def sleep(seconds: float) -> None:
            waits.append(seconds)

        return AsyncClient(f"127.0.0.1:{self.envoy.config.network.ingress_port}", api_key=KEY, sleep=sleep)


@asynccontextmanager
async def two_routers(tmp_path):
    config = mesh_config(tmp_path, router={"replicas": 2})
    behind = free_port_base()
    async with AsyncExitStack() as stack:
        links, stubs = [], []
        for number in range(2):
            stubs.append(await stack.enter_async_context(running_stub(Endpoint("127.0.0.1", behind + number))))
            port = replica_endpoint(config, "router", number).port
            links.append(await stack.enter_async_context(open_link(port, to=behind + number)))
        await stack.enter_async_context(running_control_plane(config))
        envoy = await stack.enter_async_context(running_envoy(config, tmp_path))
        await envoy.healthy("router", 2)
        yield TwoRouters(envoy, links, stubs)


async def test_requests_whose_answer_has_not_begun_are_answered_by_the_other_router(tmp_path):
    waits: list[float] = []
    async with two_routers(tmp_path) as two, two.client(waits) as client, two.envoy.http() as http:
        body = {"messages": [{"role": "user", "content": "hang"}]}
        asked = [asyncio.create_task(client.ask("hang-first", deadline_s=60)) for _ in range(6)]
        plain = [asyncio.create_task(http.post("/v1/chat/completions", json=body)) for _ in range(2)]
        first, second = await two.called(8)
        assert first > 0
        await two.links[0].cut()
        await two.called(9)
        for stub in two.stubs:
            stub.seen.release.set()
        ends = await asyncio.gather(*asked, return_exceptions=True)
        # Where Envoy itself is not run for long enough, it runs out of tries before it knows that the router has died.
        told = [end for end in ends if isinstance(end, Unavailable)]
        assert [end.text for end in ends if end not in told] == ["hello 你好"] * (6 - len(told))
        codes = [answer.status_code for answer in await asyncio.gather(*plain)]
        # Each of them once more, and only at the other one.
        assert two.calls() == [first, second + first - len(told) - codes.count(503)]
        assert set(codes) <= {200, 503}
    # One layer tries again, and it is not the client.
    assert waits == []


async def test_an_answer_that_has_begun_is_not_begun_again(tmp_path):
    async with two_routers(tmp_path) as two, two.client([]) as client:
        stream = client.stream("hang", deadline_s=60)
        with pytest.raises(StreamBroken):
            async for text in stream.texts():
                if text == "hel":
                    continue
                for link in two.links:
                    await link.cut()
        assert sum(two.calls()) == 1


async def test_a_router_that_is_back_is_used_as_soon_as_its_health_check_passes(tmp_path):
    async with two_routers(tmp_path) as two, two.client([]) as client:
        await two.links[0].cut()
        for _ in range(6):
            assert (await client.ask("ok", deadline_s=30)).text == "hello 你好"
        assert two.calls()[0] == 0
        await two.links[0].mend()
        await two.envoy.healthy("router", 2)

        async def used() -> bool:
            await client.ask("ok", deadline_s=30)
            return two.calls()[0] > 0

        await eventually(used)
