"""all-MiniLM-L6-v2 as int8 ONNX: 384 numbers for an English text, on one core."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import lru_cache
from pathlib import Path

import numpy as np
from tiermesh.cache.embedder_files import INPUT, MAX_TOKENS
from tiermesh.cache.quiet_onnxruntime import onnxruntime
from tokenizers import Tokenizer

MODEL = "model.onnx"
TOKENIZER = "tokenizer.json"
_REMEMBERED = 4096


class OnnxEmbedder:
    """An `Embedder` over a folder with `model.onnx` and `tokenizer.json`.

    Args:
        folder: Made by `python -m tiermesh.cache.fetch_embedder`.
        executor: Runs the model, so that exact lookups do not wait for it.
    """

    def __init__(self, folder: Path, executor: ThreadPoolExecutor) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.execution_mode = onnxruntime.ExecutionMode.ORT_SEQUENTIAL
        self._session = onnxruntime.InferenceSession(
            str(folder / MODEL),
            options,
            providers=["CPUExecutionProvider"],
            # The fused operator takes a sixth longer than sum and norm apart.
            disabled_optimizers=["SkipLayerNormFusion"],
        )
        self._tokenizer = Tokenizer.from_file(str(folder / TOKENIZER))
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(MAX_TOKENS)
        self._unknown = self._tokenizer.token_to_id("[UNK]")
        self._executor = executor
        self._remembered = lru_cache(maxsize=_REMEMBERED)(self.embed_now)

    async def embed(self, text: str) -> bytes:
        """Returns the normalised embedding as half-precision floats, or nothing where a token is unknown."""
        return await asyncio.get_running_loop().run_in_executor(self._executor, self._remembered, text)

    def embed_now(self, text: str) -> bytes:
        """Does the same in the calling thread."""
        encoding = self._tokenizer.encode(text)
        # A text cut short, or with holes in it, is not the text that was asked.
        if self._unknown in encoding.ids or encoding.overflowing:
            return b""
        (embeddings,) = self._session.run(None, {INPUT: np.array([encoding.ids], dtype=np.int64)})
        return bytes(embeddings[0].astype(np.float16).tobytes())


@asynccontextmanager
async def open_onnx_embedder(folder: Path) -> AsyncIterator[OnnxEmbedder]:
    """Loads the model, which takes about half a second, and ends its thread on exit."""
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="embedder") as executor:
        loop = asyncio.get_running_loop()
        yield await loop.run_in_executor(executor, OnnxEmbedder, folder, executor)
