"""What is taken from WordNet: see `services/cache/generate_thesaurus.py`."""

from __future__ import annotations

from functools import cache
from importlib.resources import files


def is_verb(word: str) -> bool:
    """Tells whether a word as it stands can be a verb in its plain form."""
    return word in _verbs()


def section(name: str) -> list[list[str]]:
    """Returns the words of a section, line by line."""
    text = files("tiermesh.cache.semantic").joinpath("thesaurus_en.txt").read_text(encoding="utf-8")
    _, _, rest = text.partition(f"[{name}]\n")
    return [line.split() for line in rest.partition("[")[0].splitlines()]


@cache
def _verbs() -> frozenset[str]:
    return frozenset(word for words in section("verbs") for word in words)
