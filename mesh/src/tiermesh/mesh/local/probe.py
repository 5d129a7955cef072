"""Proves that the mesh answers: real requests through the ingress, one for each tier."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import httpx
from tiermesh.mesh.local.errors import LocalError
from tiermesh.shared.clock import SYSTEM_CLOCK, Clock
from tiermesh.shared.config import TiermeshConfig
from tiermesh.shared.errors import ERROR_TABLE

_PAUSE_S = 0.25
_NOT_YET = {404, 502, 503, 504}
"""Statuses of a mesh whose Envoy has not heard of everything yet."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a probe got."""

    model: str
    """Model that was asked for."""
    tier: str
    seconds: float


def probes_of(config: TiermeshConfig, token: str) -> tuple[dict[str, Any], ...]:
    """Returns the request bodies to send: one routed freely, one pinned to every tier.

    Args:
        config: Its tiers are probed.
        token: Makes the prompts new, so that no cache answers for an engine.
    """

    def body(model: str, prompt: str) -> dict[str, Any]:
        return {"model": model, "max_tokens": 4, "messages": [{"role": "user", "content": prompt}]}

    pinned = [
        body(f"tier:{tier.name}", "Hello!" if tier.backend == "rules" else f"Say yes. ({tier.name} {token})")
        for tier in config.tiers
    ]
    return (body("auto", f"Say hello to everyone who is here. ({token})"), *pinned)


def is_answer(status: int, body: Any) -> bool:
    """Returns whether a response shows that the tier was reached and works.

    A rules tier whose rules have nothing for a greeting refuses it, and is well.
    """
    if status == 200:
        return True
    reason = body.get("error", {}).get("code") if isinstance(body, dict) and isinstance(body.get("error"), dict) else ""
    return status == ERROR_TABLE["NOT_APPLICABLE"].http_status and str(reason).upper() == "NOT_APPLICABLE"


async def probe(
    config: TiermeshConfig,
    *,
    url: str,
    key: str | None,
    patience_s: float,
    say: Callable[[str], None],
    clock: Clock = SYSTEM_CLOCK,
) -> list[Answer]:
    """Sends every probe until it is answered.

    Raises:
        LocalError: one was not, within `patience_s` for all.
    """
    give_up = clock.monotonic() + patience_s
    headers = {"authorization": f"Bearer {key}"} if key else {}
    answers = []
    async with httpx.AsyncClient(trust_env=False, timeout=60, headers=headers) as http:
        for body in probes_of(config, secrets.token_hex(4)):
            model = str(body["model"])
            while True:
                began = clock.monotonic()
                last, tier = await _ask(http, f"{url}/v1/chat/completions", body)
                if last is None:
                    answers.append(Answer(model, tier, clock.monotonic() - began))
                    say(f"  probe {model}: answered by {tier or model} in {answers[-1].seconds:.2f} s")
                    break
                if not last.startswith("again: ") or clock.monotonic() > give_up:
                    raise LocalError(
                        f"the probe request for model {model!r} was not answered: {last.removeprefix('again: ')}",
                        f"read the logs with `tiermesh logs router-0` and `tiermesh logs {_engine_of(model)}`; try `tiermesh doctor`.",
                    )
                await asyncio.sleep(_PAUSE_S)
    return answers


async def _ask(http: httpx.AsyncClient, url: str, body: dict[str, Any]) -> tuple[str | None, str]:
    """Returns why it failed (`again: ` first where trying again can help), or None and the tier."""
    try:
        response = await http.post(url, json=body)
    except httpx.HTTPError as error:
        return f"again: {type(error).__name__}: {error}", ""
    try:
        document = response.json()
    except ValueError:
        document = None
    if is_answer(response.status_code, document):
        return None, response.headers.get("x-tiermesh-tier", "")
    again = "again: " if response.status_code in _NOT_YET else ""
    return f"{again}HTTP {response.status_code} {response.text[:400]}", ""


def _engine_of(model: str) -> str:
    return f"engine-{model.removeprefix('tier:')}-0" if model.startswith("tier:") else "envoy"
