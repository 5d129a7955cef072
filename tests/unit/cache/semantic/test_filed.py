"""What a question is filed under goes through the log with it, and is believed only from the same rules."""

import pytest
from harness.semantic import FakeNeighbours
from tiermesh.cache.semantic.index import QuestionIndex, file
from tiermesh.cache.semantic.question import question_of
from tiermesh.cache.semantic.records import Record, decode, encode
from tiermesh.cache.semantic.rules_version import rules_version
from tiermesh.shared.testing import FakeClock

P = b"p" * 32
EMBEDDING = b"\x00\x3c" + b"\x00\x00" * 383


def told(text, embedding):
    return encode(Record(b"t:entry", P, text, embedding, 1.0, 1 << 60, file(text, embedding)))


@pytest.mark.parametrize(("text", "embedding"), [("How do I pay?", EMBEDDING), ("怎么付款？", b"")], ids=["en", "zh"])
def test_it_comes_back_as_the_same_rules_would_make_it(text, embedding):
    filed = decode(told(text, embedding)).filed
    assert filed == file(text, embedding)
    assert filed.signature == question_of(text).signature
    assert filed.vector


@pytest.mark.parametrize("field", [b"rules", b"language", b"signature", b"made", b"filed"])
def test_that_of_other_rules_or_damaged_is_made_anew_and_the_question_is_known_all_the_same(field):
    fields = told("怎么付款？", b"")
    fields[field] = fields[field][:-1] + bytes([fields[field][-1] ^ 1])
    record = decode(fields)
    assert record.filed is None
    index = QuestionIndex(FakeNeighbours, max_entries=9, clock=FakeClock())
    index.add(record)
    assert index.best(P, question_of("请问怎么付款"), b"").same_wording


def test_an_earlier_release_tells_less_and_reads_what_this_one_tells():
    fields = told("How do I pay?", EMBEDDING)
    earlier = {
        name: fields[name] for name in (b"v", b"entry", b"partition", b"text", b"vector", b"cost", b"ends", b"sum")
    }
    assert decode(earlier) == Record(b"t:entry", P, "How do I pay?", EMBEDDING, 1.0, 1 << 60)
    assert fields[b"v"] == b"1"


def test_the_rules_have_a_version_that_stays():
    assert rules_version() == rules_version()
    assert len(rules_version()) == 16
