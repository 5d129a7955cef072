"""Training sets: which records become examples, how they are sampled, what the manifest says."""

from __future__ import annotations

import pytest
from harness.outcomes import make_record
from tiermesh.api.common.v1 import chat_pb2
from tiermesh.outcomes.distill.clusters import sample
from tiermesh.outcomes.distill.select import Filters, select, training_line
from tiermesh.outcomes.redaction import VERSION

L2 = Filters(frozenset({"l2"}))


def example(number, question="What is a river?", answer="Water that flows.", *, tier="l2", **changes):
    record = make_record(number, tier=tier, question=question, answer=answer, **changes)
    record.text.redaction_version = VERSION
    return record


def test_an_example_is_the_conversation_and_the_answer():
    record = example(1, scores=(1.0,))
    record.text.messages.insert(0, chat_pb2.Message(role=chat_pb2.ROLE_SYSTEM, content="Be brief."))
    (found,) = select([record], L2).examples
    assert training_line(found, cluster=3) == {
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "What is a river?"},
            {"role": "assistant", "content": "Water that flows."},
        ],
        "meta": {
            "request_id": "r1",
            "task_type": "qa",
            "tier": "l2",
            "model": "model-of-l2",
            "cluster": 3,
            "verdict": 1.0,
        },
    }


def changed(record, **fields):
    for path, value in fields.items():
        target = record
        *way, last = path.split("__")
        for step in way:
            target = getattr(target, step)
        setattr(target, last, value)
    return record


def with_tools(record):
    record.text.messages.add(role=chat_pb2.ROLE_TOOL, content="3")
    return record


def cut_short(record):
    record.result.finishes[0].finish_reason = 2
    return record


@pytest.mark.parametrize(
    ("record", "why"),
    [
        (example(1, tier="l1"), "other_tier"),
        (changed(example(1), result__outcome="cancelled"), "not_complete"),
        (make_record(1, tier="l2"), "no_text"),
        (changed(example(1), text__redaction_version=""), "not_redacted"),
        (changed(example(1), result__cache="hit"), "from_cache"),
        (changed(example(1), result__simulated=True), "simulated"),
        (cut_short(example(1)), "cut_short"),
        (changed(example(1), result__escalation_skipped="quota"), "not_good_enough"),
        (example(1, scores=(0.0,)), "judged_wrong"),
        (with_tools(example(1)), "tools"),
        (example(1, answer="  "), "empty"),
    ],
)
def test_what_is_no_example_is_counted_by_reason(record, why):
    found = select([record, example(2)], L2)
    assert [each.request_id for each in found.examples] == ["r2"]
    assert found.passed_over == {why: 1}
    assert found.read_count == 2


def test_filters_narrow_further():
    records = [example(1, task_type="code"), example(2, "How?", scores=(0.7,)), example(3, "Why?")]
    found = select(records, Filters(frozenset({"l2"}), task_types=frozenset({"qa"}), judged_only=True))
    assert [each.request_id for each in found.examples] == ["r2"]
    assert found.passed_over == {"other_task_type": 1, "not_judged": 1}
    assert not select(records, Filters(frozenset({"l2"}), least_verdict=0.8, judged_only=True)).examples


def test_a_question_asked_again_counts_once_with_the_answer_judged_best():
    records = [
        example(1, "What is  a RIVER?", "first"),
        example(2, answer="judged", scores=(1.0,)),
        example(3, answer="last"),
        example(4, answer="another tenant's", tenant="other"),
    ]
    found = select(records, L2)
    assert [each.messages[-1]["content"] for each in found.examples] == ["judged", "another tenant's"]
    assert found.passed_over == {"asked_before": 2}


def test_personal_data_that_the_log_did_not_find_is_taken_out_now():
    found = select([example(1, "我的手机号是13812345678", "Mail a@example.com")], L2)
    assert [m["content"] for m in found.examples[0].messages] == ["我的手机号是<phone>", "Mail <email>"]
    assert found.redactions == {"phone": 1, "email": 1}


RIVERS = [
    f"How long is river number {n} in kilometres, roughly?"
    for n in ["one", "two", "three", "four", "five", "six", "seven"]
]
CODE = [f"写一个Python函数，{n}" for n in ("实现快速排序", "反转链表", "计算斐波那契数", "解析日期")]
LONE = ["Translate 'good morning' to French"]


def test_every_cluster_gives_examples_and_the_large_ones_more():
    texts = RIVERS * 1 + CODE + LONE
    found = sample(texts, count=6, clusters=3, same=0.999)
    kinds = {0: RIVERS, 1: CODE, 2: LONE}
    chosen = [next(k for k, group in kinds.items() if texts[each.index] in group) for each in found.chosen]
    assert len(found.chosen) == 6
    assert set(chosen) == {0, 1, 2}
    assert chosen.count(0) >= chosen.count(1) >= chosen.count(2) == 1
    assert sum(found.sizes) == len(texts)
    assert found.alike_count == 0


def test_near_duplicates_are_chosen_once():
    texts = ["How do I reset my password, please?"] * 5 + ["How do I reset my password, pleease?"] + LONE
    found = sample(texts, count=10, clusters=2)
    assert len(found.chosen) == 2
    assert found.alike_count == 5


def test_the_same_texts_and_seed_give_the_same_sample():
    texts = RIVERS + CODE + LONE
    assert sample(texts, count=5, seed=4) == sample(texts, count=5, seed=4)


def test_more_are_asked_for_than_there_are():
    found = sample(LONE + CODE, count=100, clusters=50, same=1.1)
    assert sorted(each.index for each in found.chosen) == list(range(5))
    assert sample([], count=5).chosen == ()
