"""Chinese questions as vectors."""

import struct

import pytest
from tiermesh.cache.semantic.lexical import DIMENSIONS, vector_of
from tiermesh.cache.semantic.question import question_of


def likeness(one, other):
    a, b = (struct.unpack(f"{DIMENSIONS}e", vector_of(question_of(text))) for text in (one, other))
    return sum(x * y for x, y in zip(a, b, strict=True))


@pytest.mark.parametrize(
    ("one", "other"),
    [("怎么取消订单", "请问如何取消订单？"), ("天空为什么是蓝色的", "为什么天空是蓝色的？"), ("密码忘了", "忘记密码")],
)
def test_the_same_content_in_other_frames_is_alike(one, other):
    assert likeness(one, other) > 0.9


def test_what_shares_nothing_is_apart_and_what_shares_half_is_between():
    assert abs(likeness("怎么取消订单", "长城有多长")) < 0.3
    assert 0.3 < likeness("怎么取消订单", "怎么修改订单") < 0.9


def test_a_vector_is_normalised_and_the_same_in_every_process():
    vector = struct.unpack(f"{DIMENSIONS}e", vector_of(question_of("怎么取消订单")))
    assert sum(value * value for value in vector) == pytest.approx(1, abs=0.01)
    # Nothing of it may depend on Python's own seeded hash: replicas compare their vectors.
    assert [place for place, value in enumerate(vector) if value][:3] == [49, 154, 159]


def test_without_content_there_is_none():
    assert vector_of(question_of("怎么办？")) == b""
