"""How long an answer may be."""

from __future__ import annotations

from tiermesh.shared.errors import ContextTooLong


def answer_limit(prompt_tokens: int, wanted: int, *, context_tokens: int, answer_tokens: int) -> int:
    """Returns the most tokens of one choice: what was asked for, capped by the tier and by the context that is left.

    Args:
        prompt_tokens: Length of the prompt, chat template included.
        wanted: The caller's `max_tokens`.
        context_tokens: What the model can hold, prompt and answer together.
        answer_tokens: The tier's own limit.

    Raises:
        ContextTooLong: the prompt leaves no room for a single token.
    """
    left = context_tokens - prompt_tokens
    if left < 1:
        raise ContextTooLong(
            f"the prompt has {prompt_tokens} tokens, and this tier holds {context_tokens} for prompt and answer together; "
            f"shorten the messages by {1 - left} tokens or more, or use a tier with a longer context",
            field="messages",
        )
    return min(left, answer_tokens, wanted)
