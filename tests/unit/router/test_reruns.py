"""How many stale answers are made anew at once."""

import asyncio

from tiermesh.api.cache.v1 import cache_pb2
from tiermesh.router.caching.background import BackgroundReruns
from tiermesh.shared.errors import Unavailable


def key(name):
    return cache_pb2.CacheKey(tenant="a", fingerprint=name)


async def test_the_same_request_runs_once_and_few_run_at_all():
    reruns, gate, ran = BackgroundReruns(max_running=2), asyncio.Event(), []

    async def run():
        ran.append(1)
        await gate.wait()

    assert reruns.start(key(b"1"), run)
    assert not reruns.start(key(b"1"), run)
    assert reruns.start(key(b"2"), run)
    assert not reruns.start(key(b"3"), run)
    gate.set()
    await reruns.drain()
    assert len(ran) == 2
    assert reruns.start(key(b"1"), run)
    await reruns.drain()
    assert len(ran) == 3


async def test_a_failure_makes_room_again():
    reruns = BackgroundReruns(max_running=1)

    async def fail():
        raise Unavailable("gone")

    assert reruns.start(key(b"1"), fail)
    await reruns.drain()
    assert reruns.start(key(b"1"), fail)
    await reruns.drain()


async def test_a_drain_gives_up_what_takes_too_long():
    reruns, given_up = BackgroundReruns(), asyncio.Event()

    async def hang():
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            given_up.set()
            raise

    reruns.start(key(b"1"), hang)
    await asyncio.sleep(0)
    await reruns.drain(0)
    assert given_up.is_set()
