"""Which generation an answer belongs to."""

from tiermesh.cache.tags import MAX_TAGS, effective, invalidated, is_generation

BASE = b"generate"


def test_an_invalidated_tag_moves_its_answers_and_no_others():
    after = invalidated(BASE, ["catalogue"], b"epoch--1")
    assert effective(after, ["catalogue", "other"]) != effective(BASE, ["catalogue", "other"])
    assert effective(after, ["other"]) == effective(BASE, ["other"]) == BASE
    assert effective(after, []) == BASE


def test_every_invalidation_is_a_new_generation():
    once = invalidated(BASE, ["a"], b"epoch--1")
    twice = invalidated(once, ["a"], b"epoch--2")
    assert len({effective(g, ["a"]) for g in (BASE, once, twice)}) == 3
    assert len(once) == len(twice)
    assert is_generation(twice)


def test_the_order_and_repetition_of_tags_do_not_matter():
    after = invalidated(invalidated(BASE, ["a"], b"epoch--1"), ["b"], b"epoch--2")
    assert effective(after, ["a", "b", "a"]) == effective(after, ["b", "a"])


def test_too_many_tags_give_way():
    assert invalidated(BASE, [str(n) for n in range(MAX_TAGS)], b"epoch--1") is not None
    assert invalidated(BASE, [str(n) for n in range(MAX_TAGS + 1)], b"epoch--1") is None


def test_what_cannot_be_a_generation():
    assert is_generation(BASE)
    assert not is_generation(b"short")
    assert not is_generation(BASE + b"x")
