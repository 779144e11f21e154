"""``--mode=view``: one scene as a picture from two cameras, its symbol table, and what is wrong with it."""

from __future__ import annotations

from pathlib import Path

from coda_jax import config as settings
from coda_jax.evaluation.film import write_strip
from coda_jax.loop import films, own_families, parts
from coda_jax.loop import workdir as folders
from coda_jax.loop.program_files import read_program
from coda_jax.programs.errors import ProgramError
from coda_jax.programs.sandbox import Sandbox
from coda_jax.runtime import InputError
from coda_jax.scenes import suites
from coda_jax.scenes.catalogue import Catalogue
from coda_jax.scenes.leakage import HeldOutContent, refuse_held_out
from coda_jax.scenes.program import evaluate_scene
from coda_jax.scenes.spec import SceneSpec
from coda_jax.sim import platforms
from coda_jax.sim.observe import scene_texts
from coda_jax.sim.platforms import check

HEIGHT, WIDTH = 360, 480
PICTURES = Path("runs") / "pictures"  # where no run is named


def scene_of(config: settings.Config, program: Path | None, suite: str, index: int) -> SceneSpec:
    """The scene of a program file, or number ``index`` of a suite of ``evaluate.split``.

    Raises:
      InputError: the program cannot be used, or the suite or the number does not exist.
    """
    if program is not None:
        with Sandbox(parts.limits_of(config)) as sandbox:
            try:
                return evaluate_scene(read_program(program, config.sandbox.text_bytes), sandbox, Catalogue.all())
            except ProgramError as error:
                raise InputError(f"{program}: {error}") from error
    scenes = [s for family in settings.families(config) for s in suites.load(family, suite, config.evaluate.split)]
    if index >= len(scenes):
        raise InputError(f"--index={index}: suite {suite} of {config.evaluate.split} has scenes 0 to {len(scenes) - 1}")
    return scenes[index]


def table(spec: SceneSpec, catalogue: Catalogue) -> list[str]:
    """The symbol table as aligned lines: id, words, asset, roles, position, turn, support, affordances."""
    words, index = scene_texts(spec, catalogue)[0], platforms.token_index(spec, catalogue)
    rows = [("id", "words", "asset", "roles", "position, m", "yaw, rad", "on", "affordances")]
    for thing in spec.attributes.objects:
        asset, place = catalogue.get(thing.asset), spec.placement(thing.object)
        roles = ", ".join(r.role for r in spec.task.roles if r.object == thing.object)
        position = "({:.3f}, {:.3f}, {:.3f})".format(*place.pos_m)
        affordances = ", ".join(asset.affordances) or "-"
        rows.append(
            (
                thing.object,
                words[index[thing.object]],
                thing.asset,
                roles or "-",
                position,
                f"{place.yaw_rad:.2f}",
                place.support,
                affordances,
            )
        )
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def run(
    config: settings.Config, program: Path | None, suite: str, index: int, output: Path | None = None, workdir: Path | None = None
) -> None:
    """Draw one scene from the front and from the wrist side by side, and print what it is and where the picture is.

    Args:
      output: the file; None for scene_ID.png in the videos of ``workdir`` where that is a run, else in runs/pictures.

    Raises:
      InputError: there is no such scene, or the picture cannot be written.
    """
    with parts.mendable():
        own_families.add(config)
        spec, catalogue = scene_of(config, program, suite, index), Catalogue.all()
        print(f"scene {spec.scene_id}, {spec.task.family}, layout {spec.spatial.layout}")
        print(f"instruction: {spec.task.instruction}")
        print(f"goal: {spec.task.goal}")
        print("\n".join(table(spec, catalogue)))
        for failure in check([spec], catalogue, parts.validity_of(config))[0].failures:
            print(f"invalid, {failure.check}: {failure.message}")
        try:
            refuse_held_out(spec, Catalogue("train"))
        except HeldOutContent as error:
            print(f"not for training: {error}")
        picture = films.picture(spec, catalogue, parts.robot_of(config), HEIGHT, WIDTH, wrist=True)
        own = workdir is not None and (workdir / folders.CONFIG_FILE).exists()
        path = output or (workdir / "videos" if own and workdir else PICTURES) / f"scene_{spec.scene_id}.png"
        try:
            write_strip(path, picture)
        except (OSError, ValueError) as error:
            raise InputError(f"--output={path} cannot be written: {error}") from error
        print(f"picture: {path}")
