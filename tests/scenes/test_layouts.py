from __future__ import annotations

import collections
import dataclasses

from coda_jax.scenes.layouts import LAYOUTS


def _inside(part, whole):
    return all(w[0] - 1e-9 <= p[0] < p[1] <= w[1] + 1e-9 for p, w in ((part.x, whole.x), (part.y, whole.y)))


def test_five_hundred_in_three_splits():
    assert collections.Counter(x.split for x in LAYOUTS.values()) == {"train": 364, "validation": 68, "test": 68}
    assert len({dataclasses.replace(x, layout_id="") for x in LAYOUTS.values()}) == 500
    assert collections.Counter(x.split for x in LAYOUTS.values() if x.rule == x.layout_id) == {"train": 7, "validation": 4, "test": 4}
    assert all(layout.why for layout in LAYOUTS.values() if layout.split != "train")


def test_variants_keep_to_their_rule():
    for layout in LAYOUTS.values():
        rule = LAYOUTS[layout.rule]
        assert rule.rule == rule.layout_id and layout.split == rule.split
        assert (layout.raised, layout.passage, layout.close) == (rule.raised, rule.passage, rule.close)
        pairs = zip((*layout.fixtures, layout.target, *layout.clutter), (*rule.fixtures, rule.target, *rule.clutter), strict=True)
        assert all(_inside(part, whole) and part.name == whole.name for part, whole in pairs)
        assert rule.clearance_m <= layout.clearance_m <= 1.1 * rule.clearance_m + 1e-4
        assert layout.yaw_rad <= rule.yaw_rad + 1e-4 and layout.fixture_yaw_rad <= rule.fixture_yaw_rad + 1e-4
        assert rule.others[0] <= layout.others[0] <= layout.others[1] <= rule.others[1]


def test_held_out_layouts_are_not_among_training_ones():
    """What makes a held-out layout hard is in no training layout: crowds, stools, passages, corners."""
    trained = [x for x in LAYOUTS.values() if x.split == "train"]
    for layout in trained:
        assert not (layout.raised or layout.passage or layout.close) and layout.clearance_m >= 0.035 and layout.yaw_rad <= 0.8
    for layout in LAYOUTS.values():
        if layout.rule.startswith("corner"):
            corner = layout.target
            for x, y in ((t.target.x, t.target.y) for t in trained):
                assert corner.x[0] >= x[1] or corner.x[1] <= x[0] or corner.y[0] >= y[1] - 0.021 or corner.y[1] <= y[0] + 0.021
