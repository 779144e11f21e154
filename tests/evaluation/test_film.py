"""Film strips and animations as files."""

import sys

import numpy as np
import pytest
from PIL import Image

from coda_jax.evaluation import film


def frames(count):
    """Flat frames of distinct greys."""
    return np.stack([np.full((24, 64, 3), 20 + 30 * i, np.uint8) for i in range(count)])


def test_frames_are_of_events_then_of_the_widest_gaps():
    names = ["start"] * 20 + ["approach"] * 3 + ["grasp"] * 18
    assert film.pick_events(names, 4).tolist() == [0, 20, 23, 40]
    assert film.pick_events(names, 6).tolist() == [0, 10, 20, 23, 31, 40]
    assert film.pick_events(names, 3).tolist() == [0, 20, 40]  # the earliest of more than there is room for
    assert film.pick_events(["start"] * 9, 3).tolist() == [0, 4, 8]
    assert film.pick_events(["start", "grasp"]).tolist() == [0, 1] and film.pick_events(["start"]).tolist() == [0]
    with pytest.raises(ValueError, match="at least one step"):
        film.pick_events([])


def test_strip_shows_frames_in_order_and_the_outcome(tmp_path):
    strips = [film.film_strip(frames(3), ["0", "5 grasp", "9"], title="put it there", success=s) for s in (True, False)]
    film.write_strip(tmp_path / "a" / "s.png", strips[0])
    got = np.asarray(Image.open(tmp_path / "a" / "s.png"))
    top = got.shape[0] - 18 - 24
    assert [got[top + 12, x, 0] for x in (32, 100, 168)] == [20, 50, 80]
    assert tuple(got[top - 3, 5]) == (21, 128, 61)
    assert tuple(np.asarray(strips[1])[top - 3, 5]) == (185, 28, 28)


def test_hostile_captions_are_cut():
    caption = "x\n\x00\u202e" * 500
    assert film.film_strip(frames(1), [caption], title=caption).width == 64


def test_wrong_counts_are_refused():
    with pytest.raises(ValueError, match="2 frames with 1 captions"):
        film.film_strip(frames(2), ["a"])


def test_a_video_is_written_as_its_ending_says(tmp_path):
    frames = np.random.default_rng(0).integers(0, 255, (6, 32, 48, 3), dtype=np.uint8)
    film.write_video(tmp_path / "a.mp4", frames)
    assert (tmp_path / "a.mp4").read_bytes()[4:8] == b"ftyp"
    film.write_video(tmp_path / "a.webp", frames)
    assert Image.open(tmp_path / "a.webp").n_frames == 6  # pyright: ignore[reportAttributeAccessIssue]
    for path, shown, message in (("a.gif", frames, "neither .mp4 nor .webp"), ("b.mp4", frames[:, :31], "even height")):
        with pytest.raises(ValueError, match=message):
            film.write_video(tmp_path / path, shown)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.mp4", "a.webp"]


def test_without_the_extra_an_mp4_names_it(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", None)
    with pytest.raises(film.MissingExtraError, match=r"\.\[video\]"):
        film.write_video(tmp_path / "a.mp4", np.zeros((2, 4, 4, 3), np.uint8))
