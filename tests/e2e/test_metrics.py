"""Metrics of every service and of Envoy at a real OTLP receiver."""

import re
import secrets
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs" / "metrics.md"
SILENT = {
    # What does not happen on every mesh: an escalation, a near miss of the semantic cache, a log of outcomes.
    "tiermesh.cache.semantic.refused",
    "tiermesh.escalations",
    "tiermesh.outcomes",
    "tiermesh.escalations.skipped",
    "tiermesh.request.held",
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
    asked = [("auto", f"Tell me about {word}.", 200)] * 2 + [("auto", f"说说{word}。", 200), ("tier:l0", word, 400)]
    with mesh.http() as client:
        for model, text, status in asked:
            body = {"model": model, "messages": [{"role": "user", "content": text}], "temperature": 0}
            assert client.post("/v1/chat/completions", json=body).status_code == status
    await collector.measured(documented | ENVOY)
    received = collector.metrics.attributes
    seen = {value for labels in received["tiermesh-cache", "tiermesh.cache.lookup.duration"] for _, value in labels}
    assert {"hit_exact", "miss"} <= seen
    reasons = {dict(labels)["reason"] for labels in received["tiermesh-engine", "tiermesh.engine.failures"]}
    assert "NOT_APPLICABLE" in reasons
