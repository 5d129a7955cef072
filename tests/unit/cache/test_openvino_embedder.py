"""The embedding model, made of weights drawn here: what is rounded, padded and shared changes next to nothing."""

import json
import math
from types import SimpleNamespace

import numpy as np
import pytest
from tiermesh.cache.adapters.openvino_embedder import CompiledGraph, OpenvinoEmbedder, open_core
from tiermesh.cache.embedder_calibration import measure_moments, measure_ranges
from tiermesh.cache.embedder_files import MAX_TOKENS, MODEL, TOKENIZER, write_manifest
from tiermesh.cache.embedder_graph import HEAD_WIDTH, WIDTH, write_float, write_int8
from tiermesh.cache.embedder_pruning import points_of, prune
from tiermesh.cache.embedder_weights import write_embeddings
from tiermesh.shared.errors import ModelLoadFailed
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace

WORDS = [f"w{n}" for n in range(40)]
INNER = 64
LAYER = "encoder.layer.0."


def drawn_weights():
    draw = np.random.default_rng(7)

    def some(*shape):
        return draw.normal(0, 0.08, shape).astype(np.float32)

    weights = {
        "embeddings.word_embeddings.weight_q": draw.integers(-127, 128, (len(WORDS) + 1, WIDTH)).astype(np.int8),
        "embeddings.word_embeddings.weight_scale": np.full((len(WORDS) + 1, 1), 0.001, np.float32),
        "embeddings.position_embeddings.weight": some(MAX_TOKENS + 9, WIDTH),
        "embeddings.token_type_embeddings.weight": some(2, WIDTH),
    }
    products = {
        "attention.self.query": (WIDTH, WIDTH),
        "attention.self.key": (WIDTH, WIDTH),
        "attention.self.value": (WIDTH, WIDTH),
        "attention.output.dense": (WIDTH, WIDTH),
        "intermediate.dense": (WIDTH, INNER),
        "output.dense": (INNER, WIDTH),
    }
    for name, shape in products.items():
        weights[f"{LAYER}{name}.weight"], weights[f"{LAYER}{name}.bias"] = some(*shape), some(shape[1])
    for name in ("embeddings.", LAYER + "attention.output.", LAYER + "output."):
        weights[name + "LayerNorm.weight"], weights[name + "LayerNorm.bias"] = 1 + some(WIDTH), some(WIDTH)
    return weights


def embedding_by_hand(weights, ids):
    """The architecture, as its paper and its reference implementation have it, in numpy."""

    def product(value, name):
        return value @ weights[f"{LAYER}{name}.weight"] + weights[f"{LAYER}{name}.bias"]

    def normal(value, name):
        centred = value - value.mean(-1, keepdims=True)
        size = np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-12)
        return centred / size * weights[name + "LayerNorm.weight"] + weights[name + "LayerNorm.bias"]

    words = weights["embeddings.word_embeddings.weight_q"] * weights["embeddings.word_embeddings.weight_scale"]
    state = words[ids] + weights["embeddings.position_embeddings.weight"][: len(ids)]
    state = normal(state + weights["embeddings.token_type_embeddings.weight"][0], "embeddings.")
    query, key, value = (
        product(state, f"attention.self.{part}").reshape(len(ids), -1, HEAD_WIDTH).transpose(1, 0, 2)
        for part in ("query", "key", "value")
    )
    scores = np.exp(query @ key.transpose(0, 2, 1) / math.sqrt(HEAD_WIDTH))
    found = (scores / scores.sum(-1, keepdims=True)) @ value
    attended = found.transpose(1, 0, 2).reshape(len(ids), -1)
    state = normal(product(attended, "attention.output.dense") + state, LAYER + "attention.output.")
    wide = product(state, "intermediate.dense")
    active = wide * 0.5 * (1 + np.vectorize(math.erf)(wide / math.sqrt(2)))
    state = normal(product(active, "output.dense") + state, LAYER + "output.")
    mean = state.mean(0)
    return mean / np.linalg.norm(mean)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder, weights = tmp_path_factory.mktemp("embedder"), drawn_weights()
    tokenizer = Tokenizer(WordLevel({word: n for n, word in enumerate([*WORDS, "[UNK]"])}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = Whitespace()
    tokenizer.save(str(folder / TOKENIZER))
    write_embeddings(weights, folder)
    floats = folder.with_name("floats.onnx")
    points = write_float(weights, folder / "floats.onnx")
    texts = [" ".join(WORDS[n : n + 12]) for n in range(0, 40, 4)]
    write_int8(weights, measure_ranges(folder / "floats.onnx", points, texts), folder / MODEL)
    (folder / "floats.onnx").rename(floats)
    write_manifest(folder, {})
    return SimpleNamespace(
        folder=folder, weights=weights, floats=floats, embedder=OpenvinoEmbedder(folder, None), texts=texts
    )


@pytest.fixture(scope="module")
def pruned(made, tmp_path_factory):
    folder, heads, units = tmp_path_factory.mktemp("pruned"), (8,), (48,)
    for path in made.folder.iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    floats = folder / "floats.onnx"
    write_float(made.weights, floats)
    # Any word may stand anywhere: what is fitted on few texts holds for those alone.
    draw = np.random.default_rng(3)
    texts = [" ".join(draw.choice(WORDS, 12)) for _ in range(100)]
    weights = prune(made.weights, measure_moments(floats, points_of(heads), texts), heads, units)
    write_int8(weights, measure_ranges(floats, write_float(weights, floats), texts), folder / MODEL)
    write_manifest(folder, {})
    return SimpleNamespace(folder=folder, weights=weights, embedder=OpenvinoEmbedder(folder, None))


def numbers(text):
    return [WORDS.index(word) for word in text.split()]


def as_floats(embedding):
    return np.frombuffer(embedding, np.float16).astype(np.float32)


def test_the_graph_in_floats_is_the_model(made):
    core = open_core()
    graph = CompiledGraph(core, core.read_model(made.floats), None)
    for text in ("w3", "w1 w2 w3 w4 w5", " ".join(WORDS)):
        ids = numbers(text)
        rows = made.weights["embeddings.word_embeddings.weight_q"][ids] * np.float32(0.001)
        rows = rows + made.weights["embeddings.position_embeddings.weight"][: len(ids)]
        found = graph.run(rows + made.weights["embeddings.token_type_embeddings.weight"][0])
        np.testing.assert_allclose(found, embedding_by_hand(made.weights, ids), atol=2e-4)


@pytest.mark.parametrize("count", [1, 11, 12, 13, 40])
def test_in_int8_and_padded_it_is_nearly_the_same(made, count):
    text = " ".join(WORDS[:count])
    embedding = as_floats(made.embedder.embed_now(text))
    assert np.linalg.norm(embedding) == pytest.approx(1, abs=2e-3)
    assert embedding @ embedding_by_hand(made.weights, numbers(text)) > 0.99


def test_with_fewer_heads_and_units_it_is_smaller_and_still_much_the_same(made, pruned):
    assert pruned.weights[f"{LAYER}attention.self.query.weight"].shape == (WIDTH, 8 * HEAD_WIDTH)
    assert pruned.weights[f"{LAYER}output.dense.weight"].shape == (48, WIDTH)
    assert (pruned.folder / MODEL).stat().st_size < 0.8 * (made.folder / MODEL).stat().st_size
    for text in ("w5 w6 w7", " ".join(WORDS[3:27])):
        embedding = as_floats(pruned.embedder.embed_now(text))
        assert embedding @ embedding_by_hand(pruned.weights, numbers(text)) > 0.99
        assert embedding @ embedding_by_hand(made.weights, numbers(text)) > 0.95


def test_a_text_has_the_same_embedding_whatever_was_asked_before(made):
    short, long = "w4 w9", " ".join(WORDS[:12])
    first = made.embedder.embed_now(short)
    assert made.embedder.embed_now(long) != first
    assert made.embedder.embed_now(short) == first
    kept = made.embedder.embed_any(short)
    made.embedder.embed_now(long)
    assert kept.astype(np.float16).tobytes() == first


def test_a_text_with_holes_or_too_long_is_not_embedded(made):
    assert made.embedder.embed_now("w1 unheard w2") == b""
    assert made.embedder.embed_now(" ".join(["w1"] * MAX_TOKENS)) != b""
    assert made.embedder.embed_now(" ".join(["w1"] * (MAX_TOKENS + 1))) == b""
    assert np.linalg.norm(made.embedder.embed_any("unheard " * 200)) == pytest.approx(1, abs=1e-3)


@pytest.mark.parametrize("name", [MODEL, TOKENIZER, "embeddings.npz"])
def test_a_file_that_changed_since_it_was_made_is_not_loaded(made, tmp_path, name):
    for path in made.folder.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    with (tmp_path / name).open("ab") as file:
        file.write(b" ")
    with pytest.raises(ModelLoadFailed, match=f"{name} in .* has changed"):
        OpenvinoEmbedder(tmp_path, None)


def test_a_folder_without_a_file_is_not_loaded(made, tmp_path):
    (tmp_path / "tiermesh-manifest.json").write_text(json.dumps({"files": {}}))
    with pytest.raises(ModelLoadFailed, match="not whole"):
        OpenvinoEmbedder(tmp_path, None)
