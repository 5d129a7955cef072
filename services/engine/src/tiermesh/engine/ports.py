"""What the engine needs of the thing that answers: one role, `Backend`, and the values it speaks in."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Literal, Protocol


class Lane(Enum):
    """Who is served first where work queues."""

    INTERACTIVE = auto()
    BATCH = auto()


class Finish(Enum):
    """Why a choice ended."""

    STOP = auto()
    LENGTH = auto()


@dataclass(frozen=True, slots=True)
class ToolUse:
    """A call of a tool that the model made in an earlier turn."""

    id: str
    name: str
    arguments_json: str


@dataclass(frozen=True, slots=True)
class Turn:
    """One message of a conversation."""

    role: Literal["system", "user", "assistant", "tool"]
    content: str
    name: str = ""
    tool_calls: tuple[ToolUse, ...] = ()
    tool_call_id: str = ""


@dataclass(frozen=True, slots=True)
class Prompt:
    """A conversation that a backend has read: it can answer it, and knows how long it is."""

    turns: tuple[Turn, ...]
    token_count: int
    """Tokens, chat template included; an estimate for backends without a tokenizer."""
    token_ids: tuple[int, ...] = ()
    """Empty for backends without a tokenizer."""
    rule: str = ""
    """Name of the rule that answers, for a rules backend."""
    found: object = None
    """What the backend wants to have back in `generate`; of no meaning to others."""


@dataclass(frozen=True, slots=True)
class Sampling:
    """How tokens are chosen; None means the model's default."""

    max_tokens: int
    """Most tokens of one choice; backends get it capped by the tier and by the context that is left."""
    temperature: float | None = None
    top_p: float | None = None
    stop: tuple[str, ...] = ()
    seed: int | None = None
    choices: int = 1
    logprobs: bool = False
    top_logprobs: int = 0
    presence_penalty: float | None = None
    frequency_penalty: float | None = None


@dataclass(frozen=True, slots=True)
class Alternative:
    """One token and its log-probability."""

    text: str
    logprob: float
    """Natural logarithm, before temperature."""
    raw: bytes
    """The token's UTF-8 bytes, which need not be whole characters."""


@dataclass(frozen=True, slots=True)
class TokenScore:
    """The token that was chosen, and the most likely ones, best first."""

    chosen: Alternative
    top: tuple[Alternative, ...] = ()


@dataclass(frozen=True, slots=True)
class Piece:
    """The next piece of one choice."""

    choice: int
    text: str
    token_count: int
    """Tokens behind `text`; `len(token_ids)` where there are any."""
    token_ids: tuple[int, ...] = ()
    scores: tuple[TokenScore, ...] = ()
    """One a token, where log-probabilities were asked for and the backend has any."""
    finish: Finish | None = None
    """Set on the last piece of each choice, and on no other."""
    cached_prompt_tokens: int = 0
    """Prompt tokens whose KV cache was found."""
    detokenize_s: float = 0.0
    """Seconds spent on turning tokens into `text` and `scores`, where the backend tells that apart from decoding."""


@dataclass(frozen=True, slots=True)
class PrefixCache:
    """What a backend's own prefix cache has done since start."""

    queried: int = 0
    """Prompt tokens that were looked for."""
    hits: int = 0
    """Those of them whose KV cache was found."""


class Backend(Protocol):
    """Answers prompts. One per process; constructed by an `open` that only `app.py` calls."""

    @property
    def kind(self) -> str:
        """`vllm`, `rules` or `simulated`."""
        ...

    @property
    def simulated(self) -> bool:
        """Whether the text is made up by a queueing model instead of a language model."""
        ...

    @property
    def kv_cache_utilization(self) -> float:
        """Share of the KV cache in use, 0 to 1; 0 where there is none."""
        ...

    @property
    def prefix_cache(self) -> PrefixCache:
        """What its prefix cache has done, warm-up included; zeros where it has none."""
        ...

    async def warm_up(self) -> None:
        """Answers one prompt of its own, so that the first caller does not pay for lazy set-up."""
        ...

    async def prepare(self, turns: Sequence[Turn]) -> Prompt:
        """Reads a conversation, before it is queued.

        Raises:
            NotApplicable: a rules backend has no answer for it.
            InvalidRequest: the model's chat template refuses it.
        """
        ...

    def generate(self, prompt: Prompt, sampling: Sampling, *, request_id: str, lane: Lane) -> AsyncGenerator[Piece]:
        """Answers a prompt: pieces of all choices in any order, each choice closed by a `finish`.

        Stop texts are not part of the pieces. Closing the generator, or cancelling its task, frees
        what it holds within 50 ms.

        Raises:
            DeviceFailed: the worker behind the backend has died.
            TiermeshError: another failure a caller should know about.
        """
        ...

    async def watch(self) -> None:
        """Returns only by raising, when the backend has failed for good and the process must end.

        Raises:
            DeviceFailed: the worker behind the backend has died.
        """
        ...

    async def close(self) -> None:
        """Frees everything. Called once."""
        ...
