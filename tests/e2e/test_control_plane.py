"""The configuration changes, or the control plane dies, while requests are served."""

import asyncio

import httpx
import psutil
from harness.eventually import eventually
from tiermesh.shared.endpoints import cluster_endpoints


async def one(client, n):
    body = {
        "model": "tier:l1",
        "messages": [{"role": "user", "content": f"Tell me about the number {n}."}],
        "max_tokens": 8,
    }
    response = await client.post("/v1/chat/completions", json=body)
    return response.status_code, response.text


class Traffic:
    """Keeps four requests in flight and remembers what came of each."""

    def __init__(self, mesh):
        self._mesh = mesh
        self._stop = asyncio.Event()
        self.results = []

    async def _worker(self, client, worker):
        n = 0
        while not self._stop.is_set():
            self.results.append(await one(client, worker * 100_000 + n))
            n += 1

    async def __aenter__(self):
        self._client = httpx.AsyncClient(
            base_url=self._mesh.url, headers={"authorization": f"Bearer {self._mesh.key}"}, timeout=60
        )
        self._tasks = [asyncio.ensure_future(self._worker(self._client, n)) for n in range(4)]
        return self

    async def __aexit__(self, *_):
        self._stop.set()
        await asyncio.gather(*self._tasks)
        await self._client.aclose()

    async def more(self, count):
        """Waits for `count` more results."""
        target = len(self.results) + count
        await until(lambda: len(self.results) >= target)

    def failures(self):
        return [result for result in self.results if result[0] != 200]


async def until(condition):
    async def so():
        try:
            return condition()
        except (LookupError, httpx.HTTPError, psutil.Error):
            return False

    await eventually(so)


def healthy(mesh, cluster):
    """Addresses of a cluster that Envoy sends requests to."""
    admin = f"http://127.0.0.1:{mesh.config.network.admin_port}/clusters?format=json"
    found = []
    for status in httpx.get(admin, timeout=60).json()["cluster_statuses"]:
        if status["name"] != cluster:
            continue
        for host in status.get("host_statuses", []):
            if host["health_status"].get("eds_health_status") == "HEALTHY" and not host["health_status"].get(
                "failed_active_health_check"
            ):
                found.append(host["address"]["socket_address"]["port_value"])
    return found


async def test_replicas_and_routes_change_without_a_failed_request(broken):
    mesh = broken
    async with Traffic(mesh) as traffic:
        await traffic.more(20)
        mesh.edit_tier("l1", replicas=2)
        await until(lambda: len(healthy(mesh, "engine-l1")) == 2)
        await traffic.more(40)
        mesh.edit({"deadlines": {"default_ms": 45_000}})
        await traffic.more(20)
        mesh.edit_tier("l1", replicas=1)
        await until(lambda: len(healthy(mesh, "engine-l1")) == 1)
        await until(
            lambda: (
                sum("tiermesh.engine" in " ".join(p.cmdline()) and "l1" in p.cmdline() for p in mesh.processes()) == 1
            )
        )
        await traffic.more(40)
    assert traffic.failures() == []


async def test_an_invalid_change_is_refused_with_its_reason_and_the_last_good_one_serves(broken):
    mesh = broken
    good = mesh.config_path.read_text(encoding="utf-8")
    async with Traffic(mesh) as traffic:
        await traffic.more(10)
        mesh.write(good + "\ntyers: []\n")

        async def refused():
            told = await asyncio.to_thread(mesh.tiermesh, "status", check=False)
            return told if "the newest file was refused" in told.stdout else None

        told = await eventually(refused)
        assert "tyers" in told.stdout
        assert told.returncode == 1
        # A service that dies now comes back with what was accepted last.
        classifier = mesh.process("tiermesh.classifier")
        classifier.kill()
        await until(lambda: mesh.process("tiermesh.classifier").pid != classifier.pid)
        await traffic.more(20)
        mesh.write(good)

        async def accepted():
            return (await asyncio.to_thread(mesh.tiermesh, "status", check=False)).returncode == 0

        await eventually(accepted)
        await traffic.more(10)
    assert traffic.failures() == []


async def test_killing_the_control_plane_fails_no_request_and_it_comes_back(broken):
    mesh = broken
    async with Traffic(mesh) as traffic:
        await traffic.more(20)
        first = mesh.process("tiermesh.mesh", "--config").pid
        mesh.process("tiermesh.mesh", "--config").kill()
        await traffic.more(60)
        await until(lambda: mesh.process("tiermesh.mesh", "--config").pid != first)
        mesh.edit_tier("l1", replicas=2)
        await until(lambda: len(healthy(mesh, "engine-l1")) == 2)
        await traffic.more(20)
    assert traffic.failures() == []


async def test_a_rule_changed_in_the_file_takes_effect(broken):
    mesh = broken
    rules = mesh.folder / "rules.yaml"
    text = rules.read_text(encoding="utf-8")

    def tier():
        body = {"model": "auto", "messages": [{"role": "user", "content": "florbulate the widget"}], "max_tokens": 4}
        response = httpx.post(
            f"{mesh.url}/v1/chat/completions", json=body, headers={"authorization": f"Bearer {mesh.key}"}, timeout=60
        )
        assert response.status_code == 200
        return response.headers["x-tiermesh-tier"]

    assert tier() == "l1"
    rule = "rules:\n  - name: florbulate\n    any: ['florbulate']\n    task_type: code\n    complexity: 0.9\n    priority: 100\n"
    fresh = rules.with_suffix(".new")
    fresh.write_text(text.replace("rules:\n", rule, 1), encoding="utf-8")
    fresh.replace(rules)
    await until(lambda: tier() == "l2")


def test_ports_of_the_plan_are_the_ones_used(lite):
    mesh = lite[0]
    (endpoint,) = cluster_endpoints(mesh.config, "engine-l1")
    assert healthy(mesh, "engine-l1") == [endpoint.port]
