"""The SDK through a real Envoy's ingress: keys, deadlines and cancellation survive the way."""

import asyncio
from contextlib import asynccontextmanager

import pytest
from harness.control_plane import running_control_plane
from harness.envoy import KEY, mesh_config, running_envoy
from harness.sdk import LANES
from harness.short_deadlines import until_one_arrives
from harness.stub_services import running_stub
from tiermesh.client import AsyncClient, Client, DeadlineError, Deadlines, Overloaded, Unauthenticated, Unavailable
from tiermesh.shared.endpoints import replica_endpoint

pytestmark = pytest.mark.envoy


@asynccontextmanager
async def ingress(tmp_path, **sections):
    """Yields a stub of the router, and the address of the ingress before it."""
    config = mesh_config(tmp_path, **sections)
    async with (
        running_stub(replica_endpoint(config, "router", 0)) as router,
        running_control_plane(config),
        running_envoy(config, tmp_path) as envoy,
    ):
        await envoy.healthy("router")
        yield router, f"127.0.0.1:{config.network.ingress_port}"


async def test_both_clients_get_answers_and_are_told_apart_by_their_keys(tmp_path):
    async with ingress(tmp_path) as (router, target):

        def ask() -> str:
            with Client(target, api_key=KEY) as client:
                return client.ask("ok", deadline_s=60).text

        assert await asyncio.to_thread(ask) == "hello 你好"
        async with AsyncClient(target, api_key=KEY) as client:
            answer = await client.ask("ok", deadline_s=60)
            assert (answer.text, answer.route.tier, answer.usage.completion_token_count) == ("hello 你好", "l1", 2)
            assert list((await client.explain("ok", deadline_s=60)).candidates) == ["l1"]
        assert router.seen.metadata[-1]["x-tiermesh-tenant"] == "acme"
        async with AsyncClient(target, api_key="wrong") as client:
            with pytest.raises(Unauthenticated):
                await client.ask("ok", deadline_s=60)


async def test_cancelling_reaches_the_service(tmp_path):
    async with ingress(tmp_path) as (router, target), AsyncClient(target, api_key=KEY) as client:
        async with client.stream("hang", deadline_s=60) as stream:
            async for _ in stream.texts():
                break
        async with asyncio.timeout(60):
            await router.seen.cancelled.wait()


async def test_the_deadline_is_kept_and_sent_on(tmp_path):
    async with ingress(tmp_path) as (router, target), AsyncClient(target, api_key=KEY) as client:

        async def ask(deadline_s: float) -> None:
            with pytest.raises(DeadlineError):
                await client.ask("hang-first", deadline_s=deadline_s)

        ended = await until_one_arrives(ask, router.seen.in_time)
        assert ended.deadline_s - 0.1 < ended.took_s < ended.deadline_s + 10
        assert 0 < router.seen.remaining[-1] < ended.deadline_s + 0.06
        assert len(router.seen.in_time) == 1


async def test_a_tenant_over_its_rate_is_refused_and_told_when_to_come_back(tmp_path):
    limits = {"requests_per_second": 1, "burst": 1}
    async with (
        ingress(tmp_path, limits=limits) as (router, target),
        AsyncClient(target, api_key=KEY, deadlines=Deadlines(LANES)) as client,
    ):
        # At once, because one more is allowed with every second.
        outcomes = await asyncio.gather(*(client.ask("ok") for _ in range(20)), return_exceptions=True)
        refused = [outcome for outcome in outcomes if isinstance(outcome, Exception)]
        assert refused
        assert all(isinstance(error, Overloaded) and error.retry_after for error in refused)
        served = len(router.seen.calls)
        # With time to spare, the wait that Envoy names is kept and the request answered.
        assert (await client.ask("ok", deadline_s=600)).text == "hello 你好"
        assert len(router.seen.calls) == served + 1


async def test_what_envoy_itself_says_is_final_as_one_layer_tries_again_and_not_two(tmp_path):
    config = mesh_config(tmp_path)
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    async with running_control_plane(config), running_envoy(config, tmp_path):
        target = f"127.0.0.1:{config.network.ingress_port}"
        async with AsyncClient(target, api_key=KEY, sleep=sleep) as client:
            with pytest.raises(Unavailable):
                await client.ask("ok", deadline_s=60)
        assert waits == []
    # Where Envoy is not there, nobody but the caller can try again.
    async with AsyncClient(target, api_key=KEY, sleep=sleep) as client:
        with pytest.raises(Unavailable):
            await client.ask("ok", deadline_s=60)
    assert len(waits) == 2
