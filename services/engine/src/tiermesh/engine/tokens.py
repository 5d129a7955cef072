"""Token counts and pieces for backends without a tokenizer."""

from __future__ import annotations

import regex

# A word with the space before it, a single character of a script written without spaces, or
# a run of anything else: about as coarse as a language model's tokens, in Chinese as in English.
_PIECE = regex.compile(
    r"""
    \s?[\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}]
  | \s?(?:(?![\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}])[\p{L}\p{M}]){1,12}
  | \s?\p{N}{1,3}
  | \s?[^\s\p{L}\p{M}\p{N}]
  | \s+
  | .
    """,
    regex.VERBOSE | regex.DOTALL,
)


def split_tokens(text: str) -> list[str]:
    """Cuts text into token-like pieces; joined, they are the text again."""
    return _PIECE.findall(text)


def count_tokens(text: str) -> int:
    """Returns about how many tokens a text has."""
    return sum(1 for _ in _PIECE.finditer(text))
