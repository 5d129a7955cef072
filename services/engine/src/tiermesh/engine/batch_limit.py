"""How many prompts may run at once, from how fast tokens come and how many prompts wait.

Additive increase, multiplicative decrease: a batch that makes every answer slower than the limit
allows is cut by a quarter; while prompts wait and tokens come fast enough, it grows by one, or by
more where more wait than run.
"""

from __future__ import annotations

_PERIOD_S = 1.0
_ENOUGH = 4
"""Answers of a period that say something about it."""
_CUT = 0.75
_FASTEST_GROWTH = 4


class BatchLimit:
    """The limit, adjusted once a period.

    Args:
        most: Never more than this.
        token_s_limit: Longest time between two tokens that is aimed at, in seconds; None never limits below `most`.
    """

    def __init__(self, *, most: int, token_s_limit: float | None) -> None:
        self._most = most
        self._token_s_limit = token_s_limit
        self.limit = most
        """Prompts that may run at once."""
        self._began: float | None = None
        self._times: list[float] = []
        self._waiting: list[int] = []

    def queued(self, waiting: int) -> None:
        """Notes how many prompts wait."""
        if self._token_s_limit is not None:
            self._waiting.append(waiting)

    def answered(self, token_s: float, now: float) -> bool:
        """Notes the mean time between two tokens of a complete answer; tells whether the limit has changed."""
        if self._token_s_limit is None:
            return False
        self._began = now if self._began is None else self._began
        self._times.append(token_s)
        if now - self._began < _PERIOD_S or len(self._times) < _ENOUGH:
            return False
        before = self.limit
        self.limit = self._adjusted(self._token_s_limit)
        self._began, self._times, self._waiting = now, [], []
        return self.limit != before

    def _adjusted(self, token_s_limit: float) -> int:
        if sum(self._times) / len(self._times) > token_s_limit:
            return max(1, int(self.limit * _CUT))
        waiting = sum(self._waiting) / len(self._waiting) if self._waiting else 0.0
        if waiting < 1:
            return self.limit
        return min(self._most, self.limit + min(_FASTEST_GROWTH, max(1, round(waiting / self.limit))))
