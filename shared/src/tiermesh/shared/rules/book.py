"""The rules file in the form in which it is asked: patterns compiled, phrases in a table."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import regex
from tiermesh.shared.rules.labels import CompiledLabelSet, compile_labels
from tiermesh.shared.rules.measure import TokenWeights
from tiermesh.shared.rules.patterns import Patterns
from tiermesh.shared.rules.schema import FaqEntry, FixedAnswerPolicy, RoutingRule, RulesFile, Structure, policy_of
from tiermesh.shared.rules.text import WRITTEN_TOGETHER, phrase_key

_DECORATION_CHARS = 100

Kind = Literal["greeting", "faq", "label"]


@dataclass(frozen=True, slots=True)
class FixedAnswer:
    """An answer that needs no model."""

    kind: Kind
    rule: str
    """What gives it, such as `faq:reset-password` or `label:sentiment`."""
    text: str
    language: str
    """Of the answer."""


@dataclass(frozen=True, slots=True)
class FixedPhrase:
    """A fixed answer and when it may be given."""

    answer: FixedAnswer
    policy: FixedAnswerPolicy


@dataclass(frozen=True, slots=True)
class CompiledRule:
    """A routing rule, with its patterns by their numbers in the book."""

    spec: RoutingRule
    any: tuple[int, ...]
    all: tuple[int, ...]
    none: tuple[int, ...]
    structured: bool
    """Whether it asks anything of the structure; most rules do not."""


@dataclass(frozen=True, slots=True)
class RuleBook:
    """Everything the rules file says. Immutable; a changed file makes a new one."""

    version: str
    """Hash of the file's meaning: comments and order of keys do not change it."""
    rules: tuple[CompiledRule, ...]
    """Strongest first."""
    patterns: Patterns
    """Of all rules."""
    phrases: Mapping[str, FixedPhrase]
    """By `phrase_key`."""
    longest_phrase_chars: int
    """Longer messages are no listed phrase, polite words and punctuation included."""
    polite_before: tuple[str, ...]
    """Keys that may stand before a question, longest first."""
    polite_after: tuple[str, ...]
    faq: tuple[FaqEntry, ...]
    """As in the file."""
    label_sets: tuple[CompiledLabelSet, ...]
    token_weights: TokenWeights


def make_book(file: RulesFile) -> RuleBook:
    """Compiles a rules file."""
    digest = hashlib.sha256(file.model_dump_json().encode()).hexdigest()[:12]
    ranked = sorted(file.rules, key=lambda rule: -rule.priority)
    phrases = dict(_phrases(file))
    patterns = Patterns(pattern for rule in ranked for pattern in (*rule.any, *rule.all, *rule.none))
    rules = tuple(
        CompiledRule(
            rule,
            tuple(map(patterns.number, rule.any)),
            tuple(map(patterns.number, rule.all)),
            tuple(map(patterns.number, rule.none)),
            structured=rule.structure != Structure(),
        )
        for rule in ranked
    )
    return RuleBook(
        version=f"rules-{digest}",
        rules=rules,
        patterns=patterns,
        phrases=phrases,
        longest_phrase_chars=max(map(len, phrases), default=0) + _DECORATION_CHARS,
        polite_before=_keys(file.politeness.before),
        polite_after=_keys(file.politeness.after),
        faq=file.faq,
        label_sets=compile_labels(file),
        token_weights=file.token_weights,
    )


def without_politeness(book: RuleBook, key: str) -> Iterator[str]:
    """Yields a phrase's key, and then what is left of it without the polite words around it."""
    yield key
    shorter = key
    for _ in range(3):
        if not shorter.startswith(book.polite_before):
            break
        start = next((p for p in book.polite_before if _begins(shorter, p)), "")
        if not start:
            break
        shorter = phrase_key(shorter[len(start) :])
        yield shorter
    if shorter.endswith(book.polite_after):
        end = next((p for p in book.polite_after if _ends(shorter, p)), "")
        if end:
            yield phrase_key(shorter[: -len(end)])


_TOGETHER = regex.compile(rf"[{WRITTEN_TOGETHER}]")


def _begins(key: str, words: str) -> bool:
    return key.startswith(words) and _apart(key[len(words) : len(words) + 1], words[-1])


def _ends(key: str, words: str) -> bool:
    return key.endswith(words) and _apart(key[: -len(words)][-1:], words[0])


def _apart(neighbour: str, edge: str) -> bool:
    """Whether a phrase ends where it meets a neighbouring character, and does not go on inside a word."""
    return not neighbour or not neighbour.isalnum() or bool(_TOGETHER.match(neighbour) or _TOGETHER.match(edge))


def _keys(phrases: Sequence[str]) -> tuple[str, ...]:
    return tuple(sorted({phrase_key(phrase) for phrase in phrases}, key=lambda key: (-len(key), key)))


def _phrases(file: RulesFile) -> Iterator[tuple[str, FixedPhrase]]:
    for greeting in file.greetings:
        answer = FixedAnswer("greeting", f"greeting:{greeting.name}", greeting.answer, greeting.language)
        policy = policy_of(file.fixed_answers, greeting)
        for phrase in greeting.phrases:
            yield phrase_key(phrase), FixedPhrase(answer, policy)
    for entry in file.faq:
        policy = policy_of(file.fixed_answers, entry)
        for language, questions in entry.questions.items():
            answer = FixedAnswer("faq", f"faq:{entry.name}", entry.answers[language], language)
            for phrase in questions:
                yield phrase_key(phrase), FixedPhrase(answer, policy)
