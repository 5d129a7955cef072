"""Where an answer is filed in the store.

    tiermesh:cache:1:<tenant>:<entry>     an answer
    tiermesh:cache:1:<tenant>:generation  which answers of the tenant count
    tiermesh:run:1:...                    who runs what at the moment, see `run_tokens`

`<tenant>` and `<entry>` are digests: nobody's name or words stand in a key. The number is the
layout's version; a new layout starts beside the old one, which then expires.

Forgetting a whole tenant means replacing its generation, in one step whatever the number of
answers: every answer carries the generation it was stored under and no longer counts under
another. A generation is a random value and not a counter, because the store may evict it: a
counter that starts again would bring forgotten answers back, a new random value only loses some.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

PREFIX = b"tiermesh:cache:1:"
RUN_PREFIX = b"tiermesh:run:1:"
FINGERPRINT_BYTES = 32
GENERATION_BYTES = 8


@dataclass(frozen=True, slots=True)
class Place:
    """The two keys that a lookup reads."""

    generation: bytes
    entry: bytes

    @property
    def digest(self) -> bytes:
        """The entry's digest, which is the tenant's and the request's in one."""
        return self.entry.rsplit(b":", 1)[-1]

    @property
    def label(self) -> str:
        """The first digits of the entry's digest: enough to find it, too few to say anything."""
        return self.entry.rsplit(b":", 1)[-1][:8].decode("ascii")


def tenant_prefix(tenant: str) -> bytes:
    """Returns what all keys of a tenant begin with."""
    return PREFIX + hashlib.sha256(tenant.encode()).hexdigest()[:16].encode("ascii") + b":"


def generation_key(tenant: str) -> bytes:
    """Returns the key of a tenant's generation."""
    return tenant_prefix(tenant) + b"generation"


def place_of(tenant: str, fingerprint: bytes) -> Place:
    """Returns where the answer to a canonical request is filed.

    Args:
        tenant: Part of the digest, so that no two tenants ever share an entry.
        fingerprint: SHA-256 of the canonical request, 32 bytes.
    """
    # The length comes first so that no tenant's name can run into the fingerprint.
    name = tenant.encode()
    digest = hashlib.sha256(len(name).to_bytes(4, "big") + name + fingerprint.hex().encode("ascii")).hexdigest()
    return Place(generation_key(tenant), tenant_prefix(tenant) + digest.encode("ascii"))
