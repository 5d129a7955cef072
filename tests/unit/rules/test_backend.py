"""The rules tier's backend."""

import asyncio
from pathlib import Path

import pytest
from tiermesh.engine.adapters.rules import RulesBackend
from tiermesh.engine.ports import Finish, Lane, Sampling, Turn
from tiermesh.shared.errors import ModelLoadFailed, NotApplicable
from tiermesh.shared.rules import CurrentRules, parse_rules

RULES = """
greetings:
  - {name: hello, language: en, phrases: [hello], answer: "Hello there. How can I help you today, my friend?"}
  - {name: hello-zh, language: zh, phrases: [你好], answer: 你好！有什么可以帮你的吗？}
"""


@pytest.fixture(scope="module")
def backend():
    return RulesBackend(CurrentRules(parse_rules(RULES, Path("rules.yaml"))))


async def answer(backend, text, **sampling):
    prompt = await backend.prepare((Turn("user", text),))
    sampling = Sampling(**{"max_tokens": 512, **sampling})
    return prompt, [p async for p in backend.generate(prompt, sampling, request_id="r", lane=Lane.INTERACTIVE)]


def text_of(pieces, choice=0):
    return "".join(piece.text for piece in pieces if piece.choice == choice)


@pytest.mark.parametrize(
    ("text", "said"),
    [("Hello!", "Hello there. How can I help you today, my friend?"), ("你好", "你好！有什么可以帮你的吗？")],
)
async def test_it_streams_the_answer(backend, text, said):
    prompt, pieces = await answer(backend, text)
    assert text_of(pieces) == said
    assert len(pieces) > 2
    assert [piece.finish for piece in pieces] == [None] * (len(pieces) - 1) + [Finish.STOP]
    assert all(piece.token_count > 0 for piece in pieces)
    assert prompt.rule.startswith("greeting:hello")
    assert prompt.token_count >= 1


async def test_it_refuses_before_anything_else(backend):
    with pytest.raises(NotApplicable):
        await backend.prepare((Turn("user", "Explain gravity."),))
    with pytest.raises(NotApplicable):
        await backend.prepare((Turn("system", "Be brief."), Turn("user", "hello")))


async def test_choices_are_alike(backend):
    _, pieces = await answer(backend, "hello", choices=3)
    assert {text_of(pieces, choice) for choice in range(3)} == {"Hello there. How can I help you today, my friend?"}
    assert sum(piece.finish is Finish.STOP for piece in pieces) == 3


async def test_stop_texts_end_it_and_are_not_returned(backend):
    _, pieces = await answer(backend, "hello", stop=("help", " can"))
    assert text_of(pieces) == "Hello there. How"
    assert pieces[-1].finish is Finish.STOP
    _, pieces = await answer(backend, "hello", stop=("Hello",))
    assert (text_of(pieces), pieces[-1].finish) == ("", Finish.STOP)


async def test_the_token_limit_cuts_it(backend):
    _, pieces = await answer(backend, "hello", max_tokens=5)
    assert sum(piece.token_count for piece in pieces) == 5
    assert pieces[-1].finish is Finish.LENGTH
    assert "Hello there. How can I help you today, my friend?".startswith(text_of(pieces))
    _, pieces = await answer(backend, "hello", max_tokens=5, stop=("there",))
    assert pieces[-1].finish is Finish.STOP
    total = sum(piece.token_count for piece in (await answer(backend, "hello"))[1])
    _, pieces = await answer(backend, "hello", max_tokens=total)
    assert pieces[-1].finish is Finish.STOP


async def test_a_changed_file_is_followed_and_a_broken_one_refused_at_the_start(tmp_path):
    path = tmp_path / "rules.yaml"
    path.write_text(RULES, encoding="utf-8")
    async with RulesBackend.open(path) as backend:
        await backend.warm_up()
        async with asyncio.timeout(60):
            while text_of((await answer(backend, "hello"))[1]) != "Changed.":
                fresh = path.with_suffix(".new")
                fresh.write_text(
                    RULES.replace("Hello there. How can I help you today, my friend?", "Changed."), "utf-8"
                )
                fresh.replace(path)
                await asyncio.sleep(0.05)
    path.write_text("rools: []", encoding="utf-8")
    with pytest.raises(ModelLoadFailed, match="rools"):
        async with RulesBackend.open(path):
            pass
