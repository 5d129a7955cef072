"""Labels decided by what a text is like, and texts that are like nothing."""

from dataclasses import dataclass
from pathlib import Path

import pytest
from tiermesh.shared.config import ConfigError
from tiermesh.shared.rules import match_fixed, parse_rules
from tiermesh.shared.rules.examples import UNTESTED_THRESHOLD, ExampleIndex
from tiermesh.shared.rules.lint import lint_text

PATH = Path("rules.yaml")
EXAMPLES = {
    "card-lost": ["my card is lost", "I lost my credit card", "someone stole my card", "card was stolen yesterday"],
    "balance": ["what is my balance", "how much money do I have", "show my account balance", "balance of my account"],
    "transfer": [
        "transfer money to Anna",
        "send fifty euros to my brother",
        "wire money abroad",
        "move money to savings",
    ],
}
RULES = """
labels:
  - name: banking
    asked_as: {en: [banking intent], zh: [银行意图]}
    unlisted: true
    doubts: false
    out_of_scope: {en: [what is the weather tomorrow, tell me a joke, play some music], zh: [明天天气怎么样, 讲个笑话]}
    labels:
      - name: card-lost
        called: {en: [lost card], zh: [挂失]}
        examples: {en: [my card is lost, I lost my credit card, someone stole my card], zh: [我的卡丢了, 信用卡被偷了, 银行卡不见了]}
      - name: balance
        called: {en: [balance], zh: [余额]}
        examples: {en: [what is my balance, how much money do I have, show my account balance], zh: [我的余额是多少, 账户里还有多少钱, 查一下余额]}
      - name: transfer
        called: {en: [transfer], zh: [转账]}
        keywords: {en: [wire transfer]}
        examples: {en: [transfer money to Anna, send fifty euros to my brother, move money to savings], zh: [给妈妈转五百块, 我要转账, 把钱转到储蓄账户]}
"""


@dataclass(frozen=True)
class Message:
    role: str
    content: str


@pytest.fixture(scope="module")
def book():
    return parse_rules(RULES, PATH)


@pytest.mark.parametrize(
    ("prompt", "label"),
    [
        ("What is the banking intent of: 'I think my card was stolen'?", "lost card"),
        ("Classify the banking intent: how much money is in my account", "balance"),
        ("Classify as lost card, balance or transfer: please send money to my sister", "transfer"),
        ("Banking intent: I need a wire transfer", "transfer"),
        ("请判断银行意图：我的信用卡丢了", "挂失"),
        ("银行意图是什么？查一下我的余额", "余额"),
    ],
)
def test_a_text_gets_the_label_whose_examples_it_is_like(book, prompt, label):
    answer = match_fixed(book, [Message("user", prompt)])
    assert (answer and answer.text) == label
    assert answer.rule == "label:banking"


@pytest.mark.parametrize(
    "prompt",
    [
        # Like what is out of scope, or like nothing.
        "What is the banking intent of: 'what is the weather like today'?",
        "Classify the banking intent: quantum chromodynamics",
        # Most like a label that was not offered.
        "Classify as balance or transfer: my card is lost",
        # As like one label as another.
        "Classify the banking intent: my card and my balance",
        # More is asked for than a label.
        "What is the banking intent of 'my card is lost', and why?",
        "my card is lost",
    ],
)
def test_what_is_not_clearly_like_one_label_is_left_to_a_model(book, prompt):
    assert match_fixed(book, [Message("user", prompt)]) is None


def test_likeness_of_an_example_is_high_and_of_another_language_nothing():
    index = ExampleIndex(EXAMPLES)
    own = index.nearest("My card is LOST!")
    assert (own.label, own.likeness > 0.5, own.lead > 0.3) == ("card-lost", True, True)
    assert index.nearest("今天天气怎么样").likeness == 0.0
    assert index.nearest("").likeness == 0.0


def test_the_threshold_is_what_nine_of_ten_examples_reach_among_the_others():
    index = ExampleIndex(EXAMPLES)
    assert 0 < index.threshold < UNTESTED_THRESHOLD
    reached = 0
    for label, texts in EXAMPLES.items():
        for n, text in enumerate(texts):
            others = {**EXAMPLES, label: [t for m, t in enumerate(texts) if m != n]}
            reached += ExampleIndex(others).nearest(text, among=[label]).likeness >= index.threshold * 0.8
    assert reached >= 9
    assert ExampleIndex({"a": ["one"], "b": ["two"]}).threshold == UNTESTED_THRESHOLD


def test_more_examples_make_more_texts_recognised():
    few = ExampleIndex({label: texts[:1] for label, texts in EXAMPLES.items()})
    many = ExampleIndex(EXAMPLES)
    unseen = "a thief stole the credit card that I lost"
    assert many.nearest(unseen).label == "card-lost"
    assert many.nearest(unseen).likeness > few.nearest(unseen).likeness


def test_only_labels_that_count_are_compared():
    index = ExampleIndex(EXAMPLES, out_of_scope=["tell me a joke"])
    assert index.nearest("my card is lost", among=["balance", "transfer"]).label != "card-lost"
    assert index.nearest("tell me a joke", among=["balance"]).label is None


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("keywords: {en: [wire transfer]}\n        examples: {en: [transfer money to Anna, send fifty euros to my brother, move money to savings], zh: [给妈妈转五百块, 我要转账, 把钱转到储蓄账户]}", "keywords: {}"), "neither keywords nor examples"),
        (("transfer money to Anna", "My card is lost!"), "examples: words of label set 'banking' must be unique"),
        (("unlisted: true", "likeness: 2"), "likeness"),
    ],
)  # fmt: skip
def test_mistakes_are_refused(change, said):
    with pytest.raises(ConfigError, match=said):
        parse_rules(RULES.replace(*change), PATH)


def test_the_linter_finds_an_example_that_is_like_another_labels():
    assert lint_text(RULES, PATH) == []
    wrong = RULES.replace("move money to savings", "show the balance of my account balance")
    (finding,) = (f for f in lint_text(wrong, PATH) if f.kind == "misleading-example")
    assert "most like the examples of balance" in finding.message
