"""`tiermesh cache invalidate`: what is asked of the cache, and what is told; with a cache in this process."""

from concurrent import futures

import grpc
import pytest
from tiermesh.api.cache.v1 import cache_pb2, cache_pb2_grpc
from tiermesh.client.cli._app import make_app
from typer.testing import CliRunner

FINGERPRINT = "ab" * 32


class Cache(cache_pb2_grpc.CacheServiceServicer):
    def __init__(self):
        self.asked = []
        self.removed = 0

    def Invalidate(self, request, context):
        self.asked.append(request)
        if request.tenant == "gone":
            context.abort(grpc.StatusCode.UNAVAILABLE, "the store does not answer")
        return cache_pb2.InvalidateResponse(removed_count=self.removed)


@pytest.fixture
def cache():
    servicer = Cache()
    server = grpc.server(futures.ThreadPoolExecutor(2), options=[("grpc.so_reuseport", 0)])
    cache_pb2_grpc.add_CacheServiceServicer_to_server(servicer, server)
    servicer.port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield servicer
    server.stop(None).wait()


def invalidate(cache, *arguments):
    command = ["cache", "invalidate", "--target", f"127.0.0.1:{cache.port}", *arguments]
    return CliRunner().invoke(make_app(), command)


@pytest.mark.parametrize(
    ("arguments", "removed", "wanted", "told"),
    [
        ([], 3, {}, "acme: no answer from before is given any more (3 removed)"),
        (["--model", "small"], 0, {"model": "small"}, "acme: no answer of small is given any more"),
        (["--fingerprint", FINGERPRINT], 1, {"fingerprint": bytes.fromhex(FINGERPRINT)}, "acme: forgotten"),
        (["--fingerprint", FINGERPRINT], 0, {"fingerprint": bytes.fromhex(FINGERPRINT)}, "acme: there was no such"),
    ],
)
def test_what_is_asked_and_told(cache, arguments, removed, wanted, told):
    cache.removed = removed
    done = invalidate(cache, "--tenant", "acme", *arguments)
    assert done.exit_code == 0, done.output
    assert told in done.output
    assert cache.asked == [cache_pb2.InvalidateRequest(tenant="acme", **wanted)]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ([], "--tenant: is needed"),
        (["--tenant", "acme", "--all-tenants"], "say one of --tenant and --all-tenants"),
        (["--tenant", "acme", "--model", "m", "--fingerprint", FINGERPRINT], "say one of --model and --fingerprint"),
        (["--tenant", "acme", "--fingerprint", "abcd"], "64 hex digits"),
        (["--tenant", "acme", "--fingerprint", "robot"], "64 hex digits"),
    ],
)
def test_what_is_not_clear_is_refused_and_nothing_forgotten(cache, arguments, told):
    done = invalidate(cache, *arguments)
    assert done.exit_code == 2
    assert told in done.output
    assert cache.asked == []


def test_a_cache_that_cannot_forget_is_a_failure_with_what_to_do(cache):
    done = invalidate(cache, "--tenant", "gone")
    assert done.exit_code == 1
    assert "the store does not answer" in done.output
    assert "What to do" in done.output
    assert "given any more" not in done.output
