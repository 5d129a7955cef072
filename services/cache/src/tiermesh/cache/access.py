"""Bounds what the store may cost a caller.

An operation runs in a task of its own. A caller waits for it only so long, and one that stops
waiting, or is cancelled, does not cancel it: redis-py drops a connection whose command was
cancelled, and one cancelled while being handed back is lost to the pool for good. The
operation's end is bounded by the adapter's own socket timeouts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from tiermesh.cache.circuit import Admission, Circuit
from tiermesh.shared.budget import Budget
from tiermesh.shared.errors import Unavailable
from tiermesh.shared.telemetry import get_logger

_T = TypeVar("_T")
_log = get_logger(__name__)
_TURNS = 4
"""Turns of the event loop in which a reply that has arrived is read, parsed and handed over."""


class StoreAccess:
    """Runs operations of the store.

    Args:
        circuit: Decides whether an operation is tried.
        max_running: Operations that may be unfinished at once, waited for or not.
    """

    def __init__(self, circuit: Circuit, *, max_running: int = 1024) -> None:
        self._circuit = circuit
        self._max_running = max_running
        self._running: set[asyncio.Task[Any]] = set()
        self._failures = 0
        """Counted so far."""

    async def run(
        self,
        operation: Callable[[], Coroutine[Any, Any, _T]],
        *,
        budget: Budget,
        cap_s: float,
        insist: bool = False,
    ) -> _T:
        """Runs an operation and waits for it within `budget`, for at most `cap_s` seconds.

        Args:
            operation: Makes the coroutine to run.
            budget: The caller's.
            cap_s: Wait after which the store counts as failing.
            insist: Try even while the circuit is open.

        Raises:
            Unavailable: the store failed, was too slow, or is not tried at present.
        """
        admission = Admission.PASSED if insist else self._circuit.admit()
        if admission is Admission.REFUSED:
            raise Unavailable("the answer store does not answer; it is tried again shortly")
        if len(self._running) >= self._max_running:
            self._circuit.abandoned(admission)
            raise Unavailable(f"{self._max_running} operations wait for the answer store already")
        before = self._failures
        task = asyncio.create_task(operation())
        self._running.add(task)
        task.add_done_callback(self._ended)
        wait_s = min(cap_s, budget.remaining())
        try:
            await asyncio.wait({task}, timeout=wait_s)
            for _ in range(_TURNS):
                # A loop that was held up runs its timers before it reads what has come meanwhile.
                if task.done():
                    break
                await asyncio.sleep(0)
        except asyncio.CancelledError:
            self._circuit.abandoned(admission)
            raise
        if not task.done():
            if wait_s < cap_s:
                self._circuit.abandoned(admission)
            else:
                self._report(admission, failed="slow", before=before)
            raise Unavailable(f"the answer store did not answer within {wait_s * 1000:.0f} ms")
        return self._result(task, admission, before)

    def _result(self, task: asyncio.Task[_T], admission: Admission, before: int) -> _T:
        if task.cancelled():
            self._circuit.abandoned(admission)
            raise Unavailable("the cache is stopping")
        try:
            result = task.result()
        except Unavailable as error:
            self._report(admission, failed=error.message, before=before)
            raise
        except BaseException:
            self._circuit.abandoned(admission)
            raise
        self._report(admission)
        return result

    async def aclose(self) -> None:
        """Cancels what still runs and waits for it."""
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)

    def _report(self, admission: Admission, *, failed: str = "", before: int = 0) -> None:
        was_open = self._circuit.is_open
        if failed and admission is not Admission.PROBE and before != self._failures:
            # Calls side by side fail together: another has been counted since this one began.
            self._circuit.abandoned(admission)
        elif failed:
            self._failures += 1
            self._circuit.failed(admission)
        else:
            self._circuit.succeeded(admission)
        if self._circuit.is_open and not was_open:
            _log.warning("the answer store is down; lookups miss until it is back", error=failed)
        elif was_open and not self._circuit.is_open:
            _log.info("the answer store is back")

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._running.discard(task)
        if not task.cancelled():
            # Marks the failure as seen: the caller may be gone, and has its own way to know.
            task.exception()
