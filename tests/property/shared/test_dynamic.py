"""Dynamic fields: moved, never lost; out of the key only where the answer does not depend on them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiermesh.api.common.v1 import chat_pb2
from tiermesh.shared.canonical import fingerprint
from tiermesh.shared.config import DynamicField
from tiermesh.shared.dynamic import DELIMITER, engine_messages, key_messages, split

SESSION = DynamicField(name="session", labels=("session id", "会话编号"), answer_depends=False)
TIME = DynamicField(name="time", pattern=r"\[\d{4}-\d{2}-\d{2}T[\d:]+Z\]\n?")
FIELDS = (SESSION, TIME)

value = st.text(st.characters(categories=["L", "N"]), min_size=1, max_size=12)
line = st.text(st.characters(categories=["L", "N", "P", "Zs"], exclude_characters=":：=[]"), max_size=30)
snippet = st.lists(line, min_size=1, max_size=5).map("\n".join).filter(str.strip)
session_line = st.tuples(st.sampled_from(["Session ID: ", "session_id=", "会话编号：", "SESSION-ID : "]), value).map(
    "".join
)
stamp = st.integers(0, 59).map(lambda minute: f"[2026-11-29T10:{minute:02}Z]\n")


def message(text):
    return chat_pb2.Message(role=chat_pb2.ROLE_USER, content=text)


def key(text, fields=FIELDS):
    return fingerprint(key_messages([message(text)], fields), chat_pb2.Sampling(), scope={"tenant": "a"})


@given(snippet, session_line, session_line, stamp, stamp)
def test_the_shared_part_comes_first_whatever_the_dynamic_part_is(text, one, other, early, late):
    first = split(f"{one}\n{early}{text}", FIELDS).for_engine()
    second = split(f"{other}\n{late}{text}", FIELDS).for_engine()
    shared = text.strip("\n") + DELIMITER
    assert first.startswith(shared)
    assert second.startswith(shared)


@given(snippet, session_line, stamp)
def test_an_engine_reads_every_word(text, session, time):
    whole = f"{session}\n{time}{text}"
    read = split(whole, FIELDS).for_engine()
    for word in whole.split():
        assert word in read


@given(snippet)
def test_what_has_no_dynamic_part_is_left_alone(text):
    conversation = [message(text)]
    assert engine_messages(conversation, FIELDS)[0] is conversation[0]
    assert key_messages(conversation, FIELDS)[0] is conversation[0]


@given(snippet, session_line, session_line)
def test_a_session_is_not_in_the_key(text, one, other):
    assert key(f"{one}\n{text}") == key(f"{other}\n{text}")
    assert key(f"{one}\n{text}", fields=()) != key(f"{other} x\n{text}", fields=())


@given(snippet, st.lists(stamp, min_size=2, max_size=2, unique=True))
def test_what_the_answer_may_depend_on_stays_in_the_key(text, stamps):
    one, other = stamps
    assert key(one + text) != key(other + text)
    assert key(one + text) != key(text)


@given(st.lists(snippet, min_size=2, max_size=2, unique_by=str.strip), session_line)
def test_different_questions_stay_different(texts, session):
    one, other = (split(f"{session}\n{text}", FIELDS).stable for text in texts)
    if one.rstrip() != other.rstrip():
        assert key(f"{session}\n{texts[0]}") != key(f"{session}\n{texts[1]}")


def test_chinese_and_english_labels_in_the_middle_of_a_prompt():
    text = "知识：退货期为七天。\n会话编号：88231\n问题：我可以退货吗？"
    assert split(text, FIELDS).for_engine() == f"知识：退货期为七天。\n问题：我可以退货吗？{DELIMITER}会话编号：88231"
    assert split("We met in session id land.", FIELDS).moved == ()


def test_code_keeps_its_blank_lines():
    text = "session id: 1\ndef a():\n    pass\n\n\n\ndef b():\n    pass"
    assert split(text, FIELDS).stable == "def a():\n    pass\n\n\n\ndef b():\n    pass"


@pytest.mark.parametrize(
    "fields",
    [{}, {"labels": ["a"], "pattern": "b"}, {"pattern": "("}, {"pattern": "x*"}, {"labels": [" "]}],
)
def test_a_field_that_cannot_work_is_refused(fields):
    with pytest.raises(ValueError, match=r"labels|pattern|at least 1"):
        DynamicField(name="x", **fields)
