"""`tiermesh judge`: asks a tier questions with known answers, and logs how sure it was and whether it was right."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import grpc
import typer
from tiermesh.api.common.v1 import chat_pb2
from tiermesh.api.router.v1 import router_pb2, router_pb2_grpc
from tiermesh.client.cli._connection import Door, Profile, Target, connect, explained, find_ingress, run
from tiermesh.client.cli._files import check_writable, read_input
from tiermesh.client.cli._label import task_word
from tiermesh.client.cli._progress import open_progress
from tiermesh.client.cli.judging import (
    Question,
    WrongQuestion,
    is_right,
    parse_question,
    pretended_right,
    write_line,
)
from tiermesh.shared.answer_features import Scored, features_of, scored
from tiermesh.shared.config import EscalationConfig
from tiermesh.shared.errors import StreamBroken
from tiermesh.shared.rpc import error_from_rpc, error_of

_TIMEOUT_S = 120.0


def register(app: typer.Typer) -> None:
    """Adds the command."""
    epilog = "Example: tiermesh judge mesh/profiles/calibration/questions.jsonl --tier l1 --out judged.jsonl"
    app.command("judge", epilog=epilog)(judge)


def judge(
    questions: Annotated[
        Path,
        typer.Argument(help='JSON Lines: {"question": ..., "right": \\[words one of which a right answer holds]}.'),
    ],
    tier: Annotated[str, typer.Option(help="Tier whose answers are judged.")],
    out: Annotated[Path, typer.Option(help="Log to write, for `tiermesh calibrate`.")],
    max_tokens: Annotated[int, typer.Option(min=1, help="Longest answer.")] = 48,
    hold_tokens: Annotated[
        int, typer.Option(min=1, help="First tokens whose log-probabilities count; as escalation.hold_tokens.")
    ] = EscalationConfig().hold_tokens,
    target: Target = None,
    profile: Profile = None,
) -> None:
    """Ask a tier questions whose answers are known, and log how sure it was and whether it was right.

    Of a simulated tier, rightness is drawn from its made-up log-probabilities, and every line says so.
    """
    lines: list[_Line] = []
    with explained():
        asked = read_input(questions, _read)
        # Told before anything is asked, not after the last answer.
        check_writable(out)
        door = find_ingress(os.environ, target=target, profile=profile)
        try:
            run(_judge(door, asked, lines, tier=tier, max_tokens=max_tokens, hold_tokens=hold_tokens))
        finally:
            if lines:
                out.write_text("".join(f"{line.text}\n" for line in lines), encoding="utf-8")
    typer.echo(f"{len(lines)} of {len(asked)} answers judged, {sum(line.right for line in lines)} right: {out}")


@dataclass(frozen=True, slots=True)
class _Line:
    text: str
    right: bool


async def _judge(
    door: Door, asked: Sequence[Question], lines: list[_Line], *, tier: str, max_tokens: int, hold_tokens: int
) -> None:
    """Asks the questions one after another; `lines` is kept up to date, so that an end at any moment loses no answer."""
    with open_progress("judging", total=len(asked)) as progress:
        async with connect(door) as channel:
            stub = router_pb2_grpc.RouterServiceStub(channel)
            for question in asked:
                answer = await _answer(stub, door, question, tier=tier, max_tokens=max_tokens)
                line = _line(question, answer, tier=tier, hold_tokens=hold_tokens)
                if line is not None:
                    lines.append(line)
                progress.advance()


@dataclass(slots=True)
class _Answer:
    route: router_pb2.RouteLabel
    text: str
    tokens: list[Scored]


async def _answer(
    stub: router_pb2_grpc.RouterServiceAsyncStub, door: Door, question: Question, *, tier: str, max_tokens: int
) -> _Answer:
    """Asks one question, greedily and behind live traffic.

    Raises:
        TiermeshError: it was not answered.
    """
    request = router_pb2.GenerateRequest(
        model=f"tier:{tier}",
        messages=[chat_pb2.Message(role=chat_pb2.ROLE_USER, content=question.text)],
        sampling=chat_pb2.Sampling(temperature=0, max_tokens=max_tokens, logprobs=True, top_logprob_count=2),
        cache_mode=router_pb2.CACHE_MODE_OFF,
        priority=chat_pb2.PRIORITY_BATCH,
    )
    answer, done = _Answer(router_pb2.RouteLabel(), "", []), False
    call = stub.Generate(request, timeout=_TIMEOUT_S, metadata=door.metadata)
    try:
        async for response in call:
            match response.WhichOneof("event"):
                case "route":
                    answer.route = response.route
                case "delta":
                    answer.text += response.delta.text
                    answer.tokens.extend(map(scored, response.delta.logprobs))
                case "failure":
                    raise error_of(response.failure)
                case "done":
                    done = True
    except grpc.aio.AioRpcError as error:
        raise error_from_rpc(error) from None
    finally:
        call.cancel()
    if not done:
        raise StreamBroken("the answer ended without its last event")
    return answer


def _line(question: Question, answer: _Answer, *, tier: str, hold_tokens: int) -> _Line | None:
    """Returns the line of an answer; None for one without a token, of which nothing can be said."""
    features = features_of(answer.tokens[:hold_tokens])
    if features is None:
        return None
    simulated = answer.route.simulated
    right = pretended_right(question, features) if simulated else is_right(question, answer.text)
    kind = task_word(answer.route)
    return _Line(
        write_line(
            tier=tier, model=answer.route.model, task_type=kind, right=right, features=features, simulated=simulated
        ),
        right,
    )


def _read(path: Path) -> Sequence[Question]:
    found = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if line.strip():
            try:
                found.append(parse_question(line))
            except WrongQuestion as error:
                raise ValueError(f"{path}:{number}: {error}") from None
    if not found:
        raise ValueError(f"{path}: it has no questions")
    return found
