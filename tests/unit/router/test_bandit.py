"""The bandit beside policy: in shadow it changes nothing, live it decides, and both leave exact probabilities."""

import asyncio
from dataclasses import replace

import pytest
from harness.bandit import RAW, log_of
from opentelemetry.trace import INVALID_SPAN
from tiermesh.api.classifier.v1 import classifier_pb2
from tiermesh.router.classification import read_classification
from tiermesh.router.facts import RequestFacts
from tiermesh.router.learning.bandit import Bandit, with_bandit
from tiermesh.router.learning.learner import BanditLearner, learn_outcomes
from tiermesh.router.outcomes.trail import Trail
from tiermesh.router.policy.candidates import decide
from tiermesh.router.policy.ranking import TierView
from tiermesh.router.settings import Settings, make_snapshot
from tiermesh.shared.bandit import load_learnt, save_learnt
from tiermesh.shared.bandit.logged import logged_decisions
from tiermesh.shared.bandit.state import make_learnt
from tiermesh.shared.config import parse_config
from tiermesh.shared.errors import Unavailable
from tiermesh.shared.testing import FakeClock


class Call:
    def __init__(self, config):
        self.snapshot = make_snapshot(config, rules=b"", loaded_at=0.0)
        self.trail, self.span = Trail(), INVALID_SPAN


@pytest.fixture
def settings(tmp_path):
    return parse_config({**RAW, "bandit": {"mode": "shadow"}}, tmp_path / "mesh.yaml")


@pytest.fixture
def learnt(settings):
    return learn_outcomes(log_of(2000), settings, since_s=0.0)


def judged(kind="CODE", complexity=0.3):
    return classifier_pb2.ClassifyResponse(
        task_type=f"TASK_TYPE_{kind}", complexity=complexity, estimated_prompt_token_count=100, source="rules"
    )


@pytest.fixture
def routed(settings, learnt):
    def run(
        mode, judgement, *, model="auto", views=None, unavailable=frozenset(), dice=0.5, known=learnt, explore=False
    ):
        config = settings.model_copy(update={"bandit": settings.bandit.model_copy(update={"mode": mode})})
        call, views = Call(config), views or {}
        facts = RequestFacts(100, None, has_tool_history=False, wants_logprobs=False)
        static = decide(
            facts, model=model, classification=read_classification(judgement), config=config,
            unavailable=unavailable, views=views, explore=explore,
        )  # fmt: skip
        decision = with_bandit(call, static, judgement, known, views=views, unavailable=unavailable, dice=lambda: dice)
        return static, decision, call.trail

    return run


def where(decision):
    return [tier.name for tier in decision.candidates]


def test_where_the_static_policy_tries_another_tier_the_shadow_is_beside_the_choice_it_passed_over(routed):
    static, decision, trail = routed("shadow", judged("QA"), explore=True)
    assert decision == static
    assert where(decision) == ["l2", "l1"]
    (shadow,) = trail.shadows
    assert (shadow.policy, shadow.tier) == ("bandit", "l1")
    _, unexplored, as_usual = routed("shadow", judged("QA"))
    assert where(unexplored) == ["l1", "l2"]
    assert shadow == as_usual.shadows[0]


def test_in_shadow_the_decision_stays_and_what_the_bandit_would_do_is_logged(routed):
    static, decision, trail = routed("shadow", judged("CODE"))
    assert decision == static
    assert where(decision) == ["l1", "l2"]
    (shadow,) = trail.shadows
    assert (shadow.policy, shadow.tier) == ("bandit", "l2")
    assert sum(candidate.probability for candidate in shadow.candidates) == pytest.approx(1)
    assert trail.policy == "static"
    assert trail.probabilities is None


def test_live_it_decides_by_what_it_has_learnt(routed):
    _, decision, trail = routed("live", judged("CODE"))
    assert where(decision) == ["l2", "l1"]
    assert decision.reasons[-1] == "bandit:l2"
    assert trail.policy == "bandit"
    assert trail.policy_version != "empty"
    assert sum(trail.probabilities.values()) == pytest.approx(1)
    assert trail.probabilities["l2"] >= 0.98
    assert [(s.policy, s.tier) for s in trail.shadows] == [("static", "l1")]
    _, decision, _ = routed("live", judged("QA", complexity=0.9))
    assert where(decision) == ["l1", "l2"], "the small tier answers these rightly, and costs a tenth"
    assert decision.last_resort == frozenset()


def test_what_it_tries_out_is_told_apart(routed):
    _, decision, trail = routed("live", judged("QA"), dice=0.5, known=Bandit().learnt)
    assert trail.probabilities["l1"] == pytest.approx(0.98)
    assert (where(decision), decision.reasons[-1]) == (["l1", "l2"], "bandit:l1")
    _, decision, trail = routed("live", judged("QA"), dice=0.999, known=Bandit().learnt)
    assert (where(decision), decision.reasons[-1]) == (["l2", "l1"], "explored:l2")
    assert trail.probabilities["l2"] == pytest.approx(0.02)


@pytest.mark.parametrize(
    "case",
    [
        {"model": "tier:l1"},
        {"views": {"l1": TierView(backlogged=True)}},
        {"views": {"l2": TierView(backlogged=True)}},
        {"unavailable": frozenset({"l2"})},
        {"unavailable": frozenset({"l1"})},
    ],
)
def test_requests_that_leave_no_choice_are_not_its_to_decide(routed, case):
    static, decision, trail = routed("live", judged("CODE"), **case)
    assert decision == static
    assert trail.policy == "static"
    assert trail.shadows == ()
    assert trail.probabilities == {decision.candidates[0].name: 1.0}, "nothing else explores while it is live"


def test_without_a_classification_the_static_policy_decides(routed):
    static, decision, _ = routed("live", None)
    assert decision == static


class Log:
    def __init__(self, outcomes):
        self.outcomes, self.asked = outcomes, []
        self.failing = False

    async def judged(self, *, limit, since_s, budget):
        self.asked.append((limit, since_s))
        if self.failing:
            raise Unavailable("no log")
        return [o for o in self.outcomes if o.arrived.seconds >= since_s][-limit:]


async def test_it_learns_the_whole_window_and_keeps_it_over_restarts(settings, tmp_path):
    log, held = Log(log_of(300)), Settings(make_snapshot(settings, rules=b"", loaded_at=0.0))
    bandit = Bandit()
    learner = BanditLearner(bandit, log, held, FakeClock(), state=tmp_path)
    await learner.learn_once(settings)
    await learner.learn_once(settings)
    assert bandit.learnt.count == 300, "learning twice counts nothing twice"
    assert log.asked == [(20_000, 0.0)] * 2
    assert load_learnt(tmp_path / "bandit.json").version == bandit.learnt.version
    restarted, log.failing = Bandit(), True
    with pytest.raises(Unavailable):
        await BanditLearner(restarted, log, held, FakeClock(), state=tmp_path).learn_once(settings)
    assert restarted.learnt.version == bandit.learnt.version


async def test_after_a_reset_only_later_outcomes_count(settings, tmp_path):
    log, held = Log(log_of(300)), Settings(make_snapshot(settings, rules=b"", loaded_at=0.0))
    bandit = Bandit()
    learner = BanditLearner(bandit, log, held, FakeClock(), state=tmp_path)
    await learner.learn_once(settings)
    save_learnt(tmp_path / "bandit.json", make_learnt({}, 1_700_000_200.0))
    await learner.learn_once(settings)
    assert bandit.learnt.count == 100
    (tmp_path / "bandit.json").write_text("damaged", "utf-8")
    await learner.learn_once(settings)
    assert bandit.learnt.count == 300, "the log has everything that a damaged file has lost"


async def test_in_the_background_it_waits_for_the_log_and_stops_when_told(settings, tmp_path):
    log, held = Log(log_of(50)), Settings(make_snapshot(settings, rules=b"", loaded_at=0.0))
    learned = asyncio.Event()

    class Watched(Bandit):
        def __setattr__(self, name, value):
            super().__setattr__(name, value)
            if getattr(value, "count", 0) == 50:
                learned.set()

    task = asyncio.create_task(BanditLearner(Watched(), log, held, FakeClock(), state=tmp_path).run())
    async with asyncio.timeout(60):
        await learned.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def test_simulated_cached_and_foreign_answers_teach_nothing(settings):
    simulated, cached, foreign, judged_ok = log_of(4)
    simulated.result.simulated = True
    cached.result.cache = "hit"
    foreign.result.tier = "gone"
    assert learn_outcomes([simulated, cached, foreign, judged_ok], settings, since_s=0.0).count == 1
    assert replace(learn_outcomes([], settings, since_s=0.0), version="").count == 0


def test_what_is_made_up_teaches_about_tiers_that_are_simulated_and_nothing_else_does(settings):
    tiers = [tier.model_copy(update={"backend": "simulated"}) for tier in settings.tiers]
    simulated = settings.model_copy(update={"tiers": tuple(tiers)})
    made_up, real = log_of(2)
    made_up.result.simulated = True
    for config, taught in ((simulated, made_up), (settings, real)):
        both, one = (learn_outcomes(some, config, since_s=0.0) for some in ([made_up, real], [taught]))
        assert (both.count, both.version) == (1, one.version)
        assert [found.right for found in logged_decisions([made_up, real], config)[0]] == [taught.feedback[0].score]
