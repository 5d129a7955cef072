"""The semantic tier of a real server, on a store, a log and an embedder in memory.

The field cases about caches are here: a false hit is a wrong answer given with confidence.
"""

import pytest
from google.protobuf.duration_pb2 import Duration
from harness.answers import make_answer, make_key
from harness.cache import running_cache
from harness.eventually import eventually
from harness.semantic import FakeChangeLog, FakeEmbedder, FakeNeighbours, answered, ask, name, query
from structlog.testing import capture_logs
from tiermesh.api.cache.v1 import cache_pb2
from tiermesh.api.common.v1 import answer_pb2
from tiermesh.cache.app import SemanticParts
from tiermesh.cache.semantic.guards import GUARDS
from tiermesh.shared.errors import InvalidRequest
from tiermesh.shared.testing import FakeAnswerStore, FakeClock

ON = {"semantic_enabled": True, "semantic_task_types": ["faq"], "semantic_threshold": 0.1, "store_timeout_ms": 60_000}


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def store(clock):
    return FakeAnswerStore(clock)


@pytest.fixture
def log(store):
    log = FakeChangeLog()
    # As in Redis, where both are written in one step.
    store.on_change = log.append_change
    return log


@pytest.fixture
def parts():
    return SemanticParts(FakeNeighbours, FakeEmbedder())


@pytest.fixture
async def cache(store, clock, log, parts):
    async with running_cache(store, clock=clock, log=log, semantic=parts, **ON) as cache:
        yield cache


async def known(cache, text, *, asked=None, **where):
    """Stores a question and waits until the replica has heard of it: its own wording hits then."""
    assert await answered(cache, text, **where)
    where.pop("task_type", None)
    request = cache_pb2.LookupRequest(
        key=make_key("never stored", where.get("tenant", "local")),
        semantic=query(asked or text, where.get("partition", "partition")),
    )

    async def heard():
        return name(await cache.call("Lookup", request)) == "HIT_SEMANTIC"

    await eventually(heard)


async def test_another_wording_gets_the_answer(cache):
    await known(cache, "How do I renew my library card?", answer="At the desk.")
    found = await ask(cache, "What are the steps to renew my library card?")
    assert name(found) == "HIT_SEMANTIC"
    assert found.answer.deltas[0].text == "At the desk."
    assert 0 <= found.threshold < found.similarity <= 1
    assert found.refused_by == ""
    assert list(found.passed_guards) == [guard for guard, _ in GUARDS]


async def test_an_exact_hit_needs_no_comparing(cache, parts):
    await answered(cache, "How do I renew my library card?")
    embedded = len(parts.embedder.texts)
    assert name(await ask(cache, "How do I renew my library card?")) == "HIT_EXACT"
    assert len(parts.embedder.texts) == embedded


@pytest.mark.parametrize(
    ("stored", "asked", "guards"),
    [
        ("How can I switch on night mode?", "How can I switch off night mode?", {"polarity"}),
        ("这种药孕妇能吃吗", "这种药孕妇不能吃吗", {"polarity"}),
        ("我买的东西什么时候发货", "我买的东西什么时候到货", {"wording"}),
        ("Convert 15 dollars to yen", "Convert 50 dollars to yen", {"numbers"}),
    ],
    ids=["cache-negation", "cache-negation-zh", "cache-zh-near", "cache-numbers"],
)
async def test_traps_of_wording_miss(cache, stored, asked, guards):
    await known(cache, stored)
    found = await ask(cache, asked)
    assert name(found) == "MISS"
    assert found.refused_by in guards
    assert not found.HasField("answer")
    names = [guard for guard, _ in GUARDS]
    assert list(found.passed_guards) == names[: names.index(found.refused_by)]


@pytest.mark.parametrize(
    ("asked", "why"),
    [("Is the library open now?", "time"), ("図書館はどこですか", "language"), ("why " * 120, "length")],
)
async def test_what_can_share_no_answer_says_why(cache, asked, why):
    found = await ask(cache, asked)
    assert (name(found), found.refused_by, found.similarity) == ("MISS", why, 0)


async def test_a_question_whose_answer_is_gone_says_so_once(cache):
    await known(cache, "How do I renew my library card?")
    key = make_key("partition|How do I renew my library card?")
    await cache.invalidate(fingerprint=key.fingerprint)
    asked = "What are the steps to renew my library card?"
    assert (await ask(cache, asked)).refused_by == "gone"
    assert (await ask(cache, asked)).refused_by == ""


async def test_other_earlier_turns_or_system_prompt_miss(cache):
    await known(cache, "How tall is the tower?", partition="after a turn about Paris")
    for partition in ("after a turn about Tokyo", "another system prompt", ""):
        assert name(await ask(cache, "How high is the tower?", partition=partition)) == "MISS"


async def test_tenants_never_share(cache):
    await known(cache, "How do I renew my library card?", tenant="a")
    assert name(await ask(cache, "How can I renew my library card?", tenant="a")) == "HIT_SEMANTIC"
    assert name(await ask(cache, "How can I renew my library card?", tenant="b")) == "MISS"
    assert name(await ask(cache, "How do I renew my library card?", tenant="b")) == "MISS"


async def test_incomplete_answers_are_never_known(cache, log):
    request = cache_pb2.StoreRequest(
        key=make_key(),
        answer=make_answer("half", finishes=[answer_pb2.ChoiceFinish(finish_reason=answer_pb2.FINISH_REASON_LENGTH)]),
        semantic=query("How do I renew my library card?"),
    )
    with pytest.raises(InvalidRequest):
        await cache.call("Store", request)
    assert log.questions == []


async def test_only_configured_task_types_are_shared(cache, log):
    assert await answered(cache, "How do I sort a list?", task_type="code")
    assert log.questions == []
    await known(cache, "How do I renew my library card?")
    assert name(await ask(cache, "How can I renew my library card?", task_type="code")) == "MISS"
    assert name(await ask(cache, "How can I renew my library card?", task_type="faq")) == "HIT_SEMANTIC"


@pytest.mark.parametrize(
    "text", ["What's the weather like today?", "今天天气怎么样", "¿Cómo puedo pagar?", "x" * 1000, "?"]
)
async def test_what_no_other_wording_may_have_is_not_even_told(cache, log, text):
    assert await answered(cache, text)
    assert log.questions == []


async def test_invalidated_answers_are_not_given_in_other_words(cache):
    await known(cache, "How do I renew my library card?")
    await cache.invalidate()
    assert name(await ask(cache, "How can I renew my library card?")) == "MISS"


async def test_expired_answers_are_not_given_in_other_words(cache, clock):
    await known(cache, "How do I renew my library card?")
    clock.advance(3600 * 1.2)
    assert name(await ask(cache, "How can I renew my library card?")) == "MISS"


async def test_shadow_mode_answers_nothing_and_says_what_it_would(store, clock, log, parts):
    async with running_cache(store, clock=clock, log=log, semantic=parts, **ON, semantic_shadow=True) as cache:
        await answered(cache, "How do I send 40 euros to Anna?")

        async def judged():
            return (await ask(cache, "How can I send 40 euros to Anna?")).refused_by == "shadow"

        await eventually(judged)
        with capture_logs() as entries:
            assert name(await ask(cache, "How can I send 40 euros to Anna?")) == "MISS"
        [entry] = [entry for entry in entries if entry["event"] == "would have answered"]
        assert entry["asked"] == "How can I send <number> euros to <name>?"
        assert entry["known"] == "How do I send <number> euros to <name>?"


async def test_a_second_replica_answers_alike_and_hears_of_changes(store, clock, log, parts, cache):
    other = SemanticParts(FakeNeighbours, FakeEmbedder())
    await answered(cache, "How do I renew my library card?")
    async with running_cache(store, clock=clock, log=log, semantic=other, **ON) as second:

        async def heard():
            return name(await ask(second, "How can I renew my library card?")) == "HIT_SEMANTIC"

        await eventually(heard)
        assert await cache.invalidate() >= 1
        assert name(await ask(second, "How can I renew my library card?")) == "MISS"


async def test_a_log_that_is_down_costs_hits_and_no_errors(cache, log):
    log.down = True
    assert name(await ask(cache, "How do I renew my library card?")) == "MISS"
    await answered(cache, "How do I renew my library card?")
    assert name(await ask(cache, "How can I renew my library card?")) == "MISS"


async def test_off_by_default(store, clock, log):
    async with running_cache(store, clock=clock, log=log, store_timeout_ms=60_000) as cache:
        await answered(cache, "How do I renew my library card?")
        assert name(await ask(cache, "How can I renew my library card?")) == "MISS"
        assert log.questions == []


async def test_bad_semantic_fields_name_themselves(cache):
    for request, field in (
        (
            cache_pb2.LookupRequest(key=make_key(), semantic=cache_pb2.SemanticQuery(partition=b"1")),
            "semantic.partition",
        ),
        (cache_pb2.LookupRequest(key=make_key(), semantic=cache_pb2.SemanticQuery(text="x")), "semantic.partition"),
    ):
        with pytest.raises(InvalidRequest) as caught:
            await cache.call("Lookup", request)
        assert caught.value.field == field


async def test_answers_without_a_ttl_of_their_own_follow_their_task_type(store, clock):
    settings = {
        "ttl_s_by_task_type": {"faq": 100},
        "stale_s_by_task_type": {"faq": 50},
        "uncached_task_types": ["math"],
    }
    async with running_cache(store, clock=clock, store_timeout_ms=60_000, **settings) as cache:
        assert await cache.store("a", make_answer("x", task_type="faq"))
        assert not await cache.store("b", make_answer("x", task_type="math"))
        assert not (await cache.lookup("a")).stale
        clock.advance(115)
        stale = await cache.lookup("a")
        assert stale.stale
        assert name(stale) == "HIT_EXACT"
        clock.advance(50)
        assert await cache.result("a") == "MISS"
        assert await cache.store("c", make_answer("x", task_type="faq"), ttl=Duration(seconds=10))
        clock.advance(12)
        assert (await cache.lookup("c")).stale


async def test_answers_are_forgotten_by_tag_model_and_prompt_version(store, clock):
    async with running_cache(store, clock=clock, store_timeout_ms=60_000) as cache:

        async def fill():
            assert await cache.store("tagged", make_answer("x", model="m1"), tags=["catalogue", "shop"])
            assert await cache.store("prompted", make_answer("x", model="m1"), prompt_version="v3")
            assert await cache.store("plain", make_answer("x", model="m2"))

        async def left():
            return [text for text in ("tagged", "prompted", "plain") if await cache.result(text) == "HIT_EXACT"]

        for fields, expected in (
            ({"tags": ["shop"]}, ["prompted", "plain"]),
            ({"prompt_version": "v3"}, ["tagged", "plain"]),
            ({"model": "m1"}, ["plain"]),
            ({"tags": ["nothing has this"]}, ["tagged", "prompted", "plain"]),
        ):
            await fill()
            assert await left() == ["tagged", "prompted", "plain"]
            await cache.call("Invalidate", cache_pb2.InvalidateRequest(tenant="local", **fields))
            assert await left() == expected
        with pytest.raises(InvalidRequest):
            await cache.call("Invalidate", cache_pb2.InvalidateRequest(tenant="local", tags=["a"], model="m"))
        with pytest.raises(InvalidRequest):
            await cache.store("x", tags=["model:m"])


async def test_a_warm_replica_answers_without_the_store_until_it_hears_of_a_change(store, clock, log):
    async with running_cache(store, clock=clock, log=log, store_timeout_ms=60_000) as cache:
        assert await cache.store("q", make_answer("first"))

        async def warm():
            await cache.lookup("q")
            calls = store.calls
            await cache.lookup("q")
            return store.calls == calls

        await eventually(warm)
        assert await cache.store("q", make_answer("second"))

        async def renewed():
            return (await cache.lookup("q")).answer.deltas[0].text == "second"

        await eventually(renewed)
        await cache.invalidate()
        assert await cache.result("q") == "MISS"


async def test_refusals_are_not_kept_whatever_language(store, clock):
    async with running_cache(store, clock=clock, store_timeout_ms=60_000) as cache:
        for text in ("I'm sorry, but I can't help with that.", "抱歉，我无法回答这个问题。"):
            assert not await cache.store("q", make_answer(*text))
            assert await cache.result("q") == "MISS"
        assert await cache.store("q", make_answer("Yes, it can."))


async def test_memory_never_outlives_the_store(store, clock, log):
    async with running_cache(store, clock=clock, log=log, store_timeout_ms=60_000) as cache:
        assert await cache.store("q", ttl=Duration(seconds=10))
        assert await cache.result("q") == "HIT_EXACT"
        clock.advance(12)
        assert await cache.result("q") == "MISS"
