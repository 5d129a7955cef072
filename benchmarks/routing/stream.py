"""The bandit on recorded outcomes as a stream of requests, beside the static policy, and what a replay says of both.

Every request is seen as the router sees it: judged by the shipped rules and the built-in model, whose heads have seen none of
these outcomes. The static policy is that of `mesh/profiles/local.yaml`, as shipped, and with the threshold that
`tiermesh calibrate-thresholds` chooses from the first fifth of the stream, in force from there on. The bandit decides beside either,
is told only how the tier that it asked did, and learns every hundred requests. Since the outcomes of both models are known,
so is the better one: a request is *misrouted* that does not go to the tier of higher worth (the small one where it is right
or both are wrong).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from numpy.typing import NDArray
from tiermesh.classifier.features import Turn, read_features
from tiermesh.classifier.judge import judge, sure, with_answer
from tiermesh.classifier.model import LinearModel, load_builtin
from tiermesh.client.thresholds import Known, Price
from tiermesh.client.thresholds import choose as choose_threshold
from tiermesh.shared.bandit import Option, Posterior, Seen, choose, context_of
from tiermesh.shared.bandit.choice import Settings
from tiermesh.shared.bandit.learning import Lesson, learn
from tiermesh.shared.bandit.priors import options_of
from tiermesh.shared.bandit.replay import Logged, replay
from tiermesh.shared.bandit.report import objections, settings_of
from tiermesh.shared.config import TiermeshConfig, load_config
from tiermesh.shared.rules import load_rules

from routing.outcomes import Outcomes

mpl.use("Agg")
from matplotlib import pyplot as plt

WINDOWS = 20
"""Parts of the stream for which misrouting is told."""
EVERY = 100
"""Requests between two lessons."""
WARM_UP = 0.2
"""Share of the stream that the static policy is calibrated on, both models' outcomes known; misrouting is told after it."""
TARGET_QUALITY = 0.9
"""What it is calibrated to: share of the large model's right answers."""
LOG_EXPLORATION = 0.05
"""Share of requests on which the log for the replay tries the other tier."""


@dataclass(frozen=True, slots=True)
class Asked:
    """One request of the stream."""

    complexity: float
    context: NDArray[np.float64]
    options: tuple[Option, ...]
    static: str
    right: dict[str, float]
    """How each tier does."""

    def worth(self, tier: str, settings: Settings) -> float:
        """Returns what asking a tier turns out to be worth."""
        cost = next(option.cost_share for option in self.options if option.tier == tier)
        return settings.right_weight * self.right[tier] - settings.cost_weight * cost

    def best(self, settings: Settings) -> str:
        """Returns the tier that turns out to be worth most."""
        return max((option.tier for option in self.options), key=lambda tier: self.worth(tier, settings))


def measure_stream(outcomes: Outcomes, profile: Path, plots: Path, *, seed: int = 0) -> dict[str, Any]:
    """Returns misrouting over time of both policies, draws it, and returns what a replay would have said."""
    config = load_config(profile)
    settings = settings_of(config)
    stream = _stream(outcomes, config, seed)
    calibrated, threshold = _calibrated(stream)
    bandit, explored = _run(stream, settings, seed)
    small = stream[0].options[0].tier
    policies = {
        "static": [request.static for request in stream],
        "static_calibrated": [request.static for request in calibrated],
        "bandit": bandit,
        "bandit_calibrated": _run(calibrated, settings, seed)[0],
        "bandit_without_floor": _run(stream, replace(settings, floor=0.0), seed)[0],
        "always_small": [small] * len(stream),
    }
    wrong = {
        name: np.array([tier != request.best(settings) for tier, request in zip(chosen, stream, strict=True)], float)
        for name, chosen in policies.items()
    }
    windows = np.array_split(np.arange(len(stream)), WINDOWS)
    figures: dict[str, Any] = {
        "requests": len(stream),
        "explored": round(explored / len(stream), 4),
        "calibrated_max_complexity": round(threshold, 4),
        "windows": {name: [round(float(one[at].mean()), 4) for at in windows] for name, one in wrong.items()},
    }
    for name, chosen in policies.items():
        one, fifth = wrong[name], len(stream) // 5
        last = list(zip(chosen, stream, strict=True))[-fifth:]
        figures[name] = {
            "misrouted": _share(one),
            "misrouted_first": _share(one[:fifth]),
            "misrouted_last": _share(one[-fifth:]),
            # Of the last fifth as well: what has been learnt by then is what there is to compare.
            "right": round(float(np.mean([request.right[tier] for tier, request in last])), 4),
            "to_large": round(float(np.mean([tier != small for tier, _ in last])), 4),
            "worth": round(float(np.mean([request.worth(tier, settings) for tier, request in last])), 4),
        }
    figures["replay"] = _replayed(stream, settings, config, seed)
    _draw(outcomes.name, figures, len(stream), plots)
    return figures


def _stream(outcomes: Outcomes, config: TiermeshConfig, seed: int) -> list[Asked]:
    book, model = load_rules(config.rules), LinearModel(load_builtin())
    models = [tier for tier in config.tiers if tier.backend != "rules"]
    small, large = models[0].name, models[-1].name
    order = np.random.default_rng(seed).permutation(len(outcomes.prompts))
    found = []
    for at in order:
        turns = (Turn("user", outcomes.prompts[at]),)
        features = read_features(turns, book.token_weights)
        judged = judge(book, turns, features, tenant="")
        prediction = model.predict([features])[0]
        if not sure(judged):
            judged = with_answer(judged, prediction)
        seen = Seen(
            judged.task_type, judged.complexity, judged.confidence, features.prompt_tokens, prediction.answer_tokens,
            prediction.small_right, prediction.large_right, features.numbers(),
        )  # fmt: skip
        fits = judged.complexity <= models[0].max_complexity and judged.task_type not in models[0].excluded_task_types
        # The kinds that the small tier is never asked for are a setting for weak models; the bandit may learn better.
        options = options_of(config.tiers, (small, large), seen, answer_tokens=config.router.default_answer_tokens)
        right = {small: float(outcomes.weak[at]), large: float(outcomes.strong[at])}
        found.append(Asked(judged.complexity, context_of(seen), options, small if fits else large, right))
    return found


def _calibrated(stream: Sequence[Asked]) -> tuple[list[Asked], float]:
    """Returns the stream with the calibrated static policy after the warm-up, and its threshold."""
    small, large = (option.tier for option in stream[0].options)
    warm_up = round(len(stream) * WARM_UP)
    known = [Known(one.complexity, one.right[small], one.right[large]) for one in stream[:warm_up]]
    # Kinds of work are left to the threshold: the profile's list of them is for a far weaker small model.
    threshold = choose_threshold(known, Price(0, 0), Price(0, 0), target_quality=TARGET_QUALITY).max_complexity
    moved = [replace(one, static=small if one.complexity <= threshold else large) for one in stream[warm_up:]]
    return [*stream[:warm_up], *moved], threshold


def _run(stream: Sequence[Asked], settings: Settings, seed: int) -> tuple[list[str], int]:
    """Lets the bandit decide the stream; returns its tiers, and how often it tried another than it preferred."""
    dice = np.random.default_rng([seed, 1])
    learnt: dict[str, Posterior] = {}
    chosen: list[str] = []
    lessons: list[Lesson] = []
    explored = 0
    for number, request in enumerate(stream, 1):
        choice = choose(request.options, request.context, learnt, static=request.static, settings=settings)
        tier = choice.draw(float(dice.random()))
        explored += tier != choice.preferred
        chosen.append(tier)
        prior = next(option.prior for option in request.options if option.tier == tier)
        lessons.append(Lesson(tier, request.context, request.right[tier], prior))
        if number % EVERY == 0:
            for name, posterior in learn(lessons, strength=settings.prior_strength).items():
                some = [lesson for lesson in lessons if lesson.tier == name]
                before = learnt.get(name)
                learnt[name] = (
                    posterior
                    if before is None
                    else before.seeing(
                        np.stack([one.context for one in some]), np.array([one.right - one.prior for one in some])
                    )
                )
            lessons = []
    return chosen, explored


def _replayed(stream: Sequence[Asked], settings: Settings, config: TiermeshConfig, seed: int) -> dict[str, Any]:
    """Logs the static policy with a little exploration, replays that log, and compares with what is known to be true."""
    dice = np.random.default_rng([seed, 2])
    log = []
    for request in stream:
        other = next(option.tier for option in request.options if option.tier != request.static)
        asked = other if dice.random() < LOG_EXPLORATION else request.static
        chances = {request.static: 1 - LOG_EXPLORATION, other: LOG_EXPLORATION}
        log.append(Logged(request.context, request.options, request.static, asked, chances, request.right[asked]))
    found = replay(log, settings=settings, seed=seed)
    truth = float(np.mean([r.worth(r.static, settings) for r in stream[len(stream) // 20 :]]))
    said = objections(found, exploration=settings.exploration, tolerance=config.bandit.tolerance)
    difference, static = found.worth_difference, found.worth_static
    return {
        "log_exploration": LOG_EXPLORATION,
        "worth_static": [round(value, 4) for value in (static.mean, static.low, static.high)],
        "worth_static_true": round(truth, 4),
        "worth_difference": [round(value, 4) for value in (difference.mean, difference.low, difference.high)],
        "passed": not said,
        "objections": said,
    }


def _share(values: NDArray[np.float64]) -> list[float]:
    """Returns a share and the middle 95% of its bootstrap."""
    draws = np.random.default_rng(0).integers(0, len(values), (1000, len(values)))
    low, high = np.quantile(values[draws].mean(axis=1), [0.025, 0.975])
    return [round(float(value), 4) for value in (values.mean(), low, high)]


def _draw(name: str, figures: dict[str, Any], requests: int, folder: Path) -> None:
    figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
    middle = (np.arange(WINDOWS) + 0.5) * requests / WINDOWS
    colours = {
        "static": "#2b6cb0",
        "static_calibrated": "#63b3ed",
        "bandit": "#0b6e4f",
        "bandit_calibrated": "#68a691",
        "bandit_without_floor": "#c05621",
        "always_small": "#718096",
    }
    for policy, values in figures["windows"].items():
        style = "--" if policy == "always_small" else "-"
        axes.plot(middle, np.array(values) * 100, style, label=policy.replace("_", " "), color=colours[policy])
    axes.set(title=f"{name} as a stream", xlabel="requests", ylabel="misrouted (%)", xlim=(0, requests))
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)
    folder.mkdir(parents=True, exist_ok=True)
    for kind in ("png", "svg"):
        figure.savefig(folder / f"routing_stream_{name}.{kind}", dpi=130)
    plt.close(figure)
