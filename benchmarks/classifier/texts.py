"""Texts to measure with, all different, from the prompts that the classifier's model is trained and held out on."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from pathlib import Path

from tiermesh.shared.rules import TokenWeights, estimate_tokens, measure

DATA = Path(__file__).resolve().parents[2] / "services" / "classifier" / "training" / "data"
ORDINARY_CHARS = 700


def read_prompts() -> list[str]:
    """Returns every prompt, English and Chinese mixed, in an order that is always the same."""
    lines = [
        line for name in ("prompts", "heldout") for line in (DATA / f"{name}.jsonl").read_text("utf-8").splitlines()
    ]
    prompts = [str(json.loads(line)["text"]) for line in lines]
    random.Random(0).shuffle(prompts)
    return prompts


def ordinary(prompts: Sequence[str]) -> list[str]:
    """Returns the prompts that somebody might have typed."""
    return [prompt for prompt in prompts if len(prompt) <= ORDINARY_CHARS]


def joined(prompts: Sequence[str], tokens: int, count: int) -> list[str]:
    """Returns texts of about that many tokens by estimate, each of other prompts put together."""
    drawn = _drawn(prompts)
    texts: list[str] = []
    while len(texts) < count:
        parts: list[str] = []
        had = 0
        while had < tokens:
            parts.append(next(drawn))
            had += estimate_tokens(measure(parts[-1]), TokenWeights())
        text = "\n".join(parts)
        texts.append(text[: max(1, len(text) * tokens // had)])
    return texts


def _drawn(prompts: Sequence[str]) -> Iterator[str]:
    rng = random.Random(1)
    while True:
        yield from rng.sample(prompts, len(prompts))
