"""The ingress for HTTP callers, through a real Envoy: JSON, events, errors, keys, limits."""

import asyncio
import contextlib
import json
import time

import httpx
import pytest
from harness.envoy import KEY, OTHER_KEY
from harness.eventually import eventually

pytestmark = pytest.mark.envoy


def chat(text="ok", **fields):
    return {"model": "auto", "messages": [{"role": "user", "content": text}], **fields}


def typed(text="ok", **fields):
    return {"messages": [{"role": "ROLE_USER", "content": text}], **fields}


def events(text):
    return [line.removeprefix("data: ") for line in text.split("\n\n") if line]


def error_of(response, status):
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/json"
    assert int(response.headers["content-length"]) == len(response.content)
    assert "x-openai-error" not in response.headers
    error = response.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert error["message"]
    return error


async def test_transcoding_and_bodies_that_pass_untouched(data_plane):
    async with data_plane() as plane, plane.envoy.http() as client:
        answer = await client.post("/v1/chat/completions", json=chat())
        assert answer.json()["ok"]
        assert answer.headers["content-type"] == "application/json"
        assert answer.headers["x-tiermesh-tier"] == "l1"
        assert answer.headers["x-request-id"] == plane.router.seen.metadata[-1]["x-request-id"]
        streamed = await client.post("/v1/chat/completions", json=chat(stream=True))
        assert streamed.headers["content-type"] == "text/event-stream"
        assert events(streamed.text) == ['{"text": "a"}', '{"text": "b"}', "[DONE]"]
        generated = await client.post("/v1/generate", json=typed())
        assert generated.headers["content-type"] == "text/event-stream"
        parsed = [json.loads(event) for event in events(generated.text)]
        assert [next(iter(event)) for event in parsed] == ["route", "delta", "delta", "done"]
        assert parsed[0]["route"]["request_id"] == "r1"
        assert parsed[2]["delta"]["text"] == "lo 你好"
        explained = await client.post("/v1/explain?unknown=1", json={"request": {"model": "abc"}})
        assert explained.json()["candidates"] == ["l1"]
        assert (await client.get("/v1/models")).json()["data"] == [{"id": "auto"}]
        for asked, given in (("tier:l1", "tier:l1"), ("Qwen%2FQwen3-8B", "Qwen/Qwen3-8B"), ("a/b", "a/b")):
            assert (await client.get(f"/v1/models/{asked}")).json()["id"] == given


async def test_events_are_flushed_one_by_one(data_plane):
    async with data_plane() as plane, plane.envoy.http() as client:
        for path, body in (("/v1/chat/completions", chat("stream-hang", stream=True)), ("/v1/generate", typed("hang"))):
            plane.router.seen.release.clear()
            async with client.stream("POST", path, json=body) as response:
                lines = response.aiter_lines()
                # The service has not ended its answer: it is waiting for us.
                assert (await anext(lines)).startswith("data: ")
                plane.router.seen.release.set()
                rest = [line async for line in lines if line]
                assert "DONE" in rest[-1] or "done" in rest[-1]


async def test_every_failure_over_http_is_openai_shaped(data_plane):
    async with data_plane() as plane, plane.envoy.http() as client:
        error = error_of(await client.get("/v1/nonesuch"), 404)
        assert (error["type"], error["code"]) == ("invalid_request_error", "UNKNOWN_PATH")
        wrong = await client.get("/v1/chat/completions")
        assert error_of(wrong, 405)["code"] == "WRONG_METHOD"
        assert wrong.headers["allow"] == "POST"
        for body in (b"{", b"\xff\xfe", b'{"messages": 1}', b"[]", b'{"messages": [{"role": "ROLE_NONE"}]}'):
            error = error_of(await client.post("/v1/generate", content=body), 400)
            assert error["type"] == "invalid_request_error"
        assert error_of(await client.post("/v1/generate", json={"messages": "x"}), 400)["param"] == "messages"
        refused = error_of(await client.post("/v1/chat/completions", json=chat("error")), 400)
        assert refused == {
            "message": "bad temperature",
            "type": "invalid_request_error",
            "param": "temperature",
            "code": "INVALID_REQUEST",
        }
        failed = error_of(await client.post("/v1/generate", json=typed("error")), 503)
        assert failed == {"message": "no tier", "type": "server_error", "param": "model", "code": "UNAVAILABLE"}
        stopped = error_of(await client.post("/v1/generate", json=typed("stopped")), 503)
        assert (stopped["type"], stopped["code"]) == ("server_error", "UNAVAILABLE")
        for headers, status in (({"big": "x" * 70_000}, 431), ({"under_score": "x"}, 400)):
            error_of(await client.post("/v1/generate", json=typed(), headers=headers), status)
        assert (await client.post("/v1/chat/completions", json=chat())).status_code == 200


async def test_bodies_over_the_limit_are_413_and_those_below_pass(data_plane):
    async with data_plane(limits={"max_request_bytes": 2_000_000}) as plane, plane.envoy.http() as client:
        for size in (100_000, 1_900_000):
            answer = await client.post("/v1/chat/completions", json=chat("x" * size))
            assert answer.json()["size"] > size
        for path, body in (("/v1/chat/completions", chat("x" * 10_000_000)), ("/v1/generate", typed("x" * 3_000_000))):
            assert error_of(await client.post(path, json=body), 413)["code"] == "REQUEST_TOO_LARGE"
        # Of unknown length: refused while it is still coming, so the connection is cut, but nothing gets through.
        seen = len(plane.router.seen.calls)

        async def pieces():
            yield b'{"messages": [{"role": "user", "content": "'
            for _ in range(50):
                yield b"x" * 100_000
            yield b'"}]}'

        with contextlib.suppress(httpx.TransportError):
            error_of(await client.post("/v1/chat/completions", content=pieces()), 413)
        assert len(plane.router.seen.calls) == seen
        assert (await client.post("/v1/chat/completions", json=chat())).status_code == 200


async def test_large_bodies_over_http_2_are_413_too(data_plane, tmp_path):
    (tmp_path / "body.json").write_text(json.dumps(chat("x" * 3_000_000)))
    async with data_plane(limits={"max_request_bytes": 2_000_000}) as plane:
        process = await asyncio.create_subprocess_exec(
            *("curl", "-sS", "--http2-prior-knowledge", "-H", f"authorization: Bearer {KEY}"),
            *("--data-binary", f"@{tmp_path / 'body.json'}", "-w", " %{http_version} %{http_code}"),
            f"{plane.envoy.url}/v1/chat/completions",
            stdout=asyncio.subprocess.PIPE,
        )
        output, _ = await process.communicate()
        assert output.endswith(b" 2 413")
        assert b"REQUEST_TOO_LARGE" in output


async def test_only_known_keys_come_in_and_each_is_its_tenant(data_plane):
    async with data_plane() as plane:
        for header in (None, "Bearer wrong", "Basic abc", "", KEY[:-1]):
            async with plane.envoy.http(None) as client:
                headers = {} if header is None else {"authorization": header}
                for path in ("/v1/chat/completions", "/v1/generate", "/nonesuch"):
                    error = error_of(await client.post(path, json=chat(), headers=headers), 401)
                    assert error["type"] == "authentication_error"
                # Health needs no key.
                assert (await client.get("/healthz")).status_code == 200
        assert plane.router.seen.calls == []
        for key, tenant in ((KEY, "acme"), (OTHER_KEY, "globex")):
            async with plane.envoy.http(key) as client:
                await client.post("/v1/chat/completions", json=chat(), headers={"x-tiermesh-tenant": "root"})
                seen = plane.router.seen.metadata[-1]
                assert seen["x-tiermesh-tenant"] == tenant
                assert "authorization" not in seen
        assert KEY not in plane.envoy.log.read_text()


async def test_envoy_takes_no_instructions_from_callers(data_plane):
    async with data_plane() as plane, plane.envoy.http() as client:
        headers = {"x-envoy-upstream-rq-timeout-ms": "1", "x-envoy-max-retries": "9", "x-envoy-retry-on": "unavailable"}
        asked = asyncio.ensure_future(client.post("/v1/chat/completions", json=chat("hang"), headers=headers))
        await plane.router.seen.started.wait()
        assert not any(name in plane.router.seen.metadata[-1] for name in headers)
        plane.router.seen.release.set()
        assert (await asked).status_code == 200


async def test_each_tenant_has_its_own_rate_limit(data_plane):
    async with (
        data_plane(limits={"requests_per_second": 1, "burst": 3}) as plane,
        plane.envoy.http() as client,
        plane.envoy.http(OTHER_KEY) as other,
    ):
        # At once, because one more is allowed with every second.
        answers = await asyncio.gather(*(client.post("/v1/chat/completions", json=chat()) for _ in range(30)))
        limited = [a for a in answers if a.status_code == 429]
        assert limited
        assert len(answers) - len(limited) >= 3
        assert limited[0].headers["retry-after"] == "1"
        assert error_of(limited[0], 429)["type"] == "rate_limit_error"
        assert (await other.post("/v1/chat/completions", json=chat())).status_code == 200


async def test_no_upstream_is_503(data_plane):
    async with data_plane() as plane, plane.envoy.http() as client:
        await plane.router.server.set_serving(False)
        await plane.envoy.healthy("router", 0)
        error = error_of(await client.post("/v1/chat/completions", json=chat()), 503)
        assert (error["type"], error["code"]) == ("server_error", "UNAVAILABLE")
        assert "no healthy upstream" in error["message"]
        # The door itself is fine.
        assert (await client.get("/healthz")).status_code == 200


async def test_an_answer_that_the_router_does_not_end_in_time_breaks_off_and_never_looks_complete(data_plane):
    async with data_plane() as plane, plane.envoy.http() as client:
        body, headers = {**chat("stream-hang"), "stream": True}, {"grpc-timeout": "500m"}

        async def broke_off():
            lines = []
            try:
                async with client.stream("POST", "/v1/chat/completions", json=body, headers=headers) as response:
                    async for line in response.aiter_lines():
                        lines.append(line)
            except httpx.RemoteProtocolError:
                return lines
            finally:
                assert not [line for line in lines if "[DONE]" in line]
            # A busy machine took that long to bring it to the service, or Envoy was not run when the time was over.
            return None

        await eventually(broke_off)


async def test_deadlines_of_http_callers(data_plane):
    deadlines = {"default_ms": 700, "max_ms": 900, "offset_ms": 50}
    async with data_plane(deadlines=deadlines) as plane, plane.envoy.http() as client:
        seen = plane.router.seen
        # Sent, longest, and default: in seconds, as the caller waits for it and as the service sees it.
        for header, ends_s in (({"grpc-timeout": "300m"}, 0.3), ({"grpc-timeout": "1H"}, 0.9), ({}, 0.7)):
            before = len(seen.in_time)
            # Asked again where a busy machine took that long to bring it to the service.
            while len(seen.in_time) == before:
                seen.cancelled.clear()
                begun = time.monotonic()
                error = error_of(await client.post("/v1/chat/completions", json=chat("hang"), headers=header), 504)
                # Not much earlier, and the service's own timer is 50 ms later, so that it is Envoy that ends it.
                assert ends_s - 0.06 <= time.monotonic() - begun < ends_s + 10
                assert error["type"] == "timeout_error"
            assert 0 < seen.remaining[-1] <= ends_s + 0.055
            assert seen.metadata[-1].get("x-tiermesh-deadline") == ("sent" if header else "default")
            async with asyncio.timeout(60):
                await seen.cancelled.wait()

        # Within the default deadline, which is short here.
        async def answered() -> bool:
            return (await client.post("/v1/chat/completions", json=chat())).status_code == 200

        await eventually(answered)


async def test_a_deadline_that_passes_before_the_request_is_read_is_504_too(data_plane):
    async with data_plane() as plane, plane.envoy.http() as client:
        answer = await client.post("/v1/chat/completions", json=chat(), headers={"grpc-timeout": "0m"})
        assert error_of(answer, 504)["type"] == "timeout_error"
        # What is no timeout is refused: its caller would wait for the default instead of the time that was meant.
        for wrong in ("soon", "5", "5s", "1.5S", "-1S", "123456789m", ""):
            answer = await client.post("/v1/chat/completions", json=chat(), headers={"grpc-timeout": wrong})
            assert "grpc-timeout: must be" in error_of(answer, 400)["message"]

        # A caller that never ends its request, written by hand as no client would.
        reader, writer = await asyncio.open_connection("127.0.0.1", plane.config.network.ingress_port)
        head = f"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {KEY}\r\n"
        writer.write(head.encode() + b"grpc-timeout: 300m\r\ncontent-length: 1000\r\n\r\n{")
        begun = time.monotonic()
        async with asyncio.timeout(60):
            answer = await reader.read()
        assert answer.startswith(b"HTTP/1.1 504")
        assert b"timeout_error" in answer
        # The default is a minute.
        assert 0.2 < time.monotonic() - begun < 20
        writer.close()
        await writer.wait_closed()


async def test_answers_to_head_have_no_body_and_the_connection_stays_good(data_plane):
    async with data_plane() as plane, plane.envoy.http() as client:
        for path, status in (("/v1/models", 405), ("/nonesuch", 404), ("/healthz", 200)):
            answer = await client.head(path)
            assert (answer.status_code, answer.content) == (status, b"")
            assert (await client.get("/v1/models")).status_code == 200


async def test_a_caller_that_leaves_cancels_the_service(data_plane):
    async with data_plane() as plane:
        for path, body in (("/v1/chat/completions", chat("hang")), ("/v1/generate", typed("hang-first"))):
            plane.router.seen.started.clear()
            plane.router.seen.cancelled.clear()
            async with plane.envoy.http() as client:
                asked = asyncio.ensure_future(client.post(path, json=body))
                await plane.router.seen.started.wait()
                asked.cancel()
                await asyncio.gather(asked, return_exceptions=True)
            async with asyncio.timeout(60):
                await plane.router.seen.cancelled.wait()


async def test_malformed_http_is_refused_in_the_same_shape(data_plane):
    async with data_plane() as plane:
        reader, writer = await asyncio.open_connection("127.0.0.1", plane.config.network.ingress_port)
        writer.write(b"POST /v1/chat/completions HTTP/1.1\r\ncontent-length: nonsense\r\n\r\n")
        answer = await reader.read()
        writer.close()
        await writer.wait_closed()
        assert answer.startswith(b"HTTP/1.1 400")
        body = json.loads(answer.partition(b"\r\n\r\n")[2])
        assert body["error"]["type"] == "invalid_request_error"
        async with plane.envoy.http() as client:
            assert (await client.post("/v1/chat/completions", json=chat())).status_code == 200


async def test_the_access_log_is_json_without_prompts_keys_or_queries(data_plane):
    async with data_plane(logging={"access": True}) as plane:
        async with plane.envoy.http() as client:
            await client.post("/v1/chat/completions?token=secret-query", json=chat("ok"), headers={"x-note": "private"})

        async def written():
            lines = [
                json.loads(line)
                for line in plane.envoy.log.read_text().splitlines()
                if line.startswith("{") and line.endswith("}")
            ]
            return [line for line in lines if line["method"] == "POST"]

        # Envoy writes when a request has ended in every respect, a little after its caller has the answer.
        (line,) = await eventually(written)
        assert (line["status"], line["tenant"], line["cluster"]) == (200, "acme", "router")
        assert len(line["trace_id"]) == 32
        for secret in (KEY, "secret-query", "private", '"role"'):
            assert secret not in plane.envoy.log.read_text()


async def test_requests_are_traced_with_the_callers_trace_id(data_plane):
    trace_id = "0af7651916cd43dd8448eb211c80319c"
    async with data_plane() as plane, plane.envoy.http() as client:
        header = {"traceparent": f"00-{trace_id}-b7ad6b7169203331-01"}
        await client.post("/v1/chat/completions", json=chat(), headers=header)
        version, seen, span, flags = plane.router.seen.metadata[-1]["traceparent"].split("-")
        assert (version, seen, flags) == ("00", trace_id, "01")
        # Envoy's own span is between the caller's and the service's.
        assert span != "b7ad6b7169203331"


async def test_http_2_works_on_the_same_port(data_plane):
    async with data_plane() as plane:
        process = await asyncio.create_subprocess_exec(
            *("curl", "-sS", "--http2-prior-knowledge", "-H", f"authorization: Bearer {KEY}"),
            *("-w", "%{http_version} %{http_code}", f"{plane.envoy.url}/v1/models"),
            stdout=asyncio.subprocess.PIPE,
        )
        output, _ = await process.communicate()
        assert output.endswith(b"2 200")
