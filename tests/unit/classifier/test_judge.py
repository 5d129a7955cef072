"""How rules are weighed against each other."""

from dataclasses import replace
from pathlib import Path

import pytest
from tiermesh.classifier.features import Turn, read_features
from tiermesh.classifier.judge import judge, sure, with_answer
from tiermesh.classifier.prediction import Prediction, Unanswered
from tiermesh.shared.rules import parse_rules


def judged(rules, *turns, tenant=""):
    book = parse_rules(rules, Path("rules.yaml"))
    turns = tuple(Turn("user", turn) if isinstance(turn, str) else turn for turn in turns)
    return judge(book, turns, read_features(turns, book.token_weights), tenant=tenant)


PRIORITIES = """
rules:
  - {name: weak, any: ['apple'], task_type: qa, complexity: 0.2, priority: 10}
  - {name: strong, any: ['apple'], task_type: extract, complexity: 0.4, priority: 90}
  - {name: harder, any: ['pear'], complexity: 0.8}
"""


def test_the_highest_priority_names_the_task_type_and_all_are_reported():
    judgement = judged(PRIORITIES, "an apple")
    assert (judgement.task_type, judgement.complexity) == ("extract", 0.4)
    assert judgement.rules == ("strong", "weak")
    assert judgement.source == "rules"


def test_a_rule_without_task_type_only_raises_the_complexity():
    judgement = judged(PRIORITIES, "an apple and a pear")
    assert (judgement.task_type, judgement.complexity) == ("extract", 0.8)
    assert set(judgement.rules) == {"strong", "weak", "harder"}
    alone = judged(PRIORITIES, "a pear")
    assert (alone.task_type, alone.complexity, alone.source) == ("chat", 0.8, "default")


def test_disagreement_nearby_lowers_confidence_and_agreement_raises_it():
    rule = "  - {{name: {0}, any: ['apple'], task_type: {1}, complexity: 0.2, confidence: 0.8, priority: {2}}}\n"
    alone = judged("rules:\n" + rule.format("a", "qa", 50), "apple")
    disagreed = judged("rules:\n" + rule.format("a", "qa", 50) + rule.format("b", "chat", 45), "apple")
    agreed = judged("rules:\n" + rule.format("a", "qa", 50) + rule.format("b", "qa", 45), "apple")
    far = judged("rules:\n" + rule.format("a", "qa", 50) + rule.format("b", "chat", 1), "apple")
    assert disagreed.confidence < alone.confidence < agreed.confidence
    assert far.confidence == alone.confidence


@pytest.mark.parametrize(
    ("condition", "yes", "no"),
    [
        ("any: ['apple', 'pear']", "one PEAR", "one plum"),
        ("all: ['apple', 'pear']", "apple, pear", "apple"),
        ("{any: ['apple'], none: ['pie']}", "apple", "apple pie"),
        ("min_tokens: 50", "word " * 100, "word"),
        ("max_tokens: 50", "word", "word " * 100),
        ("languages: [zh]", "今天天气很好", "nice weather today"),
        ("languages: [de]", "Wie ist das Wetter?", "How is the weather?"),
        ("structure: {min_code_fences: 1}", "```\nx\n```", "x"),
        ("structure: {min_numbered_steps: 2}", "1. eins\n2. zwei", "1. eins"),
        ("structure: {min_numbered_steps: 2}", "第一步准备，第二步开始", "第一步准备"),
        ("structure: {min_list_items: 2}", "- a\n- b", "- a"),
        ("structure: {min_question_marks: 2}", "什么？为什么？", "什么？"),
        ("any: ['\\A苹果']", "苹果", "一个苹果"),
    ],
)
def test_conditions(condition, yes, no):
    body = condition.strip("{}") if condition.startswith("{") else condition
    rules = f"rules:\n  - {{name: one, task_type: math, complexity: 0.6, {body}}}\n"
    assert judged(rules, yes).task_type == "math"
    assert judged(rules, no).task_type == "chat"


def test_conditions_on_who_asks_and_on_the_conversation():
    rules = """
rules:
  - {name: lab, tenants: [lab], task_type: math, complexity: 0.6}
  - {name: turns, structure: {min_turns: 2}, task_type: planning, complexity: 0.6, priority: 200}
  - {name: tools, structure: {tool_history: true}, task_type: tool_use, complexity: 0.6, priority: 300}
"""
    assert judged(rules, "x", tenant="lab").task_type == "math"
    assert judged(rules, "x", tenant="shop").task_type == "chat"
    assert judged(rules, "x", Turn("assistant", "y"), "z").task_type == "planning"
    assert judged(rules, "x", Turn("tool", "y"), "z").task_type == "tool_use"


def test_patterns_see_the_head_and_the_tail_of_a_long_message():
    filler = "lorem ipsum " * 20_000
    rules = "rules:\n  - {name: one, any: ['apple'], task_type: math, complexity: 0.6}\n"
    assert judged(rules, f"apple {filler}").task_type == "math"
    assert judged(rules, f"{filler} apple").task_type == "math"
    assert judged(rules, f"{filler} apple {filler}").task_type == "chat"


SAID = Prediction("planning", 0.8, 0.9, 0.7, 300, 0.6, 0.2, 0.9)


def test_only_judgements_that_are_not_sure_are_put_to_a_learnt_model():
    assert sure(judged(PRIORITIES, "an apple"))
    assert not sure(judged(PRIORITIES, "a plum"))


def test_a_learnt_model_decides_where_it_is_surer_than_the_rules():
    unsure = judged(PRIORITIES, "a plum")
    learnt = with_answer(unsure, SAID)
    assert (learnt.source, learnt.task_type, learnt.complexity, learnt.confidence) == ("model", "planning", 0.9, 0.8)
    weak = replace(unsure, task_type="qa", confidence=0.65, source="rules", rules=("some",))
    kept = with_answer(weak, replace(SAID, task_confidence=0.5))
    assert (kept.source, kept.task_type, kept.prediction.answer_tokens) == ("rules", "qa", 300)


def test_what_rules_ask_for_at_least_stays_asked_for():
    raised = replace(judged(PRIORITIES, "a plum"), complexity=0.7, rules=("long",))
    assert with_answer(raised, replace(SAID, complexity=0.2)).complexity == 0.7


def test_a_model_that_cannot_answer_leaves_the_rules_judgement_and_its_reason():
    unsure = judged(PRIORITIES, "a plum")
    fallen = with_answer(unsure, Unanswered("model_timeout"))
    assert (fallen.source, fallen.fallback_reason, fallen.task_type) == ("rules", "model_timeout", unsure.task_type)
    assert fallen.prediction is None


def test_no_turns_and_empty_texts_are_judged():
    for turns in ((), ("",), ("   \n",), ("\x00\u200b",), ("🙂",)):
        assert judged(PRIORITIES, *turns).task_type == "chat"
