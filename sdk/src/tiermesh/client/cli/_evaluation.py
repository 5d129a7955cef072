"""Evaluation sets of prompts alone: what a mesh's classifier says of each is asked of that mesh."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Sequence
from typing import Any

from tiermesh.api.classifier.v1 import classifier_pb2
from tiermesh.client._async import AsyncClient
from tiermesh.client.cli._connection import Door

AT_ONCE = 8
_DEADLINE_S = 10.0


def lacks_judgement(line: str) -> bool:
    """Returns whether a line has a prompt, and not how complex it is."""
    try:
        row = json.loads(line)
    except ValueError:
        return False
    return isinstance(row, dict) and isinstance(row.get("prompt"), str) and "complexity" not in row


async def judged_lines(door: Door, lines: Sequence[str]) -> list[str]:
    """Returns the lines with complexity, task type and token counts as the mesh judges their prompts; what they say themselves stays.

    No model is run, and nothing is sent but the prompts.

    Raises:
        TiermeshError: the mesh does not say.
    """
    rows: list[dict[str, Any]] = [json.loads(line) for line in lines]
    async with AsyncClient(door.target, api_key=door.key) as client:

        async def work(mine: Iterator[dict[str, Any]]) -> None:
            for row in mine:
                explained = await client.explain(row["prompt"], deadline_s=_DEADLINE_S)
                said = explained.classification
                row.setdefault("complexity", said.complexity)
                row.setdefault("task_type", classifier_pb2.TaskType.Name(said.task_type))
                row.setdefault("prompt_tokens", said.estimated_prompt_token_count)
                row.setdefault("answer_tokens", said.expected_output_token_count)

        # All take from one iterator, so that a slow answer holds up one of them alone.
        left = iter(rows)
        async with asyncio.TaskGroup() as group:
            for _ in range(AT_ONCE):
                group.create_task(work(left))
    return [json.dumps(row) for row in rows]
