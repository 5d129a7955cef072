"""What is known about wordings: which mean the same, which are opposites, which say nothing.

The word lists lie beside this file, one for each language, and are read once. Lines are grouped
under `[section]`; `#` begins a comment.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files

ENGLISH_TOKEN = re.compile(r"\d[\d.,:/-]*\d|\d|[a-z]+|'s")
CHINESE_TOKEN = re.compile(r"\d[\d.,:/-]*\d|\d|[a-z]+|[\u3007\u3400-\u4dbf\u4e00-\u9fff]")


@dataclass(frozen=True, slots=True)
class Lexicon:
    """One language's word lists."""

    phrases: Mapping[tuple[str, ...], tuple[str, ...]]
    """Sequences of tokens, and what stands for them; nothing for fillers."""
    openings: Mapping[tuple[str, ...], tuple[str, ...]]
    """The same for sequences that only count where a text begins."""
    longest: int
    """Tokens of the longest phrase."""
    frames: frozenset[str]
    """Tokens that say what kind of question it is."""
    function: frozenset[str]
    """Words that carry no content of their own."""
    opposites: Mapping[str, frozenset[str]]
    """Words and their opposites, both ways."""

    def rewrite(self, tokens: Iterable[str]) -> list[str]:
        """Replaces known phrases by what stands for them, the longest first."""
        given = list(tokens)
        made: list[str] = []
        at = 0
        while opening := self._longest(self.openings, given, at):
            at += opening
            if self.openings[tuple(given[at - opening : at])]:
                made.extend(self.openings[tuple(given[at - opening : at])])
                break
        while at < len(given):
            length = self._longest(self.phrases, given, at)
            if length:
                made.extend(self.phrases[tuple(given[at : at + length])])
            else:
                made.append(given[at])
            at += max(length, 1)
        return made

    def _longest(self, known: Mapping[tuple[str, ...], object], given: list[str], at: int) -> int:
        for length in range(min(self.longest, len(given) - at), 0, -1):
            if tuple(given[at : at + length]) in known:
                return length
        return 0


@cache
def english() -> Lexicon:
    """Returns the English lexicon; its tokens are words."""
    return _parse(_lines("lexicon_en.txt"), split=ENGLISH_TOKEN.findall)


@cache
def chinese() -> Lexicon:
    """Returns the Chinese lexicon; its tokens are characters, Latin words and numbers."""
    return _parse(_lines("lexicon_zh.txt"), split=CHINESE_TOKEN.findall)


def _lines(name: str) -> Iterator[tuple[str, str]]:
    section = ""
    for line in files("tiermesh.cache.semantic").joinpath(name).read_text(encoding="utf-8").splitlines():
        text = line.partition("#")[0].strip()
        if text.startswith("["):
            section = text.strip("[]")
        elif text:
            yield section, text


def _parse(lines: Iterable[tuple[str, str]], *, split: Callable[[str], list[str]]) -> Lexicon:
    phrases: dict[tuple[str, ...], tuple[str, ...]] = {}
    openings: dict[tuple[str, ...], tuple[str, ...]] = {}
    frames: set[str] = set()
    words: dict[str, set[str]] = {"function": set(), "keep": set()}
    pairs: list[tuple[str, str]] = []
    for section, text in lines:
        if section == "filler":
            phrases[tuple(split(text))] = ()
        elif section == "opening" and "=" not in text:
            openings[tuple(split(text))] = ()
        elif section in {"frame", "same", "opening"}:
            canonical, _, others = text.partition("=")
            stands = tuple(canonical.split())
            if section == "frame":
                frames.add(stands[0])
            known = openings if section == "opening" else phrases
            for other in (*others.split("|"), *(() if section == "opening" else (canonical,))):
                known.setdefault(tuple(split(other)), stands)
                # `The best way of cleaning` as `the best way to clean`.
                if section == "frame" and other.rstrip().endswith((" way to", " ways to", " method to", " methods to")):
                    known.setdefault((*split(other)[:-1], "of"), stands)
        elif section == "opposite":
            one, _, other = text.partition("/")
            pairs.append((one, other))
        else:
            words[section].update(text.split())
    longest = max(map(len, (*phrases, *openings)), default=1)
    lexicon = Lexicon(phrases, openings, longest, frozenset(frames), frozenset(words["function"] - words["keep"]), {})
    opposites: dict[str, set[str]] = {}
    for pair in pairs:
        # Opposites are written as people say them and kept as questions have them after rewriting.
        one, other = (" ".join(lexicon.rewrite(split(text))) for text in pair)
        opposites.setdefault(one, set()).add(other)
        opposites.setdefault(other, set()).add(one)
    return replace(lexicon, opposites={word: frozenset(others) for word, others in opposites.items()})
