"""The command line against a mesh that runs: real processes, real Envoy, simulated models."""

import asyncio
import json
import re
import signal
import socket
import subprocess

import psutil
import pytest
from harness.eventually import eventually
from harness.mesh import prepare_mesh

pytestmark = [pytest.mark.envoy, pytest.mark.timeout(300)]


def off_loop(check):
    """Makes a check that blocks one that does not."""
    return lambda: asyncio.to_thread(check)


def status_of(mesh):
    return json.loads(mesh.tiermesh("status", "--json", check=False).stdout)


def process_of(mesh, name):
    return next(each for each in status_of(mesh)["processes"] if each["name"] == name)


def test_every_process_serves_and_status_says_so(mesh):
    done = mesh.tiermesh("status")
    assert done.returncode == 0
    for name in ("redis", "traces", "control", "envoy", "engine-l2-0", "classifier-0", "cache-0", "router-0"):
        assert name in done.stdout
    found = status_of(mesh)
    assert found["well"]
    assert found["control"]["config_version"]
    assert all(each["memory_mb"] > 1 for each in found["processes"])


def test_a_second_start_says_that_it_runs_already_and_starts_nothing(mesh):
    before = {process.pid for process in mesh.processes()}
    done = mesh.tiermesh("up", "--config", str(mesh.config_path))
    assert "already" in done.stdout
    assert {process.pid for process in mesh.processes()} == before


def test_the_printed_curl_works_when_pasted(mesh, tmp_path):
    printed = mesh.tiermesh("up", "--config", str(mesh.config_path)).stdout
    command = next(line.strip() for line in printed.splitlines() if line.strip().startswith("curl"))
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert json.loads(done.stdout)["choices"][0]["message"]["content"]


def test_another_mesh_on_the_same_ports_is_refused_and_told_who_holds_them(mesh, tmp_path):
    other = prepare_mesh(tmp_path, "lite")
    ports = {name: value for name, value in mesh.environ.items() if name.startswith("TIERMESH__NETWORK")}
    other.environ.update(ports)
    done = other.tiermesh("up", check=False)
    assert done.returncode == 1
    for part in (str(mesh.config.network.ingress_port), "envoy", "network.ingress_port", str(mesh.state)):
        assert part in done.stderr
    assert "stopping" not in done.stdout
    # Of a process that ends just now there is no command line to be had.
    commands = [process.info["cmdline"] or () for process in psutil.process_iter(["cmdline"])]
    assert not any(str(other.state) in " ".join(command) for command in commands)


def test_an_answer_and_where_it_came_from(mesh):
    done = mesh.tiermesh("ask", "Why does it rain in April?")
    assert "simulated" in done.stdout
    assert "tier l1" in done.stderr
    assert mesh.tiermesh("ask", "你好", "--no-stream").stdout.strip()


def test_a_refused_question_says_why_and_what_to_do(mesh):
    done = mesh.tiermesh("ask", "hi", "--model", "nope", check=False)
    assert done.returncode == 1
    assert "UNKNOWN_MODEL" in done.stderr
    assert "What to do" in done.stderr


def test_a_decision_is_explained(mesh):
    assert "tier l2" in mesh.tiermesh("explain", "Write a quicksort in Python").stdout
    assert json.loads(mesh.tiermesh("explain", "hello", "--json").stdout)["route"]["tier"] == "l0"


async def test_a_trace_is_listed_and_drawn(mesh):
    done = mesh.tiermesh("ask", "Where do swallows go in winter?")
    trace = re.search(r"trace ([0-9a-f]{32})", done.stderr)[1]

    def listed():
        return trace in mesh.tiermesh("trace").stdout

    await eventually(off_loop(listed))

    def drawn():
        # Every process sends its own spans, in its own time.
        text = mesh.tiermesh("trace", trace).stdout
        return all(part in text for part in ("RouterService/Generate", "EngineService/Generate", "tier=l1", "█"))

    await eventually(off_loop(drawn))
    assert mesh.tiermesh("trace", "0" * 31 + "1", check=False).returncode == 1


def test_logs_are_lines_for_people_or_json(mesh):
    assert "serving" in mesh.tiermesh("logs", "router-0").stdout
    for line in mesh.tiermesh("logs", "--json").stdout.splitlines():
        assert json.loads(line)["service"]
    done = mesh.tiermesh("logs", "nope", check=False)
    assert done.returncode == 1
    assert "router-0" in done.stderr


def test_the_doctor_finds_nothing_wrong(mesh):
    done = mesh.tiermesh("doctor")
    assert "nothing is wrong" in done.stdout


@pytest.mark.parametrize("name", ["router-0", "engine-l1-0", "redis", "envoy", "control"])
async def test_a_killed_process_comes_back_and_the_mesh_answers_again(mesh, name):
    before = process_of(mesh, name)
    psutil.Process(before["pid"]).send_signal(signal.SIGKILL)

    def is_back():
        found = status_of(mesh)
        now = next(each for each in found["processes"] if each["name"] == name)
        return now["pid"] not in {0, before["pid"]} and found["well"]

    await eventually(off_loop(is_back), within_s=120)

    def answers():
        return mesh.tiermesh("ask", f"Is {name} back?", check=False).returncode == 0

    await eventually(off_loop(answers))


async def test_replicas_follow_the_configuration_and_no_request_fails_meanwhile(mesh):
    failed = []

    def is_well_with(names):
        found = status_of(mesh)
        if mesh.tiermesh("ask", "Do cats dream at night?", "--model", "tier:l1", "--no-cache", check=False).returncode:
            failed.append(1)
        return found["well"] and {each["name"] for each in found["processes"] if "l1" in each["name"]} == names

    mesh.edit({"tiers": [{"name": "l1", "replicas": 2}]})
    await eventually(off_loop(lambda: is_well_with({"engine-l1-0", "engine-l1-1"})), within_s=120)
    port = process_of(mesh, "engine-l1-1")["port"]
    mesh.edit({"tiers": [{"name": "l1", "replicas": 1}]})
    await eventually(off_loop(lambda: is_well_with({"engine-l1-0"})), within_s=120)
    assert not failed
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", port)) != 0


async def test_a_changed_tier_is_restarted_with_its_new_settings(mesh):
    before = {name: process_of(mesh, name)["pid"] for name in ("engine-l1-0", "engine-l2-0")}
    mesh.edit({"tiers": [{"name": "l2", "simulated_ttft_ms": 5}]})

    def is_new():
        found = status_of(mesh)
        pids = {each["name"]: each["pid"] for each in found["processes"]}
        return found["well"] and pids["engine-l2-0"] != before["engine-l2-0"]

    await eventually(off_loop(is_new), within_s=120)
    assert process_of(mesh, "engine-l1-0")["pid"] == before["engine-l1-0"]


async def test_a_wrong_file_changes_nothing(mesh):
    before = {process.pid for process in mesh.processes()}
    good = mesh.config_path.read_text()
    mesh.write("tiers: [nonsense")

    def is_noticed():
        return "refused" in mesh.tiermesh("logs", "follower").stdout

    await eventually(off_loop(is_noticed))
    assert {process.pid for process in mesh.processes()} == before
    mesh.write(good)
