"""Answers to other wordings, through real Envoy, real Redis and the real embedder.

The field cases about near questions are here as users would meet them.
"""

import os

import pytest
from harness.eventually import eventually
from harness.mesh import running_mesh
from tiermesh.cache.embedder_files import embedder_folder, is_fetched

pytestmark = pytest.mark.skipif(
    not is_fetched(embedder_folder(os.environ)), reason="run python -m tiermesh.cache.fetch_embedder"
)

SEMANTIC = {
    "tiers": [
        {"name": "l1", "simulated_ttft_ms": 5, "simulated_tokens_per_second": 2000},
        {"name": "l2", "simulated_ttft_ms": 5, "simulated_tokens_per_second": 2000},
    ],
    "drain_s": 1,
    # However busy the machine is, an embedding and Redis have the time that they need.
    "deadlines": {"cache_ms": 10_000},
    "cache": {
        "semantic_enabled": True,
        "semantic_task_types": ["faq", "qa", "math", "tool_use"],
        # Low, so that it is the guards that have to refuse.
        "semantic_threshold": 0.6,
        "store_timeout_ms": 1000,
    },
}


@pytest.fixture(scope="module")
def mesh(tmp_path_factory):
    """A lite mesh whose semantic tier is on."""
    with running_mesh(tmp_path_factory.mktemp("semantic"), "lite", SEMANTIC) as mesh:
        yield mesh


def ask(client, text, *earlier, system=None, **more):
    system_turn = [{"role": "system", "content": system}] if system else []
    messages = [*system_turn, *earlier, {"role": "user", "content": text}]
    # Pinned, so that a task that the classifier thinks hard is kept like any other.
    body = {"model": "tier:l1", "messages": messages, "temperature": 0, "max_tokens": 200, **more}
    response = client.post("/v1/chat/completions", json=body)
    assert response.status_code == 200, response.text
    return response


def reasons(response):
    return response.headers.get("x-tiermesh-reasons", "").split(",")


async def known(client, text, **more):
    """Asks until the same words hit: then the replica has heard of the question as well, or is about to."""
    first = ask(client, text, **more)
    assert first.json()["choices"][0]["finish_reason"] == "stop"
    await eventually(lambda: is_hit(ask(client, text, **more)))
    return first


async def is_hit(response):
    return response.headers["x-tiermesh-cache"] == "hit"


@pytest.mark.parametrize(
    ("stored", "asked"),
    [
        ("How do I renew my library card?", "What's the best way to renew my library card?"),
        ("怎么修改手机号码？", "请问手机号如何更换"),
    ],
    ids=["en", "zh"],
)
async def test_a_paraphrase_gets_the_answer_that_was_given(mesh, stored, asked):
    with mesh.http() as client:
        first = await known(client, stored)

        async def found():
            nonlocal again
            again = ask(client, asked, stream=False)
            return "cache:semantic" in reasons(again)

        again = first
        await eventually(found)
    assert again.headers["x-tiermesh-cache"] == "hit"
    assert again.json()["choices"] == first.json()["choices"]


@pytest.mark.parametrize(
    ("stored", "asked", "guard"),
    [
        ("How do I turn on dark mode?", "How do I turn off dark mode?", "polarity"),
        ("这个药孕妇可以吃吗", "这个药孕妇不可以吃吗", "polarity"),
        ("Convert 15 USD to EUR", "Convert 50 USD to EUR", "numbers"),
        ("How do I get a visa for Norway?", "How do I get a visa for Sweden?", "entities"),
        ("How do I get from the airport to the station?", "How do I get from the station to the airport?", "roles"),
        ("When does the museum close?", "When did the museum close?", "time"),
        ("我的订单什么时候发货", "我的订单什么时候到货", ""),
    ],
    ids=["cache-negation", "cache-negation-zh", "cache-numbers", "entity", "roles", "time", "cache-zh-near"],
)
async def test_a_trap_misses_and_says_which_guard_refused(mesh, stored, asked, guard):
    body = {
        "request": {
            "model": "tier:l1",
            "messages": [{"role": "ROLE_USER", "content": asked}],
            "sampling": {"temperature": 0, "max_tokens": 200},
        }
    }
    with mesh.http() as client:
        await known(client, stored)

        async def explained():
            nonlocal route
            route = client.post("/v1/explain", json=body).json()["route"]
            return f"cache:near:{guard}" in route.get("reasons", ())

        route = {}
        if guard:
            await eventually(explained)
            assert route["cache_status"] == "CACHE_STATUS_MISS"
        missed = ask(client, asked)
    assert missed.headers["x-tiermesh-cache"] == "miss"
    assert not guard or f"cache:near:{guard}" in reasons(missed)


async def test_the_same_last_turn_after_another_conversation_misses(mesh):
    turns = [{"role": "user", "content": "Tell me of Bach."}, {"role": "assistant", "content": "A composer."}]
    other = [{"role": "user", "content": "Tell me of Kant."}, {"role": "assistant", "content": "A philosopher."}]
    with mesh.http() as client:
        ask(client, "how old is he?", *turns)
        await eventually(lambda: is_hit(ask(client, "how old is he?", *turns)))
        assert not await is_hit(ask(client, "how old is he?", *other))
        assert not await is_hit(ask(client, "how old is he?", system="Be brief."))


async def test_explain_on_the_command_line_names_the_guard(mesh):
    stored, asked = "How do I open the valve?", "How do I close the valve?"
    with mesh.http() as client:
        # As the command line asks: no limit, no temperature.
        body = {"messages": [{"role": "ROLE_USER", "content": stored}], "model": "auto"}
        client.post("/v1/generate", json=body)

        async def explained():
            nonlocal answer
            answer = mesh.tiermesh("explain", asked).stdout
            return "cache:near:polarity" in answer

        answer = ""
        await eventually(explained)
    assert "cache miss" in answer


async def test_a_route_that_has_not_opted_in_stays_exact(mesh):
    with mesh.http() as client:
        stored = "Translate the sentence into French: the cat sleeps."
        first = ask(client, stored)
        assert first.headers["x-tiermesh-task-type"] == "translate"
        await eventually(lambda: is_hit(ask(client, stored)))
        again = ask(client, "Please translate the sentence into French: the cat sleeps.")
    assert again.headers["x-tiermesh-cache"] == "miss"
    assert not [reason for reason in reasons(again) if reason.startswith("cache:")]
