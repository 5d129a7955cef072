"""Questions that one deed, one form of a word or one small word tells apart, beside ways of asking that must still pass."""

from pathlib import Path

import pytest
from tiermesh.cache.semantic.guards import refusal_of
from tiermesh.cache.semantic.tier import comparable


def read():
    section, found = "", {}
    for line in (Path(__file__).parent / "near_questions.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            section = line.strip("[]")
        elif not line.startswith("#"):
            found.setdefault(section, []).append(line.split(" | "))
    return found


PAIRS = read()
SECTIONS = sorted(PAIRS.keys() - {"passed"})


def refused(one, other):
    asked, known = comparable(one), comparable(other)
    return asked is None or known is None or refusal_of(asked, known) is not None


@pytest.mark.parametrize("section", SECTIONS)
def test_what_asks_another_thing_is_refused_both_ways(section):
    assert len(PAIRS[section]) >= 15
    assert [pair for pair in PAIRS[section] if not (refused(*pair) and refused(*pair[::-1]))] == []


def test_what_asks_the_same_passes_both_ways():
    assert len(PAIRS["passed"]) >= 150
    assert [pair for pair in PAIRS["passed"] if refused(*pair) or refused(*pair[::-1])] == []
