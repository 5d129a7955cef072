"""A question that was answered, as replicas tell each other of it.

A record is the fields of one stream entry. It proves itself like stored answers do; it never
holds an answer, only the key under which the exact tier has it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

_VERSION = b"1"
_ORDER = (b"v", b"entry", b"partition", b"text", b"vector", b"cost", b"ends")


class PoisonedRecord(Exception):
    """Fields that this version did not write."""


@dataclass(frozen=True, slots=True)
class Record:
    """One question and where its answer is."""

    entry: bytes
    """Key of the answer in the store; its beginning names the tenant by digest."""
    partition: bytes
    """Digest of the tenant and of everything but the last user message, 32 bytes."""
    text: str
    """The question."""
    vector: bytes
    """Embedding as half-precision floats; empty where the embedder has no tokens for the text."""
    cost: float
    """What a hit saves, in tokens."""
    ends_ms: int
    """When the answer expires, in ms since the Unix epoch."""


def partition_of(tenant: str, digest: bytes) -> bytes:
    """Returns the partition of a tenant's request; no two tenants ever share one."""
    name = tenant.encode()
    return hashlib.sha256(len(name).to_bytes(4, "big") + name + digest).digest()


def encode(record: Record) -> dict[bytes, bytes]:
    """Returns the fields to append to the stream."""
    fields = {
        b"v": _VERSION,
        b"entry": record.entry,
        b"partition": record.partition,
        b"text": record.text.encode(),
        b"vector": record.vector,
        b"cost": repr(record.cost).encode(),
        b"ends": str(record.ends_ms).encode(),
    }
    return {**fields, b"sum": _checksum(fields)}


def decode(fields: Mapping[bytes, bytes]) -> Record:
    """Returns the record that was appended.

    Raises:
        PoisonedRecord: the fields are not what `encode` wrote.
    """
    try:
        if fields[b"v"] != _VERSION or fields[b"sum"] != _checksum(fields):
            raise PoisonedRecord("its version or checksum does not match")
        return Record(
            fields[b"entry"],
            fields[b"partition"],
            fields[b"text"].decode(),
            fields[b"vector"],
            float(fields[b"cost"]),
            int(fields[b"ends"]),
        )
    except (KeyError, ValueError) as error:
        raise PoisonedRecord("a field is missing or wrong") from error


def _checksum(fields: Mapping[bytes, bytes]) -> bytes:
    digest = hashlib.blake2b(digest_size=16)
    for name in _ORDER:
        digest.update(len(fields[name]).to_bytes(4, "big") + fields[name])
    return digest.digest()
