"""Fixed answers: greetings, questions of the rules file, and labels that plain words decide.

No model: an answer is either exactly right or not given at all. The rules file is followed while
the backend runs; an answer that has begun is not touched by a change.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Literal

from tiermesh.engine.ports import Finish, Lane, Piece, PrefixCache, Prompt, Sampling, Turn
from tiermesh.engine.tokens import count_tokens, split_tokens
from tiermesh.shared.config import ConfigError
from tiermesh.shared.errors import ModelLoadFailed, NotApplicable
from tiermesh.shared.rules import CurrentRules, FixedAnswer, follow_rules_file, load_rules, match_fixed

_TOKENS_PER_PIECE = 4
_WARM_UP = (Turn("user", "hello"),)


class RulesBackend:
    """Gives the fixed answers of a rules file.

    Args:
        rules: The rules in force; whoever owns them keeps them fresh.
    """

    kind: Literal["rules"] = "rules"
    simulated = False
    kv_cache_utilization = 0.0
    prefix_cache = PrefixCache()

    def __init__(self, rules: CurrentRules) -> None:
        self._rules = rules

    @classmethod
    @asynccontextmanager
    async def open(cls, rules_path: Path) -> AsyncIterator[RulesBackend]:
        """Reads the rules file, and follows it until the block is left.

        Raises:
            ModelLoadFailed: the file cannot be used; the message names file, key and allowed values.
        """
        try:
            rules = CurrentRules(load_rules(rules_path))
        except ConfigError as error:
            raise ModelLoadFailed(f"the rules cannot be used: {error}") from error
        following = asyncio.create_task(follow_rules_file(rules, rules_path))
        try:
            yield cls(rules)
        finally:
            following.cancel()
            await asyncio.wait({following})

    async def warm_up(self) -> None:
        """Looks one greeting up, so that the patterns' first use is over."""
        match_fixed(self._rules.book, _WARM_UP)

    async def prepare(self, turns: Sequence[Turn]) -> Prompt:
        """Finds the fixed answer of a conversation.

        Raises:
            NotApplicable: it has none.
        """
        answer = match_fixed(self._rules.book, turns)
        if answer is None:
            raise NotApplicable("no fixed answer fits this prompt; use a tier with a language model")
        tokens = sum(count_tokens(turn.content) for turn in turns)
        return Prompt(tuple(turns), tokens, rule=answer.rule, found=answer)

    async def generate(
        self,
        prompt: Prompt,
        sampling: Sampling,
        *,
        request_id: str,  # noqa: ARG002 -- the port's signature
        lane: Lane,  # noqa: ARG002 -- the port's signature
    ) -> AsyncGenerator[Piece]:
        """Writes the answer in pieces of a few words, the same for every choice; there are no log-probabilities."""
        assert isinstance(prompt.found, FixedAnswer)
        tokens, finish = _limited(prompt.found.text, sampling)
        for start in range(0, max(1, len(tokens)), _TOKENS_PER_PIECE):
            some = tokens[start : start + _TOKENS_PER_PIECE]
            last = start + _TOKENS_PER_PIECE >= len(tokens)
            for choice in range(sampling.choices):
                yield Piece(choice, "".join(some), len(some), finish=finish if last else None)

    async def watch(self) -> None:
        """Waits for ever: there is no worker that could die."""
        await asyncio.Event().wait()

    async def close(self) -> None:
        """Nothing is held."""


def _limited(text: str, sampling: Sampling) -> tuple[list[str], Finish]:
    """Cuts an answer at the first stop text, or at the token limit, whichever comes first."""
    stops = [at for at in (text.find(stop) for stop in sampling.stop if stop) if at >= 0]
    if stops:
        text = text[: min(stops)]
    tokens = split_tokens(text)
    if len(tokens) > sampling.max_tokens:
        return tokens[: sampling.max_tokens], Finish.LENGTH
    return tokens, Finish.STOP
