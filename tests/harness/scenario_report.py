"""What came of every request of one scenario.

| kind | what it means |
|---|---|
| right | the whole answer that the mesh gives to this prompt, ended by its terminal event |
| refused | the caller was told, and knows that there is no answer: a typed error of the SDK, an HTTP error, an `error` event, or, over plain HTTP, a body that breaks off (every HTTP client raises that) |
| wrong | an answer that ended well and has another text |
| lost | the caller was not told: silence past the deadline, a stream that ended in good order but without its terminal event, or an INTERNAL error, which says nothing |
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Literal

Kind = Literal["right", "refused", "wrong", "lost"]
How = Literal["answered", "told", "cut", "unreached", "silent"]


@dataclass(frozen=True)
class Ending:
    """How one request ended, as its caller saw it."""

    kind: Kind
    how: How = "told"
    """`cut`: the connection broke midway; `unreached`: nobody was listening; `silent`: the caller's own limit ended it."""
    detail: str = ""


@dataclass(frozen=True)
class Outcome:
    """What came of one request."""

    ending: Ending
    began: float
    took_s: float
    overshoot_ms: float
    """How long after its deadline it ended; negative before it."""

    @property
    def kind(self) -> Kind:
        """What it counts as."""
        return self.ending.kind


@dataclass
class Report:
    """What came of all requests of one scenario."""

    name: str
    cluster: str
    """`processes` or `in-process`."""
    door_hit: bool = False
    """Whether the fault was done to Envoy's ingress itself, behind which nobody can tell a caller anything."""
    outcomes: list[Outcome] = field(default_factory=list)
    recovery_s: float | None = None
    """From the kill, or the end of the fault, until the process served again; None if it did not."""
    client_lag_ms: float = 0.0
    """How late this machine woke the callers' own timers at worst: what of the overshoot may be the machine's."""
    stalled_runs: int = 0
    """Earlier runs that were put aside because the machine had stalled the callers."""
    slowed: float | None = None
    """Times by which the process itself got slower; None for other faults."""

    def count(self, kind: Kind) -> int:
        """Number of requests that ended this way."""
        return sum(outcome.kind == kind for outcome in self.outcomes)

    def count_how(self, how: How) -> int:
        """Number of requests that did not end well and whose caller learnt it this way."""
        return sum(outcome.ending.how == how for outcome in self.outcomes)

    @property
    def sent(self) -> int:
        """Number of requests."""
        return len(self.outcomes)

    @property
    def overshoot_ms(self) -> float:
        """How long after its deadline the last request ended.

        Those of callers who met a silent door are left out: the harness waits a while longer for them on purpose.
        """
        counted = (o.overshoot_ms for o in self.outcomes if not (self.door_hit and o.ending.how != "told"))
        return max([0.0, *counted])

    @property
    def reasons(self) -> dict[str, int]:
        """Reasons of refusals and their counts."""
        return dict(Counter(o.ending.detail.split(":")[0] for o in self.outcomes if o.kind == "refused"))

    def failures(self) -> list[str]:
        """What was said about requests that ended in a way that is not allowed."""
        return [f"{o.kind} ({o.ending.how}) {o.ending.detail}" for o in self.outcomes if o.kind in ("wrong", "lost")]

    def right_since(self, moment: float) -> int:
        """Length of the run of right answers with which the outcomes end, of requests sent after `moment`."""
        run = 0
        for outcome in reversed(self.outcomes):
            if outcome.began < moment:
                continue
            if outcome.kind != "right":
                break
            run += 1
        return run

    def row(self) -> dict[str, object]:
        """The scenario as one row of figures."""
        return {
            "name": self.name,
            "cluster": self.cluster,
            "sent": self.sent,
            "right": self.count("right"),
            "refused": self.count("refused"),
            "wrong": self.count("wrong"),
            "lost": self.count("lost"),
            "worst_overshoot_ms": round(self.overshoot_ms, 1),
        }

    def details(self) -> dict[str, object]:
        """What else is known of the scenario."""
        return {
            "cut": self.count_how("cut"),
            "unreached": self.count_how("unreached"),
            "silent": self.count_how("silent"),
            "client_lag_ms": round(self.client_lag_ms, 1),
            "recovery_s": None if self.recovery_s is None else round(self.recovery_s, 2),
            "slowed": None if self.slowed is None else round(self.slowed, 1),
            "stalled_runs": self.stalled_runs,
            "reasons": self.reasons,
        }
