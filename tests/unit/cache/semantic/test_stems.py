"""English words without their endings."""

import pytest
from tiermesh.cache.semantic.stems import stem


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("photo photos", "photo"),
        ("change changed changing changes", "change"),
        ("convert converted converting converts", "convert"),
        ("city cities", "city"),
        ("freeze freezing freezes", "freeze"),
        ("stop stopped stopping stops", "stop"),
        ("child children", "child"),
        ("buy bought buying", "buy"),
        ("box boxes", "box"),
        ("clean cleaning cleaned", "clean"),
        ("repair repairing repaired", "repair"),
        ("calculate calculating", "calculate"),
    ],
)
def test_one_stem(words, found):
    assert {stem(word) for word in words.split()} == {found}


@pytest.mark.parametrize("word", ["news", "during", "this", "bus", "speed", "class", "unhappy", "harmless", "teacher"])
def test_left_alone(word):
    assert stem(word) == word


@pytest.mark.parametrize(("one", "other"), [("plan", "plane"), ("car", "care"), ("tap", "tape"), ("use", "useless")])
def test_kept_apart(one, other):
    assert stem(one) != stem(other)
