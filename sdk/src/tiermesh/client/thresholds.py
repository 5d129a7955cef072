"""Which complexity the small tier should take at most, chosen from requests whose outcomes are known.

Pure: values in, values out. A request goes to the large tier if its complexity is above the threshold, or if its task
type is one the small tier does not take.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

_ROUNDING = 1e-9
"""By how much sums of shares may differ for the order in which they were added."""


@dataclass(frozen=True, slots=True)
class Known:
    """One request of a traffic log or an evaluation set."""

    complexity: float
    """What the classifier said, 0 to 1."""
    small_right: float
    """Whether, or with what probability, the small tier's answer is right."""
    large_right: float
    task_type: str = ""
    prompt_tokens: int = 0
    answer_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Price:
    """Of one tier, per million tokens."""

    prompt: float
    answer: float

    def of(self, request: Known) -> float:
        """Returns what one request costs."""
        return (self.prompt * request.prompt_tokens + self.answer * request.answer_tokens) / 1e6


@dataclass(frozen=True, slots=True)
class Choice:
    """A threshold and what it would have meant for the known requests."""

    max_complexity: float
    """The small tier's `max_complexity`."""
    strong_share: float
    """Share of requests that go to the large tier."""
    quality: float
    """Share of right answers."""
    quality_of_large: float
    """Of the large tier alone; a relative quality is `quality / quality_of_large`."""
    cost: float
    cost_of_large: float


def read_known(lines: Iterable[str]) -> list[Known]:
    """Reads JSON lines with `complexity`, `weak_correct` and `strong_correct`, and, where known, `task_type`, `prompt_tokens`, `answer_tokens`.

    Raises:
        ValueError: a line is no such object; the message names its number.
    """
    known = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
            request = Known(
                complexity=float(row["complexity"]),
                small_right=float(row["weak_correct"]),
                large_right=float(row["strong_correct"]),
                task_type=str(row.get("task_type", "")).removeprefix("TASK_TYPE_").lower(),
                prompt_tokens=int(row.get("prompt_tokens", 0)),
                answer_tokens=int(row.get("answer_tokens", 0)),
            )
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"line {number}: needs complexity, weak_correct and strong_correct ({error!r})") from None
        if not all(0 <= value <= 1 for value in (request.complexity, request.small_right, request.large_right)):
            raise ValueError(f"line {number}: complexity, weak_correct and strong_correct must be from 0 to 1")
        known.append(request)
    if not known:
        raise ValueError("no requests: at least one line is needed")
    return known


def outcome(known: Sequence[Known], threshold: float, small: Price, large: Price, excluded: Collection[str]) -> Choice:
    """Returns what a threshold would have meant."""
    strong = [request.complexity > threshold or request.task_type in excluded for request in known]
    pairs = list(zip(known, strong, strict=True))
    count = len(known)
    return Choice(
        max_complexity=threshold,
        strong_share=sum(strong) / count,
        quality=sum(request.large_right if up else request.small_right for request, up in pairs) / count,
        quality_of_large=sum(request.large_right for request in known) / count,
        cost=sum((large if up else small).of(request) for request, up in pairs),
        cost_of_large=sum(large.of(request) for request in known),
    )


def choose(
    known: Sequence[Known],
    small: Price,
    large: Price,
    *,
    excluded: Collection[str] = (),
    target_strong_share: float | None = None,
    target_quality: float | None = None,
) -> Choice:
    """Chooses the threshold for one of two targets.

    Args:
        known: Requests with outcomes.
        small: Prices of the small tier.
        large: Prices of the large tier.
        excluded: Task types that the small tier does not take.
        target_strong_share: Send at most this share to the large tier, and no less than need be.
        target_quality: Keep at least this share of the large tier's quality, sending as few as possible.

    Raises:
        ValueError: not exactly one target, or one that no threshold reaches.
    """
    if (target_strong_share is None) == (target_quality is None):
        raise ValueError("name exactly one target: a share of strong calls or a quality")
    # Requests of one complexity cannot be told apart, so these and 0 are all the thresholds there are.
    steps = sorted({0.0, 1.0, *(request.complexity for request in known)})
    strong, right = _by_step(known, steps, excluded)
    best = sum(request.large_right for request in known)
    if target_strong_share is not None:
        at = next((at for at, count in enumerate(strong) if count <= target_strong_share * len(known)), None)
        if at is None:
            raise ValueError(
                f"{min(strong) / len(known):.1%} go to the large tier at least, because of task types that the small one"
                " excludes"
            )
    else:
        wanted = (target_quality or 0.0) * best
        at = next((at for at in reversed(range(len(steps))) if right[at] >= wanted - _ROUNDING), None)
        if at is None:
            raise ValueError(
                f"no threshold reaches that quality; the best keeps {max(right) / max(1e-9, best):.1%} of the large tier's"
            )
    return outcome(known, steps[at], small, large, excluded)


def _by_step(
    known: Sequence[Known], steps: Sequence[float], excluded: Collection[str]
) -> tuple[list[int], list[float]]:
    """Returns, for each threshold, how many requests go to the large tier, and how many are answered rightly."""
    strong, right = len(known), sum(request.large_right for request in known)
    free = sorted((request for request in known if request.task_type not in excluded), key=lambda one: one.complexity)
    counts, rights, at = [], [], 0
    for step in steps:
        while at < len(free) and free[at].complexity <= step:
            strong -= 1
            right += free[at].small_right - free[at].large_right
            at += 1
        counts.append(strong)
        rights.append(right)
    return counts, rights
