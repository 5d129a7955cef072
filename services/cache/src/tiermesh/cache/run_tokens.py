"""The name of one run of one request, and what a claim of it looks like in the store.

    <digest of tenant and request, 64 hexadecimal digits>-<random, 16 hexadecimal digits>

A token leads to the claim's key, and is written in it: whatever is said under a token counts only while
the claim there has it. That is the fence: a router that was held up, and whose claim another has taken
meanwhile, writes under a token that nobody reads any more.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from tiermesh.cache.keys import RUN_PREFIX
from tiermesh.shared.errors import InvalidRequest

_TOKEN = re.compile(r"[0-9a-f]{64}-[0-9a-f]{16}")
_ROUTER = re.compile(r"[A-Za-z0-9._-]{1,64}")
_TRACE_PARENT = re.compile(r"[0-9a-f-]{0,64}")
RANDOM_BYTES = 8


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


def make_token(digest: bytes, random: bytes) -> str:
    """Returns the token of a new run.

    Args:
        digest: The digest of its entry.
        random: `RANDOM_BYTES` random bytes.
    """
    return f"{digest.decode('ascii')}-{random.hex()}"


def claim_key(token: str) -> bytes:
    """Returns where the claim of a run is."""
    return RUN_PREFIX + token.partition("-")[0].encode("ascii")


def events_key(token: str) -> bytes:
    """Returns where the events of a run are."""
    return RUN_PREFIX + b"events:" + token.encode("ascii")


def followers_key(token: str) -> bytes:
    """Returns where those are who wait for a run."""
    return RUN_PREFIX + b"followers:" + token.encode("ascii")


def alive_key(router: str) -> bytes:
    """Returns where a router is said to be alive."""
    return RUN_PREFIX + b"alive:" + router.encode("ascii")


def wanted_key(router: str) -> bytes:
    """Returns where it is said whose runs of a router are waited for."""
    return RUN_PREFIX + b"wanted:" + router.encode("ascii")


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
