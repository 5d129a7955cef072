"""What came of requests, through a whole mesh: asked, reported on, exported, read back."""

import json
import re

import grpc
import pyarrow.parquet as pq
import pytest
from tiermesh.api.router.v1 import router_pb2, router_pb2_grpc
from tiermesh.client import Client, UnknownRequest
from tiermesh.shared.endpoints import mesh_target
from tiermesh.shared.outcomes import read_outcomes, verdict

ASKED = re.compile(r"request ([0-9a-f-]{36})\]")


def export(mesh, path, *options):
    mesh.tiermesh("outcomes", "export", "--out", str(path), *options)
    with path.open(encoding="utf-8") as lines:
        return {outcome.request_id: outcome for outcome in read_outcomes(lines)}


@pytest.fixture
def mesh(lite):
    return lite[0]


def test_an_answer_is_asked_for_reported_on_exported_and_read_back(mesh, tmp_path):
    asked = mesh.tiermesh("ask", "Why do rivers meander at all?", "--no-cache")
    (request_id,) = ASKED.findall(asked.stderr)
    assert mesh.tiermesh("feedback", request_id, "--right").stdout == "filed\n"
    found = export(mesh, tmp_path / "outcomes.jsonl", "--since", "1h")[request_id]
    assert (found.tenant, found.result.outcome) == ("local", "ok")
    assert found.result.tier == found.decision.candidates[0].tier
    assert found.trace_id in asked.stderr
    assert found.result.total.ToNanoseconds() > 0
    assert found.result.cost > 0
    assert verdict(found) == 1.0
    assert not found.HasField("text")
    assert "meander" not in (tmp_path / "outcomes.jsonl").read_text(encoding="utf-8")
    mesh.tiermesh("outcomes", "export", "--format", "parquet", "--with-feedback", "--out", str(tmp_path / "o.parquet"))
    rows = {row["request_id"]: row for row in pq.read_table(tmp_path / "o.parquet").to_pylist()}
    assert rows[request_id]["verdict"] == 1.0
    assert rows[request_id]["tier"] == found.result.tier
    # Of the log itself, and through an Envoy of the mesh.
    for target in ((), ("--target", mesh_target(mesh.config))):
        shown = json.loads(mesh.tiermesh("outcomes", "status", "--json", *target).stdout)
        assert int(shown["feedback_count"]) >= 1


def test_feedback_over_http_and_the_sdk_reaches_the_same_record(mesh, tmp_path):
    with Client(mesh.target, api_key=mesh.key) as client, mesh.http() as http:
        answer = client.ask("Tell me about deltas, please.", cache=False, deadline_s=60, max_tokens=8)
        request_id = answer.route.request_id
        assert client.report(request_id, score=0.25, source="judge", judge="large")
        posted = http.post("/v1/feedback", json={"request_id": request_id, "right": False})
        assert (posted.status_code, posted.json()) == (200, {"recorded": True})
        refused = http.post("/v1/feedback", json={"request_id": request_id})
        assert refused.status_code == 400
        assert refused.json()["error"]["code"] == "INVALID_REQUEST"
        assert http.get("/v1/feedback").status_code == 405
        found = export(mesh, tmp_path / "outcomes.jsonl")[request_id]
    assert [(f.score, f.judge) for f in found.feedback] == [(0.25, "large"), (0.0, "")]


def test_an_unknown_request_and_a_missing_key_are_refused(mesh):
    with Client(mesh.target, api_key=mesh.key) as client, pytest.raises(UnknownRequest):
        client.report("no-such-request", right=True, deadline_s=20)
    channel = grpc.insecure_channel(mesh.target)
    with channel, pytest.raises(grpc.RpcError) as caught:
        report = router_pb2.ReportOutcomeRequest(request_id="r", right=True)
        router_pb2_grpc.RouterServiceStub(channel).ReportOutcome(report, timeout=60)
    assert caught.value.code() == grpc.StatusCode.UNAUTHENTICATED
    refused = mesh.tiermesh("feedback", "no-such-request", "--wrong", check=False)
    assert refused.returncode == 1
    assert "UNKNOWN_REQUEST" in refused.stderr
