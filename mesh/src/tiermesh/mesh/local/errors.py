"""What a person is told when the local mesh cannot do as asked."""

from __future__ import annotations


class LocalError(Exception):
    """A failure to start or stop the mesh, with what to do about it; printed as it is."""

    def __init__(self, what: str, advice: str) -> None:
        super().__init__(what, advice)
        self.what = what
        self.advice = advice

    def __str__(self) -> str:
        return f"{self.what}\nWhat to do: {self.advice}"
