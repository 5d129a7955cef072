"""Which processes a configuration asks for."""

import shlex
from pathlib import Path

import pytest
from harness.local_plan import RULES, VLLM, plan
from supervisor.options import ServerOptions
from tiermesh.mesh.local.errors import LocalError
from tiermesh.mesh.local.layout import StateLayout
from tiermesh.mesh.local.processes import Stage
from tiermesh.mesh.local.supervisor_conf import render_supervisor_conf


def test_every_part_of_the_mesh_has_a_process():
    assert set(plan()) == {
        *("redis", "traces", "control", "envoy", "follower"),
        *("engine-l0-0", "engine-l1-0", "classifier-0", "cache-0", "router-0"),
    }


def test_replicas_listen_on_ports_of_their_own():
    specs = plan(router={"replicas": 3}, tiers=[{**RULES, "replicas": 2}])
    ports = [spec.port for spec in specs.values() if spec.port]
    assert len(set(ports)) == len(ports)
    assert {"router-2", "engine-l0-1"} <= set(specs)
    assert specs["router-2"].command[-1] == specs["router-2"].address


def test_an_engine_with_a_language_model_runs_in_the_engine_environment_with_its_cores_and_memory():
    engine = plan()["engine-l1-0"]
    assert engine.command[0] == "/engine/bin/python"
    assert engine.environ["PYTHONPATH"] == "/src/a:/src/b"
    assert engine.environ["VLLM_CPU_OMP_THREADS_BIND"] == "0"
    assert engine.environ["VLLM_CPU_KVCACHE_SPACE"] == "2"


def test_an_engine_without_one_runs_in_the_base_environment():
    engine = plan()["engine-l0-0"]
    assert engine.command[:3] == ("/base/bin/python", "-m", "tiermesh.engine")
    assert not engine.environ


@pytest.mark.parametrize("elsewhere", [{"environ": {"REDIS_URL": "redis://x"}}, {"cache": {"redis_url": "redis://x"}}])
def test_a_redis_elsewhere_is_not_started_here(elsewhere):
    assert "redis" not in plan(**elsewhere)


def test_a_setting_that_only_the_router_reads_does_not_restart_engines():
    before, after = plan(), plan(tiers=[RULES, {**VLLM, "max_complexity": 0.2, "price_in": 9.0}])
    assert before["engine-l1-0"] == after["engine-l1-0"]


@pytest.mark.parametrize("change", [{"slots": 3}, {"model": "other/model"}, {"answer_tokens": 77}])
def test_a_setting_that_engines_read_at_their_start_changes_them(change):
    before, after = plan(), plan(tiers=[RULES, {**VLLM, **change}])
    assert before["engine-l1-0"].digest != after["engine-l1-0"].digest
    assert before["engine-l0-0"] == after["engine-l0-0"]


def test_the_router_is_stopped_before_what_it_calls_and_envoy_after_both():
    specs = plan()
    order = [specs[name].stage for name in ("follower", "router-0", "engine-l1-0", "envoy", "control", "redis")]
    assert order == sorted(order)
    assert specs["envoy"].stage is Stage.ENVOY > specs["cache-0"].stage > specs["router-0"].stage


def test_envoy_keeps_connections_of_a_changed_listener_longer_than_the_longest_answer():
    command = plan(deadlines={"max_ms": 7_200_000})["envoy"].command
    assert command[command.index("--drain-time-s") + 1] == "7200"


def read_back(text, folder):
    """Reads a configuration as supervisord itself does."""
    (folder / "logs").mkdir()
    path = folder / "supervisord.conf"
    path.write_text(text)
    options = ServerOptions()
    options.realize(["-c", str(path), "-n"])
    return {group.name: group.process_configs[0] for group in options.process_group_configs}


def test_supervisord_reads_back_what_was_planned(tmp_path):
    layout = StateLayout(tmp_path)
    specs = plan()
    found = read_back(render_supervisor_conf(specs.values(), layout, drain_s=20), tmp_path)
    assert set(found) == set(specs)
    engine = found["engine-l1-0"]
    assert tuple(shlex.split(engine.command)) == specs["engine-l1-0"].command
    assert engine.environment["VLLM_CPU_OMP_THREADS_BIND"] == "0"
    assert engine.stopwaitsecs > 20
    assert engine.killasgroup
    assert not engine.stopasgroup


def test_paths_with_blanks_and_percent_signs_survive_supervisords_format(tmp_path):
    folder = tmp_path / "100% mine" / "状态"
    folder.mkdir(parents=True)
    spec = plan()["router-0"]
    odd = type(spec)("odd", ("/a b/python", "--state", str(folder)), Stage.ROUTER, "grpc", "h", 1, {"A": "50%"})
    found = read_back(render_supervisor_conf([odd], StateLayout(folder), drain_s=1), folder)["odd"]
    assert tuple(shlex.split(found.command)) == odd.command
    assert found.environment["A"] == "50%"


@pytest.mark.parametrize("value", ['a"b', "a'b"])
def test_a_value_that_supervisords_format_cannot_carry_is_refused(value, tmp_path):
    spec = plan()["router-0"]
    odd = type(spec)("odd", ("x",), Stage.ROUTER, "grpc", "h", 1, {"A": value})
    with pytest.raises(LocalError, match="quote"):
        render_supervisor_conf([odd], StateLayout(tmp_path), drain_s=1)


def test_the_socket_of_a_deep_state_folder_is_put_where_linux_allows_it(tmp_path):
    deep = StateLayout(tmp_path / ("x" * 100))
    assert len(str(deep.supervisor_socket).encode()) < 100
    assert StateLayout(Path("/s")).supervisor_socket == Path("/s/supervisor.sock")
    assert deep.supervisor_socket != StateLayout(tmp_path / ("y" * 100)).supervisor_socket
