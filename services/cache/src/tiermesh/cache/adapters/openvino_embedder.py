"""all-MiniLM-L6-v2 as int8 ONNX, run by OpenVINO: 384 numbers for an English text, on one core."""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tiermesh.cache.embedder_files import (
    EMBEDDINGS,
    HIDDEN,
    LENGTHS,
    MASK,
    MAX_TOKENS,
    MODEL,
    NAME,
    OUTPUT,
    SHARE,
    STATE,
    TOKENIZER,
    check_files,
)
from tiermesh.cache.quiet_openvino import openvino
from tokenizers import Tokenizer

_REMEMBERED = 4096
Floats = NDArray[np.float32]


def open_core() -> Any:
    """Returns OpenVINO, told to keep to the thread that asks and to floats of 32 bits where it does not use int8."""
    core = openvino.Core()
    core.set_property(
        "CPU",
        {
            "INFERENCE_NUM_THREADS": 1,
            "NUM_STREAMS": 1,
            "ENABLE_CPU_PINNING": False,
            # Else what is not int8 is bfloat16 where the processor has it, and the same text another vector.
            "INFERENCE_PRECISION_HINT": "f32",
        },
    )
    return core


def open_tokenizer(path: Path) -> Tokenizer:
    """Returns the tokenizer, which cuts texts at `MAX_TOKENS` and pads none."""
    tokenizer = Tokenizer.from_file(str(path))
    tokenizer.no_padding()
    tokenizer.enable_truncation(MAX_TOKENS)
    return tokenizer


class Embeddings:
    """What a token is to the model, before it reads: its word's embedding and its place's.

    Args:
        folder: With `embeddings.npz`.
    """

    def __init__(self, folder: Path) -> None:
        with np.load(folder / EMBEDDINGS, allow_pickle=False) as file:
            self._words, self._scales, self._places = file["words"], file["word_scales"], file["places"]

    def of(self, ids: Sequence[int]) -> Floats:
        """Returns one row for each token, of `MAX_TOKENS` at most."""
        numbers = np.array(ids)
        rows: Floats = self._words[numbers] * self._scales[numbers]
        rows += self._places[: len(ids)]
        return rows


class CompiledGraph:
    """The graph, compiled for one number of tokens. One thread at a time may run it.

    Args:
        core: OpenVINO.
        model: The graph for any number of tokens; is left as it is.
        length: Most tokens that it can take; shorter texts are padded. None: any number, in more time.
    """

    def __init__(self, core: Any, model: Any, length: int | None) -> None:
        model = model.clone()
        self._length = length
        self._width: int = model.input(STATE).partial_shape[1].get_length()
        if length is not None:
            model.reshape({STATE: [length, self._width], MASK: [1, 1, 1, length], SHARE: [1, length]})
        self._request = core.compile_model(model, "CPU").create_infer_request()
        self._room(length or 1)

    def run(self, rows: Floats) -> Floats:
        """Returns the normalised embedding of a text, which the next run overwrites."""
        count = len(rows)
        if self._length is None:
            self._room(count)
        self._state[:count] = rows
        self._state[count:] = 0
        self._mask[..., :count] = 0
        self._mask[..., count:] = HIDDEN
        self._share[..., :count] = 1 / count
        self._share[..., count:] = 0
        self._request.infer()
        found: Floats = self.output(OUTPUT)[0]
        return found

    def output(self, name: str) -> Floats:
        """Returns an output of the last run."""
        found: Floats = self._request.get_tensor(name).data
        return found

    def _room(self, length: int) -> None:
        self._state = np.zeros((length, self._width), np.float32)
        self._mask = np.zeros((1, 1, 1, length), np.float32)
        self._share = np.zeros((1, length), np.float32)
        for name, room in ((STATE, self._state), (MASK, self._mask), (SHARE, self._share)):
            self._request.set_tensor(name, openvino.Tensor(room, shared_memory=True))


class OpenvinoEmbedder:
    """An `Embedder` over the folder that `python -m tiermesh.cache.fetch_embedder` makes.

    Args:
        folder: With the model, checked against its manifest.
        executor: Runs the model, so that exact lookups do not wait for it.

    Raises:
        ModelLoadFailed: a file is missing or has changed.
    """

    name = NAME
    """Which model it is: vectors of two are not to be compared."""

    def __init__(self, folder: Path, executor: ThreadPoolExecutor | None) -> None:
        check_files(folder)
        core = open_core()
        model = core.read_model(folder / MODEL)
        self._graphs = [CompiledGraph(core, model, length) for length in LENGTHS]
        self._embeddings = Embeddings(folder)
        self._tokenizer = open_tokenizer(folder / TOKENIZER)
        self._unknown = self._tokenizer.token_to_id("[UNK]")
        self._executor = executor
        self._remembered = lru_cache(maxsize=_REMEMBERED)(self.embed_now)

    async def embed(self, text: str) -> bytes:
        """Returns the normalised embedding as half-precision floats, or nothing where a token is unknown."""
        return await asyncio.get_running_loop().run_in_executor(self._executor, self._remembered, text)

    def embed_now(self, text: str) -> bytes:
        """Does the same in the calling thread; no other may do so at the same time."""
        encoding = self._tokenizer.encode(text)
        # A text cut short, or with holes in it, is not the text that was asked.
        if self._unknown in encoding.ids or encoding.overflowing:
            return b""
        return bytes(self._embed(encoding.ids).astype(np.float16).tobytes())

    def embed_any(self, text: str) -> Floats:
        """Returns the embedding of any text, of its first `MAX_TOKENS` tokens, known or not."""
        return self._embed(self._tokenizer.encode(text).ids).copy()

    def _embed(self, ids: list[int]) -> Floats:
        return self._graphs[bisect_left(LENGTHS, len(ids))].run(self._embeddings.of(ids))


@asynccontextmanager
async def open_openvino_embedder(folder: Path) -> AsyncIterator[OpenvinoEmbedder]:
    """Loads the model, which takes two to three seconds of one core, and ends its thread on exit.

    Raises:
        ModelLoadFailed: a file is missing or has changed.
    """
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="embedder") as executor:
        loop = asyncio.get_running_loop()
        yield await loop.run_in_executor(executor, OpenvinoEmbedder, folder, executor)
