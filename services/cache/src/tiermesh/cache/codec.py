"""An answer as bytes that prove themselves.

    1 byte    format version
    8 bytes   generation it was stored under
    16 bytes  BLAKE2b over the store key, the version, the generation and the payload
    rest      zstd frame of the serialized CachedAnswer

The key is part of the checksum, so a value copied under another key does not count either.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import zstandard
from google.protobuf.message import DecodeError
from tiermesh.api.cache.v1 import cache_pb2
from tiermesh.cache.keys import GENERATION_BYTES
from tiermesh.cache.tags import MODEL, effective

VERSION = b"\x01"
_NEWEST = 31
"""Format versions that a later release may write; during its rollout they are its own, and left alone."""
_CHECKSUM_BYTES = 16
_HEADER_BYTES = len(VERSION) + GENERATION_BYTES + _CHECKSUM_BYTES


class PoisonedValue(Exception):
    """A stored value is not one that this version wrote under this key."""


class StaleValue(Exception):
    """A stored value is not damaged, but of a generation that was invalidated, or of a later release."""


@dataclass(frozen=True, slots=True)
class Codec:
    """Turns answers into stored values and back."""

    max_bytes: int
    """Largest serialized answer, before compression. A value that claims more is poisoned."""

    def encode(self, serialized: bytes, *, key: bytes, generation: bytes) -> bytes:
        """Returns the value to store for a serialized CachedAnswer, under 8 bytes of generation."""
        payload = zstandard.ZstdCompressor(level=3).compress(serialized)
        return VERSION + generation + _checksum(key, VERSION, generation, payload) + payload

    def decode(self, value: bytes, *, key: bytes, generation: bytes) -> cache_pb2.CachedAnswer:
        """Returns the answer that was stored.

        Args:
            value: As it is stored.
            key: Where it is stored.
            generation: The tenant's, with the epochs of tags that were invalidated.

        Raises:
            PoisonedValue: the value was not written by `encode` for this key.
            StaleValue: it was, under another generation.
        """
        if len(value) <= _HEADER_BYTES:
            raise PoisonedValue("shorter than its header")
        if value[:1] != VERSION:
            if VERSION[0] < value[0] <= _NEWEST:
                raise StaleValue("of another release's format")
            raise PoisonedValue(f"format version {value[0]}, not {VERSION[0]}")
        stored_under = value[1 : 1 + GENERATION_BYTES]
        payload = value[_HEADER_BYTES:]
        if value[1 + GENERATION_BYTES : _HEADER_BYTES] != _checksum(key, VERSION, stored_under, payload):
            raise PoisonedValue("its checksum does not match")
        answer = cache_pb2.CachedAnswer()
        try:
            answer.ParseFromString(self._decompress(payload))
        except DecodeError as error:
            raise PoisonedValue("its content is no answer") from error
        if not answer.deltas or not answer.finishes:
            raise PoisonedValue("its answer is empty")
        if stored_under != effective(generation, tags_of(answer)):
            raise StaleValue("of an earlier generation")
        return answer

    def _decompress(self, payload: bytes) -> bytes:
        try:
            # The size is read from the frame before anything is unpacked: a few bytes may claim gigabytes.
            size = zstandard.frame_content_size(payload)
            if not 0 <= size <= self.max_bytes:
                raise PoisonedValue(f"it claims {size} bytes")
            return zstandard.ZstdDecompressor().decompress(payload)
        except zstandard.ZstdError as error:
            raise PoisonedValue("its content cannot be unpacked") from error


def tags_of(answer: cache_pb2.CachedAnswer) -> list[str]:
    """Returns the labels that an answer is invalidated by, its model among them."""
    return [*answer.tags, MODEL + answer.model]


def _checksum(key: bytes, version: bytes, generation: bytes, payload: bytes) -> bytes:
    digest = hashlib.blake2b(digest_size=_CHECKSUM_BYTES)
    for part in (len(key).to_bytes(4, "big"), key, version, generation, payload):
        digest.update(part)
    return digest.digest()
