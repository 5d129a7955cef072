"""Between the contract's messages and the engine's values. What is wrong in a request is found here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from google.protobuf.duration_pb2 import Duration
from tiermesh.api.common.v1 import answer_pb2, chat_pb2
from tiermesh.api.engine.v1 import engine_pb2
from tiermesh.engine.engine import Began, Ended, Request
from tiermesh.engine.load import Load
from tiermesh.engine.ports import Alternative, Finish, Lane, Piece, Sampling, TokenScore, ToolUse, Turn
from tiermesh.shared.errors import InvalidRequest, TiermeshError
from tiermesh.shared.rpc import failure_of

_ROLES: dict[int, Literal["system", "user", "assistant", "tool"]] = {
    chat_pb2.ROLE_SYSTEM: "system",
    chat_pb2.ROLE_USER: "user",
    chat_pb2.ROLE_ASSISTANT: "assistant",
    chat_pb2.ROLE_TOOL: "tool",
}
_FINISHES = {Finish.STOP: answer_pb2.FINISH_REASON_STOP, Finish.LENGTH: answer_pb2.FINISH_REASON_LENGTH}
_MAX_STOPS = 4
_MAX_CHOICES = 8
_MAX_TOP_LOGPROBS = 20
_SEED_BITS = 63


def to_request(message: engine_pb2.GenerateRequest, *, answer_tokens: int) -> Request:
    """Reads a request.

    Args:
        message: The request received.
        answer_tokens: Answer limit where it names none.

    Raises:
        InvalidRequest: a field is out of its range; `field` names it.
    """
    return Request(
        request_id=message.request_id or "unnamed",
        turns=_turns(message.messages),
        sampling=_sampling(message.sampling, answer_tokens),
        lane=Lane.BATCH if message.priority == chat_pb2.PRIORITY_BATCH else Lane.INTERACTIVE,
        tenant=message.tenant,
    )


def _turns(messages: Sequence[chat_pb2.Message]) -> tuple[Turn, ...]:
    if not messages:
        raise InvalidRequest("messages must hold at least one message", field="messages")
    turns = []
    for number, message in enumerate(messages):
        where = f"messages[{number}]"
        if message.role not in _ROLES:
            raise InvalidRequest(f"{where}.role must be a role that speaks: {message.role}", field=f"{where}.role")
        if not message.content and not message.tool_calls:
            raise InvalidRequest(f"{where}.content must not be empty", field=f"{where}.content")
        calls = tuple(ToolUse(call.id, call.name, call.arguments_json) for call in message.tool_calls)
        turns.append(Turn(_ROLES[message.role], message.content, message.name, calls, message.tool_call_id))
    return tuple(turns)


def _sampling(message: chat_pb2.Sampling, answer_tokens: int) -> Sampling:
    present = {field.name for field, _ in message.ListFields()}

    def number(name: str, low: float, high: float) -> float | None:
        if name not in present:
            return None
        value: float = getattr(message, name)
        # Written so that NaN is refused too.
        if not low <= value <= high:
            raise _out_of_range(name, value, low, high)
        return value

    top_p = number("top_p", 0.0, 1.0)
    if top_p == 0.0:
        raise InvalidRequest("sampling.top_p must be above 0", field="sampling.top_p")
    tokens = number("max_tokens", 1, 2**31)
    choices = number("choice_count", 1, _MAX_CHOICES)
    if len(message.stop) > _MAX_STOPS or not all(message.stop):
        raise InvalidRequest(f"sampling.stop must be up to {_MAX_STOPS} texts, none empty", field="sampling.stop")
    if not 0 <= message.top_logprob_count <= _MAX_TOP_LOGPROBS:
        raise _out_of_range("top_logprob_count", message.top_logprob_count, 0, _MAX_TOP_LOGPROBS)
    if message.top_logprob_count and not message.logprobs:
        raise InvalidRequest("sampling.top_logprob_count needs logprobs", field="sampling.top_logprob_count")
    return Sampling(
        max_tokens=answer_tokens if tokens is None else int(tokens),
        temperature=number("temperature", 0.0, 2.0),
        top_p=top_p,
        stop=tuple(message.stop),
        seed=message.seed % 2**_SEED_BITS if message.HasField("seed") else None,
        choices=1 if choices is None else int(choices),
        logprobs=message.logprobs,
        top_logprobs=message.top_logprob_count,
        presence_penalty=number("presence_penalty", -2.0, 2.0),
        frequency_penalty=number("frequency_penalty", -2.0, 2.0),
    )


def _out_of_range(name: str, value: float, low: float, high: float) -> InvalidRequest:
    return InvalidRequest(
        f"sampling.{name} must be from {low:g} to {high:g}, and is {value:g}", field=f"sampling.{name}"
    )


def from_began(event: Began, *, model: str) -> engine_pb2.GenerateResponse:
    """Writes the start of an answer."""
    started = engine_pb2.Started(
        model=model,
        simulated=event.simulated,
        queue=_duration(event.queue_s),
        prompt_token_count=event.prompt_tokens,
    )
    return engine_pb2.GenerateResponse(started=started)


def from_piece(piece: Piece) -> engine_pb2.GenerateResponse | None:
    """Writes a piece of text; None where it has nothing to say but that its choice has ended."""
    if not piece.text and not piece.token_ids and not piece.scores:
        return None
    delta = answer_pb2.Delta(
        choice_index=piece.choice,
        text=whole_characters(piece.text),
        token_ids=piece.token_ids,
        logprobs=[_score(score) for score in piece.scores],
    )
    return engine_pb2.GenerateResponse(delta=delta)


def from_ended(event: Ended) -> engine_pb2.GenerateResponse:
    """Writes the end of a complete answer."""
    finishes = [
        answer_pb2.ChoiceFinish(choice_index=choice, finish_reason=_FINISHES[finish])
        for choice, finish in event.finishes
    ]
    usage = answer_pb2.Usage(
        prompt_token_count=event.prompt_tokens,
        completion_token_count=event.completion_tokens,
        cached_prompt_token_count=event.cached_prompt_tokens,
    )
    timing = answer_pb2.EngineTiming(
        queue=_duration(event.queue_s),
        prefill=_duration(event.prefill_s),
        decode=_duration(event.decode_s),
        tokenize=_duration(event.tokenize_s),
        detokenize=_duration(event.detokenize_s),
    )
    return engine_pb2.GenerateResponse(
        done=engine_pb2.Done(finishes=finishes, usage=usage, timing=timing, rule=event.rule)
    )


def from_error(error: TiermeshError) -> engine_pb2.GenerateResponse:
    """Writes the end of a failed answer."""
    return engine_pb2.GenerateResponse(failure=failure_of(error))


def from_load(load: Load, *, instance: str) -> engine_pb2.WatchLoadResponse:
    """Writes a load report of the process that is called `instance`."""
    return engine_pb2.WatchLoadResponse(
        instance=instance,
        running_count=load.running,
        waiting_count=load.waiting,
        slot_count=load.slots,
        queue_limit=load.queue_limit,
        kv_cache_utilization=load.kv_cache_utilization,
        aborted_count=load.aborted,
        generated_token_count=load.generated_tokens,
        hopeless_count=load.hopeless,
        hopeless_finished_count=load.hopeless_finished,
        prefix_queried_token_count=load.prefix_queried_tokens,
        prefix_hit_token_count=load.prefix_hit_tokens,
    )


def whole_characters(text: str) -> str:
    """Returns text that can be sent: half a surrogate pair, which a tokenizer may make, becomes U+FFFD."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def _score(score: TokenScore) -> answer_pb2.TokenLogprob:
    def top(one: Alternative) -> answer_pb2.TopLogprob:
        return answer_pb2.TopLogprob(token=whole_characters(one.text), logprob=one.logprob, token_bytes=one.raw)

    return answer_pb2.TokenLogprob(
        token=whole_characters(score.chosen.text),
        logprob=score.chosen.logprob,
        token_bytes=score.chosen.raw,
        top=[top(one) for one in score.top],
    )


def _duration(seconds: float) -> Duration:
    duration = Duration()
    duration.FromNanoseconds(round(max(0.0, seconds) * 1e9))
    return duration
