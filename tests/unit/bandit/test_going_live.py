"""Live mode is refused without a replay that has passed, for these settings, lately."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from harness.bandit import RAW, log_of
from tiermesh.client.cli._app import make_app
from tiermesh.shared.bandit.logged import logged_decisions
from tiermesh.shared.bandit.replay import replay
from tiermesh.shared.bandit.report import make_report, settings_of
from tiermesh.shared.config import ConfigError, parse_config, report_digest
from tiermesh.shared.outcomes import write_outcome
from typer.testing import CliRunner
from yaml import safe_dump

LIVE = {**RAW, "bandit": {"mode": "live", "report": "report.json"}}


@pytest.fixture(scope="module")
def found():
    config = parse_config(RAW, Path("/x/mesh.yaml"))
    return replay(logged_decisions(log_of(2500, explore=0.3), config)[0], settings=settings_of(config))


@pytest.fixture
def go_live(tmp_path, found):
    def attempt(change=lambda report: None, raw=LIVE, age=timedelta(0), sign=True):
        config = parse_config({**RAW, "bandit": {"mode": "shadow"}}, tmp_path / "mesh.yaml")
        report = make_report(config, found, made=datetime.now(UTC) - age, source={})
        change(report)
        if sign:
            report["sha256"] = report_digest(report)
        (tmp_path / "report.json").write_text(json.dumps(report), "utf-8")
        return parse_config(raw, tmp_path / "mesh.yaml")

    return attempt


def test_a_fresh_passed_report_lets_it(go_live, tmp_path):
    config = go_live()
    assert config.bandit.mode == "live"
    assert config.bandit.report == tmp_path / "report.json"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"change": lambda report: report.update(passed=False)}, "has not passed"),
        ({"age": timedelta(days=8)}, "8.0 days old"),
        ({"age": timedelta(days=-2)}, "days old"),
        ({"change": lambda report: report.update(passed=True, objections=["x"]), "sign": False}, "damaged"),
        ({"raw": {**LIVE, "bandit": {**LIVE["bandit"], "exploration": 0.05}}}, "other settings"),
        ({"raw": {**LIVE, "balance": {"cost_weight": 0.1}}}, "other settings"),
        ({"raw": {**LIVE, "tiers": [{**LIVE["tiers"][0], "price_in": 0.06}, LIVE["tiers"][1]]}}, "other settings"),
        ({"raw": {**LIVE, "bandit": {"mode": "live"}}}, "needs bandit.report"),
        ({"raw": {**LIVE, "bandit": {"mode": "live", "report": "none.json"}}}, "cannot be read"),
        ({"change": lambda report: report.clear(), "sign": False}, "cannot be read"),
        ({"raw": {**LIVE, "outcomes": {"enabled": False}}}, "needs outcomes.enabled"),
    ],
)
def test_anything_less_is_refused_and_how_to_get_there_is_said(go_live, options, said):
    with pytest.raises(ConfigError, match=said) as refused:
        go_live(**options)
    assert "bandit" in str(refused.value)


def test_shadow_needs_no_report(tmp_path):
    assert parse_config({**RAW, "bandit": {"mode": "shadow"}}, tmp_path / "mesh.yaml").bandit.mode == "shadow"


def test_the_command_judges_a_log_writes_the_report_and_says_by_its_status_whether_it_passed(tmp_path):
    config = tmp_path / "mesh.yaml"
    config.write_text(safe_dump(LIVE), "utf-8")
    log, report = tmp_path / "outcomes.jsonl", tmp_path / "report.json"
    command = ["replay", str(log), "--config", str(config), "--out", str(report)]
    log.write_text("\n".join(map(write_outcome, log_of(2500, explore=0.3))), "utf-8")
    result = CliRunner().invoke(make_app(), command)
    assert result.exit_code == 0, result.output
    assert "passed" in result.output
    assert json.loads(report.read_text("utf-8"))["log"]["usable"] == 2500
    assert parse_config(LIVE, config).bandit.mode == "live"
    log.write_text("\n".join(map(write_outcome, log_of(100))), "utf-8")
    result = CliRunner().invoke(make_app(), command)
    assert result.exit_code == 1
    assert "at least 500 are needed" in result.output
    with pytest.raises(ConfigError, match="has not passed"):
        parse_config(LIVE, config)
    log.write_text("{}", "utf-8")
    result = CliRunner().invoke(make_app(), command)
    assert result.exit_code == 2
    assert "line 1" in result.output


def test_what_was_learnt_can_be_shown_and_forgotten(tmp_path):
    run = CliRunner()
    path = tmp_path / "bandit.json"
    missing = run.invoke(make_app(), ["bandit", "show", str(path)])
    assert missing.exit_code == 2
    assert f"{path}: is not there" in missing.output
    result = run.invoke(make_app(), ["bandit", "reset", str(path)])
    assert result.exit_code == 0
    assert "0 answers" in run.invoke(make_app(), ["bandit", "show", str(path)]).output
    shown = json.loads(run.invoke(make_app(), ["bandit", "show", str(path), "--json"]).output)
    assert shown["answers"] == {}
    assert shown["since"].startswith("20")
    path.write_text("{", "utf-8")
    assert run.invoke(make_app(), ["bandit", "show", str(path)]).exit_code == 2
