"""Whatever an answer holds, a hit gives back the same bytes, and nothing else is taken for one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiermesh.api.cache.v1 import cache_pb2
from tiermesh.api.common.v1 import answer_pb2
from tiermesh.cache.codec import Codec, PoisonedValue, StaleValue

CODEC = Codec(max_bytes=1 << 20)
INT32 = st.integers(-(2**31), 2**31 - 1)
TEXT = st.text(st.characters(codec="utf-8"), max_size=40)
TOP = st.builds(answer_pb2.TopLogprob, token=TEXT, logprob=st.floats(), token_bytes=st.binary(max_size=8))
LOGPROB = st.builds(
    answer_pb2.TokenLogprob,
    token=TEXT,
    logprob=st.floats(),
    top=st.lists(TOP, max_size=2),
    token_bytes=st.binary(max_size=8),
)
DELTA = st.builds(
    answer_pb2.Delta,
    choice_index=INT32,
    text=TEXT,
    token_ids=st.lists(INT32, max_size=4),
    logprobs=st.lists(LOGPROB, max_size=2),
)
FINISH = st.builds(answer_pb2.ChoiceFinish, choice_index=INT32, finish_reason=st.sampled_from([0, 1, 2]))
ANSWER = st.builds(
    cache_pb2.CachedAnswer,
    tier=TEXT,
    model=TEXT,
    deltas=st.lists(DELTA, min_size=1, max_size=6),
    finishes=st.lists(FINISH, min_size=1, max_size=2),
    simulated=st.booleans(),
    task_type=TEXT,
)
GENERATION = st.binary(min_size=8, max_size=8)


@given(answer=ANSWER, key=st.binary(max_size=80), generation=GENERATION)
def test_round_trip_is_bit_for_bit(answer, key, generation):
    serialized = answer.SerializeToString(deterministic=True)
    value = CODEC.encode(serialized, key=key, generation=generation)
    assert CODEC.decode(value, key=key, generation=generation).SerializeToString(deterministic=True) == serialized


@given(value=st.binary(max_size=300), generation=GENERATION)
def test_no_other_bytes_are_an_answer(value, generation):
    with pytest.raises(PoisonedValue):
        CODEC.decode(b"\x01" + value, key=b"k", generation=generation)


@given(answer=ANSWER, generation=GENERATION, place=st.integers(0), bit=st.integers(0, 7))
def test_a_flipped_bit_is_noticed(answer, generation, place, bit):
    value = bytearray(CODEC.encode(answer.SerializeToString(), key=b"k", generation=generation))
    value[place % len(value)] ^= 1 << bit
    with pytest.raises((PoisonedValue, StaleValue)):
        CODEC.decode(bytes(value), key=b"k", generation=generation)
