"""The platform of our own families: a table, catalogue assets, buckets (sim/compile.py), 10 Hz."""

from __future__ import annotations

from collections.abc import Sequence

from coda_jax.scenes import families as known
from coda_jax.scenes.catalogue import Catalogue
from coda_jax.scenes.language import noun
from coda_jax.scenes.spec import SceneSpec
from coda_jax.sim import compile as compiling
from coda_jax.sim import native, validity
from coda_jax.sim.bucket import Bucket, smallest
from coda_jax.sim.cameras import FILMED, FRONT, WRIST
from coda_jax.sim.native import NativeSimulator
from coda_jax.sim.platforms import Cameras
from coda_jax.sim.robot import Robot
from coda_jax.sim.supervision.inspector import ScriptedInspector
from coda_jax.types import CONTROL_HZ, FREE_SLOTS, TIMESTEP_S, TOKENS


class TabletopPlatform:
    """Platform Protocol."""

    timestep_s, control_hz = TIMESTEP_S, CONTROL_HZ
    cameras = Cameras(FRONT, WRIST, FILMED)

    def token_index(self, spec: SceneSpec, catalogue: Catalogue) -> dict[str, int]:
        return compiling.token_index(spec, catalogue)

    def token_words(self, spec: SceneSpec, catalogue: Catalogue) -> list[str]:
        index = compiling.token_index(spec, catalogue)
        words = [""] * TOKENS
        for attribute, asset in zip(spec.attributes.objects, compiling.scene_assets(spec, catalogue), strict=True):
            words[index[attribute.object]] = noun(attribute.colour, asset.category)
        return words

    def bucket(self, specs: Sequence[SceneSpec], catalogue: Catalogue) -> Bucket:
        buckets = [compiling.bucket_of(spec, catalogue) for spec in specs]
        return Bucket(max(b.free for b in buckets), max(b.geoms for b in buckets), any(b.articulated for b in buckets))

    def training_bucket(self, families: Sequence[str], catalogue: Catalogue) -> Bucket:
        jointed = any("articulated" in known.get(name).target_kinds for name in families)
        return smallest(FREE_SLOTS, max(len(a.primitives) for a in catalogue if a.kind == "object"), jointed)

    def simulator(self, catalogue: Catalogue, bucket: Bucket, worlds: int, threads: int, robot: Robot) -> NativeSimulator:
        return NativeSimulator(catalogue, bucket, worlds, threads, robot)

    def physics_steps(self, control_steps: int, scenes: int) -> int:
        return native.physics_steps(control_steps, scenes)

    def drawable(self, spec: SceneSpec, catalogue: Catalogue, bucket: Bucket | None, robot: Robot) -> compiling.CompiledScene:
        return compiling.compile_scene(spec, catalogue, bucket or compiling.bucket_of(spec, catalogue), robot)

    def check(self, specs: Sequence[SceneSpec], catalogue: Catalogue, settings: validity.ValiditySettings) -> list[validity.Report]:
        return validity.check(specs, catalogue, settings)

    def inspector(self, catalogue: Catalogue) -> ScriptedInspector:
        return ScriptedInspector(catalogue)


PLATFORM = TabletopPlatform()
