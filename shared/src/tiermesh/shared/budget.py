"""Deadline budgets: how long a request may still take, as an immutable value.

A budget is created once, from the deadline of the call that arrived, and is only ever made
smaller on the way down. The gRPC deadline is its only carrier on the wire.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

from tiermesh.shared.clock import SYSTEM_CLOCK, Clock
from tiermesh.shared.errors import BudgetExhausted


@dataclass(frozen=True, slots=True)
class Budget:
    """A point on a monotonic clock by which work must be finished."""

    deadline: float
    """Seconds on `clock.monotonic()`."""
    clock: Clock = field(default=SYSTEM_CLOCK, compare=False, repr=False)

    @classmethod
    def of(cls, seconds: float, clock: Clock = SYSTEM_CLOCK) -> Budget:
        """Returns the budget that ends `seconds` from now."""
        return cls(clock.monotonic() + seconds, clock)

    def remaining(self) -> float:
        """Seconds left; 0.0 once the deadline has passed."""
        return max(0.0, self.deadline - self.clock.monotonic())

    @property
    def exhausted(self) -> bool:
        """Whether the deadline has passed."""
        return self.clock.monotonic() >= self.deadline

    def child(self, *, cap: float | None = None, reserve: float = 0.0) -> Budget:
        """Returns the budget of a call made on behalf of this one.

        `min(remaining - reserve, cap)` seconds from now, never later than this budget.

        Args:
            cap: Most seconds the call may take, or None for no cap of its own.
            reserve: Seconds kept back for what must happen after the call.

        Raises:
            ValueError: `cap` or `reserve` is negative.
        """
        if reserve < 0 or (cap is not None and cap < 0):
            raise ValueError(f"cap and reserve must not be negative: cap={cap}, reserve={reserve}")
        deadline = self.deadline - reserve
        if cap is not None:
            deadline = min(deadline, self.clock.monotonic() + cap)
        return Budget(deadline, self.clock)

    def require(self, doing: str, *, at_least: float = 0.0) -> float:
        """Returns the seconds left, or refuses.

        Raises:
            BudgetExhausted: no more than `at_least` seconds are left for `doing`.
        """
        left = self.deadline - self.clock.monotonic()
        if left <= at_least:
            raise BudgetExhausted(
                f"{max(0.0, left) * 1000:.0f} ms of the deadline are left for {doing}; send a longer deadline"
            )
        return left

    @asynccontextmanager
    async def limit(self, doing: str) -> AsyncIterator[None]:
        """Bounds the body by this budget.

        Raises:
            BudgetExhausted: the deadline passed before the body ended.
        """
        try:
            async with asyncio.timeout(self.require(doing)):
                yield
        except TimeoutError:
            raise BudgetExhausted(f"the deadline passed during {doing}; send a longer deadline") from None


_current: ContextVar[Budget | None] = ContextVar("tiermesh_budget", default=None)


def current_budget() -> Budget:
    """Returns the budget of the gRPC call being served.

    Raises:
        LookupError: no call is being served; a server without the budget interceptor.
    """
    budget = _current.get()
    if budget is None:
        raise LookupError("no budget: the server lacks CallInterceptor")
    return budget


def set_current_budget(budget: Budget) -> None:
    """Makes `budget` the one that `current_budget` returns in this task."""
    _current.set(budget)
