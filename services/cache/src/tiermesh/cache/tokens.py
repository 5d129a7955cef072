"""Proof of when an answer was begun: a late one must not bring back what was forgotten meanwhile.

    8 bytes   digest of the tenant's generation, with the epochs of its tags
    8 bytes   mark of the entry's last invalidation by hand, or zeros

A lookup hands out a token, and Store gives it back. All of a tenant, a tag, a model or a prompt
version that was invalidated in between shows in the generation. One answer that was forgotten by
hand leaves a *tombstone* in its place, longer than any request may take: only an answer begun after
it, whose token carries its mark, may be written over it.
"""

from __future__ import annotations

import hashlib

TOMB = b"\x00"
"""First byte of a tombstone; no format version of an answer."""
MARK_BYTES = 8
TOMBSTONE_BYTES = len(TOMB) + MARK_BYTES
TOKEN_BYTES = 16
NEVER = b"\xff" * TOKEN_BYTES
"""Token of a lookup that could not ask the store: in doubt, its answer is not kept."""
_NO_MARK = bytes(MARK_BYTES)


def token_of(generation: bytes, value: bytes | None) -> bytes:
    """Returns the token of a lookup.

    Args:
        generation: The tenant's, as it is stored.
        value: What is stored in the answer's place.
    """
    return _digest(generation) + (value[len(TOMB) :] if value is not None and is_tombstone(value) else _NO_MARK)


def tombstone(mark: bytes) -> bytes:
    """Returns what to leave in the place of an answer that is forgotten by hand."""
    return TOMB + mark


def is_tombstone(value: bytes) -> bool:
    """Tells whether a stored value is a tombstone."""
    return len(value) == TOMBSTONE_BYTES and value.startswith(TOMB)


def is_of(token: bytes, generation: bytes) -> bool:
    """Tells whether nothing of the tenant was invalidated since the token was handed out."""
    return token[:MARK_BYTES] == _digest(generation)


def tombstone_seen(token: bytes) -> bytes:
    """Returns the tombstone that the token's lookup saw."""
    return tombstone(token[MARK_BYTES:])


def mark_in(token: bytes) -> bytes:
    """Returns the mark of the invalidation by hand that the token's lookup knew of; empty where it knew of none."""
    mark = token[MARK_BYTES:]
    return b"" if mark == _NO_MARK else mark


def _digest(generation: bytes) -> bytes:
    return hashlib.blake2b(generation, digest_size=MARK_BYTES).digest()
