"""What the semantic tier does about an embedding model that it cannot use."""

import pytest
from harness.cache import cache_config
from structlog.testing import capture_logs
from tiermesh.cache.app import open_semantic_parts
from tiermesh.cache.embedder_files import MANIFEST, embedder_folder

ON = cache_config(semantic_enabled=True)


@pytest.fixture
def environ(tmp_path):
    return {"XDG_CACHE_HOME": str(tmp_path)}


async def told(environ):
    with capture_logs() as entries:
        async with open_semantic_parts(ON, environ) as parts:
            assert parts is not None
            assert parts.embedder is None
    (entry,) = entries
    return entry


async def test_one_of_an_earlier_release_is_told_of_and_not_used(environ):
    earlier = embedder_folder(environ).with_name("all-minilm-l6-v2-int8-fused")
    earlier.mkdir(parents=True)
    (earlier / MANIFEST).write_text("{}")
    entry = await told(environ)
    assert "python -m tiermesh.cache.fetch_embedder" in entry["event"]
    assert entry["of_an_earlier_release"] == [str(earlier)]


async def test_a_damaged_one_is_told_of_and_chinese_goes_on(environ):
    folder = embedder_folder(environ)
    folder.mkdir(parents=True)
    (folder / MANIFEST).write_text("{}")
    entry = await told(environ)
    assert "matched exactly only" in entry["event"]
    assert str(folder) in entry["error"]
    assert "python -m tiermesh.cache.fetch_embedder" in entry["error"]
