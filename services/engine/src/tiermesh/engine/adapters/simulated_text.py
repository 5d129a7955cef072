"""What the simulated backend says: the same text for the same request, and never mistaken for a model's."""

from __future__ import annotations

import hashlib
import random
import zlib
from dataclasses import dataclass

import regex
from tiermesh.engine.ports import Alternative, Finish, Piece, Prompt, Sampling, TokenScore
from tiermesh.engine.tokens import split_tokens

_HAN = regex.compile(r"\p{Han}")
_ENGLISH = (
    "A queueing model made this text up; no language model has read the prompt.",
    "It stands in for an answer so that routing, streaming and deadlines can be tried.",
    "Its length and its pace are those of a small model on a slow machine.",
    "The same request always gets the same words.",
    "Nothing here is advice, and nothing here is true of the question.",
    "Put a real model into the tier's configuration to get a real answer.",
    "Tokens arrive one by one, as they would from an accelerator.",
    "More requests at once make each of them slower.",
)
_CHINESE = (
    "这段文字由排队模型生成，没有语言模型读过您的问题。",
    "它代替真正的回答，用来试验路由、流式输出和截止时间。",
    "它的长度和速度与慢机器上的小模型相近。",
    "同样的请求总是得到同样的文字。",
    "这里没有建议，也与问题的内容无关。",
    "在配置中填入真实的模型，就能得到真实的回答。",
    "词元逐个到达，就像来自加速器一样。",
    "同时到来的请求越多，每个请求就越慢。",
)


@dataclass(frozen=True, slots=True)
class Script:
    """One choice, written in advance."""

    tokens: tuple[str, ...]
    scores: tuple[TokenScore, ...]
    finish: Finish

    def piece(self, choice: int, start: int, stop: int, *, with_scores: bool) -> Piece | None:
        """Returns the tokens from `start` to before `stop`, or None where there are none."""
        tokens = self.tokens[start:stop]
        if not tokens:
            return None
        return Piece(
            choice,
            "".join(tokens),
            len(tokens),
            token_ids=tuple(zlib.crc32(token.encode()) & 0x7FFFFFFF for token in tokens),
            scores=self.scores[start:stop] if with_scores else (),
            finish=self.finish if stop >= len(self.tokens) else None,
        )


def write_script(prompt: Prompt, sampling: Sampling, choice: int, *, model: str) -> Script:
    """Writes one choice.

    Greedy choices (temperature 0) are all alike; others differ by seed and number. A prompt with
    Chinese in its last message is answered in Chinese.
    """
    question = prompt.turns[-1].content
    chinese = bool(_HAN.search(question))
    variant = "greedy" if sampling.temperature == 0 else f"{sampling.seed}/{choice}"
    told = "\x1e".join(f"{turn.role}\x1f{turn.content}" for turn in prompt.turns)
    digest = hashlib.sha256(f"{told}\x1d{variant}".encode()).digest()
    dice = random.Random(digest)  # noqa: S311 -- repeatable on purpose
    bank = _CHINESE if chinese else _ENGLISH
    sentences = dice.sample(bank, dice.randint(2, len(bank)))
    head = f"【模拟 {model}】" if chinese else f"[simulated {model}] "
    text = _before_stop(head + ("" if chinese else " ").join(sentences), sampling.stop)
    tokens = split_tokens(text)
    cut = len(tokens) > sampling.max_tokens
    tokens = tokens[: sampling.max_tokens]
    finish = Finish.LENGTH if cut else Finish.STOP
    scores = _scores(tokens, sampling.top_logprobs, dice) if sampling.logprobs else ()
    return Script(tuple(tokens), scores, finish)


def _before_stop(text: str, stops: tuple[str, ...]) -> str:
    places = [place for place in (text.find(stop) for stop in stops) if place >= 0]
    return text[: min(places)] if places else text


def _scores(tokens: list[str], top: int, dice: random.Random) -> tuple[TokenScore, ...]:
    # Some prompts get a sure answer and some a doubtful one, so that thresholds have something to tell apart.
    sureness = dice.uniform(0.5, 0.95)
    scores = []
    for token in tokens:
        chosen = Alternative(token, round(-(1 - sureness) * dice.uniform(0.2, 1.8), 4), token.encode())
        others = [
            Alternative(other, round(chosen.logprob - 1.5 * (rank + 1), 4), other.encode())
            for rank, other in enumerate(
                dice.choices(("…", " the", "的", " a", "是", " of", "了", " and"), k=max(0, top - 1))
            )
        ]
        scores.append(TokenScore(chosen, (chosen, *others) if top else ()))
    return tuple(scores)
