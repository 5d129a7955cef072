"""The semantic tier of the cache, as the router asks and tells it, and stale answers."""

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
from harness.router import METADATA, RunningRouter, ask, make_settings
from tiermesh.api.cache.v1 import cache_pb2
from tiermesh.api.common.v1 import answer_pb2, chat_pb2
from tiermesh.api.router.v1 import router_pb2
from tiermesh.shared.errors import Unavailable
from tiermesh.shared.testing import FakeCache, answer_steps, recorded_tracing

USER, SYSTEM, ASSISTANT = chat_pb2.ROLE_USER, chat_pb2.ROLE_SYSTEM, chat_pb2.ROLE_ASSISTANT
FIELDS = [
    {"name": "session", "labels": ["session id"], "answer_depends": False},
    {"name": "plan", "labels": ["plan"]},
]


class SemanticCache(FakeCache):
    """Notes whole lookups, and replies what it is told to."""

    def __init__(self):
        super().__init__()
        self.asked, self.reply = [], None

    async def Lookup(self, request, context):
        self.asked.append(request)
        found = await super().Lookup(request, context)
        return found if self.reply is None else self.reply


@asynccontextmanager
async def semantic_router(*, enabled=True, **changes):
    with recorded_tracing() as tracing:
        async with AsyncExitStack() as stack:
            router = RunningRouter(make_settings(cache={"semantic_enabled": enabled}, **changes), tracing)
            router.cache = SemanticCache()
            await router.open(stack)
            # Before the channels are closed, like on a shutdown.
            stack.push_async_callback(router.wired.reruns.drain)
            yield router


@pytest.fixture
async def mesh():
    async with semantic_router() as router:
        yield router


def talk(*turns, **fields):
    return router_pb2.GenerateRequest(
        messages=[chat_pb2.Message(role=role, content=content) for role, content in turns], **fields
    )


def kept(**fields):
    return cache_pb2.LookupResponse(
        answer=cache_pb2.CachedAnswer(
            tier="l1",
            model="small",
            deltas=[answer_pb2.Delta(text="kept "), answer_pb2.Delta(text="答案")],
            finishes=[answer_pb2.ChoiceFinish(finish_reason=answer_pb2.FINISH_REASON_STOP)],
            usage=answer_pb2.Usage(prompt_token_count=9, completion_token_count=2),
            task_type="faq",
        ),
        **{"result": cache_pb2.CACHE_RESULT_HIT_SEMANTIC, "similarity": 0.93, **fields},
    )


async def drained(mesh):
    async with asyncio.timeout(60):
        await mesh.wired.reruns.drain()
        await mesh.wired.stores.drain()


async def semantic_of(mesh, request, metadata=METADATA):
    await mesh.generate(request, metadata=metadata)
    return mesh.cache.asked[-1].semantic


BASE = ((SYSTEM, "Be brief."), (USER, "Hello."), (ASSISTANT, "Hi."))


async def test_other_wordings_share_a_partition_and_keep_their_text(mesh):
    one = await semantic_of(mesh, talk(*BASE, (USER, "How do I pay?")))
    other = await semantic_of(mesh, talk(*BASE, (USER, "怎么付款？")))
    assert len(one.partition) == 32
    assert one.partition == other.partition
    assert (one.text, other.text) == ("How do I pay?", "怎么付款？")
    first, second = mesh.cache.asked
    assert first.key.fingerprint != second.key.fingerprint
    assert one.partition != first.key.fingerprint


@pytest.mark.parametrize(
    ("request_", "tenant"),
    [
        (talk((SYSTEM, "Be long."), *BASE[1:], (USER, "How do I pay?")), "acme"),
        (talk(*BASE[1:], (USER, "How do I pay?")), "acme"),
        (talk(BASE[0], (USER, "How do I pay?")), "acme"),
        (talk(*BASE[:2], (ASSISTANT, "Hi!"), (USER, "How do I pay?")), "acme"),
        (talk(*BASE, (USER, "How do I pay?"), model="tier:l1"), "acme"),
        (talk(*BASE, (USER, "How do I pay?"), sampling=chat_pb2.Sampling(temperature=0.0)), "acme"),
        (talk(*BASE, (USER, "How do I pay?"), sampling=chat_pb2.Sampling(max_tokens=10)), "acme"),
        (talk(*BASE, (USER, "How do I pay?"), sampling=chat_pb2.Sampling(stop=["x"])), "acme"),
        (talk(*BASE, (USER, "How do I pay?")), "other"),
    ],
)
async def test_another_context_is_another_partition(mesh, request_, tenant):
    base = await semantic_of(mesh, talk(*BASE, (USER, "How do I pay?")))
    other = await semantic_of(mesh, request_, (("x-tiermesh-tenant", tenant),))
    assert len(other.partition) == 32
    assert other.text == base.text
    assert other.partition != base.partition


async def test_another_version_of_the_tiers_is_another_partition(mesh):
    before = await semantic_of(mesh, ask())
    tiers = [tier.model_dump() for tier in mesh.settings.current.tiers]
    tiers[1]["model"] = "other"
    mesh.settings.current = make_settings(tiers=tiers, cache={"semantic_enabled": True}).current
    assert (await semantic_of(mesh, ask())).partition != before.partition


async def test_dynamic_parts_are_no_part_of_the_question():
    async with semantic_router(dynamic_fields=FIELDS) as mesh:
        one = await semantic_of(mesh, ask("Session ID: 1\nPlan: gold\nHow do I pay?"))
        session = await semantic_of(mesh, ask("Session ID: 2\nPlan: gold\nHow do I pay?"))
        plan = await semantic_of(mesh, ask("Session ID: 1\nPlan: free\nHow do I pay?"))
        assert one.text == session.text == plan.text == "How do I pay?"
        assert one.partition == session.partition
        assert one.partition != plan.partition


async def test_switched_off_only_the_exact_tier_is_asked_and_told():
    async with semantic_router(enabled=False) as mesh:
        await mesh.generate()
        await drained(mesh)
        assert not mesh.cache.asked[0].HasField("semantic")
        assert not mesh.cache.stores[0].HasField("semantic")


@pytest.mark.parametrize(
    "request_",
    [talk((USER, "How do I pay?"), (SYSTEM, "Be brief.")), ask("word " * 300)],
    ids=["not the user's", "long"],
)
async def test_what_is_no_question_stays_with_the_exact_tier(mesh, request_):
    assert (await mesh.generate(request_)).error is None
    await drained(mesh)
    (asked,), (stored,) = mesh.cache.asked, mesh.cache.stores
    assert not asked.HasField("semantic")
    assert not stored.HasField("semantic")


async def test_tool_results_ask_neither_tier(mesh):
    call = chat_pb2.ToolCall(id="1", name="f", arguments_json="{}")
    request = ask()
    request.messages.append(chat_pb2.Message(role=ASSISTANT, tool_calls=[call]))
    request.messages.append(chat_pb2.Message(role=chat_pb2.ROLE_TOOL, content="4", tool_call_id="1"))
    request.messages.append(chat_pb2.Message(role=USER, content="So?"))
    assert (await mesh.generate(request)).error is None
    await drained(mesh)
    assert not mesh.cache.asked
    assert not mesh.cache.stores


async def test_an_answer_is_kept_where_it_was_looked_for(mesh):
    await mesh.generate(ask("How do I pay?"))
    await drained(mesh)
    (asked,), (stored,) = mesh.cache.asked, mesh.cache.stores
    assert (stored.key, stored.semantic) == (asked.key, asked.semantic)
    assert stored.semantic.text == "How do I pay?"


async def test_a_refresh_is_told_and_not_asked(mesh):
    await mesh.generate(ask(cache_mode=router_pb2.CACHE_MODE_REFRESH))
    await drained(mesh)
    assert not mesh.cache.lookups
    assert [asked.token_only for asked in mesh.cache.asked] == [True]
    assert mesh.cache.stores[0].HasField("semantic")


async def test_a_semantic_hit_is_replayed_and_labelled(mesh):
    mesh.cache.reply = kept(threshold=0.8, passed_guards=["polarity", "numbers"])
    hit = await mesh.generate()
    await drained(mesh)
    assert hit.text == "kept 答案"
    assert hit.kinds() == ["route", "delta", "delta", "done"]
    assert hit.route.cache_status == router_pb2.CACHE_STATUS_HIT
    assert list(hit.route.reasons) == ["cache:semantic"]
    assert (hit.headers["x-tiermesh-cache"], hit.headers["x-tiermesh-tier"]) == ("hit", "l1")
    assert hit.headers["x-tiermesh-reasons"] == "cache:semantic"
    assert not any(engine.requests for engine in mesh.engines.values())
    assert not mesh.cache.stores
    span = mesh.tracing.named("RouterService/Generate")
    assert span.attributes["tiermesh.cache.similarity"] == 0.93
    assert "tiermesh.cache.refused_by" not in span.attributes
    assert span.attributes["tiermesh.cache.layer"] == "semantic"
    assert span.attributes["tiermesh.cache.threshold"] == 0.8
    expected = router_pb2.CacheFinding(
        layer=router_pb2.CACHE_LAYER_SEMANTIC, similarity=0.93, threshold=0.8, passed_guards=["polarity", "numbers"]
    )
    assert hit.route.cache == (await mesh.explain()).route.cache == expected


async def test_an_exact_hit_is_told_from_a_semantic_one(mesh):
    mesh.cache.reply = kept(similarity=0, result=cache_pb2.CACHE_RESULT_HIT_EXACT)
    hit = await mesh.generate()
    assert list(hit.route.reasons) == ["cache:exact"]
    assert hit.route.cache == (await mesh.explain()).route.cache
    assert hit.route.cache == router_pb2.CacheFinding(layer=router_pb2.CACHE_LAYER_EXACT)
    assert mesh.tracing.named("RouterService/Generate").attributes["tiermesh.cache.layer"] == "exact"


async def test_a_miss_without_anything_alike_says_nothing(mesh):
    answer = await mesh.generate()
    assert answer.route.cache_status == router_pb2.CACHE_STATUS_MISS
    assert not answer.route.HasField("cache")
    assert not (await mesh.explain()).route.HasField("cache")


@pytest.mark.parametrize("why", ["time", "language", "starting"])
async def test_a_question_that_nothing_was_compared_with_says_why_and_is_near_nothing(mesh, why):
    mesh.cache.reply = cache_pb2.LookupResponse(result=cache_pb2.CACHE_RESULT_MISS, refused_by=why)
    answer = await mesh.generate()
    assert not any(reason.startswith("cache:") for reason in answer.route.reasons)
    assert answer.route.cache == router_pb2.CacheFinding(refused_by=why)


async def test_what_a_guard_refused_is_a_miss_with_its_name_on_the_span(mesh):
    mesh.cache.reply = cache_pb2.LookupResponse(
        result=cache_pb2.CACHE_RESULT_MISS,
        similarity=0.97,
        threshold=0.8,
        passed_guards=["language", "code"],
        refused_by="polarity",
    )
    answer = await mesh.generate()
    assert answer.text == "l1 says 你好"
    assert answer.route.cache_status == router_pb2.CACHE_STATUS_MISS
    span = mesh.tracing.named("RouterService/Generate")
    assert answer.route.reasons[-1] == "cache:near:polarity"
    assert "cache:near:polarity" in answer.headers["x-tiermesh-reasons"]
    explained = await mesh.explain()
    assert explained.route.cache_status == router_pb2.CACHE_STATUS_MISS
    assert explained.route.reasons[-1] == "cache:near:polarity"
    finding = explained.route.cache
    assert finding == answer.route.cache
    assert (finding.layer, finding.refused_by) == (router_pb2.CACHE_LAYER_UNSPECIFIED, "polarity")
    assert (finding.similarity, finding.threshold) == (0.97, 0.8)
    assert list(finding.passed_guards) == ["language", "code"]
    assert span.attributes["tiermesh.cache.similarity"] == 0.97
    assert span.attributes["tiermesh.cache.refused_by"] == "polarity"


@pytest.mark.parametrize("layer", ["semantic", "exact"])
async def test_a_stale_answer_is_given_at_once_and_made_anew_behind_live_traffic(mesh, layer):
    gate = asyncio.Event()
    mesh.engines["l1"].steps = [gate, *answer_steps("new")]
    mesh.cache.reply = kept(stale=True)
    if layer == "exact":
        mesh.cache.reply.result = cache_pb2.CACHE_RESULT_HIT_EXACT
    # The caller's answer is complete while the engine has not said a word.
    hit = await mesh.generate()
    assert hit.text == "kept 答案"
    assert list(hit.route.reasons) == [f"cache:{layer}", "cache:stale"]
    assert not mesh.cache.stores
    again = await mesh.generate()
    assert again.text == hit.text
    gate.set()
    await drained(mesh)
    (request,), (stored,) = mesh.engines["l1"].requests, mesh.cache.stores
    assert request.priority == chat_pb2.PRIORITY_BATCH
    assert [delta.text for delta in stored.answer.deltas] == ["new"]
    assert (stored.key, stored.semantic) == (mesh.cache.asked[0].key, mesh.cache.asked[0].semantic)


async def test_a_rerun_that_fails_fails_nobody_and_stores_nothing(mesh):
    for engine in mesh.engines.values():
        engine.error = Unavailable("gone")
    mesh.cache.reply = kept(stale=True)
    assert (await mesh.generate()).error is None
    await drained(mesh)
    assert mesh.engines["l1"].requests
    assert not mesh.cache.stores


async def test_a_rerun_outlives_its_caller_and_a_shutdown_gives_it_up(mesh):
    mesh.engines["l1"].hangs = True
    mesh.cache.reply = kept(stale=True)
    assert (await mesh.generate()).error is None
    async with asyncio.timeout(60):
        await mesh.engines["l1"].entered.wait()
        assert not mesh.engines["l1"].abandoned.is_set()
        await mesh.wired.reruns.drain(0)
        await mesh.engines["l1"].abandoned.wait()
    assert not mesh.cache.stores
