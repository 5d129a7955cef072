"""A language model on vLLM: its AsyncLLM runs in this process, its workers in others.

Only this module and `vllm_stats` import vLLM, which takes seconds and reads the environment:
`vllm_start` sees to both before it imports this one.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from typing import Any, Literal

from tiermesh.engine.adapters.token_bytes import TokenBytes
from tiermesh.engine.adapters.vllm_stats import VllmStats, keep_stats
from tiermesh.engine.ports import Alternative, Finish, Lane, Piece, PrefixCache, Prompt, Sampling, TokenScore, Turn
from tiermesh.shared.clock import SYSTEM_CLOCK, Clock
from tiermesh.shared.config import TierConfig
from tiermesh.shared.errors import (
    ContextTooLong,
    DeviceFailed,
    InternalError,
    InvalidRequest,
    ModelLoadFailed,
)
from tiermesh.shared.telemetry import get_logger
from vllm import AsyncEngineArgs, SamplingParams
from vllm.exceptions import VLLMClientError
from vllm.inputs import tokens_input
from vllm.platforms import current_platform
from vllm.sampling_params import RequestOutputKind
from vllm.v1.engine.async_llm import AsyncLLM
from vllm.v1.engine.exceptions import EngineDeadError, EngineGenerateError

_log = get_logger(__name__)

_PRIORITY = {Lane.INTERACTIVE: 0, Lane.BATCH: 1}
_FINISHES = {"stop": Finish.STOP, "repetition": Finish.STOP, "length": Finish.LENGTH}
_HEALTH_INTERVAL_S = 0.25
_SHUTDOWN_S = 1.0
_INLINE_CHARACTERS = 4_000
"""Longer conversations are tokenized on another thread, so that streams in flight do not stutter."""
_LOWEST_LOGPROB = -9999.0
"""Stands for minus infinity, which JSON cannot say."""
_WARM_UP = (
    Turn("user", "Say hello in one short sentence."),
    Turn("user", "用一句话问好。"),
)


class VllmBackend:
    """Answers with a language model. Made by `load`.

    Args:
        llm: vLLM's `AsyncLLM`.
        stats: What vLLM last said of itself.
        tier: Limits.
        clock: Times detokenization.
    """

    kind: Literal["vllm"] = "vllm"
    simulated = False

    def __init__(self, llm: AsyncLLM, stats: VllmStats, tier: TierConfig, *, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        self._llm = llm
        self._stats = stats
        self._tier = tier
        self._tokenizer = llm.get_tokenizer()
        self._defaults: dict[str, Any] = llm.model_config.get_diff_sampling_param()
        vocabulary = self._tokenizer.get_vocab()
        self._bytes = TokenBytes(vocabulary, self._tokenizer.all_special_tokens)
        self._longest_token = max(map(len, vocabulary))
        # One thread: a tokenizer must not be used by two at once.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="tokenize")

    @property
    def kv_cache_utilization(self) -> float:
        """Share of the KV cache in use."""
        return self._stats.kv_cache_utilization

    @property
    def prefix_cache(self) -> PrefixCache:
        """What vLLM's prefix cache has done."""
        return PrefixCache(self._stats.prefix_queried_tokens, self._stats.prefix_hit_tokens)

    async def warm_up(self) -> None:
        """Answers one prompt in each script, greedy and sampled, so that kernels and tables are ready."""
        for turn, temperature in zip(_WARM_UP, (0.0, 1.0), strict=True):
            sampling = Sampling(max_tokens=8, temperature=temperature, logprobs=True, top_logprobs=1)
            prompt = await self.prepare([turn])
            async for _ in self.generate(prompt, sampling, request_id="warm-up", lane=Lane.INTERACTIVE):
                pass

    async def prepare(self, turns: Sequence[Turn]) -> Prompt:
        """Applies the model's chat template and tokenizes.

        Raises:
            ContextTooLong: the conversation is too long whatever its tokens are.
            InvalidRequest: the template refuses this sequence of roles.
        """
        size = sum(len(turn.content) for turn in turns)
        at_least = size // self._longest_token
        if at_least >= self._tier.context_tokens:
            # Tokenizing megabytes only to refuse them would hold up everyone else.
            raise ContextTooLong(
                f"the prompt has more than {at_least} tokens, and this tier holds {self._tier.context_tokens} for "
                "prompt and answer together; shorten the messages, or use a tier with a longer context",
                field="messages",
            )
        if size <= _INLINE_CHARACTERS:
            ids = self._tokenize(turns)
        else:
            ids = await asyncio.get_running_loop().run_in_executor(self._thread, self._tokenize, turns)
        return Prompt(tuple(turns), len(ids), ids)

    def _tokenize(self, turns: Sequence[Turn]) -> tuple[int, ...]:
        messages = [_message(turn) for turn in turns]
        try:
            ids = self._tokenizer.apply_chat_template(
                messages, add_generation_prompt=True, tokenize=True, return_dict=False
            )
        except Exception as error:  # templates are programs of the model's makers and raise what they like
            if type(error).__module__.startswith("jinja2"):
                raise InvalidRequest(
                    f"the chat template of {self._tier.public_model} refuses these messages: {error}", field="messages"
                ) from error
            raise
        return tuple(ids)

    async def generate(
        self, prompt: Prompt, sampling: Sampling, *, request_id: str, lane: Lane
    ) -> AsyncGenerator[Piece]:
        """Streams what the model says.

        Raises:
            DeviceFailed: vLLM's worker has died.
            InvalidRequest: vLLM does not take the request.
            InternalError: vLLM failed at this request.
        """
        outputs = self._llm.generate(
            tokens_input(list(prompt.token_ids)),
            self._params(sampling),
            request_id,
            priority=_PRIORITY[lane],
        )
        try:
            async with aclosing(outputs):
                async for output in outputs:
                    for choice in output.outputs:
                        yield self._piece(choice, output.num_cached_tokens or 0, sampling)
        except EngineDeadError as error:
            raise DeviceFailed(f"the worker of tier {self._tier.name} died; the engine restarts by itself") from error
        except VLLMClientError as error:
            raise InvalidRequest(f"the model of tier {self._tier.name} does not take this request: {error}") from error
        except EngineGenerateError as error:
            _log.error("vLLM failed at a request", exc_info=error)
            raise InternalError(f"the model of tier {self._tier.name} failed at this request") from error

    def _params(self, sampling: Sampling) -> Any:
        chosen = {
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "presence_penalty": sampling.presence_penalty,
            "frequency_penalty": sampling.frequency_penalty,
        }
        defaults = {key: value for key, value in self._defaults.items() if key != "max_tokens"}
        return SamplingParams(
            **defaults | {key: value for key, value in chosen.items() if value is not None},
            n=sampling.choices,
            max_tokens=sampling.max_tokens,
            stop=list(sampling.stop),
            seed=sampling.seed,
            logprobs=sampling.top_logprobs if sampling.logprobs else None,
            output_kind=RequestOutputKind.DELTA,
        )

    def _piece(self, choice: Any, cached: int, sampling: Sampling) -> Piece:
        began = self._clock.monotonic()
        ids = tuple(choice.token_ids)
        scores: tuple[TokenScore, ...] = ()
        if sampling.logprobs and choice.logprobs:
            scores = tuple(
                self._score(token, entries, sampling.top_logprobs)
                for token, entries in zip(ids, choice.logprobs, strict=True)
            )
        finish = None
        if choice.finish_reason is not None:
            if choice.finish_reason not in _FINISHES:
                raise InternalError(f"the model of tier {self._tier.name} ended with {choice.finish_reason!r}")
            finish = _FINISHES[choice.finish_reason]
        # vLLM makes `text` itself, within its own loop; that is part of decoding.
        took = self._clock.monotonic() - began
        return Piece(choice.index, choice.text, len(ids), ids, scores, finish, cached, took)

    def _score(self, token: int, entries: Mapping[int, Any], top: int) -> TokenScore:
        # vLLM gives the token that was chosen besides the most likely ones, each with its rank.
        ranked = sorted((entry.rank, each) for each, entry in entries.items() if entry.rank <= top)
        return TokenScore(
            self._alternative(token, entries[token]),
            tuple(self._alternative(each, entries[each]) for _, each in ranked),
        )

    def _alternative(self, token: int, entry: Any) -> Alternative:
        raw = self._bytes.of(self._tokenizer.convert_ids_to_tokens(token) or "")
        return Alternative(raw.decode("utf-8", "replace"), max(_LOWEST_LOGPROB, entry.logprob), raw)

    async def watch(self) -> None:
        """Watches vLLM's worker.

        Raises:
            DeviceFailed: it has died.
        """
        while not self._llm.errored:  # noqa: ASYNC110 -- vLLM has a flag here, not an event
            await asyncio.sleep(_HEALTH_INTERVAL_S)
        raise DeviceFailed(f"the vLLM worker of tier {self._tier.name} died")

    async def close(self) -> None:
        """Ends vLLM's worker processes."""
        self._thread.shutdown(wait=False, cancel_futures=True)
        await asyncio.to_thread(self._llm.shutdown, timeout=_SHUTDOWN_S)


def _message(turn: Turn) -> dict[str, Any]:
    message: dict[str, Any] = {"role": turn.role, "content": turn.content}
    if turn.name:
        message["name"] = turn.name
    if turn.tool_calls:
        message["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments_json}}
            for call in turn.tool_calls
        ]
    if turn.tool_call_id:
        message["tool_call_id"] = turn.tool_call_id
    return message


def load(tier: TierConfig, model: str) -> VllmBackend:
    """Loads a model; blocks until it is ready.

    Args:
        tier: Limits, precision and placement.
        model: Folder or hub id.

    Raises:
        ModelLoadFailed: vLLM could not load it.
    """
    arguments: dict[str, Any] = {
        "model": model,
        "served_model_name": tier.public_model,
        "max_model_len": tier.context_tokens,
        "max_num_seqs": tier.slots,
        "dtype": tier.dtype,
        "tensor_parallel_size": tier.tensor_parallel,
        "scheduling_policy": "priority",
        "enable_prefix_caching": True,
        "disable_log_stats": True,
        # Raw values, before temperature and penalties: what a confidence is computed from.
        "logprobs_mode": "raw_logprobs",
    }
    if current_platform.is_cpu():
        arguments["enforce_eager"] = True
    else:
        arguments["gpu_memory_utilization"] = tier.gpu_memory_utilization
    stats = VllmStats()
    try:
        llm = AsyncLLM.from_engine_args(AsyncEngineArgs(**arguments), stat_loggers=[keep_stats(stats)])
    except Exception as error:
        raise ModelLoadFailed(f"vLLM could not load {model} for tier {tier.name}: {error}") from error
    return VllmBackend(llm, stats, tier)
