"""What a language model's scenes need beside its answers, without a run: the doors of training scenes, physics, pictures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from coda_jax import config as settings
from coda_jax.agents.llm.engine_tools import Trace, Variants
from coda_jax.evaluation.film import png_of
from coda_jax.loop import films, parts
from coda_jax.loop.mending import Checked, checked
from coda_jax.loop.own_programs import retried
from coda_jax.programs.errors import ErrorKind, ProgramError
from coda_jax.programs.sandbox import Sandbox
from coda_jax.scenes import families
from coda_jax.scenes.catalogue import Catalogue
from coda_jax.scenes.generation import GenerationProgram, evaluate_generation
from coda_jax.scenes.leakage import refuse_held_out
from coda_jax.scenes.program import evaluate_scene
from coda_jax.scenes.spec import FACTORS, SceneSpec
from coda_jax.sim.bucket import Bucket
from coda_jax.sim.checks.record import Failure
from coda_jax.sim.compile import SceneError, bucket_of

FREE_LAYOUT = "free"


def takes(whole: Bucket, part: Bucket) -> bool:
    """Whether a bucket takes every scene of another one."""
    return whole.free >= part.free and whole.geoms >= part.geoms and (whole.articulated or not part.articulated)


class Workbench:
    """EngineTools Protocol without memory and policy. A worker that dies or stalls is asked again, as for programs of our own."""

    def __init__(self, config: settings.Config, train: Catalogue, sandbox: Sandbox):
        self.config, self.train, self.sandbox = config, train, sandbox
        self._validity = parts.validity_of(config)
        self._bucket = parts.training_bucket(config, train)
        chosen = settings.families(config)
        self._layouts = {FREE_LAYOUT} | {x.layout_id for name in chosen for x in families.get(name).layouts_of("train")}

    def generation(self, text: str) -> GenerationProgram:
        return retried(self.sandbox, lambda: evaluate_generation(text, self.sandbox, self.train))

    def scene(self, text: str) -> SceneSpec:
        spec = retried(self.sandbox, lambda: evaluate_scene(text, self.sandbox, self.train, self._layouts))
        if spec.task.family not in settings.families(self.config):
            offered = " or ".join(settings.families(self.config))
            raise ProgramError(ErrorKind.INVALID_SCENE, f"family: {spec.task.family} is not trained here: use {offered}")
        refuse_held_out(spec, self.train)
        try:
            own = bucket_of(spec, self.train)
        except SceneError as error:
            raise ProgramError(ErrorKind.INVALID_SCENE, str(error)) from None
        if not takes(self._bucket, own):
            what = "an articulated thing" if own.articulated and not self._bucket.articulated else "more than the run's worlds hold"
            raise ProgramError(ErrorKind.INVALID_SCENE, f"objects: {what}, which no training scene here has: leave it out")
        return spec

    def checked(self, spec: SceneSpec) -> Checked:
        """The scene after its checks, mended where a check says how; a scene written freely may change in anything."""
        engine = parts.engine_of(self.train)
        return checked([spec], [FACTORS], self.train, self.train, self._validity, engine, self.config.engine.repairs)[0]

    def validated(self, spec: SceneSpec, offered: bool) -> tuple[SceneSpec | None, Sequence[Failure]]:
        found = self.checked(spec)
        return (found.spec, ()) if found.valid else (None, found.report.failures)

    def picture(self, spec: SceneSpec) -> bytes | None:
        try:
            drawn = films.picture(spec, self.train, parts.robot_of(self.config))
        except SceneError:
            return None
        return png_of(drawn)

    def modes(self) -> Sequence[Mapping[str, Any]]:
        return ()

    def mode(self, mode_id: str) -> Mapping[str, Any] | None:
        return None

    def known(self, factor: str, phase: str, cause: str, families: Sequence[str]) -> Mapping[str, Any] | None:
        return None

    def traces(self, verb: str | None, check: str | None, magnitude: float, most: int) -> Sequence[Trace]:
        return ()

    def taken(self) -> Sequence[GenerationProgram]:
        return ()

    def holds(self, scene_id: str) -> bool:
        return False

    def variants(self, program: GenerationProgram, bases: Sequence[SceneSpec], level: float) -> Variants:
        return Variants(0, 0, {})

    def tried(
        self, program: GenerationProgram, bases: Sequence[SceneSpec], levels: Sequence[float], rollouts: int
    ) -> Mapping[float, tuple[int, int]] | None:
        return None
