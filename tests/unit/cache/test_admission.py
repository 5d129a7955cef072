"""Only complete answers are kept, and a refusal names the field."""

import pytest
from google.protobuf.duration_pb2 import Duration
from harness.answers import make_answer, make_key
from tiermesh.api.cache.v1 import cache_pb2
from tiermesh.api.common.v1 import answer_pb2
from tiermesh.cache.admission import check_answer, check_key, check_ttl
from tiermesh.shared.errors import InvalidRequest

STOP = answer_pb2.ChoiceFinish(finish_reason=answer_pb2.FINISH_REASON_STOP)


def field_of(check, *args):
    with pytest.raises(InvalidRequest) as caught:
        check(*args)
    assert caught.value.field in caught.value.message
    return caught.value.field


def test_complete_answers_are_kept():
    check_answer(make_answer("Hello", "", " world"))
    two = [answer_pb2.ChoiceFinish(choice_index=n, finish_reason=answer_pb2.FINISH_REASON_STOP) for n in (1, 0)]
    deltas = [answer_pb2.Delta(choice_index=n, text="x") for n in (0, 1)]
    check_answer(make_answer(deltas=deltas, finishes=two))


@pytest.mark.parametrize(
    ("answer", "field"),
    [
        (cache_pb2.CachedAnswer(), "answer.finishes"),
        (make_answer("x", finishes=[]), "answer.finishes"),
        (make_answer(), "answer.deltas"),
        (make_answer("", ""), "answer.deltas"),
        (
            make_answer("x", finishes=[answer_pb2.ChoiceFinish(finish_reason=answer_pb2.FINISH_REASON_LENGTH)]),
            "answer.finishes[0].finish_reason",
        ),
        (
            make_answer("x", finishes=[STOP, answer_pb2.ChoiceFinish(choice_index=1)]),
            "answer.finishes[1].finish_reason",
        ),
        (make_answer("x", finishes=[STOP, STOP]), "answer.finishes[1].choice_index"),
        (make_answer(deltas=[answer_pb2.Delta(choice_index=3, text="x")]), "answer.deltas[0].choice_index"),
    ],
    ids=["unset", "unfinished", "no deltas", "no text", "cut off", "one choice unfinished", "twice", "unknown choice"],
)
def test_the_field_at_fault_is_named(answer, field):
    assert field_of(check_answer, answer) == field


def test_a_finish_reason_of_the_future_is_refused():
    finish = answer_pb2.ChoiceFinish.FromString(b"\x10\x63")
    assert field_of(check_answer, make_answer("x", finishes=[finish])) == "answer.finishes[0].finish_reason"


def test_keys():
    check_key(make_key())
    assert field_of(check_key, make_key(tenant="")) == "key.tenant"
    assert field_of(check_key, cache_pb2.CacheKey(tenant="a")) == "key.fingerprint"
    assert field_of(check_key, cache_pb2.CacheKey(tenant="a", fingerprint=bytes(31))) == "key.fingerprint"
    assert field_of(check_key, cache_pb2.CacheKey(tenant="a", fingerprint=bytes(33))) == "key.fingerprint"


def test_times_to_live():
    assert check_ttl(Duration(seconds=2, nanos=500_000_000)) == 2.5
    for bad in (Duration(), Duration(seconds=-1), Duration(nanos=1), Duration(seconds=10**9)):
        assert field_of(check_ttl, bad) == "ttl"
