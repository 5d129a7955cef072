"""What was learnt is kept whole, and refused where it was damaged."""

import json

import numpy as np
import pytest
from harness.bandit import RAW, log_of
from tiermesh.router.learning.learner import learn_outcomes
from tiermesh.shared.bandit import StateDamaged, load_learnt, save_learnt
from tiermesh.shared.bandit.state import make_learnt
from tiermesh.shared.config import parse_config


@pytest.fixture
def learnt(tmp_path):
    return learn_outcomes(log_of(200), parse_config(RAW, tmp_path / "mesh.yaml"), since_s=5.0)


def test_what_is_written_is_read_back(tmp_path, learnt):
    path = tmp_path / "folder" / "bandit.json"
    save_learnt(path, learnt)
    found = load_learnt(path)
    assert (found.version, found.count, found.since_s) == (learnt.version, 200, 5.0)
    for tier, posterior in learnt.posteriors.items():
        assert np.array_equal(found.posteriors[tier].precision, posterior.precision)
        assert np.allclose(found.posteriors[tier].weights, posterior.weights)
    assert [p.name for p in path.parent.iterdir()] == ["bandit.json"]


def test_the_same_outcomes_teach_the_same_in_any_order(tmp_path, learnt):
    config = parse_config(RAW, tmp_path / "mesh.yaml")
    again = learn_outcomes(log_of(200), config, since_s=5.0)
    assert again.version == learnt.version
    assert learn_outcomes(log_of(199), config, since_s=5.0).version != learnt.version


def test_no_file_is_nothing_learnt(tmp_path):
    found = load_learnt(tmp_path / "none.json")
    assert (found.count, found.version) == (0, "empty")


@pytest.mark.parametrize(
    "damage",
    [
        lambda raw: raw[: len(raw) // 2],
        lambda raw: raw.replace('"count": ', '"count": 1'),
        lambda raw: json.dumps({**json.loads(raw), "since_s": 9.0}),
        lambda raw: "[]",
        lambda raw: "{}",
        lambda raw: "",
    ],
)
def test_a_damaged_file_is_refused_and_how_to_start_anew_is_said(tmp_path, learnt, damage):
    path = tmp_path / "bandit.json"
    save_learnt(path, learnt)
    path.write_text(damage(path.read_text("utf-8")), "utf-8")
    with pytest.raises(StateDamaged, match="tiermesh bandit reset"):
        load_learnt(path)


def test_a_file_of_another_version_is_refused(tmp_path, learnt, monkeypatch):
    path = tmp_path / "bandit.json"
    monkeypatch.setattr("tiermesh.shared.bandit.state.CONTEXT_VERSION", 99)
    save_learnt(path, learnt)
    monkeypatch.undo()
    with pytest.raises(StateDamaged, match="another version"):
        load_learnt(path)


def test_an_empty_one_survives(tmp_path):
    path = tmp_path / "bandit.json"
    save_learnt(path, make_learnt({}, 7.0))
    assert load_learnt(path).since_s == 7.0
