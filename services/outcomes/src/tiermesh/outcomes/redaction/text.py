"""Blots out what the patterns find, and telephone numbers, which a table of the world's dialling plans finds."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

import phonenumbers
from tiermesh.api.common.v1 import chat_pb2
from tiermesh.api.outcome.v1 import record_pb2
from tiermesh.outcomes.redaction.patterns import FIRST_AFTER_PHONES, PATTERNS, Pattern

VERSION = "1"
"""Of the rules; raised whenever they find something else."""
_PHONE = "phone"
_DIGITS = re.compile(r"\d[\d ()./-]{5,}\d")
_LONGEST_CHARS = 60
"""A longer stretch of digits is a list or a table; what could be a number in it is blotted out unseen."""
_MOST_STRETCHES = 500
"""Likewise for what comes after so many: looking at each takes about a millisecond."""
_PERHAPS = re.compile(r"(?<!\d)\d(?:[ ()./-]{0,2}\d){6,14}(?!\d)")
_BETWEEN = re.compile(r"[ -]")
# A bare row of digits is taken for a number of this region; elsewhere only one that is written as a telephone number is.
_BARE = ("CN", phonenumbers.Leniency.VALID)
_WRITTEN = tuple((region, phonenumbers.Leniency.STRICT_GROUPING) for region in ("US", "GB", "HK", "TW", "SG"))


def redact(text: str) -> tuple[str, Counter[str]]:
    """Returns a text without the personal data that is found in it, and how many pieces were blotted out, by kind."""
    counts: Counter[str] = Counter()
    for pattern in PATTERNS:
        if pattern is FIRST_AFTER_PHONES:
            text = _blot_out_phones(text, counts)
        text = _blot_out(text, pattern, counts)
    return text, counts


def redact_outcome(outcome: record_pb2.Outcome) -> None:
    """Takes personal data out of a record's texts, in place, and notes how much it was."""
    counts: Counter[str] = Counter()
    for message in outcome.text.messages:
        _redact_message(message, counts)
    answers = [_counted(answer, counts) for answer in outcome.text.answers]
    del outcome.text.answers[:]
    outcome.text.answers.extend(answers)
    outcome.text.redaction_counts.clear()
    outcome.text.redaction_counts.update(counts)
    outcome.text.redaction_version = VERSION


def _redact_message(message: chat_pb2.Message, counts: Counter[str]) -> None:
    message.content = _counted(message.content, counts)
    if message.name:
        # The participant's name is one.
        message.name = ""
        counts["name"] += 1
    for call in message.tool_calls:
        call.arguments_json = _counted(call.arguments_json, counts)


def _counted(text: str, counts: Counter[str]) -> str:
    found, more = redact(text)
    counts.update(more)
    return found


def _blot_out(text: str, pattern: Pattern, counts: Counter[str]) -> str:
    spans = []
    for match in pattern.form.finditer(text):
        start, end = match.span("pii") if "pii" in pattern.form.groupindex else match.span()
        found = text[start:end]
        if found.startswith("<") or (pattern.proves is not None and not pattern.proves(_BETWEEN.sub("", found))):
            continue
        spans.append((start, end))
    return _without(text, spans, pattern.kind, counts)


def _blot_out_phones(text: str, counts: Counter[str]) -> str:
    spans: list[tuple[int, int]] = []
    for count, stretch in enumerate(_DIGITS.finditer(text)):
        if count >= _MOST_STRETCHES or len(stretch[0]) > _LONGEST_CHARS:
            spans += [found.span() for found in _PERHAPS.finditer(text, stretch.start(), stretch.end())]
            continue
        # With what may stand before a number, and never the whole text: the matcher is slow.
        begin = max(0, stretch.start() - 3)
        spans += [(begin + found.start, begin + found.end) for found in _phones(text[begin : stretch.end()])]
    spans = _apart(spans)
    return _without(text, spans, _PHONE, counts)


def _phones(text: str) -> Iterable[phonenumbers.PhoneNumberMatch]:
    bare = text.strip().isdigit()
    for region, leniency in (_BARE,) if bare else (_BARE, *_WRITTEN):
        yield from phonenumbers.PhoneNumberMatcher(text, region, leniency=leniency)


def _apart(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    kept: list[tuple[int, int]] = []
    for start, end in sorted(spans, key=lambda span: (span[0], -span[1])):
        if not kept or start >= kept[-1][1]:
            kept.append((start, end))
    return kept


def _without(text: str, spans: list[tuple[int, int]], kind: str, counts: Counter[str]) -> str:
    if not spans:
        return text
    counts[kind] += len(spans)
    pieces, at = [], 0
    for start, end in spans:
        pieces += [text[at:start], f"<{kind}>"]
        at = end
    return "".join([*pieces, text[at:]])
