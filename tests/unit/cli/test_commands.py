"""The command line without a mesh: help, exit statuses, and what people are told."""

import json
from pathlib import Path

import pytest
import typer
from tiermesh.api.router.v1 import router_pb2
from tiermesh.client import AsyncClient, Client
from tiermesh.client.cli import main
from tiermesh.client.cli._app import make_app
from tiermesh.client.cli._connection import explained, find_ingress, find_trace_store
from tiermesh.client.cli._prompt import make_request
from tiermesh.shared.config import ConfigError
from tiermesh.shared.errors import ERROR_TABLE, InvalidRequest
from tiermesh.shared.local_mesh import LocalMesh, MeshNotFound, find_mesh
from typer.testing import CliRunner

ROOT = Path(__file__).resolve().parents[3]
COMMANDS = ["ask", "explain", "feedback", "trace", "errors", "config", "up", "down", "status", "logs", "doctor"]


@pytest.fixture
def tiermesh(tmp_path):
    environ = {"TIERMESH_HOME": str(tmp_path), "TIERMESH_STATE": "", "TIERMESH_PROFILE": "", "TIERMESH_CONFIG": ""}
    runner = CliRunner(env=environ)
    return lambda *arguments: runner.invoke(make_app(), list(arguments))


def test_every_command_is_there(tiermesh):
    text = tiermesh("--help").output
    for name in COMMANDS:
        assert f" {name} " in text


@pytest.mark.parametrize("command", [*((name,) for name in COMMANDS if name != "config"), ("config", "check")])
def test_every_command_has_help_with_an_example(tiermesh, command):
    result = tiermesh(*command, "--help")
    assert result.exit_code == 0
    assert f"Example: tiermesh {' '.join(command)}" in " ".join(result.output.split())


@pytest.mark.parametrize(
    "command", [("status",), ("trace",), ("ask", "hi"), ("explain", "hi"), ("feedback", "r-1", "--right"), ("logs",)]
)
def test_without_a_mesh_commands_say_so_and_how_to_start_one(tiermesh, command):
    result = tiermesh(*command)
    assert result.exit_code == 3
    assert "make up" in result.output


def test_stopping_what_does_not_run_is_fine(tiermesh):
    assert tiermesh("down").exit_code == 0


def test_every_reason_is_in_the_error_table(tiermesh):
    rows = json.loads(tiermesh("errors", "--json").output)
    assert [row["reason"] for row in rows] == list(ERROR_TABLE)
    assert all(row["advice"] for row in rows)


def test_a_reason_can_be_looked_up_by_its_code_in_any_case(tiermesh):
    output = tiermesh("errors", "inf-429").output
    assert "RATE_LIMITED" in output
    assert "QUEUE_FULL" in output
    assert "INTERNAL" not in output


def test_an_unknown_reason_is_refused(tiermesh):
    assert tiermesh("errors", "nope").exit_code == 1


@pytest.mark.parametrize("profile", ["local", "lite", "laptop"])
def test_the_shipped_profiles_pass_the_check(tiermesh, profile):
    result = tiermesh("config", "check", str(ROOT / "mesh" / "profiles" / f"{profile}.yaml"))
    assert result.exit_code == 0
    assert "l2" in result.output


def test_a_wrong_configuration_names_the_key_and_what_is_allowed(tiermesh, tmp_path):
    path = tmp_path / "wrong.yaml"
    path.write_text("tenants: [{name: a, key_env: K}]\ntiers: [{name: l0, backend: magic}]\n")
    result = tiermesh("config", "check", str(path))
    assert result.exit_code == 2
    assert "tiers.0.backend" in result.output
    assert "simulated" in result.output


def test_an_unknown_profile_is_refused_with_the_ones_there_are(tiermesh, tmp_path):
    profiles = tmp_path / "mesh" / "profiles"
    profiles.mkdir(parents=True)
    (profiles / "lite.yaml").touch()
    result = tiermesh("up", "--profile", "nope")
    assert result.exit_code == 1
    assert "lite" in result.output


def test_an_empty_prompt_is_refused(tiermesh):
    assert tiermesh("ask", "  ").exit_code == 2


def test_a_request_carries_what_was_typed():
    request = make_request("你好", model="tier:l1", system="be brief", max_tokens=5, no_cache=True)
    assert [message.content for message in request.messages] == ["be brief", "你好"]
    assert (request.model, request.sampling.max_tokens) == ("tier:l1", 5)
    assert request.cache_mode == router_pb2.CACHE_MODE_OFF
    assert not make_request("x", model="auto").sampling.HasField("max_tokens")


@pytest.fixture
def running(tmp_path):
    """The notes of two meshes, as `tiermesh up` leaves them."""
    (tmp_path / "c.yaml").write_text(
        "tenants: [{name: a, key_file: keys/a}]\ntiers: [{name: l0, backend: rules}]\nnetwork: {ingress_port: 81}\n"
    )

    def start(profile):
        state = tmp_path / ".tiermesh" / profile
        (state / "keys").mkdir(parents=True)
        (state / "keys" / "a").write_text("# mine\nkey-of-" + profile + "\n")
        overrides = {"TIERMESH__NETWORK__TRACES_PORT": "82"}
        LocalMesh(profile, str(tmp_path / "c.yaml"), str(state), overrides).write()

    start("one")
    return {"TIERMESH_HOME": str(tmp_path)}, start


def test_the_only_mesh_is_found_with_its_ports_overrides_and_key(running):
    environ, _ = running
    door = find_ingress(environ, target=None, profile=None)
    assert (door.target, door.key) == ("127.0.0.1:81", "key-of-one")
    assert find_trace_store(environ, target=None, profile=None).target == "127.0.0.1:82"


def test_of_several_meshes_one_must_be_named(running):
    environ, start = running
    start("two")
    with pytest.raises(MeshNotFound, match="one, two"):
        find_mesh(environ)
    assert find_ingress(environ, target=None, profile="two").key == "key-of-two"
    assert find_mesh({**environ, "TIERMESH_PROFILE": "one"}).profile == "one"


def test_a_mesh_elsewhere_takes_the_key_of_the_environment():
    door = find_ingress({"TIERMESH_API_KEY": "k"}, target="mesh.example:443", profile=None)
    assert door.metadata == (("authorization", "Bearer k"),)


def test_the_application_can_be_built_twice():
    assert isinstance(make_app(), typer.Typer)
    assert isinstance(make_app(), typer.Typer)


def test_the_version_is_told(tiermesh):
    result = tiermesh("--version")
    assert result.exit_code == 0
    assert result.output.startswith("tiermesh 0.")


@pytest.mark.parametrize("find", [find_ingress, find_trace_store])
@pytest.mark.parametrize(
    ("url", "meant"),
    [("http://10.0.0.1:8080", "10.0.0.1:8080"), ("https://mesh.example/v1", "mesh.example")],
)
def test_a_url_is_no_target_and_what_to_write_is_told(find, url, meant):
    with pytest.raises(ConfigError, match=f"is a URL; write host and port, {meant}"):
        find({}, target=url, profile=None)
    with pytest.raises(ValueError, match=meant):
        Client(url)
    with pytest.raises(ValueError, match=meant):
        AsyncClient(url)


def test_a_bandit_that_has_no_file_is_not_taken_for_one_that_knows_nothing(tiermesh, tmp_path):
    result = tiermesh("bandit", "show", str(tmp_path / "bandit.json"))
    assert result.exit_code == 2
    assert "is not there" in result.output


def test_ctrl_c_ends_without_a_traceback(capsys):
    def interrupted():
        raise KeyboardInterrupt

    with pytest.raises(SystemExit) as ended:
        main(interrupted)
    assert ended.value.code == 130
    assert capsys.readouterr().err == "\nStopped.\n"


def test_a_state_folder_that_cannot_be_made_is_named_with_what_to_do(tiermesh, tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("TIERMESH_STATE", str(tmp_path / "file" / "state"))
    path = tmp_path / "mesh.yaml"
    path.write_text(
        (ROOT / "mesh" / "profiles" / "lite.yaml")
        .read_text()
        .replace("local.yaml", str(ROOT / "mesh/profiles/local.yaml"))
    )
    result = CliRunner().invoke(make_app(), ["up", "--config", str(path)])
    assert result.exit_code == 1
    assert "cannot be made" in result.output
    assert "TIERMESH_STATE=FOLDER" in result.output


@pytest.mark.parametrize(
    ("message", "told"),
    [
        ("messages: is empty", "INVALID_REQUEST: messages: is empty"),
        ("is empty", "INVALID_REQUEST (messages): is empty"),
    ],
)
def test_a_field_is_named_once(message, told, capsys):
    with pytest.raises(typer.Exit), explained():
        raise InvalidRequest(message, field="messages")
    assert capsys.readouterr().err.startswith(f"{told}\nWhat to do")
