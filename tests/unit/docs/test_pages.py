"""What the pages show is true: links lead somewhere, examples are accepted, targets exist."""

import re
import textwrap
from pathlib import Path

import pytest
import yaml
from tiermesh.shared.config import BalanceConfig, load_config
from tiermesh.shared.rules import load_rules

ROOT = Path(__file__).resolve().parents[3]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(page):
    """Returns the indented blocks of a page."""
    text = page.read_text(encoding="utf-8")
    return [textwrap.dedent(block) for block in re.findall(r"(?:^    .*\n(?:\n(?=    ))?)+", text, re.MULTILINE)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
        if "://" not in target:
            assert (page.parent / target).exists(), target


def test_example_rules_are_accepted(tmp_path):
    examples = [yaml.safe_load(block) for block in blocks(ROOT / "docs" / "routing.md") if ":" in block]
    merged = {key: value for example in examples if isinstance(example, dict) for key, value in example.items()}
    BalanceConfig.model_validate(merged.pop("balance"))
    assert set(merged) == {"rules", "faq", "labels"}
    path = tmp_path / "rules.yaml"
    path.write_text(yaml.safe_dump(merged, allow_unicode=True), encoding="utf-8")
    book = load_rules(path)
    assert [compiled.spec.name for compiled in book.rules] == ["contract-review"]
    assert [labels.name for labels in book.label_sets] == ["banking"]
    assert book.faq[0].answers["zh"] == "工作日九点到十八点。"


def test_the_example_of_own_models_is_accepted(tmp_path):
    (example,) = (block for block in blocks(ROOT / "README.md") if block.startswith("# mesh.yaml"))
    path = ROOT / "mesh" / "profiles" / "local.yaml"
    own = tmp_path / "mesh.yaml"
    own.write_text(example.replace("mesh/profiles/local.yaml", str(path)), encoding="utf-8")
    config = load_config(own)
    assert config.tier("l2").model == "Qwen/Qwen2.5-7B-Instruct"
    assert config.tier("l2").context_tokens == 16384


def test_make_targets_that_pages_name_exist():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z][a-z-]*):", makefile, re.MULTILINE))
    for page in PAGES:
        named = set(re.findall(r"`make ([a-z-]+)", page.read_text(encoding="utf-8")))
        assert named <= targets, f"{page.name}: {named - targets}"
