"""Sentence embeddings of the prompts, for the rows that say what they would be worth. The classifier has none of this.

The model is the cache's copy of all-MiniLM-L6-v2 (int8). One prompt takes it many times what the whole classifier may take, so
these rows are asked for (`--embeddings`), and embeddings are kept beside the report.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tiermesh.cache.adapters.openvino_embedder import OpenvinoEmbedder
from tiermesh.cache.embedder_files import NAME, embedder_folder, is_fetched

Floats = NDArray[np.float32]
_TOLD_EVERY = 1000


def embed(prompts: Sequence[str], kept: Path, progress: Callable[[str], None]) -> Floats:
    """Returns one embedding of length 1 for each prompt, of its first `MAX_TOKENS` tokens; from the file if it has them.

    Args:
        prompts: The texts.
        kept: File for the embeddings, and the time that one took.
        progress: Is told how far it is.

    Raises:
        FileNotFoundError: the model was not fetched.
    """
    key = hashlib.sha256("\0".join([NAME, *prompts]).encode()).hexdigest()
    if kept.is_file():
        with np.load(kept, allow_pickle=False) as file:
            if str(file["key"]) == key:
                return np.asarray(file["embeddings"], np.float32)
    folder = embedder_folder(os.environ)
    if not is_fetched(folder):
        raise FileNotFoundError(f"{folder}: run `python -m tiermesh.cache.fetch_embedder` first")
    embedder = OpenvinoEmbedder(folder, None)
    found, began = [], time.thread_time_ns()
    for done, prompt in enumerate(prompts, 1):
        found.append(embedder.embed_any(prompt))
        if done % _TOLD_EVERY == 0:
            each = (time.thread_time_ns() - began) / 1e6 / done
            progress(f"  embedded {done} of {len(prompts)} prompts, {each:.1f} ms each")
    embeddings = np.stack(found).astype(np.float32)
    np.savez(kept, key=key, embeddings=embeddings.astype(np.float16))
    return embeddings
