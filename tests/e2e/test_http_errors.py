"""Every failure over HTTP is OpenAI-shaped, has the right status, names the field, and harms no later request."""

import json
import socket
import time

import httpx
import openai
import pytest

GOOD = {"model": "auto", "messages": [{"role": "user", "content": "hello"}]}


def shaped(response, status, kind=None, code=None):
    """Checks that a response is an OpenAI error and returns the error."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"].startswith("application/json")
    error = response.json()["error"]
    assert set(error) >= {"message", "type", "param", "code"}
    assert error["message"]
    if kind:
        assert error["type"] == kind
    if code:
        assert error["code"] == code
    return error


def still_works(client):
    assert client.post("/v1/chat/completions", json=GOOD).status_code == 200


@pytest.fixture
def client(lite):
    with lite[0].http() as client:
        yield client


def post(client, body, **headers):
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return client.post("/v1/chat/completions", content=content, headers={"content-type": "application/json", **headers})


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (b"", None),
        (b"{", None),
        (b"[]", None),
        (b'"text"', None),
        (b"\xff\xfe{}", None),
        (b'{"model": "auto", "messages": [{"role": "user", "content": "\xc3\x28"}]}', None),
        ({}, "messages"),
        ({"model": "auto"}, "messages"),
        ({**GOOD, "messages": []}, "messages"),
        ({**GOOD, "messages": "hello"}, "messages"),
        ({**GOOD, "messages": [1]}, "messages[0]"),
        ({**GOOD, "messages": [{"role": "robot", "content": "x"}]}, "messages[0].role"),
        ({**GOOD, "messages": [{"content": "x"}]}, "messages[0].role"),
        ({**GOOD, "messages": [{"role": "user"}]}, "messages[0].content"),
        ({**GOOD, "messages": [{"role": "user", "content": None}]}, "messages[0].content"),
        ({**GOOD, "messages": [{"role": "user", "content": 5}]}, "messages[0].content"),
        ({**GOOD, "messages": [{"role": "user", "content": [{"type": "text"}]}]}, "messages[0].content[0].text"),
        ({**GOOD, "model": 7}, "model"),
        ({**GOOD, "temperature": "hot"}, "temperature"),
        ({**GOOD, "temperature": 3}, "temperature"),
        ({**GOOD, "temperature": True}, "temperature"),
        ({**GOOD, "top_p": 0}, "top_p"),
        ({**GOOD, "max_tokens": 0}, "max_tokens"),
        ({**GOOD, "max_tokens": 1.5}, "max_tokens"),
        ({**GOOD, "max_tokens": 5, "max_completion_tokens": 6}, "max_completion_tokens"),
        ({**GOOD, "n": 0}, "n"),
        ({**GOOD, "n": 100}, "n"),
        ({**GOOD, "stop": ["a", "b", "c", "d", "e"]}, "stop"),
        ({**GOOD, "stop": [""]}, "stop"),
        ({**GOOD, "seed": "x"}, "seed"),
        ({**GOOD, "seed": 2**70}, "seed"),
        ({**GOOD, "stream": "yes"}, "stream"),
        ({**GOOD, "stream_options": {"include_usage": True}}, "stream_options"),
        ({**GOOD, "top_logprobs": 2}, "top_logprobs"),
        ({**GOOD, "logprobs": True, "top_logprobs": 50}, "top_logprobs"),
        ({**GOOD, "frobnicate": 1}, "frobnicate"),
    ],
)
def test_bad_bodies(client, body, field):
    error = shaped(post(client, body), 400, "invalid_request_error")
    if field is not None:
        assert error["param"] is not None
        assert error["param"].startswith(field)
        assert error["param"] in error["message"]
    still_works(client)


@pytest.mark.parametrize("model", ["gpt-nonesuch", "tier:l9", "tier:", "不存在"])
def test_unknown_models_and_tiers(client, model):
    error = shaped(post(client, {**GOOD, "model": model}), 404, "invalid_request_error")
    assert error["param"] == "model"
    assert "tier:l1" in error["message"]
    still_works(client)


def test_a_long_prompt_goes_to_a_tier_that_holds_it_or_is_refused_with_the_sizes(client):
    fits_l2 = "word " * 4_000
    answer = post(client, {**GOOD, "messages": [{"role": "user", "content": fits_l2}], "max_tokens": 4})
    assert answer.status_code == 200
    assert answer.headers["x-tiermesh-tier"] == "l2"
    too_long = "word " * 20_000
    error = shaped(post(client, {**GOOD, "messages": [{"role": "user", "content": too_long}]}), 400)
    assert error["code"] == "CONTEXT_TOO_LONG"
    assert "8192" in error["message"]
    still_works(client)


def test_100_kb_of_chinese_is_refused_by_context_and_10_mb_by_size(client):
    error = shaped(post(client, {**GOOD, "messages": [{"role": "user", "content": "长文" * 17_000}]}), 400)
    assert error["code"] == "CONTEXT_TOO_LONG"
    error = shaped(post(client, {**GOOD, "messages": [{"role": "user", "content": "x" * 10_000_000}]}), 413)
    assert "4194304" in error["message"] or "large" in error["message"].lower()
    still_works(client)


def test_unknown_path_and_wrong_method(client):
    shaped(client.get("/v1/nonesuch"), 404)
    assert shaped(client.get("/v1/chat/completions"), client.get("/v1/chat/completions").status_code)
    assert client.get("/v1/chat/completions").status_code in {404, 405}
    still_works(client)


@pytest.mark.parametrize("header", [None, "Bearer wrong", "Basic abc", ""])
def test_authentication(lite, header):
    headers = {} if header is None else {"authorization": header}
    with httpx.Client(base_url=lite[0].url, headers=headers, timeout=60) as client:
        shaped(client.post("/v1/chat/completions", json=GOOD), 401, "authentication_error")
        assert client.get("/healthz").status_code == 200
    with pytest.raises(openai.AuthenticationError):
        openai.OpenAI(base_url=f"{lite[0].url}/v1", api_key="wrong", max_retries=0).models.list()


def test_a_caller_cannot_choose_its_tenant(lite, client):
    answer = post(
        client, {**GOOD, "messages": [{"role": "user", "content": "hello"}]}, **{"x-tiermesh-tenant": "other"}
    )
    assert answer.status_code == 200


def test_a_deadline_over_http_ends_in_504_on_time(client):
    body = {**GOOD, "model": "tier:l2", "max_tokens": 900, "messages": [{"role": "user", "content": "Write a story."}]}
    begun = time.monotonic()
    error = shaped(post(client, body, **{"grpc-timeout": "1500m", "cache-control": "no-store"}), 504, "timeout_error")
    assert 0.7 < time.monotonic() - begun < 30
    assert error["code"] in {"BUDGET_EXHAUSTED", "INFERENCE_TIMEOUT"}
    still_works(client)


def test_broken_http_is_refused_and_harms_nobody(lite, client):
    with socket.create_connection(("127.0.0.1", lite[0].config.network.ingress_port), timeout=60) as connection:
        connection.sendall(b"POST /v1/chat/completions HTTP/1.1\r\ncontent-length: nonsense\r\n\r\n")
        assert connection.recv(64).startswith(b"HTTP/1.1 400")
    still_works(client)


def test_a_client_that_sends_half_a_body_and_leaves_harms_nobody(lite, client):
    port = lite[0].config.network.ingress_port
    for _ in range(5):
        with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
            head = f"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {lite[0].key}\r\n"
            connection.sendall(head.encode() + b"content-type: application/json\r\ncontent-length: 1000\r\n\r\n{")
    still_works(client)
