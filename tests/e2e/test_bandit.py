"""Routing that learns, through a whole mesh: in shadow it learns from the log's own server, a replay lets it go live, it decides.

The answers are made up, and the feedback with them: the small tier is always wrong about code, and all else is always right.
"""

import asyncio
import json
import time

import pytest
from harness.eventually import eventually
from harness.mesh import PATIENT, running_mesh
from tiermesh.client import AsyncClient
from tiermesh.shared.bandit import load_learnt
from tiermesh.shared.outcomes import read_outcomes

REQUESTS = 560
"""A replay judges all but the first twentieth, and at least 500."""
AT_ONCE = 8
BANDIT = {"mode": "shadow", "refresh_s": 1}
LEARNING = {
    **PATIENT,
    "escalation": {"enabled": False},
    "balance": {"exploration": 0.3},
    "bandit": BANDIT,
    "tiers": [
        # Asked for everything, code as well: it is for the bandit to find out that it should not be.
        {
            "name": "l1", "max_complexity": 1.0, "excluded_task_types": [],
            "simulated_ttft_ms": 1, "simulated_tokens_per_second": 10_000,
        },
        {"name": "l2", "simulated_ttft_ms": 1, "simulated_tokens_per_second": 10_000},
    ],
}  # fmt: skip


@pytest.fixture(scope="module")
def mesh(tmp_path_factory):
    with running_mesh(tmp_path_factory.mktemp("learning"), "lite", LEARNING) as running:
        yield running


def code(n):
    return f"Write a Python function that merges list {n} with list {n + 1}."


def chat(n):
    return f"Tell me something nice about the number {n}, please."


async def ask(client, text):
    return await client.ask(text, cache=False, max_tokens=2, deadline_s=60)


async def ask_and_judge(mesh, count):
    """Asks by turns for code and for other things, and says of every answer whether it was right; returns which tier gave it."""
    tiers = {}

    async def work(client, first):
        for n in range(first, count, AT_ONCE):
            answer = await ask(client, code(n) if n % 2 else chat(n))
            assert await client.report(
                answer.route.request_id, right=not (n % 2 and answer.route.tier == "l1"), source="check", deadline_s=60
            )
            tiers[answer.route.request_id] = answer.route.tier

    async with AsyncClient(mesh.target, api_key=mesh.key) as client:
        await asyncio.gather(*(work(client, first) for first in range(AT_ONCE)))
    return tiers


async def recorded(mesh, path, request_id):
    """Returns the record of a request, once it has reached the log."""

    async def found():
        await asyncio.to_thread(mesh.tiermesh, "outcomes", "export", "--out", str(path))
        with path.open(encoding="utf-8") as lines:
            return next((one for one in read_outcomes(lines) if one.request_id == request_id), None)

    return await eventually(found)


async def traced(mesh, client, text, word, path):
    """Asks until the trace shows a word; returns the answer and its record.

    Spans come in their own time, one process's after another's; nobody sends those again that were not taken in time.
    """

    async def asked():
        answer = await ask(client, text)
        record = await recorded(mesh, path, answer.route.request_id)
        give_up = time.monotonic() + 15
        while time.monotonic() < give_up:
            shown = await asyncio.to_thread(mesh.tiermesh, "trace", record.trace_id, "--all", check=False)
            if word in shown.stdout:
                return answer, record
        return None

    return await eventually(asked)


async def test_it_learns_in_shadow_is_replayed_and_goes_live(mesh, tmp_path):
    exported, report = tmp_path / "outcomes.jsonl", mesh.folder / "bandit-report.json"
    tiers = await ask_and_judge(mesh, REQUESTS)
    assert set(tiers.values()) == {"l1", "l2"}

    async def learnt():
        path = mesh.state / "bandit.json"
        return path.is_file() and load_learnt(path).count == REQUESTS

    await eventually(learnt)

    # In shadow: what it would have done is recorded and traced, and the static policy decides all the same.
    async with AsyncClient(mesh.target, api_key=mesh.key) as client:
        shadowed, record = await traced(mesh, client, code(REQUESTS), "shadow", exported)
    assert not any(reason.startswith("bandit:") for reason in shadowed.route.reasons)
    assert record.decision.policy == "static"
    assert record.decision.propensity == pytest.approx(0.3 if record.decision.explored else 0.7)
    (shadow,) = record.decision.shadows
    assert (shadow.policy, shadow.candidates[0].tier) == ("bandit", "l2")
    assert shadow.candidates[0].probability >= 0.98
    assert sum(candidate.probability for candidate in shadow.candidates) == pytest.approx(1)

    # Live without a replay: refused, and the mesh goes on as before.
    mesh.edit({"bandit": {**BANDIT, "mode": "live"}})

    async def refused():
        return (
            "bandit.mode live needs bandit.report"
            in (await asyncio.to_thread(mesh.tiermesh, "status", check=False)).stdout
        )

    await eventually(refused)
    async with AsyncClient(mesh.target, api_key=mesh.key) as client:
        explained = await client.explain(code(0), deadline_s=60)
        assert not any(reason.startswith("bandit:") for reason in explained.route.reasons)

        # A replay of the log that was made passes, and with its report live is accepted.
        replayed = mesh.tiermesh(
            "replay", str(exported), "--config", str(mesh.config_path), "--out", str(report), "--json", check=False
        )
        told = json.loads(replayed.stdout)
        assert (replayed.returncode, told["passed"], told["objections"]) == (0, True, [])
        mesh.edit({"bandit": {**BANDIT, "mode": "live", "report": report.name}})

        async def live():
            return (await client.explain(code(0), deadline_s=60)).route.reasons[-1] == "bandit:l2"

        await eventually(live)
        assert (await client.explain(chat(0), deadline_s=60)).route.tier == "l1"
        decided, record = await traced(mesh, client, code(REQUESTS + 2), "live", exported)
    assert decided.route.reasons[-1] in {"bandit:l2", "explored:l1"}
    chances = {candidate.tier: candidate.probability for candidate in record.decision.candidates}
    assert record.decision.policy == "bandit"
    assert chances["l2"] >= 0.98
    assert sum(chances.values()) == pytest.approx(1)
    assert record.decision.propensity == pytest.approx(chances[decided.route.tier])
    assert [(shadow.policy, shadow.tier) for shadow in record.decision.shadows] == [("static", "l1")]
