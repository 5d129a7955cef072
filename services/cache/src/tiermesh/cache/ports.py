"""What the cache needs of the world."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Protocol

from tiermesh.cache.run_tokens import Claimant, ClaimText


@dataclass(frozen=True, slots=True)
class Write:
    """An answer to be filed."""

    generation_key: bytes
    entry_key: bytes
    generation: bytes
    """The tenant's, as a whole, that the value was made under."""
    value: bytes
    ttl_ms: int
    tombstone: bytes | None
    """The only tombstone that may be written over; None for whichever."""
    tells: bool
    """Whether the other replicas are told in the log of changes, in the same step."""
    run_token: str
    """Of the run whose claim ends, in the same step; may be empty."""


@dataclass(frozen=True, slots=True)
class Change:
    """What one replica tells the others."""

    key: bytes
    """Of an answer that is gone, or the prefix of a tenant whose answers may be."""
    ended: bytes = b""
    """Name of the generation that was replaced, see `forgotten`; empty where none was."""
    mark: bytes = b""
    """Of the invalidation by hand; empty for any other."""
    is_repeated: bool = field(default=False, compare=False)
    """Whether it was said before: what has been answered since is not meant."""


@dataclass(frozen=True, slots=True)
class Rival:
    """Another server that takes itself for the primary, or is about to."""

    store: AnswerStore
    log: ChangeLog


class AnswerStore(Protocol):
    """A shared store of bytes that forgets by itself.

    Every method raises `tiermesh.shared.errors.Unavailable` where the store does not answer. How
    long a caller waits is not its business: see `access`.
    """

    async def read(self, generation_key: bytes, entry_key: bytes) -> tuple[bytes | None, bytes | None]:
        """Returns both values as of one moment, None for what is not there."""
        ...

    async def settle(self, generation_key: bytes, fresh: bytes) -> bytes:
        """Returns the value of a key, after setting it to `fresh` if it had none."""
        ...

    async def write(self, key: bytes, value: bytes, ttl_ms: int) -> bool:
        """Sets a value that expires. Returns False where a living store refuses, such as a full one."""
        ...

    async def keep(self, writes: Sequence[Write]) -> Sequence[bool] | None:
        """Files answers, in this order; tells of each whether it was written.

        One is not written whose generation is the tenant's no longer, over another tombstone than its own, or where
        the store is full. The claims of all runs that are named end, and those who follow them are told.

        Returns:
            None where a living store takes nothing at all, such as one that is a replica: no claim has ended either.
        """
        ...

    async def replace(self, key: bytes, value: bytes) -> bool:
        """Sets a value that does not expire. Returns False where a living store refuses."""
        ...

    async def secure(self, *keys: bytes) -> bool:
        """Waits until all that was written beside these keys outlasts the failure of the server that has them.

        Returns:
            False where that cannot be told in time.
        """
        ...

    def rivals(self) -> AbstractAsyncContextManager[Sequence[Rival]]:
        """Opens the other servers that take themselves for the primary.

        After one was replaced there are two for a while, until the old one has heard of it.
        """
        ...

    async def remove(self, *keys: bytes) -> int:
        """Forgets keys; returns how many there were."""
        ...

    async def page(self, prefix: bytes, cursor: int) -> tuple[int, list[bytes]]:
        """Returns some of the keys that begin with `prefix`, and the cursor of the next page.

        The first cursor is 0, and 0 comes back with the last page. A key may come twice.
        """
        ...

    async def swap(self, key: bytes, expected: bytes, value: bytes) -> bool:
        """Sets a value that does not expire if it is still `expected`; tells whether it was."""
        ...


RUN_ENDED = -1
"""In place of a number of events: the run has ended, and what has not come by then never will."""


class RunBoard(Protocol):
    """Where routers see who runs what. Raises `Unavailable` like the store.

    Keys and tokens are those of `run_tokens`. Nothing here outlives its time to live, whatever is not cleared away.
    """

    async def read_or_claim(
        self, generation_key: bytes, entry_key: bytes, fresh: bytes, claimant: Claimant
    ) -> tuple[bytes | None, bytes | None, bytes | None]:
        """Reads like `AnswerStore.read`; where no answer is there, claims the run unless it is claimed.

        A generation that is not there is set to `fresh` before. The third value is the claim that stands then, of a
        run that began after the last invalidation; None with a value that is no tombstone, or where the store takes no more.
        """
        ...

    async def claim(self, claim: ClaimText) -> bytes | None:
        """Claims a run unless it is claimed; returns the claim that stands, None where the store takes no more."""
        ...

    async def release(self, token: str) -> None:
        """Ends a claim, if it is still that one, and says so to those who wait."""
        ...

    async def publish(self, token: str, first: int, payload: bytes) -> int | None:
        """Appends events numbered from `first`; returns how many wait for more, None where the claim is another's."""
        ...

    async def begin_to_follow(self, token: str, follower: str) -> str | None:
        """Says that somebody waits; returns the router that leads, None where the claim is not that one or dead."""
        ...

    async def keep_following(self, token: str, router: str, follower: str) -> bool:
        """Says that somebody still waits; returns whether the run is still led."""
        ...

    async def cease_to_follow(self, token: str, router: str, follower: str) -> None:
        """Says that somebody waits no more."""
        ...

    async def events(self, token: str, after: bytes, *, wait_ms: int) -> Sequence[tuple[bytes, int, bytes]]:
        """Returns position, number of the first event, and payload of what came after a position, waiting for it unless `wait_ms` is 0.

        The first position is `0`. Numbers below 0 are marks without a payload: `RUN_ENDED`, or of no meaning.
        """
        ...

    async def hear(self, router: str, session: bytes, after: bytes, *, wait_ms: int) -> Sequence[tuple[bytes, str]]:
        """Says that a router lives; returns position and token of its runs that are wanted, waiting for them."""
        ...

    async def bury(self, router: str, session: bytes) -> None:
        """Says that a router is gone, unless another session speaks for it by now."""
        ...


class ChangeLog(Protocol):
    """What replicas tell each other. Raises `Unavailable` like the store."""

    async def append_change(self, change: Change) -> bytes:
        """Says that an answer is gone, or those of a whole tenant.

        Returns its position, for which somebody waits unless it is repeated: see `count_behind`.
        """
        ...

    async def say_heard(self, replica: str, changes_until: bytes, *, holds_ms: int) -> None:
        """Says that a replica has applied all changes up to a position, and answers from memory for `holds_ms` at most."""
        ...

    async def count_behind(self, position: bytes) -> int:
        """Returns how many replicas may still answer from memory without having heard of a change."""
        ...

    async def append_questions(self, questions: Sequence[Mapping[bytes, bytes]]) -> None:
        """Says that questions were answered."""
        ...

    async def read_changes(self, after: bytes, *, wait_ms: int) -> ChangePage:
        """Returns what was said after a position, waiting for at most `wait_ms` where that is nothing.

        The first position is `0`.
        """
        ...

    async def read_questions(self, after: bytes, *, wait_ms: int) -> QuestionPage:
        """Does the same for questions."""
        ...


@dataclass(frozen=True, slots=True)
class ChangePage:
    """Part of the log of changes."""

    changes: Sequence[tuple[bytes, Change]]
    """Each with its position."""
    is_awaited: bool = False
    """Whether somebody waits until these changes have been heard."""
    is_last: bool = True
    """Whether there were no more at that moment."""
    is_reset: bool = False
    """Whether the log no longer reaches back to the position: what was heard before may be forgotten by the store."""


@dataclass(frozen=True, slots=True)
class QuestionPage:
    """Part of the log of questions."""

    questions: Sequence[tuple[bytes, Mapping[bytes, bytes]]]
    """Position and fields of each."""
    is_last: bool = True
    """Whether there were no more at that moment."""
    is_reset: bool = False
    """Whether the log no longer reaches back to the position."""


class Embedder(Protocol):
    """Turns texts into vectors."""

    @property
    def name(self) -> str:
        """Which model it is: vectors of two are not to be compared."""
        ...

    async def embed(self, text: str) -> bytes:
        """Returns the normalised embedding as half-precision floats, or nothing where a token is unknown."""
        ...


class Neighbours(Protocol):
    """Vectors by number."""

    def add(self, number: int, vector: bytes) -> None:
        """Adds a normalised vector of half-precision floats."""
        ...

    async def add_all(self, vectors: Mapping[int, bytes]) -> None:
        """Adds many, by their numbers; may find none of those meanwhile, and keeps nobody waiting."""
        ...

    def remove(self, number: int) -> None:
        """Removes a vector; one that is not there is no error."""
        ...

    def nearest(self, vector: bytes) -> tuple[int, float] | None:
        """Returns the number and cosine of the nearest one."""
        ...

    def similarity(self, number: int, vector: bytes) -> float:
        """Returns the cosine of one of them."""
        ...
