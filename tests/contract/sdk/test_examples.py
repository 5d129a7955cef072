"""The examples of docs/sdk.md do what the page says."""

import ast
import asyncio
import re
from pathlib import Path
from typing import Any

import pytest
from harness.sdk import LANES, running_router
from tiermesh.client import Deadlines
from tiermesh.shared.errors import QueueFull
from tiermesh.shared.testing import ScriptedRouter, router_answer

PAGE = Path(__file__).parents[3] / "docs" / "sdk.md"
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)


async def run(example: str, target: str) -> None:
    # The page's deadlines are a reader's; here a machine that stalls must not make the answer late.
    example = example.replace("deadline_s=10", "deadline_s=100").replace(
        "api_key=key", "api_key=key, deadlines=deadlines"
    )
    code = compile(example, "docs/sdk.md", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    scope: dict[str, Any] = {"target": target, "key": "k", "deadlines": Deadlines(LANES)}
    if "async with" in example:
        await eval(code, scope)
    else:
        await asyncio.to_thread(eval, code, scope)


@pytest.mark.parametrize("example", EXAMPLES, ids=range(len(EXAMPLES)))
async def test_an_example_prints_the_answer(example: str, capsys: pytest.CaptureFixture[str]):
    async with running_router(ScriptedRouter(router_answer("because ", "of light"))) as served:
        await run(example, served.target)
    printed = capsys.readouterr().out
    assert ("l1" if "explain" in example else "because of light") in printed


async def test_the_example_of_failures_says_when_to_come_back(capsys: pytest.CaptureFixture[str]):
    (example,) = (text for text in EXAMPLES if "except Overloaded" in text)
    async with running_router(ScriptedRouter([QueueFull("full", retry_after=60.0)])) as served:
        await run(example, served.target)
    assert capsys.readouterr().out == "come back in 60.0 seconds\n"
