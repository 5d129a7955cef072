"""Which tier is asked first, from how tiers do now."""

from pathlib import Path

import pytest
from tiermesh.api.common.v1 import chat_pb2
from tiermesh.router.facts import RequestFacts
from tiermesh.router.policy.candidates import Classification, decide
from tiermesh.router.policy.ranking import TierView, rank, score
from tiermesh.shared.config import BalanceConfig, TierConfig, parse_config
from tiermesh.shared.errors import QueueFull

SMALL, MIDDLE, LARGE = (
    TierConfig(name=name, backend="vllm", price_in=price, max_complexity=hardest)
    for name, price, hardest in (("l1", 0.1, 0.4), ("l2", 0.5, 0.7), ("l3", 5.0, 1.0))
)
ALL = (SMALL, MIDDLE, LARGE)
FREE, BUSY = TierView(1.0), TierView(1.0, backlogged=True)
BALANCE = BalanceConfig()


def ranked(views, *, ordered=ALL, weaker=(), left_s=10.0, balance=BALANCE, **fields):
    return rank(ordered, frozenset(weaker), views, balance=balance, left_s=left_s, **fields)


def names(ranking):
    return [tier.name for tier in ranking.ordered]


def test_policys_order_stands_where_nothing_is_known():
    ranking = ranked({})
    assert names(ranking) == ["l1", "l2", "l3"]
    assert not ranking.reasons
    assert not ranking.shed


@pytest.mark.parametrize(
    ("view", "wanted"),
    [
        # time: 5 of 10 s; price: 2% of the dearest; no failures
        (TierView(5.0), 0.4 * 0.5 + 0.3 * 0.02),
        (TierView(20.0), 0.4 + 0.3 * 0.02),
        (TierView(0.0, failure_rate=0.5), 0.3 * 0.02 + 0.3 * 0.5),
    ],
)
def test_scores_weigh_time_price_and_failures(view, wanted):
    assert score(SMALL, view, balance=BALANCE, left_s=10.0, dearest=5.0) == pytest.approx(wanted)


def test_a_clearly_better_tier_comes_first_and_a_slightly_better_one_does_not():
    slow = ranked({"l1": TierView(9.0), "l2": TierView(1.0), "l3": TierView(1.0)})
    assert names(slow) == ["l2", "l1", "l3"]
    assert slow.reasons == ("outweighed:l1",)
    assert slow.passed_over["l1"][0] == "outweighed"
    assert names(ranked({"l1": TierView(3.0), "l2": TierView(1.0)})) == ["l1", "l2", "l3"]


def test_a_failing_tier_is_outweighed():
    assert names(ranked({"l1": TierView(1.0, failure_rate=0.9), "l2": TierView(1.0)}))[0] == "l2"


def test_what_has_never_answered_is_not_explored_by_itself():
    assert names(ranked({"l1": TierView(9.9), "l2": TierView(None)}))[0] == "l1"
    assert names(ranked({"l1": TierView(None), "l2": TierView(0.1)}))[0] == "l1"


def test_exploration_passes_the_best_over_once():
    ranking = ranked({}, explore=True)
    assert names(ranking) == ["l2", "l1", "l3"]
    assert ranking.reasons == ("explored:l2",)


def test_a_backlogged_small_tier_spills_to_the_next():
    ranking = ranked({"l1": BUSY, "l2": FREE})
    assert names(ranking) == ["l2", "l1", "l3"]
    assert ranking.reasons == ("spilled:l1",)
    assert ranking.passed_over["l1"][0] == "backlogged"


def test_it_spills_only_within_price_and_budget_and_to_room():
    assert names(ranked({"l1": BUSY, "l2": BUSY, "l3": FREE}))[0] == "l1"
    generous = BalanceConfig(spill_price_ratio=100.0)
    assert names(ranked({"l1": BUSY, "l2": BUSY, "l3": FREE}, balance=generous))[0] == "l3"
    assert names(ranked({"l1": BUSY, "l2": TierView(11.0)}))[0] == "l1"


def test_a_busy_large_tier_falls_back_degraded():
    ranking = ranked({"l3": BUSY}, ordered=(LARGE, MIDDLE, SMALL), weaker=("l1", "l2"))
    assert names(ranking) == ["l2", "l3", "l1"]
    assert ranking.reasons == ("busy:l3", "degraded")
    assert names(ranked({"l3": BUSY, "l2": BUSY}, ordered=(LARGE, MIDDLE, SMALL), weaker=("l1", "l2")))[0] == "l1"


def test_at_overload_batch_is_shed_and_interactive_is_not():
    busy = dict.fromkeys(("l1", "l2", "l3"), BUSY)
    assert ranked(busy, batch=True).shed
    assert ranked({"l1": BUSY}, ordered=(SMALL,), batch=True).shed
    assert not ranked(busy).shed
    assert names(ranked(busy)) == ["l1", "l2", "l3"]


def test_batch_waits_rather_than_spills_or_degrades():
    assert names(ranked({"l1": BUSY, "l2": FREE}, batch=True)) == ["l1", "l2", "l3"]
    large_first = {"ordered": (LARGE, SMALL), "weaker": ("l1",)}
    assert names(ranked({"l3": BUSY, "l1": FREE}, batch=True, **large_first))[0] == "l3"


def decision(views, *, complexity=0.3, priority=chat_pb2.PRIORITY_INTERACTIVE, model="auto", **fields):
    tiers = [tier.model_dump() for tier in ALL]
    config = parse_config({"tenants": [{"name": "a", "key_env": "K"}], "tiers": tiers}, Path("/x/mesh.yaml"))
    facts = RequestFacts(20, None, False, False, priority)
    judged = Classification("qa", complexity, "rules", rules=("question",))
    return decide(facts, model=model, classification=judged, config=config, views=views, left_s=10.0, **fields)


def test_the_decision_tells_why():
    spilled = decision({"l1": BUSY})
    assert [tier.name for tier in spilled.candidates] == ["l2", "l1", "l3"]
    assert spilled.reasons == ("rule:question", "spilled:l1")
    assert {v.tier: v.reason for v in spilled.verdicts} == {"l1": "backlogged", "l2": "chosen", "l3": "stronger"}
    degraded = decision({"l3": BUSY}, complexity=0.9)
    assert degraded.reasons == ("rule:question", "busy:l3", "degraded")
    assert degraded.degraded
    assert not spilled.degraded


def test_shed_batch_is_told_when_to_come_again():
    shed = decision(dict.fromkeys(("l1", "l2", "l3"), BUSY), priority=chat_pb2.PRIORITY_BATCH)
    assert isinstance(shed.refusal, QueueFull)
    assert shed.refusal.retry_after > 0


def test_pins_and_tiers_that_have_just_failed_come_before_loads():
    assert [tier.name for tier in decision({"l1": BUSY}, model="tier:l1").candidates] == ["l1"]
    down = decision({"l1": BUSY}, unavailable=frozenset({"l2"}))
    assert [tier.name for tier in down.candidates] == ["l1", "l3", "l2"]
    assert "spilled:l1" not in down.reasons
