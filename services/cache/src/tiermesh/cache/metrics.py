"""What the cache counts: lookups by what they found, guards that refused, stores, and whether the store is well."""

from __future__ import annotations

from collections.abc import Callable

from opentelemetry.metrics import Meter, NoOpMeterProvider, Observation
from tiermesh.cache.layered import Looked
from tiermesh.shared.telemetry import SECONDS


class CacheMetrics:
    """Instruments of one cache.

    Args:
        meter: Makes them; without one nothing is counted.
        is_down: Tells, when metrics are exported, whether the answer store is left alone because it does not answer.
    """

    def __init__(self, meter: Meter | None = None, *, is_down: Callable[[], bool] = lambda: False) -> None:
        made = meter or NoOpMeterProvider().get_meter("tiermesh")
        self._counts = meter is not None
        self._lookups = made.create_histogram(
            "tiermesh.cache.lookup.duration",
            unit="s",
            description="Lookups, by `result` and, of hits, `layer`: `local` (this replica's memory) or `store`.",
            explicit_bucket_boundaries_advisory=(0.0001, 0.00025, 0.0005, *SECONDS[:9]),
        )
        self._refused = made.create_counter(
            "tiermesh.cache.semantic.refused",
            description="Nearest questions whose answer was not given, by `guard`; `threshold` means not near enough.",
        )
        self._stores = made.create_counter(
            "tiermesh.cache.stores", description="Answers offered, by whether they were `stored`."
        )
        made.create_observable_gauge(
            "tiermesh.cache.store.down",
            [lambda _: [Observation(int(is_down()))]],
            description="1 while the answer store does not answer and every lookup misses.",
        )

    def looked_up(self, looked: Looked, seconds: float) -> None:
        """Counts a lookup that took `seconds`."""
        if not self._counts:
            return
        found = looked.found
        layer = "" if found.answer is None else ("local" if found.is_local else "store")
        self._lookups.record(seconds, {"result": found.result.value, "layer": layer})
        if looked.match.candidate is not None and looked.match.refused_by:
            self._refused.add(1, {"guard": looked.match.refused_by})

    def stored(self, stored: bool) -> None:
        """Counts an answer that was offered."""
        self._stores.add(1, {"stored": stored})
