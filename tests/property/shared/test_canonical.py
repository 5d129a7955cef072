"""Same meaning, same bytes; another meaning, other bytes."""

import json
import unicodedata

from hypothesis import assume, given
from hypothesis import strategies as st
from tiermesh.api.common.v1 import chat_pb2
from tiermesh.shared.canonical import (
    canonical_bytes,
    canonical_json,
    canonical_json_text,
    canonical_messages,
    canonical_text,
    fingerprint,
)

SCOPE = {"tenant": "a", "model": "auto", "version": "1"}
text = st.text(st.characters(exclude_categories=["Cs"]), max_size=30) | st.sampled_from(
    ["你好", "Cafe\u0301", "line\r\nline", "가", "한글", "ﬁ", "İ", "e\u0323\u0301"]
)
json_leaf = (
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | text | st.floats(allow_nan=False, allow_infinity=False)
)
json_value = st.recursive(json_leaf, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3), max_leaves=8)  # fmt: skip
json_object = st.dictionaries(text, json_value, max_size=4)
role = st.sampled_from([chat_pb2.ROLE_SYSTEM, chat_pb2.ROLE_USER, chat_pb2.ROLE_ASSISTANT, chat_pb2.ROLE_TOOL])
call = st.builds(chat_pb2.ToolCall, id=text, name=text, arguments_json=json_object.map(json.dumps) | text)
message = st.builds(
    chat_pb2.Message, role=role, content=text, name=text, tool_calls=st.lists(call, max_size=2), tool_call_id=text
)
messages = st.lists(message, max_size=4)
small = st.floats(0, 2)


@st.composite
def samplings(draw):
    sampling = chat_pb2.Sampling(stop=draw(st.lists(text.filter(bool), max_size=4)))
    for name in ("temperature", "top_p", "presence_penalty", "frequency_penalty"):
        value = draw(st.none() | small)
        if value is not None:
            setattr(sampling, name, value)
    for name, high in (("max_tokens", 1000), ("seed", 2**63 - 1), ("choice_count", 8)):
        value = draw(st.none() | st.integers(1, high))
        if value is not None:
            setattr(sampling, name, value)
    sampling.logprobs = draw(st.booleans())
    if sampling.logprobs:
        sampling.top_logprob_count = draw(st.integers(0, 20))
    return sampling


def canon(conversation, sampling=None, scope=SCOPE):
    return canonical_bytes(conversation, sampling or chat_pb2.Sampling(), scope=scope)


def user(content):
    return [chat_pb2.Message(role=chat_pb2.ROLE_USER, content=content)]


def assistant(arguments):
    call = chat_pb2.ToolCall(id="1", name="f", arguments_json=arguments)
    return [chat_pb2.Message(role=chat_pb2.ROLE_ASSISTANT, tool_calls=[call])]


@given(messages, samplings())
def test_the_bytes_survive_the_wire(conversation, sampling):
    again = [chat_pb2.Message.FromString(m.SerializeToString()) for m in conversation]
    assert canon(again, chat_pb2.Sampling.FromString(sampling.SerializeToString())) == canon(conversation, sampling)
    assert len(fingerprint(conversation, sampling, scope=SCOPE)) == 32


@given(text)
def test_composition_and_line_endings_do_not_matter(content):
    same = {
        canon(user(form))
        for form in (
            content,
            unicodedata.normalize("NFC", content),
            unicodedata.normalize("NFD", content),
            content.replace("\r\n", "\n").replace("\r", "\n"),
            content.replace("\r\n", "\n").replace("\r", "\n").replace("\n", "\r\n"),
        )
    }
    assert len(same) == 1


@given(text, st.text(" \t\n\r\u3000", max_size=5))
def test_white_space_at_the_very_end_does_not_matter(content, space):
    assert canon(user(content + space)) == canon(user(content))


@given(text)
def test_canonical_text_is_stable(content):
    assert canonical_text(canonical_text(content)) == canonical_text(content)


@given(text, text)
def test_different_texts_have_different_bytes(one, other):
    def meaning(content):
        return canonical_text(content).rstrip(" \t\n\u3000")

    assert (canon(user(one)) == canon(user(other))) == (meaning(one) == meaning(other))


def test_space_inside_and_before_does_matter():
    forms = ["a b", "a  b", " a b", "a\nb", "a\n\nb", "a \nb", "a\u00a0b", "A b", "a b。", "ａ b"]
    assert len({canon(user(form)) for form in forms}) == len(forms)


@given(json_object, st.randoms(use_true_random=False), st.sampled_from([None, 1, "\t"]), st.booleans())
def test_the_writing_of_tool_arguments_does_not_matter(value, random, indent, ascii_only):
    def shuffled(item):
        if isinstance(item, dict):
            pairs = [(key, shuffled(inner)) for key, inner in item.items()]
            random.shuffle(pairs)
            return dict(pairs)
        return [shuffled(inner) for inner in item] if isinstance(item, list) else item

    one = json.dumps(value)
    other = json.dumps(shuffled(value), indent=indent, ensure_ascii=ascii_only)
    normal = {unicodedata.normalize("NFC", key) for key in value}
    assume(len(normal) == len(value))
    if canonical_json(one)[0] == "json":
        assert canon(assistant(one)) == canon(assistant(other))


def typed(value):
    """JSON values that Python takes for equal are told apart: 1, 1.0 and true."""
    if isinstance(value, dict):
        return ("o", tuple(sorted((canonical_text(k), typed(v)) for k, v in value.items())))
    if isinstance(value, list):
        return ("a", tuple(typed(v) for v in value))
    return (type(value).__name__, canonical_text(value) if isinstance(value, str) else repr(value))


@given(json_value, json_value)
def test_different_tool_arguments_have_different_bytes(one, other):
    if typed(one) != typed(other):
        assert canon(assistant(json.dumps(one))) != canon(assistant(json.dumps(other)))


def test_tool_arguments_that_only_look_alike():
    forms = [
        "", "{", "null", '"null"', "1", "1.0", '"1"', '"1.0"', '"n1.0"', "true", "[]", "{}", '{"o":[]}', '[["a",1]]',
        '{"a":1}', '{"a":1,"a":2}', '{"a":2,"a":1}', '{"a":NaN}', "1e400", "2e400", "[" * 100_000, '{"a":"1"}',
        str(10**30), "[1]", '["s"]', '["ss"]', '"s"',
    ]  # fmt: skip
    assert len({canon(assistant(form)) for form in forms}) == len(forms)


@given(messages, samplings(), samplings())
def test_every_sampling_value_counts(conversation, one, other):
    def meaning(sampling):
        copy = chat_pb2.Sampling.FromString(sampling.SerializeToString())
        stops = sorted(set(copy.stop))
        del copy.stop[:]
        copy.stop.extend(stops)
        if copy.choice_count == 1:
            copy.ClearField("choice_count")
        return copy

    assert (canon(conversation, one) == canon(conversation, other)) == (meaning(one) == meaning(other))


def test_unset_is_not_the_default_written_out_except_for_one_choice():
    unset = chat_pb2.Sampling()
    for field, value in (("temperature", 1.0), ("top_p", 1.0), ("seed", 0), ("presence_penalty", 0.0)):
        assert canon(user("x"), chat_pb2.Sampling(**{field: value})) != canon(user("x"), unset)
    assert canon(user("x"), chat_pb2.Sampling(choice_count=1)) == canon(user("x"), unset)
    assert canon(user("x"), chat_pb2.Sampling(temperature=-0.0)) == canon(user("x"), chat_pb2.Sampling(temperature=0.0))


def test_every_field_of_the_contract_changes_the_bytes():
    """A field added to the contract must be added to the canonical request, or excluded here on purpose."""
    samples = {
        "temperature": 0.5, "top_p": 0.5, "max_tokens": 3, "stop": ["x"], "seed": 1, "choice_count": 2, "logprobs": True,
        "presence_penalty": 0.5, "frequency_penalty": 0.5,
    }  # fmt: skip
    names = {field.name for field in chat_pb2.Sampling.DESCRIPTOR.fields}
    assert names == {*samples, "top_logprob_count"}
    plain = canon(user("x"))
    found = {canon(user("x"), chat_pb2.Sampling(**{name: value})) for name, value in samples.items()}
    assert len(found | {plain}) == len(samples) + 1
    with_top = chat_pb2.Sampling(logprobs=True, top_logprob_count=2)
    assert canon(user("x"), with_top) != canon(user("x"), chat_pb2.Sampling(logprobs=True))
    parts = {
        "role": chat_pb2.ROLE_SYSTEM, "content": "y", "name": "n", "tool_call_id": "i",
        "tool_calls": [chat_pb2.ToolCall(id="1")],
    }  # fmt: skip
    assert {field.name for field in chat_pb2.Message.DESCRIPTOR.fields} == set(parts)
    for name, value in parts.items():
        changed = user("x")[0]
        changed.MergeFrom(chat_pb2.Message(**{name: value}))
        assert canon([changed]) != plain
    assert {field.name for field in chat_pb2.ToolCall.DESCRIPTOR.fields} == {"id", "name", "arguments_json"}


@given(messages, messages)
def test_messages_and_their_order_count(one, other):
    assume([m.SerializeToString() for m in one] != [m.SerializeToString() for m in other])
    if len(one) != len(other):
        assert canon(one) != canon(other)
    doubled = [*one, *other]
    if [m.role for m in doubled] != [m.role for m in reversed(doubled)]:
        assert canon(doubled) != canon(list(reversed(doubled)))


def test_no_text_can_stand_for_structure():
    two = user("a") + user("b")
    forms = [two, user("ab"), user('a"],[2,"b'), user("a\nb"), [*user("a"), *user("")], user("a")]
    assert len({canon(form) for form in forms}) == len(forms)


@given(st.dictionaries(text, text, max_size=3), st.dictionaries(text, text, max_size=3))
def test_the_scope_counts_and_its_order_does_not(one, other):
    assert (canon(user("x"), scope=one) == canon(user("x"), scope=other)) == (one == other)
    assert canon(user("x"), scope=dict(reversed(one.items()))) == canon(user("x"), scope=one)


def _reordered(value):
    if isinstance(value, dict):
        return {key: _reordered(value[key]) for key in reversed(list(value))}
    return [_reordered(item) for item in value] if isinstance(value, list) else value


@st.composite
def told_otherwise(draw):
    """A conversation and the same in other bytes."""
    conversation = draw(messages)
    again = []
    for told in conversation:
        other = chat_pb2.Message()
        other.CopyFrom(told)
        other.content = unicodedata.normalize("NFD", told.content).replace("\n", "\r\n")
        if told.content.strip():
            other.content += draw(st.sampled_from(["", " ", "\n", "\t \n\u3000"]))
        other.name = unicodedata.normalize("NFD", told.name)
        for call in other.tool_calls:
            try:
                value = json.loads(call.arguments_json)
            except ValueError:
                continue
            call.arguments_json = json.dumps(_reordered(value), indent=draw(st.sampled_from([None, 2])))
        again.append(other)
    return conversation, again


@given(told_otherwise())
def test_engines_read_the_same_bytes_wherever_the_key_is_the_same(pair):
    conversation, again = pair
    assume(canon(conversation) == canon(again))
    one, two = canonical_messages(conversation), canonical_messages(again)
    assert [m.SerializeToString(deterministic=True) for m in one] == [
        m.SerializeToString(deterministic=True) for m in two
    ]


@given(messages)
def test_what_engines_read_has_the_key_of_what_was_asked(conversation):
    read = canonical_messages(conversation)
    assert canon(read) == canon(conversation)
    assert [id(m) for m in canonical_messages(read)] == [id(m) for m in read], "twice is once"


@given(json_object)
def test_json_for_engines_says_the_same(value):
    written = json.dumps(value)
    assert canonical_json(canonical_json_text(written)) == canonical_json(written)


def test_json_for_engines_keeps_numbers_as_they_were_written():
    assert canonical_json_text('{ "b": 1.50, "a": [1e5, -0, "\\u00e9", "\\ud800"] }') == (
        '{"a":[1e5,0,"\u00e9","\\ud800"],"b":1.50}'
    )
    assert canonical_json_text("{not json") == "{not json"


def test_half_a_surrogate_pair_in_arguments_has_a_key():
    assert canon(assistant('{"a": "\\ud800"}')) != canon(assistant('{"a": "\\ud801"}'))
