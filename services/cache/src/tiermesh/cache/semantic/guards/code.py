"""Code must be the same to the letter."""

from __future__ import annotations

import re

from tiermesh.cache.semantic.question import Question

_QUOTED = re.compile(r"```.*?```|`[^`\n]+`", re.DOTALL)
_LOOSE = re.compile(
    r"""[\w.]+\([^()\s]*\)          # a call
      | [\w\])]\s*(?:==|!=|<=|>=|\+=|-=|=>|->|::|&&|\|\||:=|=)\s*[\w\["'(]   # operators between values
      | (?:^|\s)--?[A-Za-z][\w-]*(?=\s|$|\?)    # options of a command
      | [{};]\s*$ | \$\{?\w+ | </?\w+[^>]*>
      | \b(?:def|class|import|SELECT|INSERT|UPDATE|DELETE\s+FROM)\s+[\w*]+.*[:(;*]""",
    re.VERBOSE | re.MULTILINE,
)
_SPACE = re.compile(r"\s+")


def refuse(asked: Question, known: Question) -> str | None:
    """Refuses where one has code that the other lacks, or other code."""
    if code_in(asked.text) != code_in(known.text):
        return "their code differs"
    return None


def code_in(text: str) -> tuple[str, ...]:
    """Returns the pieces of code in a text; the whole text where code stands in it unmarked."""
    quoted = tuple(_SPACE.sub(" ", piece.strip("` \n")) for piece in _QUOTED.findall(text))
    if _LOOSE.search(_QUOTED.sub(" ", text)):
        return (*quoted, _SPACE.sub(" ", text))
    return quoted
