"""The report page: complete, self-contained, and safe with hostile names."""

import json
import re

import mujoco
import numpy as np
import pytest

from coda_jax.evaluation import failures, film, metrics, records
from coda_jax.evaluation.metrics import MetricsWriter, Summary
from coda_jax.evaluation.report import charts, write_report
from coda_jax.sim.render import render
from tests.evaluation.pages import HOSTILE, Page

SPLIT = "validation"


def picture(shift):
    model = mujoco.MjModel.from_xml_string("""<mujoco><worldbody><geom name="table" type="plane" size="2 2 .1" rgba=".72 .62 .52 1"/>
      <body pos=".45 0 .03"><freejoint/><geom type="box" size=".03 .03 .03" rgba=".85 .2 .2 1"/></body>
      <geom type="cylinder" size=".08 .005" pos=".5 .2 .005" rgba=".95 .95 .95 1"/></worldbody></mujoco>""")
    states = np.repeat(model.qpos0[None], len(shift), axis=0)
    states[:, 1] += shift
    return render(model, states)


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory):
    """A made-up run with every kind of data; its names try to break out of the page."""
    folder = tmp_path_factory.mktemp("runs") / "sample"
    rng = np.random.default_rng(0)
    frames = picture(np.linspace(0, 0.2, 7))
    made = []
    for suite, rates in zip(records.SUITES, ((0.2, 0.8), (0.1, 0.6), (0.1, 0.45), (0.05, 0.3), (0.02, 0.2)), strict=True):
        for moment, rate in zip(("before", "after"), rates, strict=True):
            for i in range(50):
                success = bool(rng.random() < rate)
                phase = None if success else str(rng.choice(failures.PHASES, p=[0.15, 0.35, 0.15, 0.25, 0.1]))
                path = None
                if moment == "after" and i < 8:
                    path = f"videos/{suite}_{i}.png"
                    captions = [f"{12 * j} {name}" for j, name in enumerate(("start", *failures.PHASES, "end"))]
                    film.write_strip(folder / path, film.film_strip(frames, captions, success=success))
                made.append(
                    records.EvalRecord(
                        family="pick_place",
                        suite=suite,
                        split=SPLIT,
                        moment=moment,
                        scene_id=f"{suite}{i:04x}",
                        seed=0,
                        success=success,
                        steps=int(rng.integers(40, 120)),
                        phase_failed=phase,
                        instruction=HOSTILE if i == 0 else "put the red box on the white plate",
                        film=path,
                    )
                )
    records.write_records(folder, made)
    rejected = {"penetration": 18, "unreachable": 9, "unstable": 5, HOSTILE: 1}
    metrics.write_summary(
        folder,
        Summary(
            seed=0,
            wall_s=312.0,
            accepted=230,
            rejected=rejected,
            compiles_per_round=[0],
            sim_steps=3_400_000,
            suites=records.tally(made, SPLIT),
        ),
    )
    with MetricsWriter(folder / metrics.METRICS, 0) as writer:
        for step in range(0, 4000, 20):
            writer.write("train", step=step, loss=float(np.exp(-step / 900) + 0.05 + 0.02 * rng.random()))
        for step in range(0, 4000, 400):
            writer.write("train", step=step, validation_loss=float(np.exp(-step / 900) + 0.12))
        for category, k in (("box", 49), ("can", 47), ("ball", 50), (HOSTILE, 33)):
            writer.write("planner", category=category, k=k, n=50)
        writer.write("supervised", stage="demonstrations", scenes=200, first=179, solved=198, remarks={"slipped": 21})
        for name, wall, done, unit in (("scenes", 9, 263, "scenes"), ("demonstrations", 31, 200, "demos"), ("cloning", 118, 4000, "steps")):
            writer.write("stage", name=name, wall_s=wall, done=done, unit=unit, compiles=3)
        for i in range(6):
            film.write_strip(folder / f"videos/scene_{i}.png", film.film_strip(frames[i : i + 1], [""]))
            writer.write("scene", scene_id=str(i), instruction="put the red box on the plate", file=f"videos/scene_{i}.png")
        writer.write("scene", scene_id="out", instruction="outside", file="../../../etc/passwd.png")
        writer.commit()
    (folder / "config.json").write_text(json.dumps({"seed": 0, "name": HOSTILE}))
    return folder


@pytest.fixture(scope="module")
def page(run_folder):
    source = write_report(run_folder).read_text("utf-8")
    parser = Page()
    parser.feed(source)
    parser.source = source
    return parser


def test_every_section_is_there_and_tags_close(page):
    assert page.open == []
    text = "".join(page.text)
    for title in (
        "Success by suite",
        "Where rollouts fail",
        "Film strips",
        "Planner by category",
        "Training loss",
        "Scenes",
        "Configuration",
    ):
        assert title in text
    assert "Time by stage" in text and "penetration" in text and "6.45 demos/s" in text


def test_numbers_are_those_of_the_records(page, run_folder):
    after = metrics.read_summary(run_folder).suites["pick_place"]["tasks"]["after"]
    assert f"{after.k}/{after.n}" in "".join(page.text)
    assert "Held-out success went from" in "".join(page.text)


def test_hostile_names_stay_text(page):
    assert HOSTILE in "".join(page.text)
    assert "script" not in page.tags
    assert not any(name.startswith("on") for name, _ in page.attributes)
    assert "alert(1)>" not in page.source


def test_page_needs_no_network(page):
    for name, value in page.attributes:
        if name in ("src", "href"):
            assert value.startswith(("data:image/", "#"))
    assert not re.search(r"url\(|@import|https?://", page.source.replace("http-equiv", ""))
    assert len(page.source) < 5_000_000


def test_pictures_outside_the_run_folder_are_left_out(page, run_folder):
    (run_folder.parent / "secret.png").write_bytes(b"secret")
    with MetricsWriter(run_folder / metrics.METRICS, (run_folder / metrics.METRICS).stat().st_size) as writer:
        writer.write("scene", instruction="stolen", file="../secret.png")
        writer.commit()
    source = write_report(run_folder).read_text("utf-8")
    assert "stolen" not in source and "outside" not in source
    assert source.count('alt="scene"') == 6


def test_bare_run_still_gets_a_page(tmp_path):
    metrics.write_summary(tmp_path, Summary(3, 0.0, 0, {}, [], 0, {}))
    source = write_report(tmp_path).read_text("utf-8")
    assert "No held-out suite has been evaluated yet." in source and "Success by suite" not in source


def test_missing_summary_is_named(tmp_path):
    with pytest.raises(ValueError, match=r"summary.json does not exist"):
        write_report(tmp_path)


def test_bar_widths_are_the_values():
    svg = charts.bar_chart([[charts.Bar("a", 0.5, (0.25, 0.75), "5/10", "#000000")]], "t")
    span = charts.WIDTH - charts._LABEL - charts._RIGHT
    assert f'width="{span / 2:.1f}"' in svg
    assert f"M{charts._LABEL + span / 4:.1f} " in svg and f"H{charts._LABEL + 3 * span / 4:.1f}" in svg


def test_line_chart_skips_what_is_not_finite():
    svg = charts.line_chart([("loss", [(0, 1.0), (1, float("nan")), (2, 3.0)], "#000000")], "step", "t")
    assert svg.count("L") == 1 and "nan" not in svg
    assert charts.line_chart([], "step", "t") == ""
