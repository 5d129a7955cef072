"""When a failed request is worth another attempt, and when; pure but for the tokens that calls share."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

import grpc
from tiermesh.shared.budget import Budget
from tiermesh.shared.errors import TiermeshError


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often a request is tried, and how far apart.

    The wait before attempt n + 1 is drawn evenly from 0 to `min(cap_s, base_s * 2 ** (n - 1))`:
    exponential backoff with full jitter (Brooker, "Exponential Backoff And Jitter", 2015).
    """

    attempts: int = 3
    """Calls that one request makes at most, the first included."""
    base_s: float = 0.1
    """Longest wait before the second attempt."""
    cap_s: float = 2.0
    """Longest wait before any attempt."""

    def wait(self, made: int, random: Callable[[], float]) -> float:
        """Returns the seconds to wait after `made` attempts; `random` gives numbers from 0 to below 1."""
        return random() * min(self.cap_s, self.base_s * 2.0 ** (made - 1))


class RetryTokens:
    """What all calls of a client may spend on retries together, so that retries cannot make an outage worse.

    A retry takes one token and a complete answer gives a tenth of one back. In an outage the
    tokens run out after `capacity` retries, and every further request is tried once: the calls
    of N requests are at most N + `capacity`. Safe to share between threads and clients.

    Args:
        capacity: Tokens at the start and at most.
        refund: Tokens that a complete answer gives back.
    """

    def __init__(self, capacity: float = 10.0, refund: float = 0.1) -> None:
        self._capacity = capacity
        self._refund = refund
        self._left = capacity
        self._lock = threading.Lock()

    @property
    def left(self) -> float:
        """Tokens that are left."""
        return self._left

    def take(self) -> bool:
        """Takes a token for a retry; tells whether there was one."""
        with self._lock:
            if self._left < 1.0:
                return False
            self._left -= 1.0
            return True

    def succeeded(self) -> None:
        """Notes a complete answer."""
        with self._lock:
            self._left = min(self._capacity, self._left + self._refund)


class Attempts:
    """The attempts of one request.

    Args:
        policy: How often, and how far apart.
        tokens: Shared with all other calls.
        budget: Of the request, all attempts together.
        typical_s: What an answer of its lane usually takes at most.
        random: Numbers from 0 to below 1.
    """

    def __init__(
        self,
        policy: RetryPolicy,
        tokens: RetryTokens,
        budget: Budget,
        *,
        typical_s: float,
        random: Callable[[], float],
    ) -> None:
        self._policy = policy
        self._tokens = tokens
        self._budget = budget
        self._typical_s = typical_s
        self._random = random
        self._made = 1

    def after(self, error: TiermeshError, *, settled: bool = False) -> float | None:
        """Returns the seconds to wait before another attempt, or None where there is to be none.

        Call it only for a failure before the first event: what has been received cannot be taken back.

        Args:
            error: What the last attempt failed with.
            settled: Whether the mesh itself said so. Its Envoy has then tried what may be tried elsewhere, and doing
                that here again would multiply the calls; only a mesh that names a time is asked once more.
        """
        status = error.row.status
        if settled and error.retry_after is None:
            return None
        if status is grpc.StatusCode.UNAVAILABLE:
            least, room = error.retry_after or 0.0, 0.0
        elif status is grpc.StatusCode.RESOURCE_EXHAUSTED and error.retry_after is not None:
            # A busy mesh is asked again only if its answer would come in time.
            least, room = error.retry_after, self._typical_s
        else:
            return None
        if self._made >= self._policy.attempts:
            return None
        wait = least + self._policy.wait(self._made, self._random)
        if wait + room >= self._budget.remaining() or not self._tokens.take():
            return None
        self._made += 1
        return wait
