"""What holds for any text."""

from hypothesis import given
from hypothesis import strategies as st
from tiermesh.cache.semantic.frames import plain_question
from tiermesh.cache.semantic.guards import refusal_of
from tiermesh.cache.semantic.question import question_of
from tiermesh.cache.semantic.records import PoisonedRecord, Record, decode, encode
from tiermesh.cache.tags import effective, invalidated

WORDS = [
    "how",
    "what",
    "can",
    "not",
    "no",
    "never",
    "5",
    "6",
    "five",
    "my",
    "your",
    "reset",
    "order",
    "cancel",
    "from",
    "to",
    "Paris",
    "today",
    "`x`",
    "怎么",
    "不",
    "订单",
    "取消",
    "五个",
    "从",
    "到",
    "吗",
]
TEXTS = st.lists(st.sampled_from(WORDS), min_size=1, max_size=8).map(" ".join) | st.text(max_size=40)


@given(TEXTS, TEXTS)
def test_refusing_is_symmetric(one, other):
    assert (refusal_of(question_of(one), question_of(other)) is None) == (
        refusal_of(question_of(other), question_of(one)) is None
    )


@given(TEXTS, st.sampled_from(["not", "never", "without"]))
def test_a_denial_more_is_never_the_same(text, denial):
    assert refusal_of(question_of(f"{text} {denial}"), question_of(text)) is not None


@given(TEXTS, st.integers(2, 10**6), st.integers(2, 10**6))
def test_another_number_is_never_the_same(text, one, other):
    asked, known = question_of(f"{text} {one}"), question_of(f"{text} {other}")
    assert one == other or refusal_of(asked, known) is not None


@given(st.binary(max_size=40), st.binary(min_size=32, max_size=32), st.text(max_size=50), st.binary(max_size=20))
def test_records_come_back_as_they_were(entry, partition, text, vector):
    text = text.encode("utf-8", "replace").decode()
    record = Record(entry, partition, text, vector, 12.5, 1234)
    assert decode(encode(record)) == record


@given(st.sampled_from([b"entry", b"partition", b"text", b"vector", b"cost", b"ends", b"sum", b"v"]), st.binary())
def test_a_changed_record_is_poisoned(field, value):
    fields = encode(Record(b"e", b"p" * 32, "text", b"v", 1.0, 5))
    if fields[field] == value:
        return
    try:
        decode({**fields, field: value})
    except PoisonedRecord:
        return
    raise AssertionError("it was taken")


@given(st.lists(st.text(max_size=5)), st.lists(st.text(max_size=5), min_size=1, max_size=5))
def test_invalidating_tags_moves_exactly_their_answers(mine, gone):
    before = b"generate"
    after = invalidated(before, gone, b"epoch--1")
    assert (effective(after, mine) == effective(before, mine)) == (not set(mine) & set(gone))


FRAMES = [
    "what", "is", "the", "best", "way", "to", "how", "can", "be", "cleaned", "it", "safe", "height", "of", "there", "any",
    "not", "never", "without", "7", "42", "cat", "dog's", "if", "i", "in", "oslo", ",", "most", "made", "by", "whom", "out",
]  # fmt: skip


@given(st.lists(st.sampled_from(FRAMES), max_size=14).map(" ".join))
def test_a_frame_never_takes_a_number_or_a_denial(text):
    def kept(words):
        return sorted(word for word in words.split() if word.strip(",?") in {"7", "42", "not", "never", "without"})

    assert kept(plain_question(text)) == kept(text)
