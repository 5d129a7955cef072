"""Follows which questions were answered, so that any replica finds them.

Apart from the log of changes: a replica that starts reads as many questions as there are, and must not be late meanwhile in
hearing what is to be forgotten.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace

from tiermesh.cache.ports import ChangeLog, Embedder
from tiermesh.cache.semantic.index import QuestionIndex
from tiermesh.cache.semantic.records import PoisonedRecord, Record, decode
from tiermesh.shared.clock import Clock
from tiermesh.shared.errors import Unavailable
from tiermesh.shared.telemetry import get_logger

_log = get_logger(__name__)
_WAIT_MS = 1_000
"""Longest wait for the next question: nothing depends on hearing of silence."""
_PAUSE_S = 0.2
_START = b"0"


class QuestionReader:
    """Reads the log of questions into the index.

    Args:
        log: What is read.
        index: Where questions are remembered.
        clock: Measures how long a start takes.
        embedder: Embeds anew what another model has embedded, before an upgrade or on replicas that have not had it yet.
            None: embeddings are taken as they are, for none is ever looked for.
    """

    def __init__(self, log: ChangeLog, index: QuestionIndex, clock: Clock, embedder: Embedder | None) -> None:
        self._log = log
        self._index = index
        self._clock = clock
        self._embedder = embedder
        self._position = _START
        self._began: float | None = None

    async def run(self) -> None:
        """Reads until cancelled; a log that does not answer is asked again."""
        while True:
            try:
                await self.step(wait_ms=_WAIT_MS)
            except Unavailable:
                await asyncio.sleep(_PAUSE_S)
            except Exception as error:
                _log.warning("the log of questions could not be applied", error=type(error).__name__)
                await asyncio.sleep(_PAUSE_S)

    async def step(self, *, wait_ms: int) -> int:
        """Reads and remembers once; returns how many were heard of.

        Raises:
            Unavailable: the log does not answer.
        """
        if self._began is None:
            self._began = self._clock.monotonic()
        page = await self._log.read_questions(self._position, wait_ms=0 if self._index.is_filling else wait_ms)
        if page.is_reset:
            self._index.clear()
            self._position = _START
            self._began = None
            return 0
        records: list[Record] = []
        for position, fields in page.questions:
            self._position = position
            try:
                record = decode(fields)
            except PoisonedRecord as error:
                _log.warning("an entry of the log is damaged and is left out", why=str(error))
                continue
            records.append(await self._comparable(record))
        await self._index.add_all(records)
        if page.is_last and self._index.is_filling:
            self._index.is_filling = False
            took_s = round(self._clock.monotonic() - self._began, 1)
            _log.info("questions that were answered before are known", count=len(self._index), took_s=took_s)
        return len(page.questions)

    async def _comparable(self, record: Record) -> Record:
        """Returns a record with an embedding of this replica's own model, where it has one."""
        embedder = self._embedder
        if embedder is None or not record.vector or record.embedder == embedder.name:
            return record
        # One after another, on the embedder's thread: whoever asks waits for one of them at most.
        vector = await embedder.embed(record.text)
        filed = replace(record.filed, vector=vector) if record.filed is not None else None
        return replace(record, vector=vector, filed=filed, embedder=embedder.name if vector else "")
