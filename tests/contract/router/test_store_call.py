"""How a batch of answers goes over the wire: what it carries, and whose trace it is part of."""

import grpc
import pytest
from harness.answers import make_answer, make_key
from tiermesh.api.cache.v1 import cache_pb2
from tiermesh.router.adapters.grpc_cache import GrpcCache
from tiermesh.router.caching.place import CachePlace, Keeping
from tiermesh.shared.budget import Budget
from tiermesh.shared.errors import InvalidRequest, Unavailable
from tiermesh.shared.rpc import open_channel, open_server
from tiermesh.shared.testing import FakeCache, FakeClock, recorded_tracing


async def test_a_batch_is_part_of_the_first_requests_trace_and_links_to_the_others():
    cache = FakeCache()
    with recorded_tracing() as tracing:
        async with (
            open_server([cache.service()], address="127.0.0.1:0", tracing=tracing, default_deadline_s=30) as server,
            open_channel(f"127.0.0.1:{server.port}") as channel,
        ):
            spans = [tracing.tracer.start_span(name).get_span_context() for name in "abc"]
            answers = [
                Keeping(CachePlace(make_key(name), token=token), make_answer(name), span)
                for name, token, span in zip("abc", (b"", b"begun-too-early!", b""), spans, strict=True)
            ]
            assert await GrpcCache(channel, tracing.tracer).store(answers, budget=Budget.of(30)) == 2
    assert [request.key for request in cache.stores] == [make_key(name) for name in "abc"]
    assert cache.stores[1].token == b"begun-too-early!"
    client, server_span = (
        next(span for span in tracing.finished if span.name == "CacheService/BatchStore" and span.kind.name == kind)
        for kind in ("CLIENT", "SERVER")
    )
    assert client.parent.span_id == spans[0].span_id
    assert [link.context.span_id for link in client.links] == [span.span_id for span in spans[1:]]
    assert server_span.context.trace_id == spans[0].trace_id


class EarlierCache(FakeCache):
    """A cache of a release that took answers one by one only."""

    def __init__(self):
        super().__init__()
        self.refused = 0

    async def BatchStore(self, request, context):
        self.refused += 1
        await context.abort(grpc.StatusCode.UNIMPLEMENTED, "Method not found!")

    async def Store(self, request, context):
        if not request.answer.finishes:
            raise InvalidRequest("answer.finishes is empty", field="answer.finishes")
        return await super().Store(request, context)


async def test_a_cache_of_an_earlier_release_is_given_answers_one_by_one_until_it_may_have_been_replaced():
    earlier, clock = EarlierCache(), FakeClock()
    with recorded_tracing() as tracing:
        async with (
            open_server([earlier.service()], address="127.0.0.1:0", tracing=tracing, default_deadline_s=30) as server,
            open_channel(f"127.0.0.1:{server.port}") as channel,
        ):
            span = tracing.tracer.start_span("a").get_span_context()
            cache = GrpcCache(channel, tracing.tracer)

            async def store(*names):
                kept = [Keeping(CachePlace(make_key(name)), make_answer(name), span) for name in names]
                kept.insert(1, Keeping(CachePlace(make_key("unfinished")), cache_pb2.CachedAnswer(), span))
                return await cache.store(kept, budget=Budget.of(30, clock))

            assert await store("a", "b", "c") == 3
            assert [request.key for request in earlier.stores] == [make_key(name) for name in "abc"]
            clock.advance(29)
            assert await store("d", "e") == 2
            assert earlier.refused == 1
            clock.advance(2)
            assert await store("f") == 1
            assert earlier.refused == 2
            earlier.error = Unavailable("down")
            with pytest.raises(Unavailable):
                await store("g")


async def test_another_failure_of_a_batch_is_not_tried_again_one_by_one():
    cache = FakeCache()
    cache.error = Unavailable("down")
    with recorded_tracing() as tracing:
        async with (
            open_server([cache.service()], address="127.0.0.1:0", tracing=tracing, default_deadline_s=30) as server,
            open_channel(f"127.0.0.1:{server.port}") as channel,
        ):
            span = tracing.tracer.start_span("a").get_span_context()
            with pytest.raises(Unavailable):
                await GrpcCache(channel, tracing.tracer).store(
                    [Keeping(CachePlace(make_key("a")), make_answer("a"), span)], budget=Budget.of(30)
                )
    assert cache.stores == []
    assert not [span for span in tracing.finished if span.name == "CacheService/Store"]
