"""Answers to other wordings, through real Envoy, real Redis and the real embedder.

The field cases about near questions are here as users would meet them.
"""

import pytest
from harness.eventually import eventually
from harness.mesh import OTHER_KEY


@pytest.fixture
def mesh(semantic):
    return semantic


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


def explained(client, text, *earlier):
    """Returns how a request would be answered; unlike asking, that leaves nothing in the cache."""
    messages = [*earlier, {"role": "user", "content": text}]
    request = {
        "model": "tier:l1",
        "messages": [{**turn, "role": f"ROLE_{turn['role'].upper()}"} for turn in messages],
        "sampling": {"temperature": 0, "max_tokens": 200},
    }
    response = client.post("/v1/explain", json={"request": request})
    assert response.status_code == 200, response.text
    return response.json()["route"]


async def heard(client, text, *earlier, refused_by=None):
    """Waits until other words are compared with the question that was stored, and hit unless a guard refuses them."""

    async def compared():
        route = explained(client, text, *earlier)
        if refused_by is not None:
            return f"cache:near:{refused_by}" in route.get("reasons", ())
        return route["cache_status"] == "CACHE_STATUS_HIT"

    await eventually(compared)


@pytest.mark.parametrize(
    ("stored", "asked"),
    [
        ("How do I renew my library card?", "What's the best way to renew my library card?"),
        ("怎么修改手机号码？", "请问手机号如何更改"),
    ],
    ids=["en", "zh"],
)
async def test_a_paraphrase_gets_the_answer_that_was_given(mesh, stored, asked):
    with mesh.http() as client:
        first = await known(client, stored)
        await heard(client, asked)
        again = ask(client, asked)
        semantic, exact = explained(client, asked)["cache"], explained(client, stored)["cache"]
    assert again.headers["x-tiermesh-cache"] == "hit"
    assert "cache:semantic" in reasons(again)
    assert exact["layer"] == "CACHE_LAYER_EXACT"
    assert "similarity" not in exact
    assert semantic["layer"] == "CACHE_LAYER_SEMANTIC"
    assert semantic["similarity"] >= semantic["threshold"]
    assert {"polarity", "numbers", "wording"} <= set(semantic["passed_guards"])
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
    ],
    ids=["cache-negation", "cache-negation-zh", "cache-numbers", "entity", "roles", "time"],
)
async def test_a_trap_misses_and_says_which_guard_refused(mesh, stored, asked, guard):
    with mesh.http() as client:
        await known(client, stored)
        await heard(client, asked, refused_by=guard)
        finding = explained(client, asked)["cache"]
        missed = ask(client, asked)
    assert finding["layer"] == "CACHE_LAYER_UNSPECIFIED"
    assert finding["refused_by"] == guard
    assert guard not in finding["passed_guards"]
    assert missed.headers["x-tiermesh-cache"] == "miss"
    assert f"cache:near:{guard}" in reasons(missed)


async def test_cache_zh_near_shipping_and_arriving_are_two_questions(mesh):
    with mesh.http() as client:
        await known(client, "我的订单什么时候发货")
        await heard(client, "请问我的订单什么时候发货呢")
        assert not await is_hit(ask(client, "我的订单什么时候到货"))


async def test_cache_context_other_words_hit_in_their_own_conversation_alone(mesh):
    def about(name):
        return {"role": "user", "content": f"Tell me of {name}."}, {"role": "assistant", "content": f"{name} wrote."}

    question, other_words = "How do I pronounce his name?", "What is the way to pronounce his name?"
    with mesh.http() as client:
        ask(client, question, *about("Bach"))
        await heard(client, other_words, *about("Bach"))
        # Only once in each: what is asked is stored there, too.
        assert not await is_hit(ask(client, other_words, *about("Kant")))
        assert not await is_hit(ask(client, other_words))
        assert not await is_hit(ask(client, other_words, *about("Bach"), system="Be brief."))


async def test_cache_tenants_other_words_hit_for_their_own_tenant_alone(mesh):
    question, other_words = "How do I bind a book?", "What is the best way to bind a book?"
    with mesh.http() as client, mesh.http(headers={"authorization": f"Bearer {OTHER_KEY}"}) as other:
        await known(client, question)
        await heard(client, other_words)
        assert not await is_hit(ask(other, other_words))


@pytest.mark.parametrize(
    "change", [{"max_tokens": 201}, {"stop": ["zzz"]}, {"seed": 1}, {"top_p": 0.9}, {"n": 2}], ids=" ".join
)
async def test_cache_params_other_words_hit_with_the_same_params_alone(mesh, change):
    question, other_words = "How do I prune a hedge?", "What is the best way to prune a hedge?"
    with mesh.http() as client:
        ask(client, question)
        await heard(client, other_words)
        assert not await is_hit(ask(client, other_words, **change))


async def test_explain_on_the_command_line_names_the_guard(mesh):
    stored, asked = "How do I open the valve?", "How do I close the valve?"
    with mesh.http() as client:
        # As the command line asks: no limit, no temperature.
        body = {"messages": [{"role": "ROLE_USER", "content": stored}], "model": "auto"}
        client.post("/v1/generate", json=body)

        async def told():
            nonlocal answer
            answer = mesh.tiermesh("explain", asked).stdout
            return "cache:near:polarity" in answer

        answer = ""
        await eventually(told)
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
