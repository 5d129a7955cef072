"""Metrics of every service and of Envoy at a real OTLP receiver."""

import re
import secrets
from pathlib import Path

from harness.eventually import eventually

PAGE = Path(__file__).resolve().parents[2] / "docs" / "metrics.md"
SILENT = {
    # What does not happen on every mesh: an escalation, a near miss of the semantic cache, feedback on an answer, a
    # reference to drift from, a burst of requests.
    "tiermesh.breaker.refusals",
    "tiermesh.cache.semantic.refused",
    "tiermesh.coalescing.promotions",
    "tiermesh.drift.chance",
    "tiermesh.drift.level",
    "tiermesh.drift.psi",
    "tiermesh.escalations",
    "tiermesh.escalations.skipped",
    "tiermesh.feedback",
    "tiermesh.outcomes",
    "tiermesh.request.held",
    "tiermesh.requests.coalesced",
}
ENVOY = {("tiermesh-envoy", "envoy.cluster.upstream_rq_time"), ("tiermesh-envoy", "envoy.http.downstream_rq_xx")}


async def test_every_service_and_envoy_send_what_the_page_says(lite):
    mesh, collector = lite
    sections = dict(
        re.findall(r"^## (\w+)$(.*?)(?=^## |\Z)", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    )
    documented = {
        (f"tiermesh-{service}", name)
        for service, text in sections.items()
        for name in re.findall(r"^\| `([\w.]+)` \|", text, re.MULTILINE)
        if name not in SILENT
    }
    assert {"tiermesh-router", "tiermesh-classifier", "tiermesh-cache", "tiermesh-engine"} <= {s for s, _ in documented}
    word = secrets.token_hex(4)
    with mesh.http() as client:

        def ask(model, text):
            body = {"model": model, "messages": [{"role": "user", "content": text}], "temperature": 0}
            return client.post("/v1/chat/completions", json=body)

        async def hit():
            # The first is a miss, and its answer is stored while its caller goes on.
            return ask("auto", f"Tell me about {word}.").headers["x-tiermesh-cache"] == "hit"

        await eventually(hit)
        assert ask("auto", f"说说{word}。").status_code == 200
        assert ask("tier:l0", word).status_code == 400
    await collector.measured(documented | ENVOY)

    def labels(service, name):
        return {pair for pairs in collector.metrics.attributes[f"tiermesh-{service}", name] for pair in pairs}

    async def told():
        results = {value for _, value in labels("cache", "tiermesh.cache.lookup.duration")}
        return {"hit_exact", "miss"} <= results and ("reason", "NOT_APPLICABLE") in labels(
            "engine", "tiermesh.engine.failures"
        )

    # A name may have come with fewer labels, in an export before this one.
    await eventually(told)
