"""`tiermesh rules lint`: what is printed and how it exits."""

import json
from pathlib import Path

import pytest
from tiermesh.client.cli._app import make_app
from typer.testing import CliRunner

PROFILE = Path(__file__).parents[3] / "mesh" / "profiles" / "rules.yaml"
SHADOWED = """rules:
  - {name: pets, any: [cat, dog], task_type: qa, complexity: 0.3, priority: 200}
  - {name: cats, any: [cat], task_type: chat, complexity: 0.3}
"""
CONFLICT = """rules:
  - {name: pets, any: [cat, dog], task_type: qa, complexity: 0.3}
  - {name: herd, any: [dogs, cows], task_type: chat, complexity: 0.3}
"""


@pytest.fixture
def lint():
    runner = CliRunner()
    return lambda *arguments: runner.invoke(make_app(), ["rules", "lint", *map(str, arguments)])


@pytest.fixture
def rules(tmp_path):
    def write(text):
        path = tmp_path / "rules.yaml"
        path.write_text(text, "utf-8")
        return path

    return write


def test_clean_rules_exit_with_0(lint):
    result = lint(PROFILE, "--strict")
    assert result.exit_code == 0
    assert "0 errors, 0 warnings" in result.output


def test_an_error_names_file_line_rule_and_what_to_do(lint, rules):
    path = rules(SHADOWED)
    result = lint(path)
    assert result.exit_code == 1
    assert f"{path}:3: error [shadowed] cats: never names a task type" in result.output
    assert "raise its priority (100) above 200" in result.output


def test_a_warning_fails_only_where_asked(lint, rules):
    path = rules(CONFLICT)
    assert lint(path).exit_code == 0
    assert lint(path, "--strict").exit_code == 1
    assert "warning [conflict] herd: says chat to 'dogs'" in lint(path).output


def test_json_has_every_finding(lint, rules):
    result = lint(rules(SHADOWED), "--json")
    report = json.loads(result.output)
    assert result.exit_code == 1
    assert report["counts"] == {"error": 1, "warning": 0, "note": 0}
    (finding,) = report["findings"]
    assert (finding["kind"], finding["name"], finding["line"], finding["place"]) == ("shadowed", "cats", 3, "rules[1]")


def test_rules_that_cannot_be_read_are_an_error_too(lint, rules):
    result = lint(rules("rules: [{name: Pets}]"))
    assert result.exit_code == 1
    assert "error [unusable]" in result.output
    assert lint("nowhere.yaml").exit_code == 2


def test_tenants_come_from_the_configuration(lint, rules):
    path = rules("rules: [{name: pets, any: [cat], tenants: [acme], task_type: qa, complexity: 0.3}]")
    config = PROFILE.parent / "local.yaml"
    assert lint(path).exit_code == 0
    result = lint(path, "--config", config)
    assert result.exit_code == 1
    assert "no tenant: acme" in result.output
