"""Callers who keep asking, and judge every answer by what the simulated engine writes for the prompt."""

from __future__ import annotations

import asyncio
import itertools
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

import grpc
import httpx
from google.api import httpbody_pb2
from harness.scenario_report import Ending, Outcome, Report
from tiermesh.api.openai.v1 import openai_pb2_grpc
from tiermesh.client import AsyncClient, TiermeshError
from tiermesh.engine.adapters.simulated_text import write_script
from tiermesh.engine.ports import Prompt, Sampling, Turn
from tiermesh.shared.config import TierConfig
from tiermesh.shared.errors import ERROR_TABLE
from tiermesh.shared.rpc import error_from_rpc, has_details

MAX_TOKENS = 24
GIVE_UP_S = 0.25
"""How long after its deadline a caller without gRPC's own deadline stops waiting for a mesh that says nothing."""
PAUSE_S = 0.03


@dataclass(frozen=True)
class Question:
    """One request, and the texts that answer it."""

    model: str
    text: str
    answers: frozenset[str]
    cache: bool = False
    deadline_s: float = 10.0

    def judge(self, text: str) -> Ending:
        """Compares an answer that ended well."""
        if text in self.answers:
            return Ending("right", "answered")
        return Ending("wrong", "answered", f"{self.text!r} got {text!r}")


Ask = Callable[[Question], Awaitable[Ending]]
"""Asks once; never raises."""
Plan = tuple[str, ...]
"""Kinds of questions that a caller asks in turn."""
PLANS_SDK: tuple[Plan, ...] = (("l1",), ("l1", "auto"), ("l2",), ("hello", "auto", "cached"))
PLANS_HTTP: tuple[Plan, ...] = (("l1", "hello", "cached"), ("l2", "auto"))


class Questions:
    """Makes questions of all kinds, each with what may answer it.

    Args:
        tiers: Of the mesh; those that are simulated may answer whatever is not pinned.
        greeting: What its rules say to a greeting.
    """

    def __init__(self, tiers: Sequence[TierConfig], greeting: str) -> None:
        self._models = [tier.public_model for tier in tiers if tier.backend == "simulated"]
        self._greeting = greeting
        self._numbers = itertools.count(time.monotonic_ns())

    def make(self, kind: str, deadline_s: float) -> Question:
        """Returns a question of a kind: a tier's name, `hello`, `auto` or `cached`."""
        number = next(self._numbers)
        match kind:
            case "hello":
                return Question("auto", "Hello", self._answers("Hello") | {self._greeting}, deadline_s=deadline_s)
            case "cached":
                text = f"Tell me about the river {number % 5}."
                return Question("auto", text, self._answers(text), cache=True, deadline_s=deadline_s)
            case "auto":
                text = f"写一个Python函数，计算{number}的阶乘" if number % 2 else f"Tell me about the number {number}."
                return Question("auto", text, self._answers(text), deadline_s=deadline_s)
        text = f"Tell me about the number {number}."
        return Question(f"tier:{kind}", text, self._answers(text), deadline_s=deadline_s)

    def _answers(self, text: str) -> frozenset[str]:
        prompt, sampling = Prompt((Turn("user", text),), 0), Sampling(max_tokens=MAX_TOKENS, temperature=0.0)
        return frozenset("".join(write_script(prompt, sampling, 0, model=model).tokens) for model in self._models)


class Load:
    """Callers, each with one request in flight.

    Args:
        callers: How each asks, and what.
        questions: Makes them.
        report: Takes what comes of them.
        deadline_s: Of each request; may be changed while the load runs.
    """

    def __init__(
        self, callers: Sequence[tuple[Ask, Plan]], questions: Questions, report: Report, *, deadline_s: float
    ) -> None:
        self._callers = callers
        self._questions = questions
        self._report = report
        self.deadline_s = deadline_s

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Keeps the requests coming; leaving waits for those in flight."""
        stop = asyncio.Event()

        async def caller(ask: Ask, plan: Plan) -> None:
            for kind in itertools.cycle(plan):
                if stop.is_set():
                    return
                await self._one(ask, self._questions.make(kind, self.deadline_s))
                await asyncio.sleep(PAUSE_S)

        async with asyncio.TaskGroup() as group:
            for ask, plan in self._callers:
                group.create_task(caller(ask, plan))
            lag = group.create_task(self._lag())
            try:
                yield
            finally:
                stop.set()
                lag.cancel()

    async def _one(self, ask: Ask, question: Question) -> None:
        began = time.monotonic()
        ending = await ask(question)
        took = time.monotonic() - began
        named = Ending(ending.kind, ending.how, f"{ending.detail} [{question.model}]")
        self._report.outcomes.append(Outcome(named, began, took, (took - question.deadline_s) * 1000))

    async def _lag(self) -> None:
        while True:
            due = time.monotonic() + 0.01
            await asyncio.sleep(0.01)
            self._report.client_lag_ms = max(self._report.client_lag_ms, (time.monotonic() - due) * 1000)


def _told(reason: str | None, said: str) -> Ending:
    """Whether an error says what the caller can make of it; a defect of ours is not that."""
    return Ending("refused" if reason in ERROR_TABLE and reason != "INTERNAL" else "lost", "told", said)


def by_sdk(client: AsyncClient) -> Ask:
    """Asks with the SDK."""

    async def ask(question: Question) -> Ending:
        try:
            answer = await client.ask(
                question.text,
                model=question.model,
                cache=question.cache,
                deadline_s=question.deadline_s,
                max_tokens=MAX_TOKENS,
                temperature=0.0,
            )
        except TiermeshError as error:
            return _told(error.reason, f"{error.reason}: sdk: {error.message}")
        return question.judge(answer.text)

    return ask


def _body(question: Question) -> dict[str, object]:
    return {
        "model": question.model,
        "messages": [{"role": "user", "content": question.text}],
        "max_tokens": MAX_TOKENS,
        "temperature": 0,
        "stream": True,
    }


class _Events:
    """Reads the server-sent events of one answer."""

    def __init__(self, question: Question) -> None:
        self._question = question
        self._text = ""

    def take(self, line: str) -> Ending | None:
        """Takes a line in; returns the ending that it is, if it is one."""
        data = line.removeprefix("data: ").strip()
        if data == "[DONE]":
            return self._question.judge(self._text)
        if not data:
            return None
        event = json.loads(data)
        if "error" in event:
            error = event["error"]
            return _told(error.get("code"), f"{error.get('code')}: http event: {error.get('message')}")
        self._text += "".join(choice["delta"].get("content") or "" for choice in event["choices"])
        return None


def by_http(client: httpx.AsyncClient, *, door_may_be_silent: bool) -> Ask:
    """Asks with plain streaming HTTP, the way of an HTTP client that knows nothing of the mesh.

    Args:
        client: Of the ingress.
        door_may_be_silent: Whether it is the ingress that is being hit. Nobody can then tell the caller anything:
            what its own HTTP library reports has to do.
    """

    async def ask(question: Question) -> Ending:
        headers = {"grpc-timeout": f"{int(question.deadline_s * 1000)}m"}
        if not question.cache:
            headers["cache-control"] = "no-store"
        try:
            async with (
                asyncio.timeout(question.deadline_s + GIVE_UP_S),
                client.stream("POST", "/v1/chat/completions", json=_body(question), headers=headers) as response,
            ):
                if response.status_code != 200:
                    error = json.loads(await response.aread())["error"]
                    said = f"{error.get('code')}: http {response.status_code}: {error.get('message')}"
                    return _told(error.get("code"), said)
                events = _Events(question)
                async for line in response.aiter_lines():
                    ending = events.take(line)
                    if ending is not None:
                        return ending
                return Ending("lost", "told", "http: the stream ended in good order without its last event")
        except TimeoutError:
            said = "SILENCE: http: the caller gave up on a silent mesh"
            return Ending("refused" if door_may_be_silent else "lost", "silent", said)
        except httpx.ConnectError as error:
            return Ending("refused" if door_may_be_silent else "lost", "unreached", f"UNREACHED: http: {error}")
        except httpx.TransportError as error:
            return Ending("refused", "cut", f"BROKEN_OFF: http: {type(error).__name__}: {error}")

    return ask


def by_http_body(channel: grpc.aio.Channel, metadata: Sequence[tuple[str, str]]) -> Ask:
    """Asks as Envoy's transcoder does for plain HTTP: bodies of the OpenAI surface, over gRPC."""
    stub = openai_pb2_grpc.OpenAIServiceStub(channel)

    async def ask(question: Question) -> Ending:
        extra = () if question.cache else (("cache-control", "no-store"),)
        body = httpbody_pb2.HttpBody(content_type="application/json", data=json.dumps(_body(question)).encode())
        call = stub.CreateChatCompletion(body, timeout=question.deadline_s, metadata=(*metadata, *extra))
        events = _Events(question)
        try:
            async for message in call:
                for line in message.data.decode().splitlines():
                    ending = events.take(line)
                    if ending is not None:
                        return ending
        except grpc.aio.AioRpcError as error:
            failure = error_from_rpc(error)
            if failure.reason == "STREAM_BROKEN" and not has_details(error):
                return Ending("refused", "cut", f"BROKEN_OFF: http: {failure.message}")
            return _told(failure.reason, f"{failure.reason}: http: {failure.message}")
        finally:
            call.cancel()
        return Ending("lost", "told", "http: the stream ended in good order without its last event")

    return ask
