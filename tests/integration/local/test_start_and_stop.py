"""Starting and stopping: what runs afterwards, and what does not."""

import asyncio
import json
import os
import signal
import socket
import subprocess

import httpx
import pytest
from harness.eventually import eventually
from harness.mesh import TIERMESH, prepare_mesh

pytestmark = [pytest.mark.envoy, pytest.mark.timeout(300)]


def off_loop(check):
    """Makes a check that blocks one that does not."""
    return lambda: asyncio.to_thread(check)


def listening_ports(mesh):
    """Returns the ports of a mesh that something listens on."""
    network = mesh.config.network
    ports = [network.ingress_port, network.admin_port, network.xds_port, network.mesh_port, network.redis_port]
    ports += [network.traces_port, *(network.service_port_base + n for n in (0, 20, 40, 100, 120, 140))]
    found = []
    for port in ports:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                found.append(port)
    return found


def begin(mesh, *arguments):
    """Starts the command line without waiting for it, as a shell would: in a process group of its own, with Ctrl-C heard.

    Tests that run in the background may have been started with it ignored, which is inherited.
    """
    return subprocess.Popen(
        ["env", "--default-signal=INT", TIERMESH, *arguments],
        env=mesh.environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


async def test_what_is_in_flight_finishes_and_nothing_is_left(tmp_path):
    # A path as people have them.
    folder = tmp_path / "my mesh 100% 状态"
    folder.mkdir()
    slow = {"tiers": [{"name": "l1", "simulated_tokens_per_second": 40}], "drain_s": 60}
    mesh = prepare_mesh(folder, "lite", slow)
    started = await asyncio.to_thread(mesh.tiermesh, "up", "--config", str(mesh.config_path))
    assert "The mesh answers." in started.stdout
    assert oct(mesh.state.stat().st_mode & 0o777) == "0o700"
    assert oct((mesh.state / "keys" / "local").stat().st_mode & 0o777) == "0o600"
    assert mesh.key not in started.stdout

    flowing = asyncio.Event()
    text = []
    engine = mesh.process("tiermesh.engine", "l1")

    async def stream():
        body = {
            "model": "tier:l1",
            "stream": True,
            "max_tokens": 110,
            "messages": [{"role": "user", "content": "Tell me about the sea."}],
        }
        headers = {"authorization": f"Bearer {mesh.key}"}
        async with (
            httpx.AsyncClient(timeout=60, headers=headers) as client,
            client.stream("POST", f"{mesh.url}/v1/chat/completions", json=body) as response,
        ):
            async for line in response.aiter_lines():
                text.append(line)
                if len(text) > 4 and not flowing.is_set():
                    # The answer stands still until the command has been seen to wait for it.
                    engine.suspend()
                    flowing.set()

    streaming = asyncio.create_task(stream())
    await flowing.wait()
    stopping = begin(mesh, "down")
    assert stopping.stdout is not None

    def until_it_waits():
        return next((line for line in stopping.stdout if "waiting for 1 request" in line), None)

    waiting = await asyncio.to_thread(until_it_waits)
    engine.resume()
    assert waiting is not None
    rest, _ = await asyncio.to_thread(stopping.communicate, timeout=120)
    assert stopping.returncode == 0
    await streaming
    assert "by force" not in rest
    *_, last, done = [line.removeprefix("data: ") for line in text if line]
    assert done == "[DONE]"
    assert json.loads(last)["choices"][0]["finish_reason"] in {"stop", "length"}
    assert mesh.processes() == []
    assert listening_ports(mesh) == []
    again = mesh.tiermesh("down")
    assert again.returncode == 0


async def test_ctrl_c_while_starting_leaves_nothing(tmp_path):
    mesh = prepare_mesh(tmp_path, "lite")
    starting = begin(mesh, "up")
    await eventually(off_loop(lambda: len(mesh.processes()) > 4))
    os.killpg(starting.pid, signal.SIGINT)
    output, _ = await asyncio.to_thread(starting.communicate, timeout=120)
    assert starting.returncode == 130
    assert "Traceback" not in output
    assert mesh.processes() == []
    assert listening_ports(mesh) == []


async def test_ctrl_c_in_the_foreground_drains_and_stops(tmp_path):
    mesh = prepare_mesh(tmp_path, "lite")
    running = begin(mesh, "up", "--foreground")
    assert running.stdout is not None

    def until_told():
        return any("Ctrl-C drains" in line for line in running.stdout)

    assert await asyncio.to_thread(until_told)
    os.killpg(running.pid, signal.SIGINT)
    output, _ = await asyncio.to_thread(running.communicate, timeout=120)
    assert running.returncode == 0
    assert "The mesh is stopped." in output
    assert mesh.processes() == []


def test_a_busy_port_is_named_before_anything_starts(tmp_path):
    mesh = prepare_mesh(tmp_path, "lite")
    with socket.socket() as server:
        server.bind(("127.0.0.1", mesh.config.network.xds_port))
        server.listen()
        done = mesh.tiermesh("up", check=False)
    assert done.returncode == 1
    for part in (str(mesh.config.network.xds_port), f"pid {os.getpid()}", "TIERMESH__NETWORK__XDS_PORT", "What to do"):
        assert part in done.stderr
    assert mesh.processes() == []


def test_a_process_that_cannot_serve_is_named_with_its_log_and_everything_is_stopped(tmp_path):
    mesh = prepare_mesh(tmp_path, "lite", {"rules": "missing.yaml"})
    done = mesh.tiermesh("up", check=False)
    assert done.returncode == 1
    assert "missing.yaml" in done.stderr
    assert "What to do" in done.stderr
    assert mesh.processes() == []
    assert listening_ports(mesh) == []


def test_a_wrong_configuration_starts_nothing(tmp_path):
    mesh = prepare_mesh(tmp_path, "lite", {"drain_s": -1})
    done = mesh.tiermesh("up", check=False)
    assert done.returncode == 2
    assert "drain_s" in done.stderr
    assert not mesh.state.exists()


def test_a_tier_with_a_language_model_and_no_environment_for_it_is_refused(tmp_path):
    mesh = prepare_mesh(tmp_path, "local")
    mesh.environ["TIERMESH_ENGINE_PYTHON"] = "/nonexistent/python"
    done = mesh.tiermesh("up", check=False)
    assert done.returncode == 1
    assert "make up" in done.stderr
    assert "lite" in done.stderr


async def test_what_a_killed_supervisor_left_behind_is_cleared_by_the_next_stop(tmp_path):
    mesh = prepare_mesh(tmp_path, "lite")
    starting = begin(mesh, "up")
    await eventually(off_loop(lambda: len(mesh.processes()) > 4))
    os.killpg(starting.pid, signal.SIGKILL)
    await asyncio.to_thread(starting.communicate)
    mesh.process("supervisord").kill()
    await eventually(off_loop(lambda: not any("supervisord" in " ".join(p.cmdline()) for p in mesh.processes())))
    assert mesh.processes()
    stopped = mesh.tiermesh("down")
    assert "ended by force" in stopped.stdout
    assert mesh.processes() == []
    assert listening_ports(mesh) == []
