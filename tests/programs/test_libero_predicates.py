"""LIBERO's predicates on the machine, against their definitions written out for single numbers."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from scipy.spatial.transform import Rotation
from worlds import random_view, view

from coda_jax.programs import expressions, libero
from coda_jax.programs.expressions import Expr, ExpressionError
from coda_jax.types import ENTITIES, REGIONS, TOKENS, Regions, WorldView

INDEX = {"bowl": 0, "plate": 1, "stove": 6, "top": ENTITIES, "drawer": ENTITIES + 1}


def regions(worlds: int, **values) -> Regions:
    """Regions of worlds; a value maps a token or region to what it is in every world."""
    shapes = {"pos": (REGIONS, 3), "half": (REGIONS, 3), "touches": (TOKENS, REGIONS), "joint": (REGIONS,), "origin": (TOKENS, 3)}
    arrays = {name: np.zeros((worlds, *shape), np.float32) for name, shape in shapes.items()}
    arrays["rotation"] = np.tile(np.eye(3, dtype=np.float32), (worlds, REGIONS, 1, 1))
    arrays["touches"] = arrays["touches"].astype(bool)
    for name, entries in values.items():
        for place, value in entries.items():
            arrays[name][(slice(None), *np.atleast_1d(place))] = value
    return Regions(**arrays)


def holds(expr: Expr, moment: WorldView) -> bool:
    table = expressions.stack([expressions.encode([expr], INDEX)])
    return bool(np.asarray(expressions.evaluate(table, moment))[0, 0])


ON, ON_TOP, IN = Expr("libero_on", ("bowl", "plate")), Expr("libero_on", ("bowl", "top")), Expr("libero_in", ("bowl", "top"))


@pytest.mark.parametrize(
    ("bowl", "touching", "expected"),
    [
        ((0.0, 0.0, 0.0), True, True),  # as high as the plate is enough
        ((0.02, 0.02, 0.05), True, True),
        ((0.0, 0.0, -0.001), True, False),
        ((0.0, 0.031, 0.05), True, False),
        ((0.0, 0.0, 0.05), False, False),
    ],
)
def test_on_a_thing(bowl, touching, expected):
    moment = view(contacts=[(0, 1)] if touching else [])
    assert holds(ON, dataclasses.replace(moment, regions=regions(1, origin={0: bowl}))) is expected


@pytest.mark.parametrize(
    ("height", "across", "touching", "expected"),
    [
        (0.016, 0.09, True, True),
        (0.014, 0.0, True, False),
        (0.119, 0.0, True, True),
        (0.121, 0.0, True, False),
        (0.05, 0.11, True, False),
        (0.05, 0.0, False, False),
    ],
)
def test_on_a_region(height, across, touching, expected):
    found = regions(1, origin={0: (across, 0, height)}, half={0: (0.1, 0.05, 0.02)}, touches={(0, 0): touching})
    assert holds(ON_TOP, dataclasses.replace(view(), regions=found)) is expected


def test_a_region_is_turned_as_the_official_check_does():
    """Its rotation is applied to the offset, where the way into its frame would be the inverse."""
    turn = Rotation.from_euler("z", 30, degrees=True).as_matrix()
    found = regions(1, half={0: (0.1, 0.02, 0.01)}, touches={(0, 0): True}, rotation={0: turn})
    for sign, expected in ((1, False), (-1, True)):
        point = Rotation.from_euler("z", sign * 30, degrees=True).apply([0.08, 0.0, 0.05])
        moment = dataclasses.replace(found, origin=np.where(np.arange(TOKENS)[:, None] == 0, point, 0.0)[None].astype(np.float32))
        assert holds(ON_TOP, dataclasses.replace(view(), regions=moment)) is expected


@pytest.mark.parametrize(
    ("point", "expected"),
    [
        ((0.0, 0.0, -0.029), True),
        ((0.0, 0.0, -0.031), False),
        ((0.0, 0.0, 0.021), False),
        ((0.09, 0.0, 0.0), False),
        ((0.04, 0.09, 0.0), True),
    ],
)
def test_in_a_region_is_within_its_box_along_the_world(point, expected):
    """A quarter turn exchanges the sides; the bottom reaches 1 cm deeper."""
    turn = Rotation.from_euler("z", 90, degrees=True).as_matrix()
    found = regions(1, origin={0: point}, half={0: (0.1, 0.05, 0.02)}, rotation={0: turn})
    assert holds(IN, dataclasses.replace(view(), regions=found)) is expected


@pytest.mark.parametrize(("joint", "opened", "closed"), [(-0.141, 1, 0), (-0.14, 0, 0), (0.0, 0, 0), (0.001, 0, 1), (np.inf, 0, 1)])
def test_drawers(joint, opened, closed):
    moment = dataclasses.replace(view(), regions=regions(1, joint={1: joint}))
    assert holds(Expr("libero_open", ("drawer",)), moment) == bool(opened)
    assert holds(Expr("libero_closed", ("drawer",)), moment) == bool(closed)


@pytest.mark.parametrize(("knob", "on", "off"), [(0.5, 1, 0), (0.49, 0, 0), (0.0, 0, 0), (-0.001, 0, 1)])
def test_knobs(knob, on, off):
    moment = dataclasses.replace(view(joint={6: (knob, 0.0, 2.1)}), regions=regions(1))
    assert holds(Expr("libero_turned_on", ("stove",)), moment) == bool(on)
    assert holds(Expr("libero_turned_off", ("stove",)), moment) == bool(off)
    still = dataclasses.replace(view(joint={6: (knob, 0.0, 0.0)}), regions=regions(1))
    assert not holds(Expr("libero_turned_on", ("stove",)), still) and not holds(Expr("libero_turned_off", ("stove",)), still)


def test_they_combine_with_the_common_helpers():
    moment = dataclasses.replace(view(pos={0: (0, 0, 0.3)}, contacts=[(0, 1)]), regions=regions(1, origin={0: (0.0, 0.0, 0.1)}))
    both = Expr("all_of", (ON, Expr("at_least", (Expr("height_above", ("bowl", "table")), 0.2))))
    assert holds(both, moment) and not holds(Expr("all_of", (both, ON_TOP)), moment)


def test_worlds_without_regions_are_measured_as_before():
    """The same numbers to the last bit with and without regions beside them."""
    rng = np.random.default_rng(0)
    moment = random_view(rng, 5)
    exprs = [Expr("on", ("bowl", "plate")), Expr("distance", ("bowl", "stove"))]
    table = expressions.stack([expressions.encode(exprs, {"bowl": 0, "plate": 1, "stove": 6})] * 5)
    plain = np.asarray(expressions.evaluate(table, moment))
    assert np.array_equal(plain, np.asarray(expressions.evaluate(table, dataclasses.replace(moment, regions=regions(5)))))


@pytest.mark.parametrize(
    ("expr", "said"),
    [
        (Expr("libero_on", ("bowl",)), "takes 2 arguments"),
        (Expr("libero_on", ("bowl", "bowl")), "to itself"),
        (Expr("libero_on", ("top", "plate")), "'top' is no object here: use one of bowl, plate, stove"),
        (Expr("libero_in", ("bowl", "plate")), "'plate' is no region here: use one of drawer, top"),
        (Expr("libero_open", ("table",)), "'table' is no region"),
        (Expr("on", ("bowl", "top")), "unknown object 'top'"),
    ],
)
def test_what_cannot_be_asked_is_refused(expr, said):
    with pytest.raises(ExpressionError, match=said):
        expressions.encode([expr], INDEX)


def test_a_scene_without_regions_has_none_to_name():
    with pytest.raises(ExpressionError, match="none in this scene"):
        expressions.encode([Expr("libero_open", ("drawer",))], {"bowl": 0})


def test_the_documentation_holds_the_table(repository):
    assert libero.markdown_table() in (repository / "docs" / "libero_simulator.md").read_text(encoding="utf-8")
