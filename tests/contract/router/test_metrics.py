"""What the router counts."""

import pytest
from harness.router import ask, running_router
from tiermesh.shared.errors import Unavailable
from tiermesh.shared.ledger import PART_NAMES
from tiermesh.shared.telemetry import open_meter
from tiermesh.shared.testing import answer_steps


async def test_requests_and_their_parts_are_counted_by_lane(mesh):
    await mesh.generate()
    for engine in mesh.engines.values():
        engine.error = Unavailable("gone")
    await mesh.generate(ask("again"))
    requests = mesh.counted("tiermesh.request.duration")
    assert {key: point.count for key, point in requests.items()} == {
        (("lane", "simple"), ("outcome", "ok")): 1,
        (("lane", "simple"), ("outcome", "NO_ELIGIBLE_TIER")): 1,
    }
    parts = mesh.counted("tiermesh.ledger.part")
    assert {dict(key)["part"] for key in parts} == set(PART_NAMES)
    total = sum(point.sum for point in requests.values())
    assert sum(point.sum for point in parts.values()) == pytest.approx(total, abs=0.01)


async def test_escalations_and_skips_are_counted():
    async with running_router(escalation={"share": 0.0, "burst": 1}) as mesh:
        mesh.classifier.response.confidence = 0.1
        mesh.engines["l1"].steps = answer_steps(*["no "] * 20)
        for n in range(3):
            await mesh.generate(ask(f"question {n}"))
        assert {k: p.value for k, p in mesh.counted("tiermesh.escalations").items()} == {
            (("tier", "l1"), ("why", "repetition")): 1
        }
        assert {k: p.value for k, p in mesh.counted("tiermesh.escalations.skipped").items()} == {
            (("gate", "quota"),): 2
        }
        assert mesh.counted("tiermesh.request.held")


def test_without_a_receiver_nothing_is_opened():
    with open_meter("tiermesh-router", instance="router-0", endpoint=None, interval_s=1) as meter:
        assert meter is None
