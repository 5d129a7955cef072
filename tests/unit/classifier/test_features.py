"""What is measured of a conversation."""

import time

from tiermesh.classifier.features import Turn, read_features
from tiermesh.shared.rules import TokenWeights

WEIGHTS = TokenWeights()


def features(*turns):
    return read_features(tuple(Turn("user", turn) if isinstance(turn, str) else turn for turn in turns), WEIGHTS)


def test_the_last_user_message_is_looked_at():
    got = features("First one?", Turn("assistant", "yes"), "Second", Turn("tool", "{}"))
    assert got.text == "second"
    assert (got.turns, got.tool_history, got.question_marks) == (2, True, 0)


def test_tokens_count_the_whole_conversation_and_its_tool_calls():
    alone = features("hello").prompt_tokens
    assert features("hello", Turn("assistant", "word " * 100), "hello").prompt_tokens > alone + 80
    called = features("hello", Turn("assistant", "", 'find {"place": "somewhere far away"}'), "hello")
    assert called.prompt_tokens > features("hello", Turn("assistant", ""), "hello").prompt_tokens


def test_structure():
    got = features("Do this:\n1. Wash\n2. Cut\n3) Cook\n- salt\n* pepper\n```py\nx\n```\n```\nunclosed\nWhy？ Really?")
    assert (got.numbered_steps, got.list_items, got.code_fences, got.question_marks) == (3, 2, 2, 2)


def test_shares_and_languages():
    got = features("价格是100元")
    assert got.languages == ("zh",)
    numbers = got.numbers()
    assert numbers["cjk_share"] == round(4 / 7, 4)
    assert numbers["digit_share"] == round(3 / 7, 4)
    assert numbers["estimated_prompt_tokens"] == got.prompt_tokens


def test_nothing_gives_zeros():
    got = features()
    assert (got.text, got.prompt_tokens, got.languages, got.turns) == ("", 0, (), 0)


def test_a_hundred_kilobytes_are_measured_whole_but_looked_at_in_part():
    got = features("中文 text 123\n" * 9_000)
    assert len(got.text) <= 3_100
    assert got.counts.han == 18_000
    assert got.prompt_tokens > 50_000


def test_a_long_message_costs_milliseconds_not_seconds():
    text = "The quick brown fox? " * 6_000
    began = time.process_time()
    features(text)
    assert time.process_time() - began < 0.2
