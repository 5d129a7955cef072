"""What people read: probes, logs, progress, findings."""

import io
import json

import pytest
from harness.local_plan import config_of, plan
from rich.console import Console
from tiermesh.mesh.local.display import LineDisplay, Row
from tiermesh.mesh.local.doctor import check_resources, check_running, last_complaint
from tiermesh.mesh.local.down import stage_of
from tiermesh.mesh.local.drain import active_requests, listed_endpoints
from tiermesh.mesh.local.layout import StateLayout
from tiermesh.mesh.local.log_files import LogFollower, format_line, parse_line, tail_of
from tiermesh.mesh.local.needs import needs_of
from tiermesh.mesh.local.probe import is_answer, probes_of
from tiermesh.mesh.local.status import ControlStatus, MeshStatus, join
from tiermesh.mesh.local.supervision import ProcessState
from tiermesh.mesh.local.up import stage_text
from tiermesh.mesh.local.views import by_time, duration


def test_every_tier_is_probed_and_none_from_the_cache():
    bodies = probes_of(config_of(), "abc")
    assert [body["model"] for body in bodies] == ["auto", "tier:l0", "tier:l1"]
    prompts = [body["messages"][0]["content"] for body in bodies]
    assert all("abc" in prompt for prompt in (prompts[0], prompts[2]))


@pytest.mark.parametrize(
    ("status", "code", "answered"),
    [(200, None, True), (400, "not_applicable", True), (400, "invalid_request", False), (503, "unavailable", False)],
)
def test_a_rules_tier_that_declines_is_well(status, code, answered):
    assert is_answer(status, {"error": {"code": code}}) is answered


def test_a_body_that_is_no_object_is_no_answer():
    assert not is_answer(400, ["x"])
    assert not is_answer(502, None)


def test_only_the_packaged_models_of_language_tiers_are_needed():
    hub = {"name": "l2", "backend": "vllm", "model": "org/model"}
    tiers = [{"name": "l0", "backend": "rules"}, {"name": "l1", "backend": "vllm", "model": "package:x"}, hub]
    assert needs_of(config_of(tiers=tiers)) == {"engine": True, "models": ["package:x"], "embedder": False}
    assert needs_of(config_of(tiers=tiers[:1])) == {"engine": False, "models": [], "embedder": False}


@pytest.mark.parametrize(
    ("cache", "needed"),
    [
        ({"semantic_enabled": True}, True),
        ({"semantic_enabled": True, "enabled": False}, False),
        ({}, False),
    ],
)
def test_the_embedder_is_needed_only_where_the_semantic_tier_is_on(cache, needed):
    assert needs_of(config_of(cache=cache))["embedder"] is needed


def test_json_logs_become_lines_for_people():
    line = json.dumps(
        {"event": "serving", "level": "info", "timestamp": "2026-11-29T20:51:01.366558Z", "service": "x", "port": 5}
    )
    assert format_line(parse_line(line, "router-0")) == "20:51:01.366 router-0       info    serving port=5"


@pytest.mark.parametrize("line", ["[2026][warning] plain", "{not json", "[1, 2]", ""])
def test_lines_that_are_not_json_are_kept_as_they_are(line):
    assert parse_line(line, "envoy") == {"service": "envoy", "event": line}


def test_the_tail_of_a_large_log_is_read_from_its_end(tmp_path):
    path = tmp_path / "x.log"
    path.write_text("".join(f"line {n} 行\n" for n in range(50_000)), encoding="utf-8")
    assert tail_of(path, 2) == ["line 49998 行", "line 49999 行"]
    assert tail_of(tmp_path / "missing.log", 2) == []


def test_a_followed_log_yields_whole_lines_and_survives_rotation(tmp_path):
    path = tmp_path / "x.log"
    path.write_text("old\n")
    follower = LogFollower(path)
    with path.open("a") as file:
        file.write("one\ntw")
    assert follower.read() == ["one"]
    with path.open("a") as file:
        file.write("o\n")
    assert follower.read() == ["two"]
    path.rename(tmp_path / "x.log.1")
    path.write_text("three\n")
    assert follower.read() == ["three"]
    assert follower.read() == []


def test_lines_of_several_logs_are_put_in_order_of_time():
    def stamped(time):
        return json.dumps({"timestamp": time})

    lines = [(stamped("2"), "a"), ("trace of 2", "a"), (stamped("1"), "b")]
    assert by_time(lines) == [(stamped("1"), "b"), (stamped("2"), "a"), ("trace of 2", "a")]


def test_progress_without_a_terminal_says_each_thing_once():
    out = io.StringIO()
    display = LineDisplay(Console(file=out, width=100))
    for stage in ("starting", "starting", "warming up", "SERVING", "SERVING"):
        display.show([Row("engine-l1-0", stage, 2.0)])
    assert [line.split()[1] for line in out.getvalue().splitlines()] == ["starting", "warming", "SERVING"]


def test_progress_without_a_terminal_says_now_and_then_what_takes_long():
    out = io.StringIO()
    display = LineDisplay(Console(file=out, width=100))
    for seconds in (0.0, 5.0, 16.0, 20.0, 30.0, 32.0):
        display.show([Row("engine-l1-0", "warming up", seconds), Row("redis", "SERVING", 0.2)])
    assert out.getvalue().splitlines()[2:] == [f"  {s} s: still waiting for engine-l1-0" for s in (16, 32)]


def state(name, state, pid=1):
    return ProcessState(name, state, pid, 1.0, 0, "")


@pytest.mark.parametrize(
    ("health", "of_supervisor", "text"),
    [
        ("serving", "RUNNING", "SERVING"),
        ("warming", "RUNNING", "warming up"),
        ("down", "STARTING", "starting"),
        ("down", "BACKOFF", "failing"),
    ],
)
def test_stages_in_words(health, of_supervisor, text):
    assert stage_text(health, state("x", of_supervisor)) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(5.9, "5 s"), (65, "1 min 5 s"), (3661, "1 h 1 min"), (90_000, "1 d 1 h")]
)
def test_durations_in_two_units(seconds, text):
    assert duration(seconds) == text


def test_processes_are_stopped_by_name_even_when_the_configuration_no_longer_knows_them():
    order = ["follower", "router-7", "engine-gone-0", "envoy", "control", "redis"]
    assert [stage_of(name) for name in order] == sorted(stage_of(name) for name in order)
    for name, spec in plan().items():
        assert stage_of(name) is spec.stage


def test_status_shows_what_is_missing_and_what_nobody_asked_for():
    specs = list(plan().values())
    states = {spec.name: state(spec.name, "RUNNING", 0) for spec in specs[1:]} | {"old-0": state("old-0", "RUNNING", 0)}
    lines = {line.name: line for line in join(specs, states, {spec.name: "serving" for spec in specs})}
    assert lines[specs[0].name].state == "MISSING"
    assert lines["old-0"].health == "unplanned"
    assert lines[specs[1].name].is_well


def test_a_refused_configuration_makes_the_mesh_not_well_though_all_serve():
    assert not MeshStatus((), ControlStatus("v", "tier l9 is wrong", ())).is_well
    assert MeshStatus((), ControlStatus("v", "", ())).is_well
    assert not MeshStatus((), None).is_well


def test_the_doctor_says_what_to_do_about_each_problem(tmp_path):
    layout = StateLayout(tmp_path)
    layout.logs.mkdir()
    layout.log_of("redis").write_text('{"event": "cannot run", "level": "error", "error": "no memory"}\nbye\n')
    specs = [plan()["redis"]]
    lines = join(specs, {"redis": state("redis", "BACKOFF", 0)}, {"redis": "down"})
    problems = [f for f in check_running(MeshStatus(lines, None), layout) if f.level == "problem"]
    assert len(problems) == 2
    assert "no memory" in problems[0].what
    assert all(problem.advice for problem in problems)


def test_the_doctor_finds_tiers_bound_to_cores_that_are_not_there(tmp_path):
    tiers = [{"name": "l1", "backend": "vllm", "model": "m", "cpu_cores": "0-4095"}]
    found = check_resources(config_of(tiers=tiers), running=True, folder=tmp_path)
    assert any("cores" in finding.what and finding.level == "problem" for finding in found)


def test_the_last_complaint_of_a_log_wins_over_its_last_line():
    lines = ['{"event": "loading", "level": "info"}', '{"event": "broke", "level": "error"}', '{"event": "end"}']
    assert last_complaint(lines, "x") == "broke"
    assert last_complaint(lines[:1], "x") == "loading"


def test_envoys_statistics_are_summed():
    assert active_requests('{"stats": [{"name": "http.ingress.downstream_rq_active", "value": 3}, {}]}') == 3
    assert active_requests('{"stats": []}') == 0


def test_envoys_endpoints_are_read_from_its_cluster_page():
    host = {"address": {"socket_address": {"address": "127.0.0.1", "port_value": 5}}}
    page = {"cluster_statuses": [{"name": "router", "host_statuses": [host]}, {"name": "empty"}]}
    assert listed_endpoints(json.dumps(page)) == {("router", "127.0.0.1:5")}
