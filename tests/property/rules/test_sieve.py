"""One automaton for all patterns: it rules out nothing that matches, and is sure of nothing that does not."""

import re
from pathlib import Path

import pytest
import regex
from hypothesis import example, given
from hypothesis import strategies as st
from tiermesh.shared.rules import fold, load_rules
from tiermesh.shared.rules.classes import read_class_escape
from tiermesh.shared.rules.patterns import FLAGS, Patterns

PROFILE = Path(__file__).parents[3] / "mesh" / "profiles" / "rules.yaml"
BOOK = load_rules(PROFILE)
RULES_PATTERNS = [p for rule in BOOK.rules for some in (rule.spec.any, rule.spec.all, rule.spec.none) for p in some]

COMPILED = {pattern: regex.compile(pattern, FLAGS) for pattern in RULES_PATTERNS}

ATOMS = st.sampled_from(
    ["write", "code", "翻", "[译譯]", "apple", r"\d", r"\w", r"\W", r"\s", r"\b", ".", "a", r"\.", "(?!x)", "(?!翻译)", "(?<![a-z])",
     r"(?!\d)", r"(?<!\w)", "(?=w)", "[a-c]", "[^a-c]", r"[^\d译]", r"[\w-]", "成", r"\p{Han}", r"[^\p{Han}]", "^", "$", r"\A", r"\Z", " "]
)  # fmt: skip
ENDS = st.sampled_from(["", "", "", "?", "+", "*", "{0,2}", "{1,2}", "{2,9}", "{0,40}", "??", "++"])


@st.composite
def patterns(draw, depth=2):
    if depth == 0:
        return draw(ATOMS)
    branches = draw(st.lists(st.lists(patterns(depth - 1), min_size=1, max_size=4), min_size=1, max_size=3))
    opened = draw(st.sampled_from(["(?:", "(?:", "(", "(?>"]))
    body = "|".join("".join(branch) for branch in branches)
    return f"{opened}{body}){draw(ENDS)}"


TEXTS = st.lists(
    st.sampled_from(["write", "code", "翻译", "譯", "成", "apple", "a", "b", "1", "٣", "é", ".", " ", "\n", "-", "x", "\u3000", "𠀀"]),
    max_size=14,
).map("".join)  # fmt: skip


@given(patterns(), TEXTS)
@example(r"\b译", "a译")
@example(r"(?:\b(?:a)?)译", " 译")
@example(r"a(?!x)(?:b)?", "ax")
@example(r"(?:a(?!x)|b)\w", "abx")
@example(r"\d\b", "٣ ")
def test_what_is_found_is_what_the_pattern_finds(pattern, text):
    matches = regex.search(pattern, text, FLAGS) is not None
    sifted = Patterns([pattern]).search(text).sifted
    assert matches or 0 not in sifted.certain
    assert not matches or 0 in sifted.possible


def _compiles(pattern):
    try:
        re.compile(pattern)
    except re.error:
        return False
    return True


MADE_TO_MATCH = st.sampled_from([pattern for pattern in RULES_PATTERNS if _compiles(pattern)]).flatmap(st.from_regex)


@given(MADE_TO_MATCH, st.text(max_size=8), st.one_of(st.just(""), MADE_TO_MATCH))
def test_texts_made_to_match_the_shipped_rules_are_judged_as_their_patterns_alone_do(one, between, other):
    text = fold(one + between + other)
    search = BOOK.patterns.search(text)
    for pattern, compiled in COMPILED.items():
        assert search.found(BOOK.patterns.number(pattern)) == (compiled.search(text) is not None)


HEX = r"\\x\{([0-9A-F]+)\}"


def _long(found):
    return f"\\U{int(found[1], 16):08x}"


@pytest.mark.parametrize("escape", [r"\w", r"\W", r"\d", r"\D", r"\s", r"\S", r"\p{Han}"])
def test_classes_are_as_wide_as_those_of_all_of_unicode(escape):
    # The planes between have no characters.
    everything = "".join(chr(code) for code in (*range(0xD800), *range(0xE000, 0x40000), *range(0xE0000, 0xE1000)))
    known = read_class_escape(escape, 1)
    assert known is not None
    meant = set(regex.findall(escape, everything))
    most, least = (
        set(re.findall(f"[{regex.sub(HEX, _long, inside)}]", everything)) if inside else set()
        for inside in (known[0].most, known[0].least)
    )
    assert least <= meant <= most
