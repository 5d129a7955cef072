"""How a batch of answers goes over the wire: what it carries, and whose trace it is part of."""

from harness.answers import make_answer, make_key
from tiermesh.router.adapters.grpc_cache import GrpcCache
from tiermesh.router.caching.place import CachePlace, Keeping
from tiermesh.shared.budget import Budget
from tiermesh.shared.rpc import open_channel, open_server
from tiermesh.shared.testing import FakeCache, recorded_tracing


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
