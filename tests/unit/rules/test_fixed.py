"""Fixed answers: given exactly, or not at all."""

from dataclasses import dataclass
from pathlib import Path

import pytest
from tiermesh.shared.rules import load_rules, match_fixed, parse_rules

PROFILE = Path(__file__).parents[3] / "mesh" / "profiles" / "rules.yaml"


@dataclass(frozen=True)
class Message:
    role: str
    content: str


@pytest.fixture(scope="module")
def book():
    return load_rules(PROFILE)


def fixed(book, *messages):
    return match_fixed(book, [Message("user", m) if isinstance(m, str) else m for m in messages])


@pytest.mark.parametrize(
    ("text", "rule", "language"),
    [
        ("hello", "greeting:hello-en", "en"),
        ("  HELLO!!! ", "greeting:hello-en", "en"),
        ("ｈｅｌｌｏ", "greeting:hello-en", "en"),
        ("Hi there 👋", "greeting:hello-en", "en"),
        ("你好", "greeting:hello-zh", "zh"),
        ("你好！😊", "greeting:hello-zh", "zh"),
        ("您好。", "greeting:hello-zh", "zh"),
        ("在嗎？", "greeting:hello-zh-hant", "zh-Hant"),
        ("謝謝！", "greeting:thanks-zh-hant", "zh-Hant"),
        ("Thank you so much!", "greeting:thanks-en", "en"),
        ("再见～", "greeting:goodbye-zh", "zh"),
        ("How do I reset my password?", "faq:reset-password", "en"),
        ("how do i change my password", "faq:change-password", "en"),
        ("Hello, could you please tell me: how do I reset my password? Thanks!", "faq:reset-password", "en"),
        ("怎么重置密码？", "faq:reset-password", "zh"),
        ("你好，请问怎么重置密码？谢谢！", "faq:reset-password", "zh"),
        ("如何获取 API 密钥？", "faq:get-api-key", "zh"),
        ("忘記密碼怎麼辦？", "faq:reset-password", "zh-Hant"),
        ("Who are you?", "faq:who-are-you", "en"),
    ],
)
def test_listed_phrases(book, text, rule, language):
    answer = fixed(book, text)
    assert answer is not None
    assert (answer.rule, answer.language) == (rule, language)
    assert answer.text


@pytest.mark.parametrize(
    "text",
    [
        "How do I reset my phone?",
        "How do I not reset my password?",
        "How do I reset my password and my username?",
        "How do I reset my passwords?",
        "How did I reset my password?",
        "怎么重置手机？",
        "怎么重置密码和用户名？",
        "你好，帮我写一段代码",
        "你好吗，最近在忙什么",
        "Hello world program in C",
        "hello, my order is late",
        "Say hello in French",
        "thanks to you I lost my data",
        "谢谢你推荐的书叫什么",
        "hi5",
        "helloo",
        "请问",
        "please",
        "",
        "?!",
        "👋",
        "hello " * 100,
    ],
)
def test_anything_else_has_none(book, text):
    assert fixed(book, text) is None


SYSTEM = Message("system", "Answer only in French.")


def test_a_system_prompt_withholds_them(book):
    assert fixed(book, SYSTEM, "hello") is None
    assert fixed(book, SYSTEM, "How do I reset my password?") is None
    assert fixed(book, SYSTEM, "Classify as positive or negative: I love it") is None
    assert fixed(book, Message("system", "  \n"), "hello") is not None


def test_earlier_turns_withhold_all_but_thanks_and_goodbyes(book):
    earlier = ("My account is locked.", Message("assistant", "Which one?"))
    assert fixed(book, *earlier, "How do I reset my password?") is None
    assert fixed(book, *earlier, "hello") is None
    assert fixed(book, *earlier, "Thanks!").rule == "greeting:thanks-en"
    assert fixed(book, *earlier, "再见").rule == "greeting:goodbye-zh"
    assert fixed(book, *earlier, Message("tool", "{}"), "Thanks!") is None


def test_only_a_user_is_answered(book):
    assert match_fixed(book, []) is None
    assert fixed(book, Message("assistant", "hello")) is None
    assert fixed(book, "hello", Message("assistant", "hello")) is None
    assert fixed(book, Message("system", "hello")) is None


POLICY = """
fixed_answers: {with_system_prompt: %s}
greetings:
  - {name: g, language: en, phrases: [hello], answer: Hi!}
faq:
  - {name: f, questions: {en: [where]}, answers: {en: There.}, with_system_prompt: %s, in_conversation: true}
"""


@pytest.mark.parametrize(("whole", "own"), [("true", "false"), ("false", "true")])
def test_the_file_says_whether_a_system_prompt_matters_and_entries_may_differ(whole, own):
    book = parse_rules(POLICY % (whole, own), Path("rules.yaml"))
    assert (fixed(book, SYSTEM, "hello") is not None) == (whole == "true")
    assert (fixed(book, SYSTEM, "where?") is not None) == (own == "true")
    assert fixed(book, "a", Message("assistant", "b"), "where") is not None
