"""Gates, the quota, estimates and loads."""

import pytest
from tiermesh.api.common.v1 import chat_pb2
from tiermesh.router.escalation.gates import Gates, Target, pass_gates, skipped
from tiermesh.router.escalation.quota import EscalationQuota
from tiermesh.router.policy.lanes import lane_of
from tiermesh.router.tiers.estimates import TierEstimates
from tiermesh.router.tiers.loads import STALE_S, TierLoad, TierLoads
from tiermesh.shared.config import LanesConfig
from tiermesh.shared.testing import FakeClock


def target(tier="l2", *, healthy=True, has_room=True, p95_s=1.0):
    return Target(tier, healthy, has_room, p95_s)


def through(*targets, quota_open=True, left_s=2.0, margin_s=0.1):
    return pass_gates(targets, quota_open=quota_open, left_s=left_s, margin_s=margin_s)


def test_an_open_way_names_its_tier():
    assert through(target("l2"), target("l3")) == Gates("l2")


@pytest.mark.parametrize(
    ("fields", "quota_open", "left_s", "gate"),
    [
        # Each row shuts every gate from the one named on: the first counts.
        ({"healthy": False, "has_room": False}, False, 0.0, "health"),
        ({"has_room": False}, False, 0.0, "load"),
        ({}, False, 0.0, "quota"),
        ({}, True, 1.05, "budget"),
    ],
)
def test_the_first_shut_gate_is_named(fields, quota_open, left_s, gate):
    assert through(target(**fields), quota_open=quota_open, left_s=left_s) == Gates(None, gate)
    assert skipped(gate) == f"escalation_skipped={gate}"


def test_nothing_stronger_is_a_matter_of_capability():
    assert through() == Gates(None, "capability")


def test_the_budget_must_cover_prediction_and_margin():
    assert through(target(p95_s=1.0), left_s=1.1, margin_s=0.1).tier == "l2"
    assert through(target(p95_s=1.0), left_s=1.09, margin_s=0.1).shut == "budget"


def test_the_next_preferred_tier_is_asked_where_the_first_cannot():
    assert through(target("l3", p95_s=9.0), target("l2")).tier == "l2"
    assert through(target("l3", healthy=False), target("l2", p95_s=9.0)).shut == "budget"
    assert through(target("l3", p95_s=9.0), target("l2", healthy=False)).shut == "budget"


def test_escalations_stay_a_share_of_the_traffic():
    quota, escalated = EscalationQuota(burst=10), 0
    for _ in range(1000):
        quota.earn(share=0.1, burst=10)
        if quota.open:
            quota.take()
            escalated += 1
    assert 100 <= escalated <= 110


def test_an_emptied_quota_opens_again_after_enough_requests():
    quota = EscalationQuota(burst=1)
    quota.take()
    for _ in range(9):
        quota.earn(share=0.1, burst=1)
        assert not quota.open
    quota.earn(share=0.1, burst=1)
    assert quota.open


def test_an_idle_quota_saves_no_more_than_its_burst():
    quota = EscalationQuota(burst=2)
    for _ in range(1000):
        quota.earn(share=0.5, burst=2)
    quota.take()
    quota.take()
    assert not quota.open


@pytest.mark.parametrize("routers", [1, 2, 5, 10])
def test_the_quota_holds_for_the_mesh_however_many_routers_share_it(routers):
    quotas = [EscalationQuota(burst=10, routers=lambda: routers) for _ in range(routers)]
    escalated = 0
    for n in range(4000):
        # Envoy spreads requests; every answer is doubtful.
        quota = quotas[n % routers]
        quota.earn(share=0.1, burst=10)
        if quota.open:
            quota.take()
            escalated += 1
    assert 400 - routers <= escalated <= 410


def test_routers_that_come_share_the_burst_from_their_next_request_on():
    routers = 1
    quota = EscalationQuota(burst=10, routers=lambda: routers)
    routers = 5
    quota.earn(share=0.0, burst=10)
    taken = 0
    while quota.open:
        quota.take()
        taken += 1
    assert taken == 2
    # Nobody's purse is too small for a single one, and a router that is not listed yet divides by nothing.
    assert EscalationQuota(burst=1, routers=lambda: 8).open
    assert EscalationQuota(burst=1, routers=lambda: 0).open


def answered(estimates, tier="l2", *, prefill=0.2, decode=0.9, prompt=100, answer=10):
    estimates.answered(tier, prefill_s=prefill, decode_s=decode, prompt_tokens=prompt, answer_tokens=answer, choices=1)


def test_what_was_never_seen_is_unknown():
    estimates = TierEstimates(FakeClock())
    assert estimates.p95_s("l2", prompt_tokens=10, max_tokens=10) is None
    estimates.waited("l2", 0.1)
    assert estimates.p95_s("l2", prompt_tokens=10, max_tokens=10) is None


def test_predictions_settle_on_what_is_seen_and_grow_with_prompt_and_answer():
    estimates = TierEstimates(FakeClock())
    for _ in range(200):
        estimates.waited("l2", 0.05)
        answered(estimates)
    assert estimates.p95_s("l2", prompt_tokens=100, max_tokens=10) == pytest.approx(1.15, rel=0.02)
    assert estimates.p95_s("l2", prompt_tokens=1000, max_tokens=10) == pytest.approx(2.95, rel=0.02)
    assert estimates.p95_s("l2", prompt_tokens=100, max_tokens=4) == pytest.approx(0.55, rel=0.02)
    # Answers have ten tokens, whatever is allowed.
    assert estimates.p95_s("l2", prompt_tokens=100, max_tokens=4000) == pytest.approx(1.15, rel=0.02)
    assert estimates.p95_s("l2", prompt_tokens=100, max_tokens=10, queue_free=True) == pytest.approx(1.1, rel=0.02)


def test_predictions_cover_most_of_a_spread():
    import random

    dice, estimates, times = random.Random(7), TierEstimates(FakeClock()), []
    for _ in range(2000):
        prefill = dice.lognormvariate(-2, 0.5)
        times.append(prefill)
        answered(estimates, prefill=prefill, decode=0.0, answer=1)
    predicted = estimates.p95_s("l2", prompt_tokens=100, max_tokens=1)
    covered = sum(time <= predicted for time in times) / len(times)
    assert 0.88 <= covered <= 0.99


def test_failures_are_counted_and_fade():
    clock = FakeClock()
    estimates = TierEstimates(clock)
    assert estimates.failure_rate("l2") == 0.0
    for _ in range(50):
        estimates.ended("l2", failed=True)
    assert estimates.failure_rate("l2") > 0.95
    clock.advance(30)
    assert 0.45 < estimates.failure_rate("l2") < 0.5
    for _ in range(50):
        estimates.ended("l2", failed=False)
    assert estimates.failure_rate("l2") < 0.05


def test_a_load_counts_until_the_next_or_two_seconds_after_the_last():
    clock = FakeClock()
    loads = TierLoads(clock)
    busy = TierLoad(running=4, waiting=4, slots=4, queue_limit=64)
    loads.report("l1", "a", busy)
    clock.advance(3600)
    assert loads.current() == {"l1": busy}
    loads.ended("l1", "a")
    clock.advance(STALE_S - 0.1)
    loads.ended("l1", "a")
    assert loads.current() == {"l1": busy}
    clock.advance(0.2)
    assert loads.current() == {}
    loads.report("l1", "a", busy)
    assert loads.current() == {"l1": busy}


def test_a_tiers_load_is_that_of_all_its_replicas():
    clock = FakeClock()
    loads = TierLoads(clock)
    loads.report("l1", "a", TierLoad(running=4, waiting=6, slots=4, queue_limit=64))
    assert loads.current()["l1"].backlogged(1.0)
    loads.report("l1", "b", TierLoad(running=4, waiting=1, slots=4, queue_limit=64))
    both = loads.current()["l1"]
    assert (both.running, both.waiting, both.slots, both.queue_limit) == (8, 7, 8, 128)
    assert not both.backlogged(1.0)
    assert not both.has_free_slot
    # The next prompt goes where a slot is free, whatever waits at the other one.
    loads.report("l1", "b", TierLoad(running=3, waiting=0, slots=4, queue_limit=64))
    assert loads.current()["l1"].has_free_slot
    loads.ended("l1", "b")
    clock.advance(STALE_S + 0.1)
    assert loads.current()["l1"].waiting == 6
    assert set(loads.replicas("l1")) == {"a"}


def test_feedback_counts_at_once_and_fades_where_nothing_reports_changes():
    clock = FakeClock()
    loads = TierLoads(clock)
    free, busy = TierLoad(0, 0, 4, 64), TierLoad(4, 9, 4, 64)
    loads.report("l1", "a", free)
    loads.feedback("l1", "a", busy)
    assert loads.current()["l1"] == busy
    loads.feedback("l2", "x", busy)
    assert loads.current()["l2"] == busy
    clock.advance(STALE_S + 0.1)
    # The one is still followed: had it changed, it would have said so.
    assert loads.current() == {"l1": busy}
    # Feedback of a stream that has ended does not bring it back for good.
    loads.ended("l1", "a")
    loads.feedback("l1", "a", free)
    assert loads.current() == {"l1": free}
    clock.advance(STALE_S + 0.1)
    assert loads.current() == {}


def test_backlog_and_room():
    def load(running, waiting, slots=4, queue=8):
        return TierLoad(running, waiting, slots, queue)

    assert load(3, 0).has_free_slot
    assert not load(4, 0).has_free_slot
    assert not load(4, 3).backlogged(1.0)
    assert load(4, 4).backlogged(1.0)
    assert load(4, 2, queue=2).backlogged(1.0)
    assert not load(0, 0, slots=0).backlogged(1.0)


@pytest.mark.parametrize(
    ("priority", "complexity", "lane"),
    [
        (chat_pb2.PRIORITY_UNSPECIFIED, 0.5, "simple"),
        (chat_pb2.PRIORITY_INTERACTIVE, 0.51, "complex"),
        (chat_pb2.PRIORITY_BATCH, 0.1, "batch"),
        (chat_pb2.PRIORITY_BATCH, 0.9, "batch"),
    ],
)
def test_lanes(priority, complexity, lane):
    assert lane_of(priority, complexity, LanesConfig()) == lane


def test_lane_tables_are_those_of_the_design():
    simple = LanesConfig().table("simple")
    assert (simple.deadline_ms, simple.network_ms, simple.queue_ms, simple.model_ms, simple.finish_ms) == (
        500,
        100,
        50,
        250,
        100,
    )
    assert LanesConfig().table("complex").deadline_ms == 3000
    assert simple.first_token_ms == 400
    with pytest.raises(ValueError, match="must not exceed"):
        LanesConfig(simple={"deadline_ms": 100})
