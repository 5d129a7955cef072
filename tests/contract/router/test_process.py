"""The router as a process of its own: it follows its configuration and drains."""

import asyncio
import os
import signal
import sys
from contextlib import asynccontextmanager

import grpc
import pytest
import yaml
from harness.ports import free_port_base
from harness.router import METADATA, RAW, ask
from tiermesh.api.router.v1 import router_pb2, router_pb2_grpc
from tiermesh.shared.rpc import open_channel, open_server
from tiermesh.shared.testing import FakeCache, FakeClassifier, ScriptedEngine, answer_steps, recorded_tracing


class Running:
    def __init__(self, stub, process, path, neighbours):
        self.router, self.process, self.path, self.neighbours = stub, process, path, neighbours

    async def explain(self, **fields):
        request = router_pb2.ExplainRequest(request=ask(**fields))
        return await self.router.Explain(request, timeout=60, metadata=METADATA, wait_for_ready=True)


@asynccontextmanager
async def running(folder):
    cache, classifier, engine = FakeCache(), FakeClassifier(), ScriptedEngine(*answer_steps("a", "b"))
    services = [cache.service(), classifier.service(), engine.service()]
    path = folder / "mesh.yaml"
    with recorded_tracing() as tracing:
        # One server for all clusters, as Envoy's mesh listener is.
        async with open_server(services, address="127.0.0.1:0", tracing=tracing, default_deadline_s=30) as server:
            raw = {**RAW, "network": {"mesh_port": server.port}, "discovery": {"mode": "dns"}, "rules": "rules.yaml"}
            path.write_text(yaml.safe_dump(raw))
            address = f"127.0.0.1:{free_port_base()}"
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "tiermesh.router", "--config", str(path), "--listen", address),
                *("--state", str(folder)),
                env={k: v for k, v in os.environ.items() if not k.startswith(("TIERMESH", "OTEL"))},
                stderr=asyncio.subprocess.DEVNULL,
            )
            try:
                async with open_channel(address) as channel:
                    yield Running(router_pb2_grpc.RouterServiceStub(channel), process, path, (cache, engine))
            finally:
                if process.returncode is None:
                    process.kill()
                await process.wait()


async def test_a_changed_file_counts_for_new_requests_and_a_wrong_one_changes_nothing(tmp_path):
    async with running(tmp_path) as mesh:
        first = await mesh.explain()
        raw = yaml.safe_load(mesh.path.read_text())
        raw["tiers"][1]["max_complexity"] = 0.1

        async def until(condition):
            async with asyncio.timeout(60):
                while not condition(found := await mesh.explain()):  # noqa: ASYNC110 -- the file is watched elsewhere
                    await asyncio.sleep(0.02)
            return found

        mesh.path.write_text(yaml.safe_dump({**raw, "tiers": "none"}))
        mesh.path.with_name("other.yaml").write_text(yaml.safe_dump(raw))
        mesh.path.with_name("other.yaml").replace(mesh.path)
        changed = await until(lambda found: found.route.tier == "l2")
        assert first.route.tier == "l1"
        assert changed.route.config_version != first.route.config_version
        mesh.path.write_text(yaml.safe_dump({**raw, "tiers": "none"}))
        mesh.path.with_name("rules.yaml").write_text("version: 1\n")
        await asyncio.sleep(0.5)
        assert (await mesh.explain()).route.tier == "l2"
        mesh.path.write_text(yaml.safe_dump(raw))
        await until(lambda found: found.route.config_version != changed.route.config_version)


async def test_told_to_stop_it_finishes_the_answer_and_its_store_and_leaves(tmp_path):
    async with running(tmp_path) as mesh:
        cache, engine = mesh.neighbours
        gate = asyncio.Event()
        steps = answer_steps("first ", "last")
        engine.steps = [*steps[:2], gate, *steps[2:]]
        call = mesh.router.Generate(ask(), timeout=100, metadata=METADATA, wait_for_ready=True)
        assert (await call.read()).HasField("route")
        assert (await call.read()).delta.text == "first "
        mesh.process.send_signal(signal.SIGTERM)
        # The drain has begun once new calls are refused.
        request = router_pb2.ExplainRequest(request=ask())
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            async with asyncio.timeout(60):
                while True:
                    await mesh.router.Explain(request, timeout=60, metadata=METADATA)
        assert refused.value.code() in {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED}
        gate.set()
        assert (await call.read()).delta.text == "last"
        assert (await call.read()).HasField("done")
        async with asyncio.timeout(60):
            assert await mesh.process.wait() == 0
        assert len(cache.stores) == 1
