"""The bandit in a running router: it learns from the log of outcomes over a real connection, in shadow and live."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from harness.bandit import RAW, log_of
from harness.router import ask, running_router
from tiermesh.api.classifier.v1 import classifier_pb2
from tiermesh.shared.bandit.logged import logged_decisions
from tiermesh.shared.bandit.replay import replay
from tiermesh.shared.bandit.report import make_report, settings_of
from tiermesh.shared.config import parse_config

TIERS, ON = RAW["tiers"], {"enabled": True}


def code():
    return classifier_pb2.ClassifyResponse(
        task_type=classifier_pb2.TASK_TYPE_CODE, complexity=0.3, confidence=0.9, source="rules", rules=["code"],
        estimated_prompt_token_count=100,
    )  # fmt: skip


@pytest.fixture
def report(tmp_path):
    """A passed report about the very settings under test."""
    config = parse_config({**RAW, "bandit": {"mode": "shadow"}}, Path("/none/mesh.yaml"))
    found = replay(logged_decisions(log_of(2500, explore=0.3), config)[0], settings=settings_of(config))
    path = tmp_path / "report.json"
    path.write_text(json.dumps(make_report(config, found, made=datetime.now(UTC), source={})), "utf-8")
    return path


async def test_in_shadow_it_learns_and_is_logged_and_changes_nothing():
    async with running_router(tiers=TIERS, outcomes=ON, bandit={"mode": "shadow"}) as mesh:
        mesh.classifier.response = code()
        mesh.outcomes.records = log_of(400)
        await mesh.wired.learner.learn_once(mesh.settings.current.config)
        answer = await mesh.generate(ask("Write a parser."))
        records = await mesh.outcomes.wait_for(401)
    assert answer.route.tier == "l1"
    assert list(answer.route.reasons) == ["rule:code"]
    decision = records[-1].decision
    assert (decision.policy, decision.propensity) == ("static", 1.0)
    (shadow,) = decision.shadows
    assert (shadow.policy, shadow.tier) == ("bandit", "l2"), "the small tier is nearly always wrong about code"
    assert sum(candidate.probability for candidate in shadow.candidates) == pytest.approx(1)
    told = mesh.tracing.named("RouterService/Generate").attributes
    assert (told["tiermesh.bandit.mode"], told["tiermesh.bandit.tier"]) == ("shadow", "l2")


async def test_live_it_decides_and_explains_and_its_probabilities_are_logged(report):
    live = {"mode": "live", "report": str(report)}
    async with running_router(tiers=TIERS, outcomes=ON, bandit=live) as mesh:
        mesh.classifier.response = code()
        before = await mesh.explain(ask("Write a parser."))
        mesh.outcomes.records = log_of(400)
        await mesh.wired.learner.learn_once(mesh.settings.current.config)
        explained = await mesh.explain(ask("Write a parser."))
        # A try of the other tier, which two in a hundred may be, is told apart by its reason.
        answer = await mesh.generate(ask("Write a parser."))
        records = await mesh.outcomes.wait_for(401)
    assert before.route.tier == "l1", "with nothing learnt, the static choice stands"
    assert explained.route.tier == "l2"
    assert explained.route.reasons[-1] == "bandit:l2"
    assert answer.route.reasons[-1] in {"bandit:l2", "explored:l1"}
    decision = records[-1].decision
    assert decision.policy == "bandit"
    assert decision.policy_version not in {"", "empty"}
    chances = {candidate.tier: candidate.probability for candidate in decision.candidates}
    assert sum(chances.values()) == pytest.approx(1)
    assert chances["l2"] >= 0.98
    assert decision.propensity == pytest.approx(chances[answer.route.tier])
    assert [(shadow.policy, shadow.tier) for shadow in decision.shadows] == [("static", "l1")]
