"""Stored values prove themselves."""

import hashlib

import pytest
import zstandard
from harness.answers import make_answer
from tiermesh.api.cache.v1 import cache_pb2
from tiermesh.cache.codec import Codec, PoisonedValue, StaleValue

KEY, GENERATION = b"k", b"12345678"
CODEC = Codec(max_bytes=4096)


def encode(serialized=None, **changes):
    serialized = make_answer("你好").SerializeToString() if serialized is None else serialized
    return CODEC.encode(serialized, **{"key": KEY, "generation": GENERATION, **changes})


def forge(payload):
    """A value with a right checksum over whatever content."""
    digest = hashlib.blake2b(digest_size=16)
    for part in (len(KEY).to_bytes(4, "big"), KEY, b"\x01", GENERATION, payload):
        digest.update(part)
    return b"\x01" + GENERATION + digest.digest() + payload


def decode(value):
    return CODEC.decode(value, key=KEY, generation=GENERATION)


def test_round_trip():
    assert decode(encode()) == make_answer("你好")


def test_it_compresses():
    text = "again and again " * 100
    assert len(encode(make_answer(text).SerializeToString())) < len(text) / 4


def test_another_generation_is_stale_and_not_poisoned():
    with pytest.raises(StaleValue):
        decode(encode(generation=b"87654321"))


def test_what_a_later_release_wrote_is_left_to_it():
    with pytest.raises(StaleValue):
        decode(b"\x02" + encode()[1:])


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"x",
        bytes(25),
        b"\x20" + encode()[1:],
        encode()[:-1],
        encode() + b"\0",
        encode(key=b"other"),
        encode(b""),
        encode(make_answer().SerializeToString()),
        encode(b"\xff\xff\xff"),
        forge(b"not zstd"),
        forge(zstandard.ZstdCompressor().compress(bytes(5000))),
        forge(zstandard.ZstdCompressor(write_content_size=False).compressobj().compress(b"x")),
    ],
    ids=[
        "nothing",
        "one byte",
        "no payload",
        "unknown version",
        "cut",
        "longer",
        "copied from another key",
        "no content",
        "no deltas",
        "no protobuf",
        "not compressed",
        "unpacks to too much",
        "hides its size",
    ],
)
def test_what_was_not_written_here_is_poisoned(value):
    with pytest.raises(PoisonedValue):
        decode(value)


def test_every_single_damaged_byte_is_noticed():
    value = encode()
    for place in range(len(value)):
        damaged = bytearray(value)
        damaged[place] ^= 0x40
        with pytest.raises((PoisonedValue, StaleValue)):
            decode(bytes(damaged))


def test_a_value_too_large_for_the_present_limit_is_poisoned():
    big = cache_pb2.CachedAnswer.SerializeToString(make_answer("x" * 5000))
    with pytest.raises(PoisonedValue, match="claims"):
        decode(encode(big))
