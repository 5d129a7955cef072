"""Patterns: what they may cost, and when they need not be run."""

import time
from pathlib import Path

import pytest
from tiermesh.shared.rules import Search, load_rules
from tiermesh.shared.rules.literals import required_words
from tiermesh.shared.rules.patterns import MAX_OVERRUNS, SEARCH_LIMIT_S, compile_pattern, compile_patterns

PROFILE = Path(__file__).parents[3] / "mesh" / "profiles" / "rules.yaml"


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("apple", [("apple",)]),
        (r"\bapple\b.{0,40}\bpear\b", [("apple",), ("pear",)]),
        ("apple|pear", [("apple", "pear")]),
        ("(?:apple|pear) pie", [(" pie",), ("apple", "pear")]),
        ("colou?r", [("colo",)]),
        ("apples?", [("apple",)]),
        ("(?:apple)?pear", [("pear",)]),
        ("(?:apple)+", [("apple",)]),
        ("(?:apple){0,3}pear", [("pear",)]),
        ("a{2,3}bc", [("bc",)]),
        (r"node\.js", [("node.js",)]),
        ("翻[译譯]成?", [("翻",), ("译", "譯")]),
        ("[写寫]{1,2}代码", [("代码",), ("写", "寫")]),
        (r"(?<!云)计算(?!机)", [("计算",)]),
        (r"(?P<verb>write|draft) code", [(" code",), ("draft", "write")]),
        (r"\d+|apple", []),
        ("[^你好]吗", [("吗",)]),
        (r"[\p{Han}]吗", [("吗",)]),
        ("[a-z]+", []),
        (r"\p{Han}+", []),
        ("(?i)apple", []),
        (r"(apple)\1", []),
        (r"a\nb", [("a\nb",)]),
    ],
)
def test_required_words(pattern, words):
    assert [set(clause) for clause in required_words(pattern)] == [set(clause) for clause in words]


@pytest.mark.parametrize(
    "pattern", ["apple", r"(?:re)?write .{0,20}\bcode", "翻[译譯](?:成|一下)", "a|bb|", "(?:x|yy)?zz", "翻译|code", "A"]
)
@pytest.mark.parametrize(
    "text", ["apple", "write some code", "rewrite code", "请翻译一下", "bb", "zz", "A", "CODE", "yyzz", "nothing", ""]
)
def test_words_never_hide_a_match(pattern, text):
    (compiled,) = compile_patterns([pattern])
    assert Search(text).found(compiled) == (compiled.pattern.search(text) is not None)


def test_a_pattern_that_runs_long_is_cut_off_and_counted():
    search = Search("a" * 3000 + "!")
    slow = compile_pattern("(?:a|a)+$")
    for _ in range(MAX_OVERRUNS + 5):
        assert not search.found(slow)
    assert search.overruns == MAX_OVERRUNS


def test_after_three_overruns_the_rest_is_not_tried():
    slow, quick = compile_pattern("(?:a|a)+$"), compile_patterns(["!"])[0]
    search = Search("a" * 3000 + "!")
    assert search.found(quick)
    began = time.process_time()
    for _ in range(100):
        search.found(slow)
    assert time.process_time() - began < SEARCH_LIMIT_S * MAX_OVERRUNS + 0.2
    assert not search.found(quick)


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
    search = Search(text)
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
