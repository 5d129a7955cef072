"""Invalidation by tag: a tenant's generation carries which tags were invalidated.

    8 bytes               the generation itself
    n times 8 + 8 bytes   digest of a tag, and the epoch it was given when it was invalidated last

An answer is filed under the *effective* generation of its tags: the generation, and the epochs of
those of its tags that were ever invalidated. Invalidating a tag gives it a new epoch, so that
answers with it are of another generation from that moment, and others stay. All of it is one
value in the store: one that is evicted loses answers and never brings any back.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from tiermesh.cache.keys import GENERATION_BYTES

_PAIR_BYTES = 16
MAX_TAGS = 64
"""Tags of a tenant that may be invalidated before its whole generation is replaced."""
MODEL = "model:"
PROMPT = "prompt:"


def is_generation(value: bytes) -> bool:
    """Tells whether a stored value can be a generation."""
    return len(value) >= GENERATION_BYTES and (len(value) - GENERATION_BYTES) % _PAIR_BYTES == 0


def effective(generation: bytes, tags: Iterable[str]) -> bytes:
    """Returns the generation that an answer with these tags belongs to, 8 bytes."""
    base, pairs = generation[:GENERATION_BYTES], generation[GENERATION_BYTES:]
    if not pairs:
        return base
    known = {pairs[at : at + 8]: pairs[at + 8 : at + 16] for at in range(0, len(pairs), _PAIR_BYTES)}
    epochs = [(digest, known[digest]) for digest in sorted({_digest(tag) for tag in tags}) if digest in known]
    if not epochs:
        return base
    return hashlib.blake2b(b"".join((base, *(a + b for a, b in epochs))), digest_size=GENERATION_BYTES).digest()


def invalidated(generation: bytes, tags: Iterable[str], epoch: bytes) -> bytes | None:
    """Returns the generation after tags were invalidated, or None where it would grow too long.

    Args:
        generation: As it is stored.
        tags: What to invalidate.
        epoch: 8 random bytes.
    """
    base, pairs = generation[:GENERATION_BYTES], generation[GENERATION_BYTES:]
    known = {pairs[at : at + 8]: pairs[at + 8 : at + 16] for at in range(0, len(pairs), _PAIR_BYTES)}
    known |= {_digest(tag): epoch for tag in tags}
    if len(known) > MAX_TAGS:
        return None
    return base + b"".join(digest + known[digest] for digest in sorted(known))


def _digest(tag: str) -> bytes:
    return hashlib.blake2b(tag.encode(), digest_size=8).digest()
