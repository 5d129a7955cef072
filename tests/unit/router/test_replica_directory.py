"""Where the router looks for the replicas of a tier."""

import asyncio
import socket

from harness.router import make_settings
from tiermesh.router.adapters.replica_directory import ReplicaDirectory, resolve
from tiermesh.router.app import shares_with_others

DNS = {"mode": "dns", "dns_suffix": ".tiermesh.svc", "service_port": 8081}


async def test_on_one_machine_the_port_plan_says_it_and_follows_the_configuration():
    settings = make_settings(router={"replicas": 2})
    directory = ReplicaDirectory(settings)
    assert directory.addresses("router") == ["127.0.0.1:18100", "127.0.0.1:18101"]
    settings.current = make_settings(router={"replicas": 1}).current
    assert len(directory.addresses("router")) == 1


async def test_elsewhere_names_are_looked_up_and_the_last_answer_stays():
    asked, answers, rounds = (
        [],
        {"tiermesh-engine-l1.tiermesh.svc": ["10.0.0.1:8081", "10.0.0.2:8081"]},
        asyncio.Event(),
    )

    async def look_up(host, port):
        asked.append((host, port))
        if host == "tiermesh-engine-l2.tiermesh.svc":
            rounds.set()
        if host not in answers:
            raise socket.gaierror("no such name")
        return answers[host]

    directory = ReplicaDirectory(make_settings(discovery=DNS), look_up)
    assert directory.addresses("engine-l1") == ()
    for _ in range(2):
        rounds.clear()
        running = asyncio.create_task(directory.run())
        async with asyncio.timeout(60):
            await rounds.wait()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        assert directory.addresses("engine-l1") == ["10.0.0.1:8081", "10.0.0.2:8081"]
        assert directory.addresses("engine-l2") == ()
        answers.clear()
    assert asked[0] == ("tiermesh-router.tiermesh.svc", 8081)


async def test_addresses_are_written_as_envoy_writes_them():
    assert await resolve("127.0.0.1", 8081) == ["127.0.0.1:8081"]
    assert await resolve("::1", 8081) == ["[::1]:8081"]


def test_a_router_alone_shares_its_runs_with_nobody():
    for replicas, coalescing, shared in ((1, "mesh", False), (2, "mesh", True), (2, "replica", False)):
        settings = make_settings(router={"replicas": replicas}, cache={"coalescing": coalescing})
        assert shares_with_others(settings.current.config, ReplicaDirectory(settings)) is shared
