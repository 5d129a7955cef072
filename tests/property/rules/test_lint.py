"""What the linter is certain of holds for requests, whatever the rules."""

import regex
from hypothesis import given, settings
from hypothesis import strategies as st
from tiermesh.shared.rules import fold
from tiermesh.shared.rules.lint.routing import lint_rules
from tiermesh.shared.rules.lint.witnesses import covered, witnesses
from tiermesh.shared.rules.patterns import FLAGS
from tiermesh.shared.rules.schema import RoutingRule

WORD = st.sampled_from(["cat", "cats", "dog", "a cat", "中文", "文", "x 1", "catdog"])
PATTERN = st.recursive(
    WORD,
    lambda inner: (
        st.lists(inner, min_size=2, max_size=3).map(lambda parts: f"(?:{'|'.join(parts)})")
        | st.tuples(inner, inner).map("".join)
        | inner.map(lambda part: rf"\b{part}\b")
        | inner.map(lambda part: f"x(?:{part})?")
        | inner.map(lambda part: f"(?:{part}){{1,2}}")
        | inner.map(lambda part: f"{part}.{{0,9}}y")
        | inner.map(lambda part: f"(?!z){part}[sd]")
    ),
    max_leaves=4,
)
TEXT = st.lists(st.sampled_from(["cat", "dog", "中文", " ", "s", "x", "1", "y", "z", "a"]), max_size=8).map("".join)


@st.composite
def rule(draw, name):
    # Unchecked: the check of patterns has a time limit, which a test must not depend on.
    return RoutingRule.model_construct(
        name=name,
        any=tuple(draw(st.lists(PATTERN, min_size=1, max_size=3))),
        none=tuple(draw(st.lists(PATTERN, max_size=1))),
        min_tokens=draw(st.none() | st.integers(0, 12)),
        task_type=draw(st.sampled_from(["qa", "chat", "code"])),
        complexity=draw(st.sampled_from([0.2, 0.6])),
        priority=draw(st.sampled_from([100, 200])),
    )


@given(PATTERN)
@settings(max_examples=60)
def test_witnesses_match_as_the_mesh_would_see_them(pattern):
    compiled = regex.compile(pattern, FLAGS)
    found = witnesses(pattern)
    for text in found.texts:
        assert fold(text) == text
        assert compiled.search(text)


@given(PATTERN, TEXT)
@settings(max_examples=100)
def test_a_pattern_said_never_to_match_matches_nothing(pattern, text):
    found = witnesses(pattern)
    if not found.texts:
        assert regex.search(pattern, fold(text), FLAGS) is None


@given(PATTERN, st.lists(PATTERN, max_size=3), TEXT)
@settings(max_examples=150)
def test_what_is_covered_is_matched_by_the_others_wherever_it_matches(pattern, others, text):
    text = fold(text)
    if covered(pattern, others) and regex.search(pattern, text, FLAGS):
        assert any(regex.search(other, text, FLAGS) for other in others)


def named_by(rules, text, tokens):
    """The rule that names the task type, by the book's own words and without a time limit."""
    for one in sorted(rules, key=lambda one: -one.priority):
        ruled_out = tokens < (one.min_tokens or 0) or any(regex.search(p, text, FLAGS) for p in one.none)
        if not ruled_out and any(regex.search(p, text, FLAGS) for p in one.any):
            return one.name
    return None


@given(st.tuples(rule("one"), rule("two"), rule("three")), st.lists(TEXT, min_size=1, max_size=6), st.integers(4, 40))
@settings(max_examples=60)
def test_a_dead_rule_never_names_the_task_type(rules, texts, tokens):
    dead = {
        f.name for f in lint_rules(rules, None) if f.kind in {"shadowed", "never-matches"} and f.place.count("[") < 2
    }
    for text in [*texts, *(witness for r in rules for p in r.any for witness in witnesses(p).texts[:5])]:
        assert named_by(rules, fold(text), tokens) not in dead
