"""Numbers in a text, however they are written."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

_ONES = {
    "zero": 0, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9, "ten": 10,
    "eleven": 11, "twelve": 12, "thirteen": 13, "fourteen": 14, "fifteen": 15, "sixteen": 16, "seventeen": 17,
    "eighteen": 18, "nineteen": 19, "twenty": 20, "thirty": 30, "forty": 40, "fifty": 50, "sixty": 60, "seventy": 70,
    "eighty": 80, "ninety": 90, "dozen": 12, "third": 3, "fourth": 4, "fifth": 5, "sixth": 6, "seventh": 7,
    "eighth": 8, "ninth": 9, "tenth": 10, "twice": 2,
}  # fmt: skip
_SCALES = {"hundred": 100, "thousand": 1000, "million": 10**6, "billion": 10**9, "k": 1000}
_HAN_DIGITS = {c: n for n, c in enumerate("零一二三四五六七八九")} | {"两": 2, "〇": 0}
_HAN_SCALES = {"十": 10, "百": 100, "千": 1000, "万": 10_000, "亿": 10**8}
_MEASURES = set("个天年月日号元块次人斤米岁点周分秒倍章只本张条件瓶杯寸度吨升里位名克代号级层楼线台部种小")
_NUMBER = re.compile(r"\d[\d.,:/-]*\d|\d")


@dataclass(frozen=True, slots=True)
class Numerals:
    """Numbers of a text, in their order, as plain decimals."""

    values: tuple[str, ...]

    def unseen(self, tokens: Iterable[str]) -> list[str]:
        """Returns the values that are not among the tokens, marked so that no word equals them."""
        present = set(tokens)
        return [f"#{value}" for value in self.values if value not in present]


def numerals_in(words: Sequence[str]) -> Numerals:
    """Finds numbers in the tokens of a text: digits, English words, Chinese numerals before a measure."""
    found: list[str] = []
    at = 0
    while at < len(words):
        taken, value = _at(words, at)
        if value is not None:
            found.append(value)
        at += taken
    return Numerals(tuple(found))


def _at(words: Sequence[str], at: int) -> tuple[int, str | None]:
    word = words[at]
    if _NUMBER.fullmatch(word):
        value = _plain(word)
        if at + 1 < len(words) and words[at + 1] in _SCALES and value.isdigit():
            return 2, str(int(value) * _SCALES[words[at + 1]])
        if at + 1 < len(words) and words[at + 1] in {"万", "千", "亿", "百"} and value.isdigit():
            return 2, str(int(value) * _HAN_SCALES[words[at + 1]])
        return 1, value
    if word in _ONES or word in _SCALES:
        return _english(words, at)
    if word in _HAN_DIGITS or word in _HAN_SCALES:
        return _chinese(words, at)
    return 1, None


def _plain(word: str) -> str:
    if re.fullmatch(r"\d{1,3}(,\d{3})+(\.\d+)?", word):
        word = word.replace(",", "")
    if re.fullmatch(r"\d+\.\d+", word):
        word = word.rstrip("0").rstrip(".") or "0"
    return word.lstrip("0") or "0" if word.isdigit() else word


def _english(words: Sequence[str], at: int) -> tuple[int, str | None]:
    end = at
    total = part = 0
    while end < len(words) and (words[end] in _ONES or words[end] in _SCALES):
        word = words[end]
        if word in _ONES:
            part += _ONES[word]
        elif _SCALES[word] == 100:
            part = max(part, 1) * 100
        else:
            total += max(part, 1) * _SCALES[word]
            part = 0
        end += 1
    return end - at, str(total + part)


def _chinese(words: Sequence[str], at: int) -> tuple[int, str | None]:
    end = at
    while end < len(words) and (words[end] in _HAN_DIGITS or words[end] in _HAN_SCALES):
        end += 1
    run = words[at:end]
    ordinal = at > 0 and words[at - 1] == "第"
    measured = end < len(words) and words[end] in _MEASURES
    if not ordinal and not measured and len(run) == 1:
        return 1, None
    if list(run) == ["一"] and not ordinal and end < len(words) and words[end] in {"个", "点", "种", "次"}:
        return end - at, None
    if all(c in _HAN_DIGITS for c in run) and len(run) > 1:
        return end - at, str(int("".join(str(_HAN_DIGITS[c]) for c in run)))
    total = section = digit = 0
    for c in run:
        if c in _HAN_DIGITS:
            digit = _HAN_DIGITS[c]
        elif _HAN_SCALES[c] >= 10_000:
            total += max(section + digit, 1) * _HAN_SCALES[c]
            section = digit = 0
        else:
            section += max(digit, 1) * _HAN_SCALES[c]
            digit = 0
    return end - at, str(total + section + digit)
