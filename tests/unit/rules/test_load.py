"""What is wrong with a rules file is said by file, key and allowed values."""

from pathlib import Path

import pytest
from tiermesh.shared.config import ConfigError
from tiermesh.shared.rules import load_rules, parse_rules

PROFILE = Path(__file__).parents[3] / "mesh" / "profiles" / "rules.yaml"
PATH = Path("rules.yaml")
RULE = "rules:\n  - {{name: one, task_type: qa, complexity: 0.3, {0}}}\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("rools: []", ["rools", "allowed here", "greetings", "rules"]),
        (RULE.format("any: [x], weight: 3"), ["rules[0] (one).weight", "allowed here", "priority"]),
        (RULE.format("structure: {min_fences: 1}"), ["structure.min_fences", "min_code_fences"]),
        (RULE.format("any: ['(']"), ["rules[0] (one).any[0]", "regular expression"]),
        (RULE.format("any: [x], priority: high"), ["priority", "integer", "'high'"]),
        (RULE.replace("0.3", "1.5").format("any: [x]"), ["complexity", "1"]),
        (RULE.replace("qa", "poetry").format("any: [x]"), ["task_type", "'summarise'", "poetry"]),
        (RULE.format("priority: 3"), ["no condition"]),
        (RULE.format("min_tokens: 5, max_tokens: 3"), ["min_tokens (5)"]),
        (RULE.format("any: ['Hello']"), ["capital 'H'", "lower case"]),
        (RULE.format("any: ['你好，']"), ["'，'", "','"]),
        (RULE.format("any: ['x*']"), ["empty text"]),
        (RULE.format("any: ['(a+)+$']"), ["nested repeats"]),
        (RULE.format("any: ['(?:a|a)+$']"), ["nested repeats"]),
        (RULE.format("any: [x]") + "  - {name: one, any: [y], complexity: 0.1}", ["rule names must be unique", "one"]),
        (
            "greetings:\n  - {name: g, language: en, phrases: ['!!'], answer: x}",
            ["greetings[0] (g).phrases[0]", "no words"],
        ),
        ("greetings:\n  - {name: g, language: English, phrases: [x], answer: x}", ["language", "English"]),
        ("greetings:\n  - {name: g, language: en, phrases: [no], answer: x}", ["phrases[0]", "string"]),
        ("faq:\n  - {name: f, questions: {en: [x], zh: [y]}, answers: {en: z}}", ["no answer in: zh"]),
        (
            (
                "greetings:\n  - {name: g, language: en, phrases: ['Hi!'], answer: x}\n"
                "faq:\n  - {name: f, questions: {en: [hi]}, answers: {en: z}}"
            ),
            ["'hi' has two answers", "greeting 'g'", "faq 'f' (en)"],
        ),
        (
            (
                "labels:\n  - name: s\n    labels:\n"
                "      - {name: a, called: {en: [x]}, keywords: {en: [k]}}\n"
                "      - {name: b, called: {en: [y]}, keywords: {en: [K]}}"
            ),
            ["keywords", "label set 's'", "used twice: k"],
        ),
        ("token_weights: {hanzi: 1}", ["token_weights.hanzi", "hangul"]),
        ("token_weights: {han: -1}", ["token_weights.han"]),
        ("rules: []\nrules: []", ["'rules' is given twice"]),
        ("rules: [", ["not valid YAML"]),
        ("- rules", ["must be a mapping"]),
    ],
)
def test_errors(text, said):
    with pytest.raises(ConfigError) as caught:
        parse_rules(text, PATH)
    message = str(caught.value)
    assert message.startswith("rules.yaml")
    for part in said:
        assert part in message


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(ConfigError, match="cannot be read"):
        load_rules(tmp_path / "none.yaml")
    (tmp_path / "rules.yaml").write_bytes(b"rules: \xff")
    with pytest.raises(ConfigError, match="not UTF-8"):
        load_rules(tmp_path / "rules.yaml")


def test_a_file_may_have_no_rules_but_must_say_so():
    assert parse_rules("rules: []", PATH).rules == ()
    with pytest.raises(ConfigError, match="is empty"):
        parse_rules("# nothing\n", PATH)


def test_the_version_is_that_of_the_meaning():
    one = parse_rules(RULE.format("any: [x]"), PATH)
    commented = parse_rules("# why\n" + RULE.format("any:   [x]"), PATH)
    other = parse_rules(RULE.format("any: [y]"), PATH)
    assert one.version == commented.version != other.version


def test_the_profiles_file_is_valid_and_its_rules_are_ranked():
    book = load_rules(PROFILE)
    priorities = [rule.spec.priority for rule in book.rules]
    assert priorities == sorted(priorities, reverse=True)
    named = {rule.spec.task_type for rule in book.rules} | {phrase.answer.kind for phrase in book.phrases.values()}
    assert named >= {
        "greeting", "faq", "label", "summarise", "rewrite", "extract", "translate", "qa", "chat", "code", "math",
        "tool_use", "long_context", "planning",
    }  # fmt: skip
