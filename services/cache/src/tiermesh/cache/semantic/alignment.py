"""Two questions that differ in one word that means the same, in one wording.

That is less sure than equal words, so it is done only where the embedder, too, finds both questions more alike than a
threshold asks for.
"""

from __future__ import annotations

from dataclasses import replace

from tiermesh.cache.semantic.lexicon import english
from tiermesh.cache.semantic.question import Question
from tiermesh.cache.semantic.thesaurus import groups_of

LEAST_LIKENESS = 0.9
"""Cosine from which two questions may differ in one word that means the same."""


def aligned(asked: Question, known: Question) -> Question:
    """Returns the known question with the word of the asked one, where they differ in one word that means the same."""
    if asked.language != "en" or known.language != "en":
        return known
    mine, theirs = set(asked.content) - set(known.content), set(known.content) - set(asked.content)
    if len(mine) != 1 or len(theirs) != 1:
        return known
    (one,), (other,) = mine, theirs
    if not groups_of(one) & groups_of(other) or other in english().opposites.get(one, ()):
        return known
    return replace(
        known,
        tokens=tuple(one if token == other else token for token in known.tokens),
        content=tuple(one if token == other else token for token in known.content),
    )
