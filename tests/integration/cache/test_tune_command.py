"""`tiermesh cache tune`, as people run it."""

import json
import os

import pytest
from tiermesh.cache.embedder_files import embedder_folder, is_fetched
from tiermesh.client.cli._app import make_app
from typer.testing import CliRunner

fetched = pytest.mark.skipif(
    not is_fetched(embedder_folder(os.environ)), reason="run python -m tiermesh.cache.fetch_embedder"
)
LINES = [
    {
        "stored": "How do I renew my library card?",
        "asked": "What are the steps to renew my library card?",
        "same": True,
    },
    {"stored": "How do I renew my library card?", "asked": "How do I cancel my library card?", "same": False},
    {"stored": "怎么取消订单", "asked": "请问如何取消订单", "same": True},
]


@pytest.fixture
def pairs(tmp_path):
    path = tmp_path / "pairs.jsonl"
    path.write_text("\n".join(json.dumps(line, ensure_ascii=False) for line in LINES), encoding="utf-8")
    return path


def run(*arguments, **environ):
    return CliRunner().invoke(make_app(), ["cache", "tune", *map(str, arguments)], env=environ)


@fetched
def test_it_recommends_and_says_how_sure_it_is(pairs):
    done = run(pairs)
    assert done.exit_code == 0, done.output
    assert "set cache.semantic_threshold: 0." in done.output
    assert "cannot promise" in done.output


@fetched
def test_json(pairs):
    found = json.loads(run(pairs, "--json").output)
    assert found["recommended"]["hit_rate"] == 1.0
    assert found["recommended"]["false_hit_rate"] == 0
    assert found["n"] == 3


def test_without_a_model_it_says_what_to_run(pairs, tmp_path):
    done = run(pairs, XDG_CACHE_HOME=str(tmp_path))
    assert done.exit_code == 1
    assert "python -m tiermesh.cache.fetch_embedder" in done.output


@pytest.mark.parametrize("content", ["", "not json", '{"stored": "x"}', '{"stored": "x", "asked": "y", "same": "yes"}'])
def test_a_wrong_file_is_named_with_its_line(tmp_path, content):
    path = tmp_path / "wrong.jsonl"
    path.write_text(content, encoding="utf-8")
    done = run(path)
    assert done.exit_code == 2
    assert "wrong.jsonl" in done.output
