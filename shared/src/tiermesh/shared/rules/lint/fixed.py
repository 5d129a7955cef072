"""Fixed answers whose phrases are needless or stand in each other's way."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tiermesh.shared.rules.book import make_book, without_politeness
from tiermesh.shared.rules.lint.finding import Finding
from tiermesh.shared.rules.schema import RulesFile
from tiermesh.shared.rules.text import phrase_key


def lint_fixed(file: RulesFile) -> Iterator[Finding]:
    """Yields what is wrong with greetings, questions and polite words."""
    book = make_book(file)
    for place, name, phrases in _groups(file):
        seen: dict[str, str] = {}
        for number, phrase in enumerate(phrases):
            key, where = phrase_key(phrase), f"{place}[{number}]"
            first = seen.setdefault(key, phrase)
            if first is not phrase:
                same = "is listed twice" if first == phrase else f"is the same as {first!r} to the mesh"
                yield Finding("error", "duplicate-phrase", where, name, f"{phrase!r} {same}", "remove one of them")
                continue
            answer = book.phrases[key].answer
            bare = next((k for k in list(without_politeness(book, key))[1:] if k in book.phrases), None)
            if bare is not None and book.phrases[bare].answer == answer:
                yield Finding(
                    "note", "needless-phrase", where, name,
                    f"{phrase!r} is matched without being listed: polite words around {bare!r} do not count", "remove it",
                )  # fmt: skip
    for side in ("before", "after"):
        words: tuple[str, ...] = getattr(file.politeness, side)
        keys = [phrase_key(word) for word in words]
        for number, key in enumerate(keys):
            if key in keys[:number]:
                yield Finding(
                    "error", "duplicate-phrase", f"politeness.{side}[{number}]", "",
                    f"{words[number]!r} is listed twice", "remove one of them",
                )  # fmt: skip


def _groups(file: RulesFile) -> Iterator[tuple[str, str, Sequence[str]]]:
    for at, greeting in enumerate(file.greetings):
        yield f"greetings[{at}].phrases", greeting.name, greeting.phrases
    for at, entry in enumerate(file.faq):
        for language, questions in entry.questions.items():
            yield f"faq[{at}].questions.{language}", entry.name, questions
