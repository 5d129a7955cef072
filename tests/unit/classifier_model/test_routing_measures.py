"""Measures of a ranking, and the whole evaluation on simulated outcomes."""

import json

import numpy as np
import pytest
import routing_eval
from routing.measures import area, gap_recovered, measure, share_needed
from routing.outcomes import Outcomes, read_outcomes
from routing.routers import Reader, make_routers
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression

WEAK = np.array([0.0, 0.0, 1.0, 1.0])
STRONG = np.array([1.0, 1.0, 1.0, 0.0])


def test_a_perfect_ranking_recovers_more_than_the_gap_before_it_meets_the_strong_models_own_mistakes():
    pgr, quality = gap_recovered(STRONG - WEAK, WEAK, STRONG)
    assert pgr.tolist() == [0, 1, 2, 2, 1]
    assert quality.tolist() == [0.5, 0.75, 1.0, 1.0, 0.75]
    assert area(pgr) == pytest.approx((0.5 + 1.5 + 2 + 1.5) / 4)
    assert share_needed(pgr, 0.8) == 0.25


def test_chance_is_half_and_the_interval_holds_the_value():
    rng = np.random.default_rng(5)
    weak, strong = (rng.random(4000) < 0.5).astype(float), (rng.random(4000) < 0.8).astype(float)
    chance = measure(rng.random(4000), weak, strong)
    assert chance.apgr == pytest.approx(0.5, abs=0.06)
    assert chance.apgr_ci[0] < chance.apgr < chance.apgr_ci[1]
    oracle = measure(strong - weak, weak, strong)
    assert oracle.apgr > 1 > chance.apgr
    assert oracle.cpt50 < oracle.cpt80 < chance.cpt50


def test_ties_are_broken_by_chance_and_not_by_order():
    weak, strong = np.zeros(1000), np.concatenate([np.ones(500), np.zeros(500)])
    pgr, _ = gap_recovered(np.zeros(1000), weak, strong)
    assert area(pgr) == pytest.approx(0.5, abs=0.05)


def test_identical_prompts_share_a_fold():
    prompts = tuple(f"prompt {at % 50}" for at in range(200))
    folds = Outcomes("x", prompts, np.zeros(200), np.zeros(200)).folds(0)
    assert all(
        len({fold for fold, p in zip(folds, prompts, strict=True) if p == prompt}) == 1 for prompt in set(prompts)
    )
    assert len(set(folds)) == 5


@pytest.fixture
def simulated(tmp_path):
    """Simulated outcomes in the format of the real ones: the weak model fails where a prompt says `prove`."""
    rng = np.random.default_rng(1)
    lines = []
    for at in range(240):
        hard = bool(rng.random() < 0.5)
        text = f"{'Prove that' if hard else 'Say whether'} {rng.integers(1000)} is {'prime' if at % 2 else 'even'}"
        weak = bool(rng.random() < (0.2 if hard else 0.9))
        name = "gsm8k" if at % 3 == 0 else f"mmlu/{'hard' if hard else 'easy'}"
        lines.append(
            json.dumps(
                {"dataset": name, "prompt": text, "weak_correct": weak, "strong_correct": bool(rng.random() < 0.9)}
            )
        )
    (tmp_path / "routellm").mkdir()
    (tmp_path / "routellm" / "outcomes.jsonl").write_text("\n".join(lines), "utf-8")
    words = {"pay": "pay my bill now", "play": "play a loud song", "rain": "will it rain today"}
    many = [[f"{text} {at}", label] for label, text in words.items() for at in range(6)]
    odd = [[f"zzz qqq {at}", "oos"] for at in range(6)]
    (tmp_path / "clinc150").mkdir()
    clinc = {"train": many, "val": many, "test": many, "oos_val": odd, "oos_test": odd}
    (tmp_path / "clinc150" / "data_full.json").write_text(json.dumps(clinc), "utf-8")
    return tmp_path


def test_the_whole_evaluation_writes_the_report_and_the_plots(simulated, tmp_path, capsys):
    out = tmp_path / "out" / "routing.json"
    assert routing_eval.main(["--data", str(simulated), "--out", str(out), "--latency-rounds", "3"]) == 0
    report = json.loads(out.read_text("utf-8"))
    for setting in ("mmlu", "gsm8k", "mmlu_to_gsm8k", "gsm8k_to_mmlu"):
        assert set(report[setting]) == {"tiermesh", "tiermesh_plain", "length", "random", "tfidf", "oracle"}
        for figures in report[setting].values():
            assert set(figures) == {"apgr", "apgr_ci", "cpt50", "cpt50_ci", "cpt80", "cpt80_ci"}
            assert figures["apgr_ci"][0] <= figures["apgr"] <= figures["apgr_ci"][1]
        assert report[setting]["tiermesh"]["apgr"] > report[setting]["random"]["apgr"]
        for kind in ("png", "svg"):
            assert (out.parent / f"routing_{setting}.{kind}").stat().st_size > 1000
    for name in ("mmlu", "gsm8k"):
        stream = report["stream"][name]
        assert len(stream["windows"]["bandit"]) == len(stream["windows"]["static"]) == 20
        assert 0 <= stream["explored"] <= 0.1
        assert stream["replay"]["worth_difference"][1] <= stream["replay"]["worth_difference"][2]
        assert (out.parent / f"routing_stream_{name}.svg").stat().st_size > 1000
    assert report["clinc"]["5"]["accuracy"] == report["clinc"]["5"]["oos_recall"] == 1
    assert {"rules_p99", "model_p50", "model_p99"} <= set(report["latency_ms"])
    assert "mmlu" in capsys.readouterr().out


def test_missing_data_is_said_plainly(tmp_path, capsys):
    assert routing_eval.main(["--data", str(tmp_path)]) == 2
    assert "--data" in capsys.readouterr().err


def test_rankings_by_embeddings_learn_from_them_and_from_the_training_rows_alone(simulated):
    sets = read_outcomes(simulated / "routellm" / "outcomes.jsonl")
    # An embedding that gives away whether only the strong model is right.
    telling = {
        name: np.column_stack([one.strong - one.weak, np.ones(len(one.prompts))]).astype(np.float32)
        for name, one in sets.items()
    }
    routers = make_routers(Reader(), telling)
    mmlu = sets["mmlu"]
    inside, outside = np.arange(0, 100), np.arange(100, len(mmlu.prompts))
    gains = (mmlu.strong - mmlu.weak)[outside]
    for name in ("minilm", "tiermesh_minilm"):
        scores = routers[name](mmlu, inside, mmlu, outside)
        assert scores[gains > 0].min() > scores[gains < 0].max()


def test_counting_a_set_once_ranks_as_counting_each_fold(simulated):
    mmlu = read_outcomes(simulated / "routellm" / "outcomes.jsonl")["mmlu"]
    inside, outside = np.arange(0, 120), np.arange(120, len(mmlu.prompts))
    pieces = TfidfVectorizer(analyzer="char_wb", ngram_range=(2, 5), sublinear_tf=True, min_df=3, max_features=50_000)
    matrix = pieces.fit_transform([mmlu.prompts[at] for at in inside])
    alone = (mmlu.strong > mmlu.weak)[inside]
    fitted = LogisticRegression(C=0.3, solver="liblinear", tol=1e-3, random_state=0).fit(matrix, alone)
    plainly = fitted.decision_function(pieces.transform([mmlu.prompts[at] for at in outside]))
    assert make_routers(Reader())["tfidf"](mmlu, inside, mmlu, outside) == pytest.approx(plainly, abs=0.02)
