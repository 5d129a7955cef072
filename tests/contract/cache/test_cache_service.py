"""CacheService over a real connection, on a store in memory."""

import contextlib
import time

import pytest
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp
from harness.answers import fingerprint, make_answer, make_key
from harness.cache import running_cache
from harness.eventually import eventually
from tiermesh.api.cache.v1 import cache_pb2
from tiermesh.api.common.v1 import answer_pb2
from tiermesh.shared.errors import BudgetExhausted, InvalidRequest, Unavailable
from tiermesh.shared.testing import FakeAnswerStore, FakeClock


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def store(clock):
    return FakeAnswerStore(clock)


@pytest.fixture
async def cache(store, clock):
    # The fake never makes a lookup wait, so the bound is only there to be exceeded on purpose.
    async with running_cache(store, clock=clock, store_timeout_ms=60_000, max_answer_bytes=1024) as cache:
        yield cache


async def test_a_hit_streams_what_the_miss_did(cache):
    assert await cache.result() == "MISS"
    answer = make_answer("He", "llo", " 世界")
    assert await cache.store(answer=answer)
    found = await cache.lookup()
    assert found.result == cache_pb2.CACHE_RESULT_HIT_EXACT
    assert found.answer.SerializeToString(deterministic=True) == answer.SerializeToString(deterministic=True)


async def test_a_miss_carries_no_answer(cache):
    found = await cache.lookup()
    assert not found.HasField("answer")


@pytest.mark.parametrize(
    ("method", "request_", "field"),
    [
        ("Lookup", cache_pb2.LookupRequest(), "key.tenant"),
        ("Lookup", cache_pb2.LookupRequest(key=make_key(tenant="")), "key.tenant"),
        ("Lookup", cache_pb2.LookupRequest(key=cache_pb2.CacheKey(tenant="a", fingerprint=b"1")), "key.fingerprint"),
        ("Store", cache_pb2.StoreRequest(answer=make_answer("x")), "key.tenant"),
        ("Store", cache_pb2.StoreRequest(key=make_key()), "answer.finishes"),
        (
            "Store",
            cache_pb2.StoreRequest(
                key=make_key(),
                answer=make_answer(
                    "x", finishes=[answer_pb2.ChoiceFinish(finish_reason=answer_pb2.FINISH_REASON_LENGTH)]
                ),
            ),
            "answer.finishes[0].finish_reason",
        ),
        ("Store", cache_pb2.StoreRequest(key=make_key(), answer=make_answer("x"), ttl=Duration(seconds=-5)), "ttl"),
        ("Invalidate", cache_pb2.InvalidateRequest(), "tenant"),
        ("Invalidate", cache_pb2.InvalidateRequest(tenant="a", fingerprint=b"1"), "fingerprint"),
    ],
)
async def test_bad_requests_name_their_field(cache, store, method, request_, field):
    with pytest.raises(InvalidRequest) as caught:
        await cache.call(method, request_)
    assert caught.value.field == field
    assert store.values == {}
    assert await cache.store()


async def test_a_batch_keeps_what_may_be_kept(cache):
    good, also_good = (cache_pb2.StoreRequest(key=make_key(text), answer=make_answer(text)) for text in ("a", "c"))
    bad = cache_pb2.StoreRequest(key=make_key("b"), answer=make_answer("b", finishes=[]))
    kept = await cache.call("BatchStore", cache_pb2.BatchStoreRequest(requests=[good, bad, also_good]))
    assert [each.stored for each in kept.responses] == [True, False, True]
    assert [await cache.result(text) for text in "abc"] == ["HIT_EXACT", "MISS", "HIT_EXACT"]
    span = next(
        span for span in cache.tracing.finished if span.name.endswith("BatchStore") and span.kind.name == "SERVER"
    )
    assert span.attributes["tiermesh.cache.offered_count"] == 3
    assert span.attributes["tiermesh.cache.stored_count"] == 2


async def test_a_batch_has_a_limit(cache, store):
    one = cache_pb2.StoreRequest(key=make_key(), answer=make_answer("x"))
    with pytest.raises(InvalidRequest, match="257 entries; at most 256") as caught:
        await cache.call("BatchStore", cache_pb2.BatchStoreRequest(requests=[one] * 257))
    assert caught.value.field == "requests"
    assert store.values == {}


async def test_too_large_is_not_an_error(cache):
    assert not await cache.store(answer=make_answer("x" * 2000))
    assert await cache.result() == "MISS"


async def test_time_to_live(cache, clock):
    assert await cache.store(ttl=Duration(seconds=10))
    clock.advance(8.9)
    assert await cache.result() == "HIT_EXACT"
    clock.advance(2.2)
    assert await cache.result() == "MISS"


async def test_invalidate_one_and_all(cache):
    for text in ("a", "b", "c"):
        assert await cache.store(text)
    assert await cache.invalidate(fingerprint=fingerprint("a")) == 1
    assert [await cache.result(text) for text in "abc"] == ["MISS", "HIT_EXACT", "HIT_EXACT"]
    # What was forgotten by hand has left a mark, which goes as well.
    assert await cache.invalidate() == 3
    assert [await cache.result(text) for text in "abc"] == ["MISS"] * 3


@pytest.mark.parametrize("all_of_it", [True, False])
async def test_an_answer_begun_before_an_invalidation_does_not_come_back(cache, all_of_it):
    begun = (await cache.lookup("q")).store_token
    assert len(begun) == 16
    await cache.invalidate(fingerprint=b"" if all_of_it else fingerprint("q"))
    assert not await cache.store("q", token=begun)
    assert await cache.result("q") == "MISS"
    wanted = cache_pb2.LookupRequest(key=make_key("q"), token_only=True)
    again = await cache.call("Lookup", wanted)
    assert again.result == cache_pb2.CACHE_RESULT_MISS
    assert await cache.store("q", token=again.store_token)
    assert await cache.result("q") == "HIT_EXACT"
    anew = await cache.call("Lookup", wanted)
    assert (anew.result, anew.HasField("answer")) == (cache_pb2.CACHE_RESULT_MISS, False)


async def test_a_token_of_another_length_is_refused(cache):
    with pytest.raises(InvalidRequest, match="token has 3 bytes"):
        await cache.store("q", token=b"abc")


async def test_a_store_that_is_down_is_never_an_error_for_requests(cache, store):
    store.down = True
    assert await cache.result() == "STORE_UNAVAILABLE"
    assert not await cache.store()
    with pytest.raises(Unavailable):
        await cache.invalidate()


async def test_a_callers_deadline_bounds_the_wait(cache, store, clock):
    store.answering.clear()

    async def in_time() -> bool:
        # The pause after a failure is over.
        clock.advance(3600)
        began = time.monotonic()
        # The store's bound is a minute here; the caller has less, and either side may notice first.
        with contextlib.suppress(BudgetExhausted):
            found = await cache.call("Lookup", cache_pb2.LookupRequest(key=make_key()), timeout_s=0.1)
            assert found.result == cache_pb2.CACHE_RESULT_STORE_UNAVAILABLE
        return time.monotonic() - began < 30

    # A busy machine may take longer at times; were it the store's bound, it would take longer every time.
    await eventually(in_time)
    store.answering.set()
    clock.advance(3600)
    assert await cache.result() == "MISS"


async def test_spans_say_what_happened_and_not_what_was_said(cache, clock):
    made = Timestamp()
    made.FromMilliseconds(round((clock.wall() - 2.5) * 1000))
    await cache.store("my secret question", make_answer("my secret answer", create_time=made))
    await cache.lookup("my secret question")
    await cache.lookup("another")
    lookups = [s for s in cache.tracing.finished if s.name == "CacheService/Lookup" and s.kind.name == "SERVER"]
    hit, miss = (dict(span.attributes) for span in lookups)
    assert hit["tiermesh.cache.result"] == "hit_exact"
    assert hit["tiermesh.cache.age_ms"] == 2500
    assert hit["tiermesh.cache.stored_bytes"] > 0
    assert len(hit["tiermesh.cache.key"]) == 8
    assert miss["tiermesh.cache.result"] == "miss"
    assert "tiermesh.cache.age_ms" not in miss
    text = " ".join(f"{k}={v}" for span in cache.tracing.finished for k, v in span.attributes.items())
    assert "secret" not in text
    assert fingerprint("my secret question").hex() not in text
