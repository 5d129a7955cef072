"""Patterns: what they may cost, and when they need not be run."""

import time
from pathlib import Path

import pytest
from tiermesh.shared.rules import Search, load_rules
from tiermesh.shared.rules.literals import required_words
from tiermesh.shared.rules.patterns import MAX_OVERRUNS, SEARCH_LIMIT_S, WordFinder, compile_pattern, compile_patterns

PROFILE = Path(__file__).parents[3] / "mesh" / "profiles" / "rules.yaml"


def looking(text, *patterns):
    return Search(text, WordFinder(patterns).present(text))


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
        (r"\d{1,3} ?%", [("%",)]),
        (r"\d, \d", [(", ",)]),
        (r"\d,\d", []),
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
    assert looking(text, compiled).found(compiled) == (compiled.pattern.search(text) is not None)


def test_words_inside_of_words_are_found_as_well():
    inner, outer = compile_patterns(["art", r"start\w"])
    found = WordFinder([inner, outer]).present("restarted")
    assert found == {"art", "start"}
    assert WordFinder([]).present("restarted") == frozenset()


@pytest.mark.parametrize(
    ("pattern", "anchored"),
    [
        (r"\Ahello", True),
        (r"\A(?:hello|bye)", True),
        (r"\Ahello|bye", False),
        ("hello", False),
        (r"(?:\Ahello)", False),
        (r"\A(?i)hello", False),
    ],
)
def test_a_pattern_that_needs_the_beginning_is_tried_there_alone(pattern, anchored):
    compiled = compile_pattern(pattern)
    assert compiled.anchored is anchored
    for text in ("hello", "say hello", "bye", "say bye"):
        assert looking(text, compiled).found(compiled) == (compiled.pattern.search(text) is not None)


def test_a_pattern_that_runs_long_is_cut_off_and_counted():
    slow = compile_pattern("(?:a|a)+$")
    search = looking("a" * 3000 + "!", slow)
    for _ in range(MAX_OVERRUNS + 5):
        assert not search.found(slow)
    assert search.overruns == MAX_OVERRUNS


def test_after_three_overruns_the_rest_is_not_tried():
    slow, quick = compile_pattern("(?:a|a)+$"), compile_patterns(["!"])[0]
    search = looking("a" * 3000 + "!", slow, quick)
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
    search = Search(text, load_profile().words.present(text))
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
