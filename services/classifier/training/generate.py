"""Writes the training prompts from the hand-written templates: `python generate.py`.

A template is a prompt with slots in braces; a slot is filled with one of its hand-written fillers, which may
have slots of their own. Some prompts get the wear of real ones (lower case, a missing question mark, a
courtesy before or after). The same templates and seed give the same file, byte for byte.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from tiermesh.shared.rules import phrase_key

HERE = Path(__file__).parent
TEMPLATES, PROMPTS = HERE / "templates", HERE / "data" / "prompts.jsonl"
SEED = 20261
NEAR = 0.85
"""Prompts sharing at least this much of their four-character pieces (Jaccard) count as the same."""
_SLOT = re.compile(r"\{([a-z_]+)\}")
_TRIES = 60
_LONG: Mapping[str, tuple[str, int, int]] = {
    "long_document": ("sentence", 45, 110),
    "long_contract": ("clause", 25, 60),
    "long_log": ("long_log_line", 60, 140),
}
"""Slots made of many others: which, at least and at most how often."""
_COURTESIES: Mapping[str, tuple[Sequence[str], Sequence[str]]] = {
    "en": (
        ("Please ", "Hi, ", "Hey, quick one: ", "Could you help? ", "pls "),
        (" Thanks!", " thx", " Please.", " 🙏"),
    ),
    "zh": (("请", "你好，", "麻烦问下，", "帮个忙，", "亲，"), ("谢谢！", "，谢谢", "，急", "🙏")),
}
_UNTOUCHED = frozenset({"greeting", "code", "long_context"})
"""Kinds that get no courtesies: they have their own, or it would break what they quote."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """One labelled prompt. The numbers are its author's judgement of the whole group it comes from."""

    text: str
    task_type: str
    language: str
    complexity: float
    answer_tokens: int
    small_right: float
    large_right: float
    template: str
    """Which template it was made from; folds keep a template together, or calibration would flatter itself."""


def pieces(text: str) -> frozenset[str]:
    """Returns the four-character pieces of a text's phrase key, of long ones only the first 1,500 characters."""
    key = phrase_key(text)[:1500]
    return frozenset(key[at : at + 4] for at in range(max(1, len(key) - 3)))


def alike(first: frozenset[str], second: frozenset[str]) -> float:
    """Returns the Jaccard similarity of two sets of pieces, 0 to 1."""
    return len(first & second) / max(1, len(first | second))


def generate(seed: int = SEED) -> list[Prompt]:
    """Makes all prompts.

    Raises:
        ValueError: a group has too few different prompts for the count it asks for, or a slot has no fillers.
    """
    slots = {
        language: yaml.safe_load((TEMPLATES / f"slots.{language}.yaml").read_text("utf-8")) for language in _COURTESIES
    }
    prompts: list[Prompt] = []
    keys: set[str] = set()
    for path in sorted(TEMPLATES.glob("*.yaml")):
        if path.name.startswith("slots."):
            continue
        for number, group in enumerate(yaml.safe_load(path.read_text("utf-8"))):
            # A generator of its own for each group: changing one leaves the others as they were.
            rng = np.random.default_rng([seed, number, *path.stem.encode()])
            prompts += _group(path.stem, number, group, slots[group["language"]], keys, rng)
    return prompts


def _group(
    task: str,
    number: int,
    group: Mapping[str, Any],
    slots: Mapping[str, list[Any]],
    keys: set[str],
    rng: np.random.Generator,
) -> list[Prompt]:
    kept: list[Prompt] = []
    seen: list[frozenset[str]] = []
    templates = group["templates"]
    for turn in range(group["count"] * _TRIES):
        if len(kept) == group["count"]:
            return kept
        text = _fill(templates[turn % len(templates)], slots, rng).replace("{{", "{").replace("}}", "}")
        if task not in _UNTOUCHED:
            text = _wear(text, group["language"], rng)
        key, parts = phrase_key(text), pieces(text)
        # Greetings are short enough that one letter more is another greeting.
        near = NEAR if len(parts) > 12 else 1.0
        if key in keys or any(alike(parts, other) >= near for other in seen):
            continue
        keys.add(key)
        seen.append(parts)
        jitter = float(rng.normal(0, 0.03))
        kept.append(
            Prompt(
                text=text,
                task_type=task,
                language=group["language"],
                complexity=round(min(1.0, max(0.0, group["complexity"] + jitter)), 3),
                answer_tokens=max(1, round(group["answer_tokens"] * float(rng.lognormal(0, 0.15)))),
                small_right=group["small_right"],
                large_right=group["large_right"],
                template=f"{task}/{number}/{turn % len(templates)}",
            )
        )
    if len(kept) < group["count"]:
        raise ValueError(
            f"{task}/{group['language']}: {len(kept)} different prompts, {group['count']} wanted; add fillers"
        )
    return kept


def _fill(template: str, slots: Mapping[str, list[Any]], rng: np.random.Generator) -> str:
    def filler(match: re.Match[str]) -> str:
        name = match.group(1)
        if name in _LONG:
            part, least, most = _LONG[name]
            count = int(rng.integers(least, most + 1))
            gap = "\n" if name != "long_document" else " " if "{sentence} " in slots["paragraph"][0] else ""
            many = [_fill(f"{{{part}}}", slots, rng) for _ in range(count)]
            return gap.join(f"{at}. {text}" if name == "long_contract" else text for at, text in enumerate(many, 1))
        if name not in slots:
            raise ValueError(f"no fillers for {{{name}}}")
        options = slots[name]
        return _fill(str(options[int(rng.integers(len(options)))]), slots, rng)

    return _SLOT.sub(filler, template)


def _wear(text: str, language: str, rng: np.random.Generator) -> str:
    before, after = _COURTESIES[language]
    chance = rng.random(4)
    if chance[0] < 0.1:
        text = before[int(rng.integers(len(before)))] + text
    elif chance[1] < 0.08:
        text += after[int(rng.integers(len(after)))]
    if chance[2] < 0.12:
        text = text.lower()
    if chance[3] < 0.1:
        text = text.rstrip("?.。？!！")
    return text


def main() -> int:
    """Writes the file and prints how many prompts of each kind it has."""
    prompts = generate()
    lines = [json.dumps(asdict(prompt), ensure_ascii=False) for prompt in prompts]
    PROMPTS.write_text("\n".join(lines) + "\n", "utf-8")
    kinds = sorted({(prompt.task_type, prompt.language) for prompt in prompts})
    for kind in kinds:
        print(*kind, sum((prompt.task_type, prompt.language) == kind for prompt in prompts))
    print(len(prompts), "prompts")
    return 0


if __name__ == "__main__":
    sys.exit(main())
