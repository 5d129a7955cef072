"""What in a prompt changes with every request."""

from __future__ import annotations

import re
from typing import Annotated, Self

from pydantic import Field, StringConstraints, model_validator
from tiermesh.shared.config._section import Section

Label = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]


class DynamicField(Section):
    """A part of messages that changes with every request, such as a session number or the time."""

    name: Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]{0,30}$")]
    """Name, for overrides."""
    labels: tuple[Label, ...] = ()
    """Lines that begin with one of these and a colon or equals sign, in any case; such as `[session id, 会话编号]`."""
    pattern: str | None = None
    """Or a regular expression whose matches are meant; `^` and `$` are the ends of lines."""
    answer_depends: bool = True
    """Whether the answer may depend on it. Only what it does not depend on is left out of the cache's key."""

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if bool(self.labels) == (self.pattern is not None):
            raise ValueError(f"dynamic field {self.name!r} needs exactly one of labels and pattern")
        if self.pattern is not None:
            try:
                empty = re.compile(self.pattern, re.MULTILINE).match("")
            except re.error as error:
                raise ValueError(f"dynamic field {self.name!r}: pattern is no regular expression: {error}") from None
            if empty:
                raise ValueError(f"dynamic field {self.name!r}: pattern must not match nothing")
        return self
