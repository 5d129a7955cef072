"""Starts vLLM: sets the environment it reads, and loads the model while the server already answers health checks."""

from __future__ import annotations

import asyncio
import importlib
import os
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar, cast

from tiermesh.engine.adapters.vllm_guard import guarded_workers
from tiermesh.engine.models import resolve
from tiermesh.engine.ports import Backend
from tiermesh.shared.config import TierConfig
from tiermesh.shared.errors import ModelLoadFailed

_T = TypeVar("_T")


@asynccontextmanager
async def open_vllm(tier: TierConfig, *, environ: Mapping[str, str]) -> AsyncIterator[Backend]:
    """Loads the tier's model, and frees it at the end of the block.

    Raises:
        ModelLoadFailed: the model is not there, or vLLM could not load it.
    """
    model = resolve(tier.model, environ)
    os.environ.update(vllm_environment(tier, model))
    async with guarded_workers() as all_started:
        backend = await _on_a_thread(lambda: _load(tier, model))
        all_started()
        try:
            yield backend
        finally:
            await backend.close()


def vllm_environment(tier: TierConfig, model: str) -> dict[str, str]:
    """Returns what vLLM must find in the environment when it is imported."""
    environ = {
        "VLLM_NO_USAGE_STATS": "1",
        # Its messages go through our own logging instead.
        "VLLM_CONFIGURE_LOGGING": "0",
        # gRPC's threads do not survive a fork.
        "VLLM_WORKER_MULTIPROC_METHOD": "spawn",
        "VLLM_CPU_KVCACHE_SPACE": str(tier.kv_cache_gib),
    }
    if tier.cpu_cores is not None:
        environ["VLLM_CPU_OMP_THREADS_BIND"] = tier.cpu_cores
    if Path(model).is_dir():
        environ["HF_HUB_OFFLINE"] = "1"
    return environ


def _load(tier: TierConfig, model: str) -> Backend:
    try:
        adapter = importlib.import_module("tiermesh.engine.adapters.vllm")
    except ImportError as error:
        raise ModelLoadFailed(
            f"vLLM cannot be imported ({error}); run this tier with the Python of the engine environment"
        ) from error
    return cast("Backend", adapter.load(tier, model))


async def _on_a_thread(work: Callable[[], _T]) -> _T:
    # A daemon thread, where the loop's own executor would keep a process that was told to stop
    # alive until the model has loaded.
    loop = asyncio.get_running_loop()
    done: asyncio.Future[_T] = loop.create_future()

    def settle(result: _T | None, error: BaseException | None) -> None:
        if done.cancelled():
            return
        if error is not None:
            done.set_exception(error)
        else:
            done.set_result(cast("_T", result))

    def body() -> None:
        try:
            result, error = work(), None
        except BaseException as caught:  # carried to the one who waits
            result, error = None, caught
        if not loop.is_closed():
            loop.call_soon_threadsafe(settle, result, error)

    threading.Thread(target=body, name="vllm", daemon=True).start()
    return await done
