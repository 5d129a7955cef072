"""A question that was answered, as replicas tell each other of it.

A record is the fields of one stream entry. It proves itself like stored answers do; it never
holds an answer, only the key under which the exact tier has it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tiermesh.cache.semantic.rules_version import rules_version

_VERSION, _EMBEDDED = b"1", b"2"
"""The second is of records with an embedding, which say whose it is: a release that does not ask would compare it with others'."""
_ORDER = (b"v", b"entry", b"partition", b"text", b"vector", b"cost", b"ends")
_EMBEDDED_ORDER = (*_ORDER, b"embedder")
_FILED = (b"sum", b"rules", b"language", b"signature", b"made")


class PoisonedRecord(Exception):
    """Fields that this version did not write."""


@dataclass(frozen=True, slots=True)
class Filed:
    """What remembering a question takes, so that replicas that start need not take all of them apart."""

    language: str
    signature: str
    """See `question`."""
    vector: bytes
    """What it is compared by; empty where it has none."""


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
    filed: Filed | None = None
    """Where the question is filed; None where other rules have taken it apart, or none yet."""
    embedder: str = ""
    """Which model made the embedding; empty without one, or where a release wrote it that had one model only."""


def partition_of(tenant: str, digest: bytes) -> bytes:
    """Returns the partition of a tenant's request; no two tenants ever share one."""
    name = tenant.encode()
    return hashlib.sha256(len(name).to_bytes(4, "big") + name + digest).digest()


def encode(record: Record) -> dict[bytes, bytes]:
    """Returns the fields to append to the stream."""
    fields = {
        b"v": _EMBEDDED if record.embedder else _VERSION,
        b"entry": record.entry,
        b"partition": record.partition,
        b"text": record.text.encode(),
        b"vector": record.vector,
        b"cost": repr(record.cost).encode(),
        b"ends": str(record.ends_ms).encode(),
    }
    if record.embedder:
        fields[b"embedder"] = record.embedder.encode()
    fields[b"sum"] = _checksum(fields, _EMBEDDED_ORDER if record.embedder else _ORDER)
    if record.filed is not None:
        fields[b"rules"] = rules_version()
        fields[b"language"] = record.filed.language.encode()
        fields[b"signature"] = record.filed.signature.encode()
        # An embedding is there already.
        fields[b"made"] = b"" if record.vector else record.filed.vector
        fields[b"filed"] = _checksum(fields, _FILED)
    return fields


def decode(fields: Mapping[bytes, bytes]) -> Record:
    """Returns the record that was appended.

    Raises:
        PoisonedRecord: the fields are not what `encode` wrote.
    """
    try:
        is_embedded = fields[b"v"] == _EMBEDDED
        order = _EMBEDDED_ORDER if is_embedded else _ORDER
        if fields[b"v"] not in {_VERSION, _EMBEDDED} or fields[b"sum"] != _checksum(fields, order):
            raise PoisonedRecord("its version or checksum does not match")
        return Record(
            fields[b"entry"],
            fields[b"partition"],
            fields[b"text"].decode(),
            fields[b"vector"],
            float(fields[b"cost"]),
            int(fields[b"ends"]),
            _filed(fields),
            fields[b"embedder"].decode() if is_embedded else "",
        )
    except (KeyError, ValueError) as error:
        raise PoisonedRecord("a field is missing or wrong") from error


def _filed(fields: Mapping[bytes, bytes]) -> Filed | None:
    if fields.get(b"rules") != rules_version() or fields[b"filed"] != _checksum(fields, _FILED):
        return None
    vector = fields[b"vector"] or fields[b"made"]
    return Filed(fields[b"language"].decode(), fields[b"signature"].decode(), vector)


def _checksum(fields: Mapping[bytes, bytes], names: Sequence[bytes]) -> bytes:
    digest = hashlib.blake2b(digest_size=16)
    for name in names:
        digest.update(len(fields[name]).to_bytes(4, "big") + fields[name])
    return digest.digest()
