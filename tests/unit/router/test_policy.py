"""Which tiers are tried, in which order, and why."""

from pathlib import Path

import pytest
from tiermesh.api.common.v1 import chat_pb2
from tiermesh.api.router.v1 import router_pb2
from tiermesh.router.facts import RequestFacts, facts_of
from tiermesh.router.policy.candidates import Classification, decide
from tiermesh.shared.config import parse_config
from tiermesh.shared.errors import ContextTooLong, NoEligibleTier, NotApplicable, UnknownModel

L0 = {
    "name": "l0",
    "backend": "rules",
    "context_tokens": 4096,
    "max_complexity": 0.1,
    "task_types": ["greeting", "faq"],
}
L1 = {
    "name": "l1",
    "backend": "vllm",
    "model": "org/small",
    "context_tokens": 2048,
    "answer_tokens": 256,
    "max_complexity": 0.5,
    "excluded_task_types": ["code"],
}
L2 = {"name": "l2", "backend": "vllm", "model": "large", "context_tokens": 8192, "answer_tokens": 1024}


def make(*tiers):
    raw = {"tenants": [{"name": "a", "key_env": "K"}], "tiers": list(tiers) or [L0, L1, L2]}
    return parse_config(raw, Path("/x/mesh.yaml"))


def facts(prompt_tokens=20, max_tokens=None, has_tool_history=False, wants_logprobs=False):
    return RequestFacts(prompt_tokens, max_tokens, has_tool_history, wants_logprobs)


def judged(task_type="qa", complexity=0.3, **fields):
    return Classification(task_type, complexity, "rules", **{"rules": ("r",), "languages": ("en",), **fields})


def where(decision):
    return [tier.name for tier in decision.candidates]


def why(decision):
    return {verdict.tier: verdict.reason for verdict in decision.verdicts}


@pytest.mark.parametrize(
    ("classification", "candidates", "reasons"),
    [
        (judged("greeting", 0.0), ["l0", "l1", "l2"], {"l0": "chosen", "l1": "stronger", "l2": "stronger"}),
        (
            judged("faq", 0.05, languages=("zh",)),
            ["l0", "l1", "l2"],
            {"l0": "chosen", "l1": "stronger", "l2": "stronger"},
        ),
        (judged("qa", 0.3), ["l1", "l2"], {"l0": "task_type_not_served", "l1": "chosen", "l2": "stronger"}),
        (judged("qa", 0.5), ["l1", "l2"], {"l0": "task_type_not_served", "l1": "chosen", "l2": "stronger"}),
        (judged("qa", 0.51), ["l2", "l1"], {"l0": "task_type_not_served", "l1": "below_complexity", "l2": "chosen"}),
        (judged("code", 0.2), ["l2"], {"l0": "task_type_not_served", "l1": "task_type_excluded", "l2": "chosen"}),
        (judged("greeting", 0.4), ["l1", "l2", "l0"], {"l0": "below_complexity", "l1": "chosen", "l2": "stronger"}),
        (judged("unspecified", 0.3), ["l1", "l2"], {"l0": "task_type_unknown", "l1": "chosen", "l2": "stronger"}),
    ],
)
def test_the_cheapest_tier_that_is_good_enough_comes_first(classification, candidates, reasons):
    decision = decide(facts(), model="auto", classification=classification, config=make())
    assert where(decision) == candidates
    assert why(decision) == reasons
    assert decision.reasons == ("rule:r",)
    assert not decision.pinned
    assert decision.refusal is None
    assert {v.tier for v in decision.verdicts if v.eligible} == set(candidates)


def test_all_too_weak_means_the_strongest():
    weak = [{**L1, "name": name, "max_complexity": limit} for name, limit in (("a", 0.2), ("b", 0.4))]
    decision = decide(facts(), model="", classification=judged(complexity=0.9), config=make(*weak))
    assert where(decision) == ["b", "a"]


@pytest.mark.parametrize(
    ("tier_languages", "found", "served"),
    [
        (["zh"], ("zh",), True),
        (["zh", "en"], ("zh", "en"), True),
        (["en"], ("zh",), False),
        (["en"], ("en", "zh"), False),
        (["en"], (), True),
        ([], ("zh",), True),
    ],
)
def test_languages(tier_languages, found, served):
    config = make({**L1, "languages": tier_languages}, L2)
    decision = decide(facts(), model="auto", classification=judged(languages=found), config=config)
    assert where(decision) == (["l1", "l2"] if served else ["l2"])
    assert decision.reasons == (("rule:r",) if served else ("rule:r", "language_not_served:l1"))


@pytest.mark.parametrize(
    ("prompt", "max_tokens", "candidates"),
    [
        (1792, None, ["l1", "l2"]),
        (1793, None, ["l2"]),
        (2000, 48, ["l1", "l2"]),
        (2000, 49, ["l2"]),
        # A tier's own answer limit caps what is asked for.
        (1792, 100_000, ["l1", "l2"]),
    ],
)
def test_prompt_and_answer_must_fit_the_context(prompt, max_tokens, candidates):
    decision = decide(facts(prompt, max_tokens), model="auto", classification=judged(), config=make())
    assert where(decision) == candidates
    if "l1" not in candidates:
        assert "context_too_long:l1" in decision.reasons


def test_the_classifiers_token_count_is_preferred():
    decision = decide(facts(10), model="auto", classification=judged(prompt_tokens=5000), config=make())
    assert where(decision) == ["l2"]


def test_nothing_holds_it():
    decision = decide(facts(30_000), model="auto", classification=judged(), config=make())
    assert isinstance(decision.refusal, ContextTooLong)
    assert decision.refusal.field == "messages"
    assert "l1 2048, l2 8192" in decision.refusal.message
    assert "30000" in decision.refusal.message
    pinned = decide(facts(6000), model="tier:l1", classification=judged(), config=make())
    assert isinstance(pinned.refusal, ContextTooLong)
    assert "context of tier:l1" in pinned.refusal.message


def test_a_prompt_that_may_fit_is_left_to_the_longest_context_to_count():
    decision = decide(facts(9000), model="auto", classification=judged(), config=make())
    assert where(decision) == ["l2"]
    assert why(decision) == {"l0": "task_type_not_served", "l1": "context_too_long", "l2": "context_uncertain"}
    assert decision.reasons == ("rule:r", "context_too_long:l1", "context_uncertain:l2")
    pinned = decide(facts(2000), model="tier:l1", classification=judged(), config=make())
    assert where(pinned) == ["l1"]
    assert pinned.reasons == ("pinned", "context_uncertain:l1")


def test_nothing_serves_it():
    decision = decide(facts(), model="auto", classification=judged("qa"), config=make(L0))
    assert isinstance(decision.refusal, NoEligibleTier)
    assert "serves greeting, faq, not qa" in decision.refusal.message


@pytest.mark.parametrize(
    ("asked", "reason"), [({"wants_logprobs": True}, "no_logprobs"), ({"has_tool_history": True}, "no_tool_history")]
)
def test_what_rules_cannot_do(asked, reason):
    decision = decide(facts(**asked), model="auto", classification=judged("greeting", 0.0), config=make())
    assert where(decision) == ["l1", "l2"]
    assert f"{reason}:l0" in decision.reasons
    pinned = decide(facts(**asked), model="tier:l0", classification=judged(), config=make())
    assert isinstance(pinned.refusal, NotApplicable)


@pytest.mark.parametrize(
    ("model", "tier"), [("tier:l0", "l0"), ("tier:l1", "l1"), ("small", "l1"), ("large", "l2"), ("rules", "l0")]
)
def test_pins_have_one_candidate_whatever_the_classification(model, tier):
    for classification in (judged("code", 1.0), None):
        decision = decide(
            facts(), model=model, classification=classification, config=make(), unavailable=frozenset({tier})
        )
        assert where(decision) == [tier]
        assert decision.reasons == ("pinned",)
        assert decision.pinned
        assert {v.tier for v in decision.verdicts if v.eligible} == {tier}


def test_two_tiers_of_one_model_are_one_pin_to_the_cheapest_that_can():
    config = make({**L1, "served_model": "m"}, {**L2, "served_model": "m"})
    assert where(decide(facts(), model="m", classification=None, config=config)) == ["l1"]
    assert where(decide(facts(5000), model="m", classification=None, config=config)) == ["l2"]


@pytest.mark.parametrize("model", ["gpt-nonesuch", "tier:", "tier:l9", "AUTO", "不存在", "org/small"])
def test_unknown_models_are_told_what_exists(model):
    with pytest.raises(UnknownModel) as caught:
        decide(facts(), model=model, classification=None, config=make())
    assert caught.value.field == "model"
    assert "auto, tier:l0, tier:l1, tier:l2, rules, small, large" in caught.value.message


def test_tiers_that_have_just_failed_come_last_but_are_not_given_up():
    decision = decide(facts(), model="auto", classification=judged(), config=make(), unavailable=frozenset({"l1"}))
    assert where(decision) == ["l2", "l1"]
    assert why(decision)["l1"] == "recently_unavailable"
    assert decision.reasons == ("rule:r", "recently_unavailable:l1")
    every = decide(facts(), model="auto", classification=judged(), config=make(), unavailable=frozenset({"l1", "l2"}))
    assert where(every) == ["l1", "l2"]


def test_a_last_resort_says_so():
    decision = decide(
        facts(), model="auto", classification=judged(complexity=0.9), config=make(), unavailable=frozenset({"l2"})
    )
    assert where(decision) == ["l1", "l2"]
    assert decision.reasons[-1] == "last_resort"


@pytest.mark.parametrize(
    ("text", "first"),
    [("hello", "l1"), ("你好", "l1"), ("word " * 1200, "l2"), ("这是一个很长的句子。" * 120, "l2")],
)
def test_without_a_classification_length_leads_to_the_middle(text, first):
    request = router_pb2.GenerateRequest(messages=[chat_pb2.Message(role=chat_pb2.ROLE_USER, content=text)])
    decision = decide(facts_of(request), model="auto", classification=None, config=make())
    assert where(decision)[0] == first
    assert decision.source == "unavailable"
    assert decision.task_type == "unspecified"
    assert decision.reasons[0] == "classifier:unavailable"
    assert "l0" not in where(decision)


def test_a_classification_without_rules_says_what_made_it():
    decision = decide(facts(), model="auto", classification=Classification("qa", 0.3, "model"), config=make())
    assert decision.reasons == ("classifier:model",)


def test_a_prompt_is_measured_only_where_the_classifier_has_not_done_so():
    request = router_pb2.GenerateRequest(messages=[chat_pb2.Message(role=chat_pb2.ROLE_USER, content="word " * 100)])
    assert facts_of(request, prompt_tokens=7).prompt_tokens == 7
    assert 80 < facts_of(request).prompt_tokens < 160
