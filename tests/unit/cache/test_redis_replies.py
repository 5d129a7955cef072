"""Replies of Redis: what becomes of errors, and of callers who have gone."""

import asyncio

import pytest
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import ResponseError
from tiermesh.cache.adapters.redis import answer_of
from tiermesh.shared.errors import Unavailable


@pytest.mark.parametrize("after", [None, RedisConnectionError("gone"), ResponseError("OOM")])
async def test_a_cancellation_that_the_client_loses_is_not_lost(after):
    waiting = asyncio.Event()

    async def careless() -> bytes:
        try:
            waiting.set()
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            # As `asyncio.wait_for` does when what it waits for ends at the same moment.
            if after is not None:
                raise after from None
            return b"late"
        return b""

    followed = []

    async def follow() -> None:
        while True:
            followed.append(await answer_of(careless()))

    task = asyncio.create_task(follow())
    await waiting.wait()
    task.cancel()
    await asyncio.wait({task}, timeout=10)
    assert task.cancelled()
    assert followed == []


async def test_a_time_limit_that_the_client_loses_still_ends_the_wait():
    async def careless() -> bytes:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return b"late"
        return b""

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await answer_of(careless())


async def test_a_caller_who_cleans_up_after_being_cancelled_gets_its_reply():
    cleaned = []

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cleaned.append(await answer_of(asyncio.sleep(0, b"ok")))

    task = asyncio.create_task(work())
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait({task})
    assert cleaned == [b"ok"]


@pytest.mark.parametrize(
    "error",
    [ResponseError("OOM"), RedisConnectionError(), OSError(), TimeoutError(), RuntimeError("the handler is closed")],
)
async def test_failures_are_unavailable(error):
    async def fails() -> bytes:
        raise error

    with pytest.raises(Unavailable):
        await answer_of(fails())


@pytest.mark.parametrize(
    ("reply", "told"),
    [
        ("NOAUTH Authentication required.", "NOAUTH"),
        ("DENIED Redis is running in protected mode", "DENIED"),
        ("unknown command 'x', with args beginning with: 'a question'", "ResponseError"),
    ],
)
async def test_a_refusal_is_told_by_its_code_and_never_by_what_was_sent(reply, told):
    async def refuses() -> bytes:
        raise ResponseError(reply)

    with pytest.raises(Unavailable) as caught:
        await answer_of(refuses())
    assert caught.value.message == f"Redis refuses ({told})"
