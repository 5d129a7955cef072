"""Patterns: what they may cost, and when they need not be run."""

import time
from pathlib import Path

import pytest
import regex
from tiermesh.shared.rules import Patterns, load_rules
from tiermesh.shared.rules.patterns import MAX_OVERRUNS, SEARCH_LIMIT_S
from tiermesh.shared.rules.relaxed import is_anchored, relax
from tiermesh.shared.rules.sieve import Sieve

PROFILE = Path(__file__).parents[3] / "mesh" / "profiles" / "rules.yaml"


@pytest.mark.parametrize(
    ("pattern", "pieces"),
    [
        ("apple", [("apple",)]),
        ("apple|pear", [("(?:apple|pear)",)]),
        (r"\bapple\b.{0,40}\bpear", [(r"\bapple\b", r"\bpear")]),
        ("apple.{0,40}pear|fig", [("apple", "pear"), ("fig",)]),
        ("(?:apple|pear.{2,40}fig)s", [("pear.", ".figs"), ("apples",)]),
        ("apples?", [("apple(?:s)?",)]),
        ("go+al", [("go", "oal")]),
        ("(?:apple){0,9}pear", [("", "pear")]),
        ("翻[译譯]成?", [("翻[译譯](?:成)?",)]),
        (r"(?<!云)计算(?!机)", [("", r"(?:[^云]|\A)计算(?:[^机]|\z)", "")]),
        (r"(?<!边缘)计算", [("计算",)]),
        (r"(?P<verb>write|draft) code", [(r"(?:write|draft)\x{20}code",)]),
        (r"^a$|\Ab\Z", [(r"(?:(?m:^)a(?m:$)|\Ab\z)",)]),
        (r"\b译|\bx", [(r"\bx",), ("译",)]),
    ],
)
def test_a_pattern_is_cut_into_pieces(pattern, pieces):
    branches = relax(pattern)
    assert branches is not None
    assert sorted(branch.pieces for branch in branches) == sorted(pieces)


@pytest.mark.parametrize("pattern", ["(?i)apple", r"(apple)\1", "[[:alpha:]]x", "a(", r"\x41"])
def test_of_a_pattern_that_is_not_understood_nothing_is_said(pattern):
    assert relax(pattern) is None


@pytest.mark.parametrize(
    ("pattern", "pieces"),
    [
        ("翻译|code", [("code",)]),
        ("翻译", []),
        ("(?:请)?code", [("code",)]),
        ("(?:请)+code", []),
        (r"\p{Han}code", []),
        (r"\b\d", [(r"\b[0-9]",)]),
        ("[译a]b", [("[译a]b",)]),
    ],
)
def test_what_only_chinese_texts_can_match_is_no_part_of_the_automaton_for_ascii(pattern, pieces):
    assert [branch.pieces for branch in relax(pattern, in_ascii=True)] == pieces


@pytest.mark.parametrize(
    ("pattern", "text", "possible", "certain"),
    [
        (r"\bpython\b", "in python", True, True),
        (r"\bpython\b", "pythons", False, False),
        (r"\bpython\b", "用python写", True, False),
        (r"写\w", "写作", True, False),
        ("翻[译譯]", "翻译", True, True),
        ("write.{0,9}code", "code, then write", True, False),
        ("write.{0,9}code", "write", False, False),
        ("code(?![a-z])", "code.", True, True),
        ("code(?![a-z])", "codes", False, False),
        (r"\d{1,3} ?%", "７ %", True, False),
        ("(?i)apple", "pear", True, False),
    ],
)
def test_one_pass_tells_what_is_possible_and_what_is_certain(pattern, text, possible, certain):
    sifted = Sieve([pattern]).sift(text)
    assert (0 in sifted.possible, 0 in sifted.certain) == (possible, certain)


@pytest.mark.parametrize(
    "pattern", ["apple", r"(?:re)?write .{0,20}\bcode", "翻[译譯](?:成|一下)", "a|bb|", "(?:x|yy)?zz", "翻译|code", "A"]
)
@pytest.mark.parametrize(
    "text", ["apple", "write some code", "rewrite code", "请翻译一下", "bb", "zz", "A", "CODE", "yyzz", "nothing", ""]
)
def test_the_sieve_never_changes_what_is_found(pattern, text):
    assert Patterns([pattern]).search(text).found(0) == (regex.search(pattern, text) is not None)


@pytest.mark.parametrize("memory_bytes", [100, 10_000, 100_000])
def test_what_does_not_fit_into_memory_is_possible_everywhere(memory_bytes):
    sieve = Sieve(["[一-龥]{4}x", *(f"(?:apple|pear){number}" for number in range(300))], memory_bytes=memory_bytes)
    assert sieve.sift("nothing").possible == frozenset(range(301))
    assert sieve.sift("nothing").certain == frozenset()


def test_a_text_that_has_no_utf_8_is_searched_as_well():
    assert Patterns(["apple"]).search("apple \ud83d").found(0)


@pytest.mark.parametrize(
    ("pattern", "anchored"),
    [
        (r"\Ahello", True),
        (r"\A(?:hello|bye)", True),
        (r"\Ahello|bye", False),
        (r"\Ahello|\Abye", False),
        ("hello", False),
        (r"(?i)\Ahello", False),
        (r"\A(?i)hello", False),
    ],
)
def test_a_pattern_that_needs_the_beginning_is_tried_there_alone(pattern, anchored):
    assert is_anchored(pattern) is anchored
    for text in ("hello", "say hello", "bye", "say bye"):
        assert Patterns([pattern]).search(text).found(0) == (regex.search(pattern, text) is not None)


SLOW = "(?:a|a)+$"


def test_a_pattern_that_runs_long_is_cut_off_and_counted():
    search = Patterns([SLOW]).search("a" * 3000 + "!\na")
    assert 0 not in search.sifted.certain
    for _ in range(MAX_OVERRUNS + 5):
        assert not search.found(0)
    assert search.overruns == MAX_OVERRUNS


def test_after_three_overruns_the_rest_is_not_tried():
    patterns = Patterns([SLOW, "(?>!)"])
    search = patterns.search("a" * 3000 + "!\na")
    assert search.found(1)
    began = time.process_time()
    for _ in range(100):
        search.found(0)
    assert time.process_time() - began < SEARCH_LIMIT_S * MAX_OVERRUNS + 0.2
    assert not search.found(1)


@pytest.mark.parametrize(
    "text",
    [
        "a" * 3000,
        "write " * 500,
        "first then " * 280,
        "1 - 2 " * 500,
        "select from where " * 160,
        " " * 1500 + "\n" * 1500,
        "写代码" * 1000,
        "首先然后" * 750,
        "((((" * 750,
        "function(" * 330,
        "compare " * 370,
        "\\frac{" * 500,
        "what " * 600,
        "如果 a 大于 b，" * 250,
    ],
)
def test_no_pattern_of_the_profile_can_be_made_to_run_long(text):
    search = load_profile().patterns.search(text)
    for rule in load_profile().rules:
        for patterns in (rule.any, rule.all, rule.none):
            for pattern in patterns:
                search.found(pattern)
    assert search.overruns == 0


_books = []


def load_profile():
    if not _books:
        _books.append(load_rules(PROFILE))
    return _books[0]
