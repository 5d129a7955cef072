"""How likely tiers are to be right, and what that is worth, decides where it is known."""

from pathlib import Path

import pytest
from tiermesh.api.classifier.v1 import classifier_pb2
from tiermesh.router.classification import read_classification
from tiermesh.router.facts import RequestFacts
from tiermesh.router.policy.candidates import Classification, decide
from tiermesh.router.policy.gain import RightProbabilities
from tiermesh.router.policy.ranking import TierView, score
from tiermesh.shared.config import BalanceConfig, parse_config

L0 = {"name": "l0", "backend": "rules", "context_tokens": 4096, "max_complexity": 0.1, "task_types": ["faq"]}
L1 = {"name": "l1", "backend": "vllm", "model": "small", "max_complexity": 0.5, "price_in": 0.05, "price_out": 0.1}
MIDDLE = {"name": "m", "backend": "vllm", "model": "middle", "max_complexity": 0.7, "price_in": 0.2, "price_out": 0.4}
L2 = {"name": "l2", "backend": "vllm", "model": "large", "price_in": 0.5, "price_out": 1.0}


@pytest.fixture
def route(tmp_path):
    def decided(
        small, large, *, basis="outcomes", complexity=0.3, tiers=(L0, L1, L2), views=None, task="qa", **balance
    ):
        raw = {"tenants": [{"name": "a", "key_env": "K"}], "tiers": list(tiers), "balance": balance}
        right = None if small is None else RightProbabilities(small, large, basis)
        judged = Classification(task, complexity, "model", answer_tokens=100, right=right)
        facts = RequestFacts(100, None, has_tool_history=False, wants_logprobs=False)
        config = parse_config(raw, tmp_path / "mesh.yaml")
        return decide(facts, model="auto", classification=judged, config=config, views=views, left_s=10.0)

    return decided


def first(decision):
    return decision.candidates[0].name


@pytest.mark.parametrize("complexity", [0.2, 0.9])
def test_the_dearer_tier_is_chosen_where_it_helps_and_not_where_it_does_not(route, complexity):
    # With the default weights, what costs ten times as much has to be likelier to be right by 0.27.
    assert first(route(0.4, 0.9, complexity=complexity)) == "l2"
    assert first(route(0.8, 0.9, complexity=complexity)) == "l1"
    assert first(route(0.1, 0.1, complexity=complexity)) == "l1"


def test_the_choice_is_explained_with_numbers(route):
    decision = route(0.4, 0.9)
    verdicts = {v.tier: v for v in decision.verdicts}
    assert decision.reasons == ("classifier:model", "gain:l2")
    assert verdicts["l1"].reason == "less_gain"
    assert "right with 0.40" in verdicts["l1"].detail
    assert "right with 0.90" in verdicts["l1"].detail
    assert verdicts["l2"].reason == "chosen"
    gain = decision.gains["l2"]
    assert gain.cost == pytest.approx((100 * 0.5 + 100 * 1.0) / 1e6)
    assert gain.worth == pytest.approx(0.9 - 0.3)
    assert decision.gains["l1"].worth == pytest.approx(0.4 - 0.3 * 0.1)
    cheap = {v.tier: v.reason for v in route(0.8, 0.9).verdicts}
    assert cheap == {"l0": "task_type_not_served", "l1": "chosen", "l2": "less_gain"}


@pytest.mark.parametrize(
    ("small", "basis", "wanted"), [(None, "", "always"), (0.4, "judgement", "measured"), (0.4, "outcomes", "never")]
)
def test_complexity_decides_where_probabilities_are_missing_or_not_wanted(route, small, basis, wanted):
    decision = route(small, 0.9, basis=basis, complexity=0.3, right_probabilities=wanted)
    assert first(decision) == "l1"
    assert decision.gains == {}
    assert not any(reason.startswith("gain:") for reason in decision.reasons)
    assert {v.tier: v.reason for v in decision.verdicts}["l2"] == "stronger"


def test_judgements_count_where_the_configuration_says_so(route):
    assert first(route(0.4, 0.9, basis="judgement", right_probabilities="always")) == "l2"


def test_fixed_answers_are_still_chosen_by_complexity(route):
    decision = route(0.4, 0.9, complexity=0.0, task="faq")
    assert [tier.name for tier in decision.candidates] == ["l0", "l1", "l2"]


def test_a_tier_between_is_as_likely_right_as_its_strength_says(route):
    tiers = (L1, MIDDLE, L2)
    assert route(0.4, 0.9, tiers=tiers).gains["m"].right == pytest.approx(0.65)
    strong = (L1, {**MIDDLE, "strength": 0.9}, L2)
    decision = route(0.4, 0.9, tiers=strong)
    assert decision.gains["m"].right == pytest.approx(0.85)
    assert [tier.name for tier in decision.candidates] == ["m", "l2", "l1"]
    assert decision.last_resort == {"l1"}


def test_tiers_below_the_floor_are_passed_over_while_another_reaches_it(route):
    assert first(route(0.7, 0.85)) == "l1"
    assert first(route(0.7, 0.85, least_right=0.8)) == "l2"
    assert first(route(0.5, 0.6, least_right=0.8)) == "l2", "the likeliest, where none reaches it"


def test_how_tiers_do_now_still_counts(route):
    slow = {"l1": TierView(p95_s=9.0), "l2": TierView(p95_s=0.5)}
    assert first(route(0.75, 0.9, views=slow)) == "l2"
    # Just as slow, but a stronger tier that is no likelier to be right is not worth it.
    even = {"l1": TierView(p95_s=4.0), "l2": TierView(p95_s=3.0)}
    assert first(route(0.9, 0.9, views=even)) == "l1"


def test_the_score_counts_how_likely_a_wrong_answer_is():
    config = parse_config({"tenants": [{"name": "a", "key_env": "K"}], "tiers": [L1]}, Path("/x/y.yaml"))
    tier, view, balance = config.tiers[0], TierView(p95_s=1.0), BalanceConfig(right_weight=0.5)
    unknown = score(tier, view, balance=balance, left_s=10, dearest=1.0)
    assert score(tier, view, balance=balance, left_s=10, dearest=1.0, right=0.4) == pytest.approx(unknown + 0.3)


def test_the_classifiers_answer_is_read_whole():
    response = classifier_pb2.ClassifyResponse(
        task_type=classifier_pb2.TASK_TYPE_QA,
        small_right_probability=0.3,
        large_right_probability=0.8,
        right_probability_basis="outcomes",
        expected_output_token_count=77,
    )
    found = read_classification(response)
    assert found.right == RightProbabilities(0.3, 0.8, "outcomes")
    assert (found.task_type, found.answer_tokens) == ("qa", 77)
    assert read_classification(classifier_pb2.ClassifyResponse()).right is None
    assert read_classification(None) is None
