"""How the router uses the answer cache."""

import asyncio

import pytest
from harness.eventually import eventually
from harness.router import METADATA, RAW, ask, make_settings, running_router
from tiermesh.api.cache.v1 import cache_pb2
from tiermesh.api.classifier.v1 import classifier_pb2
from tiermesh.api.common.v1 import answer_pb2, chat_pb2
from tiermesh.api.engine.v1 import engine_pb2
from tiermesh.api.router.v1 import router_pb2
from tiermesh.shared.errors import Unavailable
from tiermesh.shared.testing import answer_steps


async def stored(mesh):
    async with asyncio.timeout(60):
        await mesh.cache.stored.wait()


async def test_a_hit_streams_like_the_miss_did_and_costs_nothing(mesh):
    miss = await mesh.generate()
    await stored(mesh)
    hit = await mesh.generate()
    assert hit.kinds() == miss.kinds()
    assert [m.delta for m in hit.messages[1:-1]] == [m.delta for m in miss.messages[1:-1]]
    assert list(hit.last.done.finishes) == list(miss.last.done.finishes)
    assert hit.last.done.usage == answer_pb2.Usage()
    assert not hit.last.done.attempts
    assert hit.route.cache_status == router_pb2.CACHE_STATUS_HIT
    assert hit.headers["x-tiermesh-cache"] == "hit"
    assert list(hit.route.reasons) == ["cache:exact"]
    same = ("tier", "model", "task_type", "complexity", "simulated", "config_version")
    assert [getattr(hit.route, name) for name in same] == [getattr(miss.route, name) for name in same]
    assert len(mesh.engines["l1"].requests) == 1


async def test_a_hit_abandons_the_classification(mesh):
    await mesh.generate()
    await stored(mesh)
    mesh.classifier.hangs = True
    mesh.classifier.entered.clear()
    hit = await mesh.generate()
    assert hit.route.cache_status == router_pb2.CACHE_STATUS_HIT
    if mesh.classifier.entered.is_set():
        async with asyncio.timeout(60):
            await mesh.classifier.abandoned.wait()


async def test_lookup_and_classification_run_side_by_side(mesh):
    mesh.cache.hangs = mesh.classifier.hangs = True
    call = mesh.router.Generate(ask(), timeout=60, metadata=METADATA)
    reading = asyncio.ensure_future(call.read())
    async with asyncio.timeout(60):
        await mesh.cache.entered.wait()
        await mesh.classifier.entered.wait()
        call.cancel()
        await mesh.cache.abandoned.wait()
        await mesh.classifier.abandoned.wait()
    with pytest.raises(asyncio.CancelledError):
        await reading


async def test_the_same_meaning_hits(mesh):
    await mesh.generate(ask("Café\r\nau lait"))
    await stored(mesh)
    again = await mesh.generate(ask("Cafe\u0301\nau lait \n"))
    assert again.route.cache_status == router_pb2.CACHE_STATUS_HIT


@pytest.mark.parametrize(
    "other",
    [
        ask("What is a river"),
        ask("什么是河流？"),
        ask(model="tier:l1"),
        ask(sampling=chat_pb2.Sampling(temperature=0.0)),
        ask(sampling=chat_pb2.Sampling(seed=1)),
        ask(sampling=chat_pb2.Sampling(stop=["x"])),
        ask(sampling=chat_pb2.Sampling(max_tokens=10)),
    ],
)
async def test_another_meaning_misses(mesh, other):
    await mesh.generate()
    await stored(mesh)
    assert (await mesh.generate(other)).route.cache_status == router_pb2.CACHE_STATUS_MISS


async def test_tenants_do_not_share(mesh):
    await mesh.generate()
    await stored(mesh)
    other = await mesh.generate(metadata=(("x-tiermesh-tenant", "other"),))
    assert other.route.cache_status == router_pb2.CACHE_STATUS_MISS


async def test_a_changed_tier_forgets_but_another_replica_count_does_not(mesh):
    await mesh.generate()
    await stored(mesh)
    tiers = [tier.model_dump() for tier in mesh.settings.current.tiers]
    tiers[1]["replicas"] = 3
    mesh.settings.current = make_settings(tiers=tiers).current
    assert (await mesh.generate()).route.cache_status == router_pb2.CACHE_STATUS_HIT
    tiers[1]["model"] = "other"
    mesh.settings.current = make_settings(tiers=tiers).current
    assert (await mesh.generate()).route.cache_status == router_pb2.CACHE_STATUS_MISS


async def test_what_is_stored_is_the_whole_answer(mesh):
    mesh.classifier.response.task_type = classifier_pb2.TASK_TYPE_SUMMARISE
    await mesh.generate()
    await stored(mesh)
    (request,) = mesh.cache.stores
    assert request.key == mesh.cache.lookups[0]
    assert request.key.tenant == "acme"
    assert len(request.key.fingerprint) == 32
    answer = request.answer
    assert (answer.tier, answer.model, answer.task_type, answer.complexity) == ("l1", "small", "summarise", 0.3)
    assert [delta.text for delta in answer.deltas] == ["l1 ", "says ", "你好"]
    assert answer.usage.prompt_token_count == 7
    assert answer.create_time.seconds > 0


async def test_the_caller_does_not_wait_for_the_store_and_a_drain_does(mesh):
    mesh.cache.store_gate = asyncio.Event()
    answer = await mesh.generate()
    assert answer.last.HasField("done")
    assert not mesh.cache.stores
    draining = asyncio.ensure_future(mesh.wired.stores.drain())
    await asyncio.sleep(0)
    assert not draining.done()
    mesh.cache.store_gate.set()
    async with asyncio.timeout(60):
        await draining
    assert len(mesh.cache.stores) == 1


async def drained(mesh):
    async with asyncio.timeout(60):
        await mesh.wired.stores.drain()


async def test_answers_cut_by_length_are_not_kept(mesh):
    mesh.engines["l1"].steps = answer_steps("cut", finish=answer_pb2.FINISH_REASON_LENGTH)
    await mesh.generate()
    await drained(mesh)
    assert not mesh.cache.stores


async def test_answers_that_lack_a_choice_are_not_kept(mesh):
    await mesh.generate(ask(sampling=chat_pb2.Sampling(choice_count=2)))
    await drained(mesh)
    assert not mesh.cache.stores


async def test_abandoned_answers_are_not_kept(mesh):
    mesh.engines["l1"].steps = [
        *answer_steps("half")[:2],
        asyncio.Event(),
    ]
    call = mesh.router.Generate(ask(), timeout=60, metadata=METADATA)
    await call.read()
    await call.read()
    call.cancel()
    async with asyncio.timeout(60):
        await mesh.engines["l1"].abandoned.wait()
    await drained(mesh)
    assert not mesh.cache.stores


@pytest.mark.parametrize(
    ("request_", "header", "lookups", "stores"),
    [
        (ask(cache_mode=router_pb2.CACHE_MODE_OFF), "", 0, 0),
        (ask(cache_mode=router_pb2.CACHE_MODE_REFRESH), "", 0, 1),
        (ask(), "no-store", 0, 0),
        (ask(), "no-cache", 0, 1),
        (ask(), "max-age=0, No-Store", 0, 0),
        (ask(cache_mode=router_pb2.CACHE_MODE_REFRESH), "no-store", 0, 0),
        (ask(), "max-age=60", 1, 1),
        (ask(sampling=chat_pb2.Sampling(temperature=0.7)), "", 0, 0),
        (ask(sampling=chat_pb2.Sampling(temperature=0.7, seed=3)), "", 1, 1),
        (ask(sampling=chat_pb2.Sampling(temperature=0.0)), "", 1, 1),
    ],
)
async def test_what_the_caller_asks_of_the_cache(mesh, request_, header, lookups, stores):
    metadata = (*METADATA, ("cache-control", header)) if header else METADATA
    answer = await mesh.generate(request_, metadata=metadata)
    await drained(mesh)
    assert (len(mesh.cache.lookups), len(mesh.cache.stores)) == (lookups, stores)
    assert len(mesh.cache.tokens) == (stores if not lookups else 0)
    expected = router_pb2.CACHE_STATUS_MISS if lookups else router_pb2.CACHE_STATUS_BYPASS
    assert answer.route.cache_status == expected


async def test_conversations_with_tool_calls_bypass(mesh):
    request = ask()
    call = chat_pb2.ToolCall(id="1", name="f", arguments_json="{}")
    request.messages.append(chat_pb2.Message(role=chat_pb2.ROLE_ASSISTANT, tool_calls=[call]))
    request.messages.append(chat_pb2.Message(role=chat_pb2.ROLE_TOOL, content="4", tool_call_id="1"))
    answer = await mesh.generate(request)
    await drained(mesh)
    assert answer.headers["x-tiermesh-cache"] == "bypass"
    assert not mesh.cache.lookups
    assert not mesh.cache.stores


async def test_a_cache_that_is_switched_off_is_never_called():
    async with running_router(cache={"enabled": False}) as mesh:
        assert (await mesh.generate()).headers["x-tiermesh-cache"] == "bypass"
        await drained(mesh)
        assert not mesh.cache.lookups
        assert not mesh.cache.stores


async def test_without_a_cache_everything_else_works(mesh):
    mesh.cache.error = Unavailable("gone")
    answer = await mesh.generate()
    assert answer.text == "l1 says 你好"
    assert answer.headers["x-tiermesh-cache"] == "unavailable"


async def test_with_the_cache_process_gone_too(mesh):
    await mesh.servers["cache"].drain(0)
    answer = await mesh.generate()
    assert answer.headers["x-tiermesh-cache"] == "unavailable"
    await drained(mesh)


async def test_a_store_that_does_not_answer_is_labelled(mesh):
    mesh.cache.store_unavailable = True
    assert (await mesh.generate()).headers["x-tiermesh-cache"] == "unavailable"


async def test_a_cache_that_hangs_is_given_its_cap_and_abandoned():
    async with running_router(deadlines={**RAW["deadlines"], "cache_ms": 100}) as mesh:
        mesh.cache.hangs = True
        # A busy machine may use the cap up before the lookup is at the cache; that lookup cannot be abandoned there.
        while not mesh.cache.entered.is_set():
            answer = await mesh.generate()
            assert answer.headers["x-tiermesh-cache"] == "unavailable"
            assert answer.text == "l1 says 你好"
        async with asyncio.timeout(60):
            await mesh.cache.abandoned.wait()


async def test_the_store_belongs_to_the_requests_trace(mesh):
    await mesh.generate()
    await drained(mesh)

    async def server_side():
        return any(span.name == "CacheService/BatchStore" for span in mesh.tracing.finished)

    await eventually(server_side)
    route = mesh.tracing.named("RouterService/Generate")
    spans = [span for span in mesh.tracing.finished if span.name == "CacheService/BatchStore"]
    assert {span.context.trace_id for span in spans} == {route.context.trace_id}


async def test_a_simulated_answer_stays_labelled_when_it_comes_from_the_cache(mesh):
    steps = answer_steps("made up")
    steps[0] = engine_pb2.GenerateResponse(started=engine_pb2.Started(simulated=True))
    mesh.engines["l1"].steps = steps
    await mesh.generate()
    await stored(mesh)
    hit = await mesh.generate()
    assert hit.route.cache_status == router_pb2.CACHE_STATUS_HIT
    assert hit.headers["x-tiermesh-simulated"] == "true"


@pytest.mark.parametrize("mode", [router_pb2.CACHE_MODE_DEFAULT, router_pb2.CACHE_MODE_REFRESH])
async def test_an_invalidation_while_the_answer_is_made_keeps_it_out(mesh, mode):
    gate = asyncio.Event()
    mesh.engines["l1"].steps = [gate, *answer_steps("late")]
    asking = asyncio.create_task(mesh.generate(ask(cache_mode=mode)))
    async with asyncio.timeout(60):
        await mesh.engines["l1"].entered.wait()
    await mesh.cache.Invalidate(cache_pb2.InvalidateRequest(tenant="acme"), None)
    gate.set()
    assert (await asking).text == "late"
    await drained(mesh)
    assert len(mesh.cache.stores) == 1
    assert not mesh.cache.answers


async def test_where_the_cache_did_not_say_when_an_answer_began_it_is_not_kept(mesh):
    mesh.cache.store_unavailable = True
    await mesh.generate()
    await drained(mesh)
    assert not mesh.cache.stores
