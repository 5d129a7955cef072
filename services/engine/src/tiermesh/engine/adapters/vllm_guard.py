"""Sees to it that vLLM's workers do not outlive the engine, even one that is killed.

They hold gigabytes, and do not notice that their parent is gone. A shell waits at the end of a
pipe for the numbers of the workers; when the pipe closes without a goodbye, it kills them.
"""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import psutil

_SCRIPT = 'while read -r word; do test "$word" = goodbye && exit; pids="$pids $word"; done; kill -KILL $pids'
_LOOK_EVERY_S = 0.5
_SELF_ENDING = "multiprocessing.resource_tracker"
"""This child ends by itself, after it has removed shared memory that the others left."""


@asynccontextmanager
async def guarded_workers() -> AsyncIterator[Callable[[], None]]:
    """Guards every process that this one starts within the block, until the block is left in order.

    Yields:
        Call it once all workers run: it looks a last time, and looking costs a little.
    """
    guard = subprocess.Popen(  # noqa: S603, ASYNC220 -- a fixed script; starting a shell takes a millisecond
        ["/bin/sh", "-c", _SCRIPT],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        # A signal to our process group must not end the guard before it has done its work.
        start_new_session=True,
    )
    known = {guard.pid}
    following = asyncio.create_task(_follow(guard, known))

    def all_started() -> None:
        following.cancel()
        _look(guard, known)

    try:
        yield all_started
        _tell(guard, "goodbye")
    finally:
        # Left by an error or a cancelled start, there may be workers that nobody else will end.
        following.cancel()
        _look(guard, known)
        assert guard.stdin is not None
        guard.stdin.close()
        guard.wait()


async def _follow(guard: subprocess.Popen[bytes], known: set[int]) -> None:
    while True:
        _look(guard, known)
        await asyncio.sleep(_LOOK_EVERY_S)


def _look(guard: subprocess.Popen[bytes], known: set[int]) -> None:
    for child in psutil.Process().children(recursive=True):
        if child.pid not in known and not _ends_by_itself(child):
            known.add(child.pid)
            _tell(guard, str(child.pid))


def _ends_by_itself(child: psutil.Process) -> bool:
    try:
        return any(_SELF_ENDING in part for part in child.cmdline())
    except psutil.Error:
        return True


def _tell(guard: subprocess.Popen[bytes], word: str) -> None:
    assert guard.stdin is not None
    try:
        guard.stdin.write(f"{word}\n".encode())
        guard.stdin.flush()
    except BrokenPipeError:
        # Somebody has killed the guard; there is nobody to tell.
        return
