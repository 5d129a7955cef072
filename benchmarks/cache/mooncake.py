"""Prefix blocks of the Mooncake conversation trace: what replicas of a limited size serve from memory.

A replay, no engine: every replica keeps the blocks it used last. Prefix-affine placement sends a
request to the replica that its first blocks hash to, with bounded load; the other placement takes turns.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from pathlib import Path

FIRST = 2
"""Blocks that say where a request belongs: the first one is alike for nearly all."""
LOAD = 1.25
"""A replica may be ahead of the average by this factor."""


def read_trace(path: Path) -> list[list[int]]:
    """Returns the block hashes of each request, in order of arrival."""
    return [json.loads(line)["hash_ids"] for line in path.read_text(encoding="utf-8").splitlines()]


def unlimited(trace: list[list[int]]) -> float:
    """Returns the share of blocks that were seen before."""
    return replay(trace, replicas=1, blocks=1 << 60, affine=False)


def replay(trace: list[list[int]], *, replicas: int, blocks: int, affine: bool) -> float:
    """Returns the share of blocks that were in the memory of the replica that got the request.

    Args:
        trace: Block hashes of each request.
        replicas: Number of replicas.
        blocks: Blocks that each keeps.
        affine: Whether requests go where their first blocks hash to.
    """
    memories: list[OrderedDict[int, None]] = [OrderedDict() for _ in range(replicas)]
    served = [0] * replicas
    hits = total = 0
    for number, hashes in enumerate(trace):
        at = number % replicas
        if affine:
            at = hash(tuple(hashes[:FIRST])) % replicas
            while served[at] > LOAD * (number / replicas + 1):
                at = (at + 1) % replicas
        served[at] += 1
        memory = memories[at]
        prefix = True
        for block in hashes:
            prefix = prefix and block in memory
            hits += prefix
            memory[block] = None
            memory.move_to_end(block)
            if len(memory) > blocks:
                memory.popitem(last=False)
        total += len(hashes)
    return hits / total
