"""What the log of outcomes counts: opinions by what they say, and how the distribution of requests has moved."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from opentelemetry.metrics import CallbackOptions, Meter, NoOpMeterProvider, Observation
from tiermesh.api.outcome.v1 import record_pb2
from tiermesh.outcomes.drift.measure import LEVELS, Measured

_PREFIX = "FEEDBACK_SOURCE_"


class OutcomeMetrics:
    """Instruments of one log.

    Args:
        meter: Makes them; without one nothing is counted.
        drift: Tells, when metrics are exported, how each feature has moved.
    """

    def __init__(self, meter: Meter | None = None, *, drift: Callable[[], Sequence[Measured]] = lambda: ()) -> None:
        made = meter or NoOpMeterProvider().get_meter("tiermesh")
        self._opinions = made.create_counter(
            "tiermesh.feedback",
            description="Opinions filed, by `source` and `verdict`: `right`, `wrong` or, between the two, `score`.",
        )

        def gauge(name: str, read: Callable[[Measured], float], description: str) -> None:
            def callback(_: CallbackOptions) -> Iterable[Observation]:
                return [Observation(read(found), {"feature": found.feature}) for found in drift()]

            made.create_observable_gauge(name, [callback], description=description)

        gauge(
            "tiermesh.drift.psi",
            lambda found: found.psi,
            "Population stability index of a `feature` of the newest requests against the reference.",
        )
        gauge(
            "tiermesh.drift.chance",
            lambda found: found.chance,
            "Index that requests of the same distribution exceed once in a hundred windows, by `feature`.",
        )
        gauge(
            "tiermesh.drift.level",
            lambda found: LEVELS[found.state],
            "By `feature`: 0 as the reference or too few requests to tell, 1 worth watching, 2 drifted.",
        )

    def filed(self, feedback: record_pb2.Feedback) -> None:
        """Counts an opinion."""
        source = record_pb2.FeedbackSource.Name(feedback.source or record_pb2.FEEDBACK_SOURCE_USER)
        verdict = {0.0: "wrong", 1.0: "right"}.get(feedback.score, "score")
        self._opinions.add(1, {"source": source.removeprefix(_PREFIX).lower(), "verdict": verdict})
