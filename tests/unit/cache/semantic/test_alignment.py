"""Two questions may differ in one word that means the same, and only where they are much alike."""

import pytest
from tiermesh.cache.semantic.alignment import LEAST_LIKENESS, aligned
from tiermesh.cache.semantic.guards import refusal_of
from tiermesh.cache.semantic.lexicon import english
from tiermesh.cache.semantic.question import question_of
from tiermesh.cache.semantic.thesaurus import groups_of
from tiermesh.cache.semantic.wordnet import is_verb, section


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("How do I attach an eyelid patch?", "How do I attach a lid patch?"),
        ("Is that harbour bench sturdy?", "Is that harbour bench hardy?"),
        ("Where is the nearest tavern hallway?", "Where is the nearest tavern hall?"),
    ],
)
def test_a_word_that_means_the_same_is_no_difference(one, other):
    a, b = question_of(one), question_of(other)
    assert refusal_of(a, b, likeness=LEAST_LIKENESS) is None
    assert refusal_of(a, b, likeness=LEAST_LIKENESS - 0.01).guard == "wording"


def test_two_such_words_are_one_too_many():
    a, b = question_of("Is the sturdy hallway lit?"), question_of("Is the hardy hall lit?")
    assert aligned(a, b) is b
    assert refusal_of(a, b)


def test_opposites_are_never_taken_for_the_same():
    for word, others in english().opposites.items():
        for other in others:
            assert not groups_of(word) & groups_of(other), (word, other)


def test_words_are_read_once_and_verbs_are_known():
    assert len(section("same")) > 1000
    assert all(len(group) > 1 for group in section("same"))
    assert is_verb("prune")
    assert not is_verb("guacamole")
