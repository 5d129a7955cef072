"""`tiermesh calibrate`."""

import json
import random
from pathlib import Path

import pytest
import yaml
from tiermesh.client.cli._app import make_app
from tiermesh.shared.calibration_log import read_log
from tiermesh.shared.config import BandConfig, EscalationConfig, load_config
from typer.testing import CliRunner

PROFILES = Path(__file__).resolve().parents[3] / "mesh" / "profiles"
SHIPPED = [("lite.yaml", "simulated-small.jsonl"), ("local.yaml", "smollm2-135m-instruct.jsonl")]


@pytest.fixture
def log(tmp_path):
    dice, path = random.Random(1), tmp_path / "judged.jsonl"
    lines = []
    for _ in range(400):
        mean = -dice.expovariate(1.0)
        features = {"mean_logprob": mean, "worst_window_logprob": mean * 2, "mean_margin": 2.0}
        lines.append(
            {"tier": "l1", "task_type": "qa", "right": dice.random() < 0.97 + 0.4 * mean, "features": features}
        )
    path.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    return path


def run(*args):
    return CliRunner().invoke(make_app(), ["calibrate", *map(str, args)])


def test_it_prints_what_would_change_and_a_section_that_is_valid(log):
    done = run(log)
    assert done.exit_code == 0, done.output
    for word in ("to the top", "cost", "right", "->", "qa", "400"):
        assert word in done.output
    section = yaml.safe_load(done.output[done.output.index("escalation:") :])["escalation"]
    config = EscalationConfig.model_validate(section)
    assert config.calibration("l1", "qa") is not None
    assert config.band("qa").next_below > 0


def test_too_few_answers_to_go_by_are_called_so_in_the_section_itself(log):
    few = log.with_name("few.jsonl")
    few.write_text("\n".join(log.read_text().splitlines()[:20]), encoding="utf-8")
    assert "# fitted to 20 answers, too few to go by: 50" in run(few).output
    assert "too few" not in run(log).output


def test_json_has_every_figure(log):
    (change,) = json.loads(run(log, "--json").stdout)
    assert change["task_type"] == "qa"
    assert change["old_band"] == {"top_below": 0.8, "next_below": 0.95}
    assert {"top_rate", "next_rate", "cost", "quality"} <= change["new"].keys()


def test_bands_and_prices_of_a_configuration_count(log, tmp_path):
    config = tmp_path / "mesh.yaml"
    tiers = [
        {"name": "l1", "backend": "vllm", "price_in": 1, "price_out": 1},
        {"name": "l2", "backend": "vllm", "price_in": 50, "price_out": 50},
    ]
    bands = {"qa": {"top_below": 0.0, "next_below": 0.0}}
    raw = {"tenants": [{"name": "a", "key_env": "K"}], "tiers": tiers, "escalation": {"bands": bands}}
    config.write_text(yaml.safe_dump(raw), encoding="utf-8")
    (change,) = json.loads(run(log, "--config", config, "--json").stdout)
    assert change["old"]["top_rate"] == change["old"]["next_rate"] == 0
    assert change["old"]["cost"] == pytest.approx(2e-4)


def test_several_tiers_must_be_told_apart(log):
    with log.open("a", encoding="utf-8") as file:
        file.write('\n{"tier": "l2", "task_type": "qa", "right": true, "confidence": 0.5}\n')
    done = run(log)
    assert done.exit_code == 2
    assert "--tier" in done.output
    assert run(log, "--tier", "l1").exit_code == 0
    assert "no answers of l9" in run(log, "--tier", "l9").output


@pytest.mark.parametrize("args", [["nonesuch.jsonl"], ["{log}", "--gain", "0.5", "--top-gain", "0.1"]])
def test_what_cannot_be_used_is_told(log, args):
    done = run(*(arg.format(log=log) for arg in args))
    assert done.exit_code == 2
    assert done.output.strip()


@pytest.mark.parametrize(("profile", "log"), SHIPPED)
def test_a_shipped_calibration_is_what_is_fitted_to_the_shipped_log(profile, log):
    path = PROFILES / "calibration" / log
    done = run(path, "--keep-bands", "--config", PROFILES / profile)
    assert done.exit_code == 0, done.output
    fitted = yaml.safe_load(done.output[done.output.index("escalation:") :])["escalation"]["calibrations"]
    shipped = yaml.safe_load((PROFILES / profile).read_text(encoding="utf-8"))["escalation"]["calibrations"]
    assert shipped == fitted
    simulated = {record.simulated for record in read_log(path.read_text(encoding="utf-8").splitlines())}
    assert simulated == {profile == "lite.yaml"}


def test_the_default_bands_stand_where_escalation_is_on():
    escalation = load_config(PROFILES / "lite.yaml").escalation
    assert escalation.enabled
    assert escalation.band("qa") == BandConfig(top_below=0.8, next_below=0.95)


@pytest.mark.parametrize(("profile", "calibrated"), [("lite", True), ("local", True), ("laptop", False)])
def test_a_shipped_calibration_counts_for_the_model_that_was_measured_and_no_other(profile, calibrated):
    config = load_config(PROFILES / f"{profile}.yaml")
    served = config.tier("l1").public_model
    assert (config.escalation.calibration("l1", "chat", model=served) is not None) is calibrated
