"""What `helm test` runs in a pod: it needs an answer, and says why there is none."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from harness.helm import CHART, render

ANSWER = {"choices": [{"message": {"content": "Hello!"}}]}
MODELS = {"data": [{"id": "auto"}, {"id": "tier:l0"}]}


@contextmanager
def mesh(*statuses: int):
    """Serves on a free port: one status after another, the last one from then on; `seen` has keys and paths."""
    left, seen = list(statuses), []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self._answer(MODELS)

        def do_POST(self):
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            assert asked["messages"][0]["role"] == "user"
            self._answer(ANSWER)

        def _answer(self, body):
            seen.append((self.headers["Authorization"], self.path))
            status = left.pop(0) if len(left) > 1 else left[0]
            self.send_response(status)
            self.send_header("x-tiermesh-tier", "l0")
            self.end_headers()
            self.wfile.write(json.dumps(body).encode())

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", seen
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def ask(url: str, folder) -> subprocess.CompletedProcess[str]:
    (pod,) = render().all("Pod")
    # The very text that the pod gets.
    _, _, program, *_ = pod["spec"]["containers"][0]["command"]
    keys = folder / "keys"
    keys.write_text("first-key\nsecond-key\n", encoding="utf-8")
    command = [sys.executable, "-c", program, url, str(keys)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


def test_an_answer_is_told(tmp_path):
    with mesh(200) as (url, seen):
        done = ask(url, tmp_path)
    assert done.returncode == 0, done.stderr
    assert "models: auto, tier:l0" in done.stdout
    assert "tier: l0 answer: Hello!" in done.stdout
    assert seen == [("Bearer first-key", "/v1/models"), ("Bearer first-key", "/v1/chat/completions")]


def test_a_mesh_that_is_coming_up_is_asked_again(tmp_path):
    with mesh(503, 200) as (url, seen):
        done = ask(url, tmp_path)
    assert done.returncode == 0, done.stderr
    assert [path for _, path in seen] == ["/v1/models", "/v1/models", "/v1/chat/completions"]


@pytest.mark.parametrize("status", [401, 403, 429])
def test_a_refusal_fails_at_once(status, tmp_path):
    with mesh(status) as (url, seen):
        done = ask(url, tmp_path)
    assert done.returncode == 1
    assert str(status) in done.stderr
    assert len(seen) == 1


def test_the_pod_asks_the_ingress_with_the_key_of_the_first_tenant():
    release = render({"fullnameOverride": "mesh-a", "ingress": {"service": {"port": 8000}}})
    (pod,) = release.all("Pod")
    assert pod["metadata"]["annotations"]["helm.sh/hook"] == "test"
    url, keys = pod["spec"]["containers"][0]["command"][-2:]
    assert url == "http://mesh-a.inference.svc.cluster.local:8000"
    encrypted = {"ingress": {"tls": {"enabled": True, "secret": "public"}}}
    (secure,) = render(encrypted).all("Pod")
    assert secure["spec"]["containers"][0]["command"][-2] == "https://tiermesh.inference.svc.cluster.local:80"
    (source,) = pod["spec"]["volumes"][0]["projected"]["sources"]
    assert source["secret"]["name"] == "tiermesh-keys"
    assert keys == f"/etc/tiermesh-keys/{source['secret']['items'][0]['path']}"
    assert (CHART / "files" / "ask.py").exists()
