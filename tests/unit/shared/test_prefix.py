"""Which prompts go to one replica."""

from tiermesh.api.common.v1 import chat_pb2
from tiermesh.shared.config import DynamicField
from tiermesh.shared.dynamic import engine_messages
from tiermesh.shared.prefix import PREFIX_CHARS, shared_prefix

SYSTEM, USER, ASSISTANT = chat_pb2.ROLE_SYSTEM, chat_pb2.ROLE_USER, chat_pb2.ROLE_ASSISTANT


def talk(*turns):
    return [chat_pb2.Message(role=role, content=content) for role, content in turns]


FIRST = talk((SYSTEM, "You are kind."), (USER, "什么是河流？"))


def test_every_turn_of_a_conversation_goes_where_the_first_went():
    second = [*FIRST, *talk((ASSISTANT, "水。"), (USER, "And a lake?"))]
    third = [*second, *talk((ASSISTANT, "More water."), (USER, "And a sea?"))]
    assert shared_prefix(FIRST) == shared_prefix(second) == shared_prefix(third)


def test_conversations_that_begin_otherwise_need_not():
    others = [
        talk((SYSTEM, "You are kind."), (USER, "什么是湖？")),
        talk((SYSTEM, "You are curt."), (USER, "什么是河流？")),
        talk((USER, "You are kind."), (USER, "什么是河流？")),
        talk((SYSTEM, "You are kind.什么是河流？")),
        talk((USER, "什么是河流？")),
    ]
    assert len({shared_prefix(messages) for messages in [FIRST, *others]}) == 6


def test_questions_about_one_long_text_go_together():
    text = "长江是亚洲最长的河流。" * 200
    assert len(text) > PREFIX_CHARS
    assert shared_prefix(talk((USER, text + "Where?"))) == shared_prefix(talk((USER, text + "How long?")))


def test_what_varies_with_every_request_does_not_count():
    field = DynamicField(name="session", labels=("session id",))
    one, two = (engine_messages(talk((USER, f"Session ID: {n}\nWhat is a river?")), (field,)) for n in (4711, 4712))
    assert shared_prefix(one) == shared_prefix(two) == shared_prefix(talk((USER, "What is a river?")))


def test_the_same_text_in_other_bytes_is_the_same():
    assert shared_prefix(talk((USER, "Cafe\u0301\r\n"))) == shared_prefix(talk((USER, "Caf\u00e9\n")))


def test_nothing_of_the_text_can_be_read_from_it():
    assert len(shared_prefix(FIRST)) == 16
    assert set(shared_prefix(FIRST)) <= set("0123456789abcdef")
