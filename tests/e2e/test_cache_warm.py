"""`tiermesh cache warm` against a whole mesh: killed in the middle, run again, and live callers find the answers."""

import json
import re
import signal
import subprocess
import time
import uuid

import pytest
from harness.mesh import TIERMESH

COUNT = 8


@pytest.fixture
def bodies():
    """Bodies of chat completions as applications send them, each a new question."""
    run = uuid.uuid4().hex[:8]
    return [
        {
            "model": "tier:l1",
            "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": f"{run}: item {n}?"}],
            "temperature": 0,
            "max_tokens": 200,
        }
        for n in range(COUNT)
    ]


def marked(path):
    return path.read_text().split() if path.exists() else []


def test_killed_in_the_middle_it_goes_on_and_live_callers_find_every_answer(lite, bodies, tmp_path):
    mesh, _ = lite
    log, marks = tmp_path / "questions.jsonl", tmp_path / "questions.jsonl.done"
    log.write_text("\n".join(json.dumps(body) for body in bodies), encoding="utf-8")
    # With pauses so long that it cannot reach the end before it is killed.
    command = [TIERMESH, "cache", "warm", str(log), "--pause", "15"]
    with subprocess.Popen(command, env=mesh.environ, stdout=subprocess.DEVNULL) as first:
        give_up = time.monotonic() + 90
        while not marked(marks):
            assert first.poll() is None
            assert time.monotonic() < give_up, "nothing was answered"
            time.sleep(0.02)
        first.send_signal(signal.SIGKILL)
    before = marked(marks)
    assert 0 < len(before) < COUNT

    second = mesh.tiermesh("cache", "warm", str(log))
    left = COUNT - len(before)
    assert f"{left} of {left} questions answered" in second.stdout
    after = marked(marks)
    assert after[: len(before)] == before
    assert len(after) == len(set(after)) == COUNT
    # At most the one that was under way when it was killed has been asked before.
    already = re.search(r"(\d+) of them by the cache", second.stdout)
    assert already is None or int(already[1]) <= 1

    with mesh.http() as client:
        give_up = time.monotonic() + 90
        for body in bodies:
            # Writing an answer delays nobody, so it may come a moment after the end.
            while (found := client.post("/v1/chat/completions", json=body)).headers["x-tiermesh-cache"] != "hit":
                assert time.monotonic() < give_up, found.headers["x-tiermesh-cache"]
            assert found.json()["choices"][0]["finish_reason"] == "stop"
    assert "answered already" in mesh.tiermesh("cache", "warm", str(log)).stdout
