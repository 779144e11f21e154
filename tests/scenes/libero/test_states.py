"""Initial states: read as numbers, from files that may be anything."""

from __future__ import annotations

import io
import zipfile

import numpy as np
import pytest

from coda_jax.runtime import InputError
from coda_jax.scenes.libero import states, tasks


def saved(path, **arrays):
    np.savez_compressed(path, **arrays)
    return path


def test_rows_are_read_as_they_are(tmp_path):
    rows = np.random.default_rng(0).normal(size=(5, 79))
    found = states.read(saved(tmp_path / "a.npz", states=rows), width=79)
    assert found.dtype == np.float64 and (found == rows).all()


def header(shape: str) -> bytes:
    """An array's file that claims a shape and holds eight bytes."""
    text = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode() + b"\0" * 8


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"states": np.zeros((0, 79))}, "shape"),
        ({"states": np.zeros(79)}, "not float64 of states by numbers"),
        ({"states": np.zeros((2, 79), np.float32)}, "<f4 of shape"),
        ({"states": np.array([[{}]], dtype=object)}, r"\|O of shape"),
        ({"states": np.full((2, 79), np.nan)}, "row 0 is not finite"),
        ({"states": np.zeros((2, 78))}, "78 numbers, the task's model needs 79"),
        ({"other": np.zeros((2, 79))}, "one array 'states'"),
        ({"states": np.zeros((2, 79)), "more": np.zeros(1)}, "one array 'states'"),
    ],
)
def test_arrays_that_are_no_states_are_refused(tmp_path, content, message):
    with pytest.raises(InputError, match=message):
        states.read(saved(tmp_path / "a.npz", **content), width=79)


@pytest.mark.parametrize("shape", ["(10**9, 79)", "(1000000000, 79)", "(-1, 79)", "(1, 1)" + " " * 90, "(900, 900)"])
def test_a_header_that_lies_is_refused_before_anything_is_allocated(tmp_path, shape):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("states.npy", header(shape))
    (tmp_path / "a.npz").write_bytes(buffer.getvalue())
    with pytest.raises(InputError):
        states.read(tmp_path / "a.npz", width=79)


@pytest.mark.parametrize(
    "text",
    [
        "{'descr': '<f8', 'fortran_order': False, 'shape': (1, 1)",
        "{'descr': '''",
        "{'descr': (), 'fortran_order': False, 'shape': (1, 1), }\n",
        "{1: '<f8', 'fortran_order': False, 'shape': (1, 1), }\n",
        "{[]: 1}\n",
        "(" * 9000,
        "{'descr': " + "-" * 9000 + "1}\n",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (" + "9" * 5000 + ", 1), }\n",
    ],
)
def test_a_header_that_numpy_did_not_write_is_refused_in_words(tmp_path, text):
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("states.npy", b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode() + b"\0" * 8)
    with pytest.raises(InputError, match=r"another format than numpy's 1\.0: have the file again"):
        states.read(tmp_path / "a.npz")


@pytest.mark.parametrize("packed", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_an_array_that_could_unpack_to_any_size_is_not_unpacked(tmp_path, packed):
    """600 bytes of bzip2 hold 800 MB, whatever size they claim, and zipfile unpacks them whole."""
    with zipfile.ZipFile(tmp_path / "a.npz", "w", packed) as archive:
        archive.writestr("states.npy", header("(1, 1)"))
    with pytest.raises(InputError, match="packed in another way"):
        states.read(tmp_path / "a.npz")


def test_of_a_damaged_file_nothing_is_read_but_what_it_held(tmp_path):
    rows = np.random.default_rng(0).normal(size=(5, 79))
    whole, refused = saved(tmp_path / "a.npz", states=rows).read_bytes(), 0
    for at in range(0, len(whole), 7):
        (tmp_path / "a.npz").write_bytes(whole[:at] + bytes(255 - b for b in whole[at : at + 8]) + whole[at + 8 :])
        try:
            assert (states.read(tmp_path / "a.npz") == rows).all()  # a date, say
        except InputError as error:
            assert "have the file again" in str(error)
            refused += 1
    assert refused > len(whole) // 7 - 20


def test_other_files_are_refused(tmp_path):
    with pytest.raises(InputError, match="are missing"):
        states.read(tmp_path / "a.npz")
    (tmp_path / "a.npz").write_bytes(b"\x80\x04N.")
    with pytest.raises(InputError, match="not a zip file"):
        states.read(tmp_path / "a.npz")
    (tmp_path / "b.npz").write_bytes(b"0" * (states.MAX_BYTES + 1))
    with pytest.raises(InputError, match="larger than 4 MiB"):
        states.read(tmp_path / "b.npz")


@pytest.mark.libero
def test_every_suite_has_fifty_states_of_each_task():
    for suite in tasks.SUITES:
        for task in tasks.tasks(suite):
            assert len(states.read(task.init)) == 50
