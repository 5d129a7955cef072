"""Mistakes in rules that the mesh would accept are found, named, and explained."""

from pathlib import Path

import pytest
from tiermesh.shared.rules.lint import lint_text

PROFILE = Path(__file__).parents[3] / "mesh" / "profiles" / "rules.yaml"
PATH = Path("rules.yaml")


def found(text, **options):
    return [(f.severity, f.kind, f.name) for f in lint_text(text, PATH, **options)]


def rules(*lines):
    return "rules:\n" + "".join(f"  - {{{line}}}\n" for line in lines)


A = "name: a, any: [cat, dog], task_type: qa, complexity: 0.3, priority: 200"


@pytest.mark.parametrize(
    ("text", "severity", "kind", "name"),
    [
        # A weaker rule that only matches where a stronger one does.
        (rules(A, "name: b, any: [cat], task_type: chat, complexity: 0.4, priority: 100"), "error", "shadowed", "b"),
        (rules(A, "name: b, any: [cat], min_tokens: 9, task_type: qa, complexity: 0.4"), "error", "shadowed", "b"),
        (rules(A, "name: b, any: ['ca(?:t|ts)'], task_type: qa, complexity: 0.4"), "error", "shadowed", "b"),
        (rules(A, "name: b, all: [cat, x], task_type: qa, complexity: 0.4"), "error", "shadowed", "b"),
        (
            rules(
                "name: a, structure: {min_turns: 2}, task_type: qa, complexity: 0.3, priority: 200",
                "name: b, structure: {min_turns: 5}, task_type: chat, complexity: 0.3",
            ),
            "error", "shadowed", "b",
        ),
        # Of equal priority, the first of the file is the stronger.
        (
            rules(A, "name: b, any: [dog], task_type: chat, complexity: 0.4, priority: 200"), "error", "shadowed", "b"
        ),
        # Neither within the other, but a text that both match.
        (
            rules(A, "name: b, any: [dogs, mice], task_type: chat, complexity: 0.4, priority: 200"),
            "warning", "conflict", "b",
        ),
        # Conditions that exclude each other.
        (rules("name: a, any: [catfish], none: [cat], task_type: qa, complexity: 0.3"), "error", "never-matches", "a"),
        (rules("name: a, all: [x, cat], none: [cat], complexity: 0.6"), "error", "never-matches", "a"),
        (rules("name: a, any: [dog, cat], none: [cat], complexity: 0.6"), "error", "dead-pattern", "a"),
        (rules("name: a, any: [x], languages: [zh-Hant], complexity: 0.6"), "error", "unknown-language", "a"),
        (rules("name: a, max_tokens: 6, structure: {min_turns: 2}, complexity: 0.6"), "error", "never-matches", "a"),
        # Patterns that describe what folded text never has.
        (rules("name: a, any: ['two  spaces'], complexity: 0.6"), "error", "never-matches", "a"),
        (rules(r"name: a, any: ['a\tb'], complexity: 0.6"), "error", "never-matches", "a"),
        (rules(r"name: a, any: ['a\n\n\nb'], complexity: 0.6"), "error", "never-matches", "a"),
        (rules(r"name: a, any: ['\bcat\bs'], complexity: 0.6"), "error", "never-matches", "a"),
        (rules("name: a, any: [cat, cat], complexity: 0.6"), "error", "duplicate-pattern", "a"),
        (rules("name: a, any: [cat, catfish], complexity: 0.6"), "note", "needless-pattern", "a"),
        # Complexities that raise nothing.
        (rules("name: a, any: [cat], complexity: 0.2"), "error", "no-effect", "a"),
        (
            rules("name: a, any: [cat, dog], complexity: 0.7", "name: b, any: [cat], complexity: 0.6"),
            "error", "no-effect", "b",
        ),
        (
            "greetings:\n  - {name: g, language: en, phrases: [hi, 'Hi!'], answer: x}\n",
            "error", "duplicate-phrase", "g",
        ),
        (
            "politeness: {before: [please]}\ngreetings: [{name: g, language: en, phrases: [wave, please wave], answer: x}]\n",
            "note", "needless-phrase", "g",
        ),
        ("politeness: {after: [thanks, 'Thanks!']}\n", "error", "duplicate-phrase", ""),
        ("rules: [{name: a}]\n", "error", "unusable", ""),
        (rules(A, A), "error", "unusable", ""),
    ],
)  # fmt: skip
def test_a_mistake_is_found(text, severity, kind, name):
    assert found(text) == [(severity, kind, name)]


@pytest.mark.parametrize(
    "text",
    [
        # The weaker rule can match alone.
        rules(A, "name: b, any: [cat, cow], task_type: qa, complexity: 0.4"),
        rules(A, "name: b, any: ['c.t'], task_type: qa, complexity: 0.4"),
        rules(A + ", tenants: [one]", "name: b, any: [cat], task_type: qa, complexity: 0.4"),
        rules(A + ", min_tokens: 50", "name: b, any: [cat], task_type: qa, complexity: 0.4"),
        rules(A + ", none: [bird]", "name: b, any: [cat], task_type: qa, complexity: 0.4"),
        rules(A + ", structure: {tool_history: true}", "name: b, any: [cat], task_type: qa, complexity: 0.4"),
        # Matches as a part of a word what the other only matches as a whole one.
        rules(
            r"name: a, any: ['\bcat\b'], task_type: qa, complexity: 0.3, priority: 200",
            "name: b, any: [cat], task_type: qa, complexity: 0.4",
        ),
        # The narrower rule comes first, as it should.
        rules("name: b, any: [cat], task_type: chat, complexity: 0.4, priority: 300", A),
        rules("name: a, any: [cat], none: [catfish], complexity: 0.6"),
        rules("name: a, any: [cat], complexity: 0.6", "name: b, any: [cat], complexity: 0.7, min_tokens: 50"),
        # Different tenants, or another priority, decide which is meant.
        rules(
            A + ", tenants: [one]",
            "name: b, any: [dogs], task_type: chat, complexity: 0.4, priority: 200, tenants: [two]",
        ),
    ],
)
def test_what_can_count_is_not_complained_of(text):
    assert found(text) == []


LABELS = """
labels:
  - name: mood
    labels:
      - {name: good, called: {en: [good], zh: [好]}, keywords: {en: [love it], zh: [满意, 很满意]}}
      - {name: bad, called: {en: [bad], zh: [坏]}, keywords: {en: [hate it], zh: [不满意, 糟糕]}}
  - name: fit
    labels:
      - {name: well, called: {en: [good]}, keywords: {en: [suits]}}
      - {name: badly, called: {en: [BAD]}, keywords: {en: [does not suit]}}
"""


def test_labels_and_keywords_that_can_never_decide_are_found():
    findings = lint_text(LABELS, PATH)
    assert [(f.kind, f.name, f.line) for f in findings] == [
        ("needless-keyword", "mood", 5),
        ("dead-keyword", "mood", 6),
        ("dead-label-set", "fit", 7),
    ]
    assert "'不满意'" in findings[1].message
    assert "'bad', 'good'" in findings[2].message


def test_tenants_are_checked_where_they_are_known():
    text = rules(A + ", tenants: [acme, nobody]")
    assert found(text) == []
    assert found(text, tenants=["acme"]) == [("warning", "unknown-tenant", "a")]
    assert found(text, tenants=["other"]) == [("error", "unknown-tenant", "a")]


def test_a_finding_names_the_line_and_the_place():
    (finding,) = lint_text(rules(A, "name: b, any: [cat], task_type: chat, complexity: 0.4"), PATH)
    assert (finding.line, finding.place) == (3, "rules[1]")
    assert "a (priority 200)" in finding.message
    assert "raise its priority (100) above 200" in finding.advice


def test_the_shipped_rules_are_clean():
    assert lint_text(PROFILE.read_text("utf-8"), PROFILE, tenants=["local"]) == []
