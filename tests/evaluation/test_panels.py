"""Small charts: marks lie where their numbers say, and nothing leaves the frame."""

import re

import pytest

from coda_jax.evaluation.report import panels
from coda_jax.evaluation.report.panels import Calibrated, Curve


def searched(pattern: str, text: str) -> re.Match[str]:
    match = re.search(pattern, text)
    assert match is not None, pattern
    return match


def test_dots_on_the_diagonal_are_calibrated_ones():
    points = [Calibrated(0.25, 0.25, 0.05, 100), Calibrated(0.5, 0.75, None, 25)]
    svg = panels.calibration_panel(points, 0.0, 1.0, "round 1")
    (x0, y0), (x1, y1) = [tuple(map(float, p)) for p in re.findall(r"[ML]([\d.]+) ([\d.]+)", searched(r'd="(M[^"]*L[^"]*)"', svg)[1])]
    first, second = [tuple(map(float, p)) for p in re.findall(r'cx="([\d.]+)" cy="([\d.]+)"', svg)]
    assert first == pytest.approx((x0 + (x1 - x0) / 4, y0 + (y1 - y0) / 4), abs=0.1)
    assert second == pytest.approx((x0 + (x1 - x0) / 2, y0 + 3 * (y1 - y0) / 4), abs=0.1)
    low, high = map(float, searched(r'd="M[\d.]+ ([\d.]+)V([\d.]+)"', svg).groups())
    assert low - high == pytest.approx(0.2 * (y0 - y1), abs=0.2)  # four standard errors in all
    assert svg.count("V") == 1  # one episode alone has no standard error
    assert re.findall(r' r="([\d.]+)"', svg) == ["6.0", "4.0"]


def test_what_lies_outside_stays_in_the_frame():
    svg = panels.calibration_panel([Calibrated(2.0, -1.0, 3.0, 1)], 0.0, 1.0, "round 1")
    assert all(0 <= float(v) <= 260 for v in re.findall(r'c[xy]="(-?[\d.]+)"', svg))
    assert panels.curve_panel([Curve("loss", [], "#000000")], []) == ""


def test_curves_share_their_axes_and_rounds_are_marked():
    svg = panels.curve_panel(
        [Curve("a", [(0, 0.0), (10, 2.0)], "#000001"), Curve("b", [(10, 1.0)], "#000002")], [(5, "end of round 1"), (10, "x")]
    )
    (x0, y0), (x1, y1) = [
        tuple(map(float, p)) for p in re.findall(r"[ML]([\d.]+) ([\d.]+)", searched(r'd="(M[^"]*)" fill="none" stroke="#000001"', svg)[1])
    ]
    dot = tuple(map(float, searched(r'cx="([\d.]+)" cy="([\d.]+)"', svg).groups()))
    assert dot == pytest.approx((x1, (y0 + y1) / 2), abs=0.1)
    assert f'x1="{(x0 + x1) / 2:.1f}"' in svg and svg.count("stroke-dasharray") == 1 and "end of round 1" in svg


def test_a_bar_is_as_long_as_its_share():
    svg = panels.stages_panel([("near", 0.5), ("a_name_that_is_too_long", 1.0)], "t")
    frame, half, _, whole = map(float, re.findall(r'width="([\d.]+)" height="10"', svg))
    assert (half, whole) == (frame / 2, frame) and "50%" in svg and "a_name_that_i…" in svg
