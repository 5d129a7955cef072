"""What the pages show is true: links lead somewhere, examples are accepted, targets exist."""

import re
import textwrap
from pathlib import Path

import pytest
import yaml
from google.protobuf import json_format
from tiermesh.api.router.v1 import router_pb2
from tiermesh.router.openai.request import read_chat_request
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


def anchors(page):
    """Returns the fragments that lead to a page's headings, as GitHub makes them."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    titles = [title.replace("`", "").lower().strip() for title in re.findall(r"^#+ (.*)$", text, re.MULTILINE)]
    return {re.sub(r"[^\w\- ]", "", title).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_to_headings_find_one(page):
    for target, fragment in re.findall(r"\]\(([^)#\s]*)#([^)\s]+)\)", page.read_text(encoding="utf-8")):
        if "://" not in target and (not target or target.endswith(".md")):
            assert fragment in anchors(page.parent / target if target else page), f"{target}#{fragment}"


def curls():
    """Returns (path or method, body) of every request that a page shows with `-d`."""
    for page in PAGES:
        for block in blocks(page):
            for line in block.replace("\\\n", " ").splitlines():
                body = re.search(r"-d '(\{.*?\})'(?: |$)", line)
                where = re.search(r":8080(/v1/[a-z/]+)| (tiermesh\.api\S+)", line)
                if body and where:
                    yield pytest.param(where[1] or where[2], body[1], id=f"{page.stem}-{where[1] or where[2]}")


MESSAGES = {
    "/v1/generate": router_pb2.GenerateRequest,
    "/v1/explain": router_pb2.ExplainRequest,
    "/v1/feedback": router_pb2.ReportOutcomeRequest,
    "tiermesh.api.router.v1.RouterService/Explain": router_pb2.ExplainRequest,
}


@pytest.mark.parametrize(("where", "body"), [*curls()])
def test_requests_that_pages_show_have_no_unknown_field(where, body):
    if where == "/v1/chat/completions":
        read_chat_request(body.encode(), max_bytes=10_000)
    else:
        json_format.Parse(body, MESSAGES[where]())


def test_pages_show_requests_to_every_door():
    assert {where for param in curls() for where in param.values[:1]} == {*MESSAGES, "/v1/chat/completions"}


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
