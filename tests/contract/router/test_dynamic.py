"""Dynamic fields on their way to engines and into the cache's key."""

from harness.router import ask, running_router
from tiermesh.api.router.v1 import router_pb2

FIELDS = [
    {"name": "session", "labels": ["session id", "会话编号"], "answer_depends": False},
    {"name": "time", "labels": ["time", "时间"]},
]


async def test_engines_get_the_shared_part_first_and_sessions_share_an_answer():
    async with running_router(dynamic_fields=FIELDS) as mesh:
        await mesh.generate(ask("Session ID: 1\nTime: noon\nRivers flow. Where to?"))
        await mesh.wired.stores.drain()
        (sent,) = mesh.engines["l1"].requests
        assert sent.messages[0].content == "Rivers flow. Where to?\n\n--- request ---\nSession ID: 1\nTime: noon"
        hit = await mesh.generate(ask("Session ID: 2\nTime: noon\nRivers flow. Where to?"))
        assert hit.route.cache_status == router_pb2.CACHE_STATUS_HIT
        miss = await mesh.generate(ask("Session ID: 2\nTime: night\nRivers flow. Where to?"))
        assert miss.route.cache_status == router_pb2.CACHE_STATUS_MISS


async def test_without_a_declaration_nothing_is_moved(mesh):
    text = "Session ID: 1\nRivers flow. Where to?"
    await mesh.generate(ask(text))
    assert mesh.engines["l1"].requests[0].messages[0].content == text
