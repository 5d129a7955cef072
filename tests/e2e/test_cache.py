"""The answer cache through the whole mesh."""

import uuid

import pytest


def ask(client, text, **more):
    messages = text if isinstance(text, list) else [{"role": "user", "content": text}]
    body = {"model": "tier:l1", "messages": messages, "max_tokens": 150, "temperature": 0, **more}
    response = client.post("/v1/chat/completions", json=body)
    assert response.status_code == 200, response.text
    return response


def warm(client, text, **more):
    """Asks until the answer is in the cache: writing it does not delay the caller."""
    first = ask(client, text, **more)
    assert first.headers["x-tiermesh-cache"] == "miss"
    if first.json()["choices"][0]["finish_reason"] != "stop":
        pytest.skip("the model did not finish within the limit, and cut answers are not kept")
    for _ in range(50):
        again = ask(client, text, **more)
        if again.headers["x-tiermesh-cache"] == "hit":
            return first, again
    raise AssertionError("never became a hit")


def fresh(text):
    return f"{text} ({uuid.uuid4().hex[:8]})"


@pytest.mark.parametrize("text", ["Name a colour.", "说一种颜色。"])
def test_a_hit_is_the_same_answer_and_labelled(lite, text):
    with lite[0].http() as client:
        first, again = warm(client, fresh(text))
    one, two = first.json(), again.json()
    assert two["choices"] == one["choices"]
    assert two["usage"] == one["usage"]
    assert two["model"] == one["model"]
    assert two["id"] != one["id"]
    assert again.headers["x-tiermesh-tier"] == first.headers["x-tiermesh-tier"]


def test_a_hit_streams_exactly_like_the_miss(lite):
    text = fresh("Name a tree.")

    def stream(client):
        body = {
            "model": "tier:l1",
            "messages": [{"role": "user", "content": text}],
            "max_tokens": 150,
            "temperature": 0,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        import json

        with client.stream("POST", "/v1/chat/completions", json=body) as response:
            lines = [line.removeprefix("data: ") for line in response.iter_lines() if line]
            chunks = [json.loads(line) for line in lines if line != "[DONE]"]
            for chunk in chunks:
                assert chunk.pop("id")
                assert chunk.pop("created")
            return response.headers["x-tiermesh-cache"], chunks, lines[-1]

    with lite[0].http() as client:
        status, first, _ = stream(client)
        assert status == "miss"
        assert first[-2]["choices"][0]["finish_reason"] == "stop"
        for _ in range(50):
            status, again, last = stream(client)
            if status == "hit":
                break
    assert status == "hit"
    assert again == first
    assert last == "[DONE]"


@pytest.mark.parametrize(
    "change",
    [
        {"max_tokens": 151},
        {"stop": ["zzz"]},
        {"n": 2},
        {"seed": 1},
        {"temperature": None},
        {"top_p": 0.9},
        {"presence_penalty": 0.5},
        {"messages": [{"role": "system", "content": "Be kind."}]},
        {"messages": [{"role": "user", "content": "Earlier."}, {"role": "assistant", "content": "Yes."}]},
    ],
)
def test_whatever_changes_the_answer_misses(lite, change):
    text = fresh("Name a bird.")
    with lite[0].http() as client:
        warm(client, text)
        earlier = change.get("messages", [])
        more = {k: v for k, v in change.items() if k != "messages"}
        if more.get("temperature", 0) is None:
            body = {"model": "tier:l1", "messages": [{"role": "user", "content": text}], "max_tokens": 150}
            response = client.post("/v1/chat/completions", json=body)
        else:
            response = ask(client, [*earlier, {"role": "user", "content": text}], **more)
    assert response.headers["x-tiermesh-cache"] == "miss"


def test_the_caller_can_bypass_and_refresh(lite):
    text = fresh("Name a fish.")
    with lite[0].http() as client:
        warm(client, text)
        for control, expected in (("no-store", "bypass"), ("no-cache", "bypass")):
            client.headers["cache-control"] = control
            assert ask(client, text).headers["x-tiermesh-cache"] == expected
        del client.headers["cache-control"]
        assert ask(client, text).headers["x-tiermesh-cache"] == "hit"


def test_cut_answers_are_not_kept(lite):
    text = fresh("Name a stone.")
    with lite[0].http() as client:
        for _ in range(3):
            response = ask(client, text, max_tokens=3)
            assert response.json()["choices"][0]["finish_reason"] == "length"
            assert response.headers["x-tiermesh-cache"] == "miss"


def test_redis_killed_means_misses_and_no_errors_and_it_recovers(broken):
    text = fresh("Name a flower.")
    with broken.http() as client:
        warm(client, text)
        broken.process("redis-server").kill()
        # The supervisor may have it back at once; whatever the moment, no request fails.
        seen = {ask(client, text).headers["x-tiermesh-cache"] for _ in range(20)}
        assert seen <= {"miss", "hit", "unavailable"}
        assert seen != {"hit"}
        for _ in range(100):
            if ask(client, text).headers["x-tiermesh-cache"] == "hit":
                break
        else:
            raise AssertionError("the cache did not recover")
