"""One connected trace per request, with the caller's trace id, at a real OTLP receiver and in the terminal."""

import asyncio
import itertools
import re
import secrets
import time

import pytest
from harness.eventually import eventually
from harness.otlp import orphans

EXPECTED = {
    ("tiermesh-envoy-ingress", "ingress"),
    ("tiermesh-router", "OpenAIService/CreateChatCompletion"),
    ("tiermesh-router", "CacheService/Lookup"),
    ("tiermesh-router", "ClassifierService/Classify"),
    ("tiermesh-router", "EngineService/Generate"),
    ("tiermesh-envoy-mesh", "egress cache"),
    ("tiermesh-envoy-mesh", "egress classifier"),
    ("tiermesh-envoy-mesh", "egress engine-l1"),
    ("tiermesh-cache", "CacheService/Lookup"),
    ("tiermesh-classifier", "ClassifierService/Classify"),
    ("tiermesh-engine", "EngineService/Generate"),
}


@pytest.mark.parametrize("text", ["Tell me about spring.", "说说春天。"])
async def test_one_tree_from_the_caller_to_the_engine(lite, text):
    mesh, collector = lite
    parent = secrets.token_hex(8)

    def complete(spans):
        # Every process sends its own, in its own time.
        return {(s.service, s.name) for s in spans} >= EXPECTED and not orphans(spans, outside=[parent])

    async def traced():
        trace_id = secrets.token_hex(16)
        headers = {"traceparent": f"00-{trace_id}-{parent}-01"}
        with mesh.http() as client:
            body = {
                # Pinned, since text made unique may be judged harder than it is.
                "model": "tier:l1",
                "messages": [{"role": "user", "content": text + secrets.token_hex(4)}],
                "max_tokens": 4,
                "temperature": 0,
            }
            response = client.post("/v1/chat/completions", json=body, headers=headers)
        assert response.headers["x-tiermesh-trace-id"] == trace_id
        return await collector.whole_trace(trace_id, complete)

    spans = await eventually(traced)
    by_id = {span.span_id: span for span in spans}
    assert len(by_id) == len(spans)
    roots = [span for span in spans if span.parent_span_id not in by_id]
    assert [span.parent_span_id for span in roots] == [parent]
    assert roots[0].service == "tiermesh-envoy-ingress"

    def path(span):
        names = []
        while span is not None:
            names.append(span.service)
            span = by_id.get(span.parent_span_id)
        return names[::-1]

    engine = next(s for s in spans if s.service == "tiermesh-engine")
    hops = [name for name, _ in itertools.groupby(path(engine))]
    assert hops == ["tiermesh-envoy-ingress", "tiermesh-router", "tiermesh-envoy-mesh", "tiermesh-engine"]
    attributes = {k: v for s in spans if s.service == "tiermesh-router" for k, v in s.attributes.items()}
    assert attributes["tiermesh.tier"] == "l1"
    assert attributes["tiermesh.cache"] == "miss"
    assert attributes["tiermesh.completion_tokens"] == 4
    assert attributes["tiermesh.ttft_ms"] > 0
    classifier = next(s for s in spans if s.service == "tiermesh-classifier")
    assert any("complexity" in key for key in classifier.attributes)
    assert any("feature" in key for key in classifier.attributes)
    dump = repr([(s.name, s.attributes) for s in spans])
    assert text not in dump
    assert mesh.key not in dump


async def test_the_last_traces_are_shown_in_the_terminal(mesh):
    words = {"envoy", "router", "classifier", "cache", "engine", "ms"}

    async def traced():
        # Asked again each time: nobody sends spans again that were not taken in time.
        with mesh.http() as client:
            body = {
                "model": "auto",
                "messages": [{"role": "user", "content": "Tell me about autumn."}],
                "max_tokens": 4,
            }
            trace_id = client.post("/v1/chat/completions", json=body).headers["x-tiermesh-trace-id"]
        give_up = time.monotonic() + 15
        while time.monotonic() < give_up:
            shown = await asyncio.to_thread(mesh.tiermesh, "trace", trace_id, check=False)
            if shown.returncode == 0 and words <= set(re.findall(r"[a-z]+", shown.stdout)):
                return trace_id
        return None

    trace_id = await eventually(traced)

    async def listed():
        return trace_id[:8] in (await asyncio.to_thread(mesh.tiermesh, "trace", check=False)).stdout

    await eventually(listed)


def test_an_unknown_trace_is_said_to_be_unknown(lite):
    shown = lite[0].tiermesh("trace", "0" * 31 + "1", check=False)
    assert shown.returncode != 0
    assert "trace" in (shown.stdout + shown.stderr).lower()
