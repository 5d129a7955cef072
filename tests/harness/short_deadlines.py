"""Short deadlines, without the assumption that a request reaches its service within them."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sized
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class Ended(Generic[T]):
    """A request that met its deadline while a service had it."""

    result: T
    deadline_s: float
    took_s: float


async def until_one_arrives(
    ask: Callable[[float], Awaitable[T]], arrived: Sized, *, deadline_s: float = 0.4
) -> Ended[T]:
    """Calls `ask` with a deadline, twice as long each time, until a request reaches the service before it is over.

    On a busy machine a deadline may pass on the way; such a request says nothing about the service.

    Args:
        ask: Makes a request with a deadline in seconds.
        arrived: What has reached the service; grows with every request.
        deadline_s: The first deadline, in seconds.
    """
    while True:
        before, begun = len(arrived), time.monotonic()
        result = await ask(deadline_s)
        if len(arrived) > before:
            return Ended(result, deadline_s, time.monotonic() - begun)
        deadline_s *= 2


async def until_one_is_in_time(
    ask: Callable[[float], Awaitable[T]], in_time: Callable[[T], object], *, reserve_s: float = 0.0, work_s: float = 0.5
) -> T:
    """Calls `ask` with a deadline, each time a longer one, until an answer has got as far as it has to in time.

    On a busy machine a deadline may pass before; such an answer says nothing about the service.

    Args:
        ask: Makes a request with a deadline in seconds.
        in_time: Whether the answer had got that far.
        reserve_s: Part of every deadline that the service keeps back for the answer's end: beyond what machines stall.
        work_s: The first time before that, in seconds; twice as long each time.
    """
    while not in_time(result := await ask(reserve_s + work_s)):
        work_s *= 2
    return result
