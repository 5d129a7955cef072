"""Label sets that are taken for each other, and keywords that can never decide."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

from tiermesh.shared.rules.labels import CompiledLabelSet, compile_labels
from tiermesh.shared.rules.lint.finding import Finding
from tiermesh.shared.rules.schema import LabelSet, RulesFile
from tiermesh.shared.rules.text import fold

_LEAST_LABELS = 2
"""A prompt names at least so many labels of a set, or it is not about that set."""


def lint_label_sets(file: RulesFile) -> Iterator[Finding]:
    """Yields what is wrong with label sets."""
    compiled = compile_labels(file)
    for at, (labels, words) in enumerate(zip(file.labels, compiled, strict=True)):
        yield from _keywords(f"labels[{at}]", labels, words)
        yield from _examples(f"labels[{at}]", labels, words)
    for (_, first), (at, second) in combinations(enumerate(file.labels), 2):
        yield from _overlap(at, first, second)


def _called(labels: LabelSet) -> dict[str, str]:
    """Returns the label that each folded word calls."""
    return {fold(w): label.name for label in labels.labels for words in label.called.values() for w in words}


def _overlap(at: int, first: LabelSet, second: LabelSet) -> Iterator[Finding]:
    one, other = _called(first), _called(second)
    shared = sorted(set(one) & set(other))
    if len({one[word] for word in shared}) < _LEAST_LABELS or len({other[word] for word in shared}) < _LEAST_LABELS:
        return
    swallowed = set(other) <= set(one)
    yield Finding(
        "error", "dead-label-set" if swallowed else "label-overlap", f"labels[{at}]", second.name,
        f"shares {', '.join(map(repr, shared[:6]))} with label set {first.name}, which comes first: prompts that offer these"
        f" are read as {first.name}" + (", and no others are left" if swallowed else ""),
        "call the labels by other words, put this set first, or make the two one set",
    )  # fmt: skip


def _keywords(place: str, labels: LabelSet, compiled: CompiledLabelSet) -> Iterator[Finding]:
    for at, label in enumerate(labels.labels):
        for language, words in label.keywords.items():
            for number, word in enumerate(words):
                where = f"{place}.labels[{at}].keywords.{language}[{number}]"
                text = fold(word)
                others = _speaking(compiled, text, besides=label.name)
                if others:
                    yield Finding(
                        "error", "dead-keyword", where, labels.name,
                        f"{word!r} of label {label.name} has a keyword of {', '.join(others)} in it, so that no text with"
                        " it is ever decided",
                        "remove it, or lengthen the shorter keyword of the other label",
                    )  # fmt: skip
                elif _needless(compiled, text, [o for o in label.keywords.get(language, ()) if fold(o) != text]):
                    yield Finding(
                        "note", "needless-keyword", where, labels.name,
                        f"{word!r} of label {label.name} has a shorter keyword of the same label in it", "remove it",
                    )  # fmt: skip


def _examples(place: str, labels: LabelSet, compiled: CompiledLabelSet) -> Iterator[Finding]:
    """Examples that even the index they are part of takes for something else."""
    if compiled.examples is None:
        return
    groups: list[tuple[str, str | None, Sequence[str]]] = [
        (f"{place}.labels[{at}].examples.{language}", label.name, texts)
        for at, label in enumerate(labels.labels)
        for language, texts in label.examples.items()
    ]
    groups += [(f"{place}.out_of_scope.{language}", None, texts) for language, texts in labels.out_of_scope.items()]
    for where, name, texts in groups:
        for number, text in enumerate(texts):
            found = compiled.examples.nearest(text)
            if found.label != name:
                yield Finding(
                    "warning", "misleading-example", f"{where}[{number}]", labels.name,
                    f"{text!r} of {name or 'out_of_scope'} is most like the examples of {found.label or 'out_of_scope'}",
                    "move it there, or give its own label more examples like it",
                )  # fmt: skip


def _speaking(compiled: CompiledLabelSet, text: str, *, besides: str) -> list[str]:
    return [name for name, pattern in compiled.keywords.items() if name != besides and pattern.search(text)]


def _needless(compiled: CompiledLabelSet, text: str, others: Sequence[str]) -> bool:
    # Where words are spaced, a keyword only counts as a whole word: "logins" has "login" in it for nobody.
    inside = [] if text.isascii() else [fold(o) for o in others if len(fold(o)) < len(text) and fold(o) in text]
    if not inside:
        return False
    rest = text.replace(max(inside, key=len), " ")
    # A doubt that is part of the longer keyword is meant; beside the shorter one it would speak against it.
    return compiled.doubts is None or compiled.doubts.search(rest) is None
