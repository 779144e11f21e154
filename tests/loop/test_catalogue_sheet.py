"""The catalogue as a picture."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from coda_jax.loop import catalogue_sheet
from coda_jax.runtime import InputError
from coda_jax.scenes.catalogue import CATEGORIES, Catalogue
from coda_jax.scenes.categories.instances import INSTANCES

CELL = catalogue_sheet.WIDTH + catalogue_sheet._GAP, catalogue_sheet.HEIGHT + catalogue_sheet._LABEL + catalogue_sheet._GAP


def _things(path):
    """Share of coloured pixels in every tile of a sheet: of the table none is as colourful as a thing."""
    with Image.open(path) as picture:
        pixels = np.asarray(picture.convert("RGB")).astype(int)
    vivid = (pixels.max(2) - pixels.min(2)) > 65
    rows, columns = round(vivid.shape[0] / CELL[1]), round(vivid.shape[1] / CELL[0])
    tiles = [
        vivid[r * CELL[1] :, c * CELL[0] :][: catalogue_sheet.HEIGHT, : catalogue_sheet.WIDTH] for r in range(rows) for c in range(columns)
    ]
    return tiles


def test_instances_of_a_category(tmp_path, capsys):
    catalogue_sheet.run("fork", tmp_path / "fork.png")
    assert str(tmp_path / "fork.png") in capsys.readouterr().out
    tiles = _things(tmp_path / "fork.png")
    assert len(tiles) == INSTANCES
    for tile in tiles:  # in the middle, not cut off
        rows, columns = np.nonzero(tile)
        assert 0.01 < tile.mean() < 0.5
        assert rows.min() > 2 and rows.max() < tile.shape[0] - 3 and columns.min() > 2 and columns.max() < tile.shape[1] - 3


def test_every_category_is_in_the_picture(tmp_path):
    catalogue_sheet.run("all", tmp_path / "all.png")
    tiles = _things(tmp_path / "all.png")
    assert len(tiles) == len(CATEGORIES) and all(0.01 < t.mean() < 0.6 for t in tiles)
    assert (tmp_path / "all.png").stat().st_size < 600_000


def test_unknown_category(tmp_path):
    with pytest.raises(InputError, match=r"--catalogue=frok: no asset of category 'frok': use fork .*or all"):
        catalogue_sheet.run("frok", tmp_path / "x.png")
    with pytest.raises(InputError, match="cannot be written"):
        catalogue_sheet.run("fork", tmp_path)


def test_things_are_seen_from_where_their_length_shows():
    catalogue = Catalogue.all()
    long, round_ = (catalogue_sheet.scene_of(catalogue.get(a), "red").spatial.placements[0].yaw_rad for a in ("fork_03", "cup_03"))
    assert long > round_
