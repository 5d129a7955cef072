"""Stopping: answers in flight finish, and nothing is left behind."""

import json
import signal
import socket
import subprocess
import threading

import httpx
from harness.mesh import TIERMESH, prepare_mesh, running_mesh


def assert_nothing_left(mesh):
    assert mesh.processes() == []
    network = mesh.config.network
    ports = [network.ingress_port, network.admin_port, network.xds_port, network.mesh_port, network.redis_port]
    ports += [network.traces_port, *(network.service_port_base + n for n in (0, 20, 40, 100, 120, 140))]
    for port in ports:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("127.0.0.1", port))


def test_an_answer_in_flight_finishes_and_nothing_is_left(tmp_path):
    with running_mesh(tmp_path, "lite") as mesh:
        begun, lines = threading.Event(), []

        def read():
            body = {
                "model": "tier:l2",
                "messages": [{"role": "user", "content": "Tell me a story."}],
                "max_tokens": 90,
                "stream": True,
            }
            with mesh.http() as client, client.stream("POST", "/v1/chat/completions", json=body) as response:
                for line in response.iter_lines():
                    if line:
                        lines.append(line)
                        begun.set()

        reader = threading.Thread(target=read)
        reader.start()
        assert begun.wait(60)
        mesh.tiermesh("down")
        reader.join(60)
        assert not reader.is_alive()
        assert lines[-1] == "data: [DONE]"
        assert json.loads(lines[-2].removeprefix("data: "))["choices"][0]["finish_reason"] in {"stop", "length"}
        assert_nothing_left(mesh)


def test_ctrl_c_in_the_foreground_drains_and_leaves_nothing(tmp_path):
    mesh = prepare_mesh(tmp_path, "lite")
    process = subprocess.Popen(
        [TIERMESH, "up", "--config", str(mesh.config_path), "--foreground"],
        env=mesh.environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        seen = []
        for line in process.stdout:
            seen.append(line)
            if "curl" in line:
                break
        else:
            raise AssertionError("".join(seen))
        assert httpx.get(f"{mesh.url}/healthz", timeout=60).status_code == 200
        process.send_signal(signal.SIGINT)
        process.stdout.read()
        assert process.wait(100) in {0, 130}
    finally:
        process.kill()
        process.stdout.close()
        process.wait()
    assert_nothing_left(mesh)


def test_a_busy_port_is_named_before_anything_starts(tmp_path):
    mesh = prepare_mesh(tmp_path, "lite")
    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind(("127.0.0.1", int(mesh.environ["TIERMESH__NETWORK__MESH_PORT"])))
        holder.listen()
        result = mesh.tiermesh("up", "--config", str(mesh.config_path), check=False)
    assert result.returncode != 0
    text = result.stdout + result.stderr
    assert mesh.environ["TIERMESH__NETWORK__MESH_PORT"] in text
    assert "mesh_port" in text
    assert mesh.processes() == []
