"""A mesh file to an asset of one's own: ``python -m coda_jax.loop.import_mesh duck.glb --category=duck --licence=CC0-1.0 --source=URL``.

Writes CATEGORY_NN.json, the record that ``--config.scenes.own_assets=FOLDER`` reads, and a picture beside it. The thing is put on the table
and watched for a second first: one that does not stand, or that the jaws cannot hold, is refused.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
from pathlib import Path

from coda_jax import config as settings
from coda_jax import runtime
from coda_jax.runtime import InputError

FOLDER = Path("own_assets")


def import_mesh(
    path: Path,
    category: str,
    licence: str,
    source: str,
    *,
    kind: str = "object",
    number: int = 0,
    density_kg_m3: float = 500.0,
    up: str = "y",
    longest_m: float | None = None,
    pieces: int = 6,
    folder: Path = FOLDER,
    replace: bool = False,
) -> Path:
    """Make the record of a mesh, add the asset to this process, and return the file.

    Args:
      kind: "object" (free, graspable) or "support". number: 0 to 99, of the instance. density_kg_m3: gives the mass of an object.
      up, longest_m, pieces: see ``meshes.convert.convert``. replace: a record of that category and number.

    Raises:
      InputError: there is such a record, the file cannot be used, it does not stand, or nothing about it fits the jaws; the message says
        what to change.
    """
    from coda_jax.scenes import own
    from coda_jax.scenes.meshes.convert import convert
    from coda_jax.scenes.meshes.load import MeshError, read_bytes

    if not licence.strip() or not source.strip():
        raise InputError("give --licence, such as CC0-1.0, and --source, such as the address it came from: the record keeps both")
    if not 0 <= number <= 99:
        raise InputError(f"--number={number} must be 0 to 99")
    if kind not in ("object", "support"):
        raise InputError(f"--kind={kind} must be object or support")
    if not 50 <= density_kg_m3 <= 20_000:
        raise InputError(f"--density={density_kg_m3:g} must be 50 to 20000: it is in kg/m^3, and water has 1000")
    target = folder / f"{category}_{number:02d}.json"
    try:
        own.check_category(category)
        if target.exists() and not replace:
            raise InputError(f"{target} is there already: {_another(folder, category)}--replace overwrites it")
        made = convert(path, up, longest_m, pieces)
        asset = asset_of(made.primitives, made.solid_m3 * density_kg_m3, target.stem, kind)
        provenance = own.Provenance(
            path.name, own.digest(read_bytes(path)), source.strip(), licence.strip(), density_kg_m3, made.solid_m3, round(made.overlap, 3)
        )
        record = own.OwnAsset(own.FORMAT, asset, provenance)
        own.from_json(own.to_json(record))  # what is written can be read
        own.add([record])
    except (MeshError, own.OwnAssetError) as error:
        raise InputError(str(error)) from error
    _watch(asset)
    folder.mkdir(parents=True, exist_ok=True)
    target.write_text(own.to_json(record))
    return target


def _another(folder: Path, category: str) -> str:
    """ "take --number=1 for another instance; " with the first number that is free, or nothing where none is."""
    free = next((n for n in range(100) if not (folder / f"{category}_{n:02d}.json").exists()), None)
    return "" if free is None else f"take --number={free} for another instance; "


def asset_of(primitives, mass_kg: float, asset_id: str, kind: str):
    """The asset of primitives in any frame: recentred, with the grasps that fit.

    Raises:
      InputError: nothing about an object fits the jaws; the message says which size of it would.
    """
    from coda_jax.scenes.assets import Asset
    from coda_jax.scenes.shapes.build import MAX_GRASP_WIDTH_M, Shape, assemble
    from coda_jax.scenes.shapes.grasping import find_grasps

    shape, half = assemble(Shape(tuple(primitives)))
    asset = Asset(
        asset_id=asset_id,
        category=asset_id[:-3],
        kind=kind,
        split="train",
        primitives=shape.primitives,
        half_extent_m=half,
        mass_kg=round(mass_kg, 4) if kind == "object" else 1.0,
        affordances=("graspable",) if kind == "object" else ("supports",),
    )
    if kind != "object":
        return asset
    grasps = find_grasps(shape.primitives, half[2])
    if not grasps:
        sides = " x ".join(f"{2000 * h:.0f}" for h in half)
        fits = _longest_that_fits(asset)
        advice = f"--longest={fits:g} would fit, its longest side in metres" if fits else "no other size of it would either"
        raise InputError(f"no part of it ({sides} mm) fits jaws of {1000 * MAX_GRASP_WIDTH_M:.0f} mm from above: {advice}")
    return dataclasses.replace(asset, grasps=grasps)


def _longest_that_fits(asset) -> float | None:
    """Length of the longest side, m, at which an asset would have a grasp: the largest of some sizes, or None."""
    from coda_jax.scenes.own import SIDES_M
    from coda_jax.scenes.shapes.grasping import find_grasps

    longest_m = 2 * max(asset.half_extent_m)
    millimetres = 1000 * SIDES_M[1]
    while millimetres > 12:
        size_m = round(millimetres) / 1000
        other = asset.scaled(size_m / longest_m)
        if find_grasps(other.primitives, other.half_extent_m[2]):
            return size_m
        millimetres *= 0.92
    return None


def _watch(asset) -> None:
    """Raises InputError where the asset alone on the table does not rest as it was put."""
    from coda_jax.loop import parts
    from coda_jax.loop.catalogue_sheet import scene_of
    from coda_jax.scenes.catalogue import Catalogue
    from coda_jax.sim.checks.settle import settle_failures, settled_view
    from coda_jax.sim.compile import bucket_of, compile_scene

    if asset.kind != "object":
        return
    validity = dataclasses.replace(parts.validity_of(settings.default()), worlds=1, threads=1)
    spec, catalogue = scene_of(asset, asset.colours[0]), Catalogue.all()
    bucket = bucket_of(spec, catalogue)
    scene = compile_scene(spec, catalogue, bucket)
    view, diverged = settled_view(bucket, [scene], validity)
    for failure in settle_failures(scene, view, 0, bool(diverged[0]), validity):
        raise InputError(f"it does not stand: {failure.message}; give --up, or a mesh with a flat underside")


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m coda_jax.loop.import_mesh", description="Make an asset of an OBJ or GLB file.")
    parser.add_argument("mesh", type=Path, help="the file; nothing outside it is read, materials are left out")
    parser.add_argument("--category", required=True, help="what it is called in instructions: one word, such as duck")
    parser.add_argument("--licence", required=True, help="under which it may be used, such as CC0-1.0")
    parser.add_argument("--source", required=True, help="where it is from")
    parser.add_argument("--kind", choices=("object", "support"), default="object", help="free and graspable, or fixed")
    parser.add_argument("--number", type=int, default=0, help="of the instance, where a category has several")
    parser.add_argument("--density", type=float, default=500.0, help="kg/m^3 of the solid, for the mass; hollow things: less")
    parser.add_argument("--up", choices=("x", "y", "z"), default="y", help="upward axis of the file (GLB: y)")
    parser.add_argument("--longest", type=float, default=None, help="length of its longest side in metres; left out: the file is in metres")
    parser.add_argument("--pieces", type=int, default=6, help="most primitives, 1 to 6; fewer simulate faster")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where the record and its picture go")
    parser.add_argument("--replace", action="store_true", help="overwrite the record of this category and number")
    options = parser.parse_args(arguments)
    runtime.setup()
    try:
        path = import_mesh(
            options.mesh, options.category, options.licence, options.source, kind=options.kind, number=options.number,
            density_kg_m3=options.density, up=options.up, longest_m=options.longest, pieces=options.pieces, folder=options.folder,
            replace=options.replace,
        )  # fmt: skip
        _show(path)
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


def _show(path: Path) -> None:
    """Print what a record holds and draw it."""
    from coda_jax.evaluation.film import write_strip
    from coda_jax.loop.catalogue_sheet import sheet
    from coda_jax.scenes import own
    from coda_jax.scenes.catalogue import Catalogue

    record = own.read(path)
    asset, made = record.asset, record.provenance
    shapes = ", ".join(p.shape for p in asset.primitives)
    print(f"{path}: {len(asset.primitives)} primitives ({shapes}) share {made.overlap:.0%} of the volume with the mesh")
    widths = ", ".join(f"{1000 * g.width_m:.0f}" for g in asset.grasps)
    print(f"mass {asset.mass_kg:.3f} kg at {made.density_kg_m3:g} kg/m^3; grasps of {widths or 'no'} mm; licence {made.licence}")
    picture = path.with_suffix(".png")
    sides = " x ".join(f"{2000 * h:.0f}" for h in asset.half_extent_m) + " mm"
    write_strip(picture, sheet([asset], Catalogue.all(), [asset.asset_id], [sides]))
    print(f"picture: {picture}; use it with --config.scenes.own_assets={path.parent}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
