"""The commands that read the log, on files of exported records."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from datetime import UTC, datetime

import pyarrow.parquet as pq
import pytest
from harness.outcomes import NOON, make_record
from tiermesh.client.cli._app import make_app
from tiermesh.outcomes.redaction import VERSION
from tiermesh.outcomes.source import parse_time
from tiermesh.shared.outcomes import read_outcomes, write_outcome
from typer.testing import CliRunner

CONFIG = """
tenants: [{name: acme, key_env: KEY}]
tiers:
  - {name: l1, backend: simulated, price_in: 1, price_out: 1}
  - {name: l2, backend: simulated, price_in: 10, price_out: 10}
"""


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.setenv("TIERMESH_HOME", str(tmp_path))
    for name in ("TIERMESH_STATE", "TIERMESH_PROFILE", "TIERMESH_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "mesh.yaml").write_text(CONFIG, encoding="utf-8")

    def invoke(*arguments):
        return CliRunner().invoke(make_app(), [str(argument) for argument in arguments])

    return invoke


def write(path, records):
    path.write_text("".join(write_outcome(record) + "\n" for record in records), encoding="utf-8")
    return path


def iso(seconds):
    return datetime.fromtimestamp(NOON + seconds, UTC).isoformat()


def exported(path):
    return [record.request_id for record in read_outcomes(path.read_text(encoding="utf-8").splitlines())]


def test_export_selects_and_writes_lines(run, tmp_path):
    log = write(
        tmp_path / "log.jsonl", [make_record(n, tenant="ab"[n % 2], scores=(1.0,) * (n == 3)) for n in range(6)]
    )
    out = tmp_path / "out.jsonl"
    done = run("outcomes", "export", log, "--out", out, "--since", iso(1), "--until", iso(5))
    assert (done.exit_code, done.output) == (0, f"wrote {out}: 4 records\n")
    assert exported(out) == ["r1", "r2", "r3", "r4"]
    run("outcomes", "export", log, "--out", out, "--tenant", "a", "--limit", 2)
    assert exported(out) == ["r2", "r4"]
    run("outcomes", "export", log, "--out", out, "--with-feedback")
    assert exported(out) == ["r3"]
    assert out.stat().st_mode & 0o077 == 0


def test_export_to_parquet_has_a_row_a_request_and_typed_columns(run, tmp_path):
    whole = make_record(1, confidence=0.7, scores=(0.5, 1.0), question="你好", answer="hello")
    whole.features.measures["chars"] = 12.0
    whole.tries[0].logprobs.mean_logprob = -0.25
    log, out = write(tmp_path / "log.jsonl", [whole, make_record(2)]), tmp_path / "o.parquet"
    assert run("outcomes", "export", log, "--out", out, "--format", "parquet").exit_code == 0
    table = pq.read_table(out)
    assert table.schema.metadata[b"tiermesh.schema_version"] == b"1"
    first, second = table.to_pylist()
    assert first["arrived"] == datetime.fromtimestamp(NOON + 1, UTC)
    assert (first["task_type"], first["tier"], first["verdict"]) == ("qa", "l1", 1.0)
    assert first["measures"] == [("chars", 12.0)]
    assert first["tries"][0]["mean_logprob"] == -0.25
    assert [f["source"] for f in first["feedback"]] == ["user", "user"]
    assert json.loads(first["messages_json"])["messages"][0]["content"] == "你好"
    assert first["answers"] == ["hello"]
    assert (second["verdict"], second["answers"], second["tries"][0]["confidence"]) == (None, None, None)


def test_without_pyarrow_parquet_names_what_to_install(run, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.delitem(sys.modules, "tiermesh.outcomes.parquet", raising=False)
    log = write(tmp_path / "log.jsonl", [make_record(1)])
    done = run("outcomes", "export", log, "--out", tmp_path / "o", "--format", "parquet")
    assert done.exit_code == 1
    assert "pip install 'tiermesh-outcomes[parquet]'" in done.output


def test_a_wrong_file_is_named_and_nothing_is_left_half_written(run, tmp_path):
    log = tmp_path / "log.jsonl"
    log.write_text(write_outcome(make_record(1)) + "\nno json\n", encoding="utf-8")
    done = run("outcomes", "export", log, "--out", tmp_path / "out.jsonl")
    assert done.exit_code == 2
    assert f"{log}: line 2" in done.output
    assert sorted(path.name for path in tmp_path.iterdir()) == ["log.jsonl", "mesh.yaml"]
    missing = run("outcomes", "export", tmp_path / "none.jsonl", "--out", tmp_path / "out.jsonl")
    assert (missing.exit_code, "none.jsonl" in missing.output) == (2, True)


def test_without_a_mesh_and_a_file_it_says_so(run, tmp_path):
    for words in (["outcomes", "export", "--out", tmp_path / "o"], ["outcomes", "status"], ["drift", "report"]):
        done = run(*words)
        assert (done.exit_code, "no mesh is running here" in done.output) == (3, True), words


def test_a_wrong_time_is_told(run, tmp_path):
    done = run("outcomes", "export", "--out", tmp_path / "o", "--since", "yesterday")
    assert done.exit_code == 2
    assert "7d" in done.output


def test_times_are_ages_or_dates():
    now = datetime(2026, 11, 30, 12, tzinfo=UTC)
    assert parse_time("90m", now=now) == datetime(2026, 11, 30, 10, 30, tzinfo=UTC)
    assert parse_time("2w", now=now) == datetime(2026, 11, 16, 12, tzinfo=UTC)
    assert parse_time("2026-11-01", now=now) == datetime(2026, 11, 1, tzinfo=UTC)
    assert parse_time("2026-11-01T08:00+08:00", now=now) == datetime(2026, 11, 1, tzinfo=UTC)


def traffic(count, *, start=0, hard=False):
    return [make_record(start + n, complexity=(0.8 if hard else 0.2) + n % 10 / 100) for n in range(count)]


def test_drift_is_reported_against_a_reference_made_from_a_log(run, tmp_path):
    log = write(tmp_path / "log.jsonl", traffic(300) + traffic(300, start=300, hard=True))
    reference = tmp_path / "reference.json"
    made = run("drift", "reference", log, "--until", iso(300), "--out", reference)
    assert made.exit_code == 0
    assert "300 requests" in made.output
    same = run("drift", "report", log, "--reference", reference, "--until", iso(300), "--check")
    assert same.exit_code == 0
    moved = run("drift", "report", log, "--reference", reference, "--last", 300, "--check", "--json")
    assert moved.exit_code == 1
    found = {each["feature"]: each for each in json.loads(moved.output)}
    assert found["complexity"]["state"] == "drift"
    assert found["complexity"]["window_count"] == 300
    assert found["task_type"]["state"] == "ok"
    shown = run("drift", "report", log, "--reference", reference, "--last", 300)
    assert shown.exit_code == 0
    assert shown.output.splitlines()[1].split()[0] == "complexity"


def test_drift_refuses_what_it_cannot_compare(run, tmp_path):
    few = write(tmp_path / "few.jsonl", traffic(20))
    assert run("drift", "reference", few, "--out", tmp_path / "r.json").exit_code == 1
    assert run("drift", "report", few).exit_code == 2
    assert run("drift", "report", few, "--reference", few).exit_code == 2


def evaluation(path):
    rows = [
        {
            "task_type": kind,
            "scores": {"l1": int(n % 100 < small), "l2": int(n % 100 < 90)},
            "prompt_tokens": 100,
            "answer_tokens": 50,
        }
        for kind, small in (("qa", 89), ("math", 60))
        for n in range(400)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def test_the_report_on_models_names_the_tier_that_is_enough_and_the_saving(run, tmp_path):
    rows = evaluation(tmp_path / "evaluation.jsonl")
    done = run("report", "models", rows, "--config", tmp_path / "mesh.yaml", "--json")
    assert done.exit_code == 0, done.output
    found = {each["task_type"]: each for each in json.loads(done.output)}
    assert (found["qa"]["pick"], found["math"]["pick"]) == ("l1", "l2")
    assert found["qa"]["saving"] == pytest.approx(0.9)
    assert found["math"]["saving"] == 0
    shown = run("report", "models", rows, "--config", tmp_path / "mesh.yaml", "--within", 40)
    assert "l1" in shown.output
    assert "cannot be compared" not in shown.output.replace("\n", " ")
    assert [line.split()[0] for line in shown.output.splitlines()[1:3]] == ["math", "qa"]


@pytest.mark.parametrize(("name", "begins"), [("r.png", b"\x89PNG"), ("r.svg", b"<?xml")])
def test_the_report_on_models_is_drawn(run, tmp_path, name, begins):
    picture = tmp_path / name
    rows = evaluation(tmp_path / "evaluation.jsonl")
    assert run("report", "models", rows, "--config", tmp_path / "mesh.yaml", "--picture", picture).exit_code == 0
    assert picture.read_bytes().startswith(begins)


def test_the_report_on_models_reads_a_log_and_says_what_it_is_worth(run, tmp_path):
    log = write(tmp_path / "log.jsonl", [make_record(n, tier="l1", scores=(1.0,)) for n in range(40)])
    done = run("report", "models", log, "--config", tmp_path / "mesh.yaml")
    assert done.exit_code == 0
    assert "cannot be compared" in done.output.replace("\n", " ")


def test_the_report_on_models_names_what_is_wrong(run, tmp_path):
    wrong = tmp_path / "wrong.jsonl"
    wrong.write_text('{"task_type": "qa"}\n', encoding="utf-8")
    done = run("report", "models", wrong, "--config", tmp_path / "mesh.yaml")
    assert (done.exit_code, "wrong.jsonl: line 1: 'scores' is missing" in done.output) == (2, True)
    other = write(tmp_path / "log.jsonl", [make_record(1, tier="l9", scores=(1.0,))])
    done = run("report", "models", other, "--config", tmp_path / "mesh.yaml")
    assert (done.exit_code, "'l9' is not among l1, l2" in done.output) == (2, True)


def example(number, question, answer, **changes):
    record = make_record(number, tier="l2", question=question, answer=answer, **changes)
    record.text.redaction_version = VERSION
    return record


def test_distillation_writes_examples_and_a_manifest_that_holds(run, tmp_path):
    records = [example(n, f"How long is river number {n}, 13812345678?", f"About {n} km.") for n in range(40)]
    records += [make_record(99), example(50, "Judged?", "Badly.", scores=(0.0,))]
    log, out = write(tmp_path / "log.jsonl", records), tmp_path / "training"
    done = run(
        *("distill", "export", log, "--tier", "l2", "--tenant", "acme", "--count", 10),
        *("--clusters", 4, "--same", 0.999, "--out", out),
    )
    assert done.exit_code == 0, done.output
    lines = (out / "train.jsonl").read_text(encoding="utf-8").splitlines()
    assert len(lines) == 10
    for line in map(json.loads, lines):
        question, answer = line["messages"]
        assert "<phone>" in question["content"]
        assert "13812345678" not in question["content"]
        number = question["content"].split()[5].rstrip(",")
        assert answer == {"role": "assistant", "content": f"About {number} km."}
    manifest = json.loads((out / "manifest.json").read_text(encoding="utf-8"))
    counts = manifest["counts"]
    assert (counts["records_read"], counts["could_be_examples"], counts["examples"]) == (42, 40, 10)
    assert counts["passed_over"] == {"judged_wrong": 1, "other_tier": 1}
    assert sum(each["examples"] for each in manifest["clusters"]) == 10
    assert sum(each["requests"] for each in manifest["clusters"]) == 40
    described = manifest["files"]["train.jsonl"]
    content = (out / "train.jsonl").read_bytes()
    assert described == {"sha256": hashlib.sha256(content).hexdigest(), "bytes": len(content), "lines": 10}
    assert manifest["models"] == ["model-of-l2"]
    assert "model-of-l2" in manifest["licence"]
    assert manifest["versions"]["redaction"] == VERSION
    assert manifest["redacted"] == {"phone": 40}
    assert manifest["tenant"] == "acme"


def test_distillation_never_mixes_tenants_unasked(run, tmp_path):
    records = [example(1, "a question", "an answer"), example(2, "another one", "more", tenant="other")]
    log, out = write(tmp_path / "log.jsonl", records), tmp_path / "out"
    assert run("distill", "export", log, "--tier", "l2", "--out", out).exit_code == 2
    assert run("distill", "export", log, "--tier", "l2", "--tenant", "other", "--out", out).exit_code == 0
    assert len((out / "train.jsonl").read_text(encoding="utf-8").splitlines()) == 1
    assert run("distill", "export", log, "--tier", "l2", "--all-tenants", "--out", out).exit_code == 0
    assert len((out / "train.jsonl").read_text(encoding="utf-8").splitlines()) == 2


def test_distillation_says_why_there_is_nothing(run, tmp_path):
    log = write(tmp_path / "log.jsonl", [make_record(1, tier="l2")])
    done = run("distill", "export", log, "--tier", "l2", "--tenant", "acme", "--out", tmp_path / "out")
    assert done.exit_code == 1
    assert "no_text 1" in done.output
    assert "outcomes.keep_text" in done.output
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "words",
    [
        ["outcomes", "export"],
        ["outcomes", "status"],
        ["drift", "reference"],
        ["drift", "report"],
        ["report", "models"],
        ["distill", "export"],
        ["feedback"],
    ],
)
def test_every_command_has_help_with_an_example(run, words):
    done = run(*words, "--help")
    assert done.exit_code == 0
    assert "Example: tiermesh" in done.output


def test_the_command_line_starts_without_what_only_one_command_needs():
    script = (
        "import sys, tiermesh.outcomes.commands;"
        "print([name for name in ('sklearn', 'numpy', 'pyarrow', 'matplotlib') if name in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", script], capture_output=True, check=True, text=True).stdout == "[]\n"
