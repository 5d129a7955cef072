"""English words whose first meaning is the same, beyond the lexicon's.

The lexicon says what always stands for the same. These are from WordNet: see `services/cache/generate_thesaurus.py`
for which of its words are taken.
"""

from __future__ import annotations

from functools import cache

from tiermesh.cache.semantic.lexicon import english
from tiermesh.cache.semantic.stems import stem
from tiermesh.cache.semantic.wordnet import section


def groups_of(token: str) -> frozenset[int]:
    """Returns the groups of words that mean the same in which a question's token is."""
    return thesaurus().get(token, frozenset())


@cache
def thesaurus() -> dict[str, frozenset[int]]:
    """Returns the groups of all words, by token; read once."""
    groups: dict[str, frozenset[int]] = {}
    lexicon = english()
    for number, words in enumerate(section("same")):
        for word in words:
            # Words are kept as questions have them after rewriting.
            tokens = lexicon.rewrite([stem(token) for token in lexicon.rewrite([word])])
            if len(tokens) == 1:
                groups[tokens[0]] = groups.get(tokens[0], frozenset()) | {number}
    return groups
