"""The name of one run of one request, and what a claim of it looks like in the store.

    <name of the request at one moment, 64 hexadecimal digits>-<random, 16 hexadecimal digits>

The moment is what an invalidation changes: the tenant's generation with the epochs of its tags, and the mark of
an answer that was forgotten by hand (see `tokens`). Whoever asks after an invalidation finds the claims before
it under another name: there is none, and a new run begins. Those who follow the earlier run keep it.

A token leads to the claim's key, and is written in it: whatever is said under a token counts only while
the claim there has it. That is the fence: a router that was held up, and whose claim another has taken
meanwhile, writes under a token that nobody reads any more.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass

from tiermesh.cache.keys import RUN_PREFIX
from tiermesh.cache.tokens import is_tombstone
from tiermesh.shared.errors import InvalidRequest

_TOKEN = re.compile(r"[0-9a-f]{64}-[0-9a-f]{16}")
_ROUTER = re.compile(r"[A-Za-z0-9._-]{1,64}")
_TRACE_PARENT = re.compile(r"[0-9a-f-]{0,64}")
RANDOM_BYTES = 8
KEPT_DIGITS = 24
"""Digits of the request's digest that its name ends with; the others are a SHA-1, which Redis can make in a script."""


@dataclass(frozen=True, slots=True)
class Claimant:
    """A wish to run a request, whatever the moment in which the store hears of it."""

    digest: bytes
    """Of tenant and request, 64 hexadecimal digits."""
    random: bytes
    """`RANDOM_BYTES` random bytes, by which this run differs from others of the request."""
    router: str
    trace_parent: str

    def at(self, moment: bytes) -> ClaimText:
        """Returns the claim of a run that begins at a moment."""
        token = f"{run_name(self.digest, moment)}-{self.random.hex()}"
        return ClaimText(token, self.router, self.trace_parent)


@dataclass(frozen=True, slots=True)
class ClaimText:
    """A claim as the store has it."""

    token: str
    router: str
    trace_parent: str

    def encode(self) -> bytes:
        """Returns its bytes."""
        return f"{self.token} {self.router} {self.trace_parent}".encode("ascii")

    @classmethod
    def decode(cls, raw: bytes) -> ClaimText | None:
        """Returns the claim; None where the bytes are none."""
        parts = raw.decode("ascii", "replace").split(" ")
        if len(parts) != 3 or not _TOKEN.fullmatch(parts[0]):
            return None
        return cls(*parts)


def moment_of(generation: bytes, value: bytes | None) -> bytes:
    """Returns what an invalidation of an answer changes.

    Args:
        generation: The tenant's, as it is stored.
        value: What is stored in the answer's place.
    """
    return generation + (value if value is not None and is_tombstone(value) else b"")


def run_name(digest: bytes, moment: bytes) -> str:
    """Returns the name of a request at a moment, which its runs begin with.

    Args:
        digest: The digest of its entry, 64 hexadecimal digits.
        moment: See `moment_of`.
    """
    name = hashlib.sha1(digest + moment, usedforsecurity=False).hexdigest()
    return name + digest[:KEPT_DIGITS].decode("ascii")


@dataclass(frozen=True, slots=True)
class RunKeys:
    """Where things are on the board."""

    tagged: bool = False
    """Whether all keys of a run, and all of a router, must lie in one slot of a cluster.

    On one server the keys have no such tags, so that replicas of earlier releases find them.
    """

    def claim(self, token: str) -> bytes:
        """Returns where the claim of a run is."""
        return RUN_PREFIX + self._tag(token.partition("-")[0])

    def events(self, token: str) -> bytes:
        """Returns where the events of a run are."""
        return RUN_PREFIX + b"events:" + self._run(token)

    def followers(self, token: str) -> bytes:
        """Returns where those are who wait for a run."""
        return RUN_PREFIX + b"followers:" + self._run(token)

    def alive(self, router: str) -> bytes:
        """Returns where a router is said to be alive."""
        return RUN_PREFIX + b"alive:" + self._tag(router)

    def wanted(self, router: str) -> bytes:
        """Returns where it is said whose runs of a router are waited for."""
        return RUN_PREFIX + b"wanted:" + self._tag(router)

    def _run(self, token: str) -> bytes:
        name, _, random = token.partition("-")
        return self._tag(name) + b"-" + random.encode("ascii")

    def _tag(self, name: str) -> bytes:
        return f"{{{name}}}".encode("ascii") if self.tagged else name.encode("ascii")


def check_run_token(token: str) -> None:
    """Checks the name of a run.

    Raises:
        InvalidRequest: it is none.
    """
    if not _TOKEN.fullmatch(token):
        raise InvalidRequest("token is not the name of a run, as a lookup told it", field="token")


def check_claimant(router: str, trace_parent: str, *, field: str) -> None:
    """Checks who claims a run.

    Raises:
        InvalidRequest: the router's identifier or the traceparent is malformed.
    """
    if not _ROUTER.fullmatch(router):
        raise InvalidRequest(f"{field}.router must be 1 to 64 letters, digits, dots, hyphens", field=f"{field}.router")
    if not _TRACE_PARENT.fullmatch(trace_parent):
        raise InvalidRequest(f"{field}.trace_parent is no W3C traceparent", field=f"{field}.trace_parent")
