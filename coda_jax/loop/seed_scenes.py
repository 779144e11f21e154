"""Stage "scenes": program text of a user and from the seed generator through every door that a program of an engine must pass."""

from __future__ import annotations

import collections
import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path

from coda_jax import config as settings
from coda_jax import runtime
from coda_jax.evaluation.film import write_strip
from coda_jax.evaluation.metrics import atomic_write
from coda_jax.evaluation.terminal import Progress
from coda_jax.loop import films, parts, user_scenes
from coda_jax.loop.checkpoint import require_space
from coda_jax.loop.journal import Commit, file_sha256
from coda_jax.loop.own_programs import patiently
from coda_jax.loop.run import Run
from coda_jax.loop.workbench import Workbench
from coda_jax.programs.errors import ProgramError
from coda_jax.programs.sandbox import Sandbox
from coda_jax.runtime import InputError
from coda_jax.scenes import families, generate
from coda_jax.scenes.leakage import HeldOutContent, refuse_held_out
from coda_jax.scenes.program import evaluate_scene
from coda_jax.scenes.spec import SceneSpec, from_json, to_json
from coda_jax.sim.platforms import check

NAME = "scenes"
SEEDS_PER_RUN = 10_000_000  # generator seeds of one config.seed, so that runs of other seeds meet other scenes
BATCHES = 4  # of sim.worlds programs between commits
_LEAST_YIELD = 0.05  # share of programs that must become scenes; below it the settings are wrong
_LEAST_DRAWS = 5  # of a layout, before that none of them was valid says something


@dataclasses.dataclass(frozen=True)
class Scene:
    """An accepted training scene: generator seed (of a user's program its place instead), the program or draw it came from, its spec."""

    seed: int
    program: str
    spec: SceneSpec


class SceneSource:
    """Valid training scenes in the order of their seeds, each of the next family, endlessly; ``sim.worlds`` programs at a time.

    scenes: the accepted ones so far, first those of earlier commits. next_seed, rejected: as in Commit.

    Raises:
      InputError: as ``user_scenes.texts`` and ``user_scenes.check``.
    """

    def __init__(self, run: Run):
        self._run, self._sandbox, self._validity = run, Sandbox(parts.limits_of(run.config)), parts.validity_of(run.config)
        self.scenes = load(run.folder, run.state)
        self.next_seed, self.rejected = run.state.next_seed, collections.Counter(run.state.rejected)
        self._stored = len(self.scenes)
        self._refused: dict[str, collections.Counter[str]] = {}  # layout to reasons, since this process began
        found = user_scenes.texts(run.config)
        user_scenes.check(run.config, found, run.state.own_programs)
        self._own, self._own_hashes = list(found.values()), user_scenes.hashes(found)

    def __enter__(self) -> SceneSource:
        return self

    def __exit__(self, *_: object) -> None:
        self._sandbox.close()

    def get(self, index: int) -> Scene:
        """Scene number ``index``, written now if need be.

        Raises:
          InputError: hardly any program becomes a scene; the reasons are listed. Stopped: as ``patiently``.
        """
        while index >= len(self.scenes):
            self.more()
        return self.scenes[index]

    def more(self) -> None:
        """Write, evaluate and check the next ``sim.worlds`` programs."""
        config, chosen = self._run.config, settings.families(self._run.config)
        written: list[Scene] = []
        for offset in range(self.next_seed, self.next_seed + config.sim.worlds):
            seed = config.seed * SEEDS_PER_RUN + offset
            try:
                if offset < len(self._own):
                    program = self._own[offset]
                    spec = Workbench(config, self._run.train, self._sandbox).scene(program)
                else:
                    program, spec = self._drawn(chosen[offset % len(chosen)], seed)
                refuse_held_out(spec, self._run.train)
            except ProgramError as error:
                self.rejected[f"program: {error.kind.value}"] += 1
            except HeldOutContent as error:
                self._refuse(spec, f"held out: {error.kind}")
            else:
                written.append(Scene(seed, program, spec))
        for scene, report in zip(written, check([s.spec for s in written], self._run.train, self._validity), strict=True):
            if report.valid:
                self.scenes.append(scene)
            else:
                self._refuse(scene.spec, report.failures[0].check)
        self.next_seed += config.sim.worlds
        if len(self.scenes) < _LEAST_YIELD * self.next_seed:
            reasons = ", ".join(f"{reason} {n}" for reason, n in self.rejected.most_common())
            raise InputError(f"only {len(self.scenes)} of {self.next_seed} programs gave a valid scene ({reasons}): check config.validity")

    def _refuse(self, spec: SceneSpec, reason: str) -> None:
        self.rejected[reason] += 1
        self._refused.setdefault(_layout(spec), collections.Counter())[reason] += 1

    def never_valid(self) -> dict[str, str]:
        """Layouts (of LIBERO: source tasks) that were drawn several times and gave no scene, each with the reasons."""
        taken = {_layout(s.spec) for s in self.scenes}
        missing = {k: c for k, c in self._refused.items() if k not in taken and c.total() >= _LEAST_DRAWS}
        return {k: ", ".join(f"{reason} {n}" for reason, n in c.most_common()) for k, c in sorted(missing.items())}

    def _drawn(self, family: str, seed: int) -> tuple[str, SceneSpec]:
        own = families.get(family).seed_scene(self._run.train, seed)
        if own is not None:
            return own
        program = generate.sample(self._run.train, family, "id", "train", seed)
        return program, patiently(self._sandbox, lambda: evaluate_scene(program, self._sandbox, self._run.train))

    def store(self) -> dict:
        """Write the scenes since the last call to a file of their own; returns the changed fields of the commit."""
        files = dict(self._run.state.files)
        if len(self.scenes) > self._stored:
            name = f"episodes/scenes_{sum(n.startswith('episodes/scenes_') for n in files):04d}.jsonl"
            rows = ({"seed": s.seed, "program": s.program, "spec": to_json(s.spec)} for s in self.scenes[self._stored :])
            content = "".join(json.dumps(row) + "\n" for row in rows).encode()
            require_space(self._run.folder, len(content))
            atomic_write(self._run.folder / name, content)
            files[name] = file_sha256(self._run.folder / name)
            self._stored = len(self.scenes)
        counts = {"accepted": len(self.scenes), "next_seed": self.next_seed, "rejected": dict(self.rejected)}
        return {"files": files, "own_programs": self._own_hashes, **counts}


def _layout(spec: SceneSpec) -> str:
    """Without the number of an initial state."""
    return spec.spatial.layout.partition("@")[0]


def load(folder: Path, state: Commit) -> list[Scene]:
    """The scenes of a commit, in order."""
    return list(_read(folder, sorted(n for n in state.files if n.startswith("episodes/scenes_"))))


def _read(folder: Path, names: list[str]) -> Iterator[Scene]:
    for name in names:
        for line in (folder / name).read_text("utf-8").splitlines():
            row = json.loads(line)
            yield Scene(row["seed"], row["program"], from_json(row["spec"]))


def run(run: Run) -> dict:
    """Accept as many scenes as demonstrations are wanted, a commit every few batches; returns what the stage's row says."""
    need, each = run.config.demos.count, BATCHES * run.config.sim.worlds
    with SceneSource(run) as source, Progress("scenes", need, "scenes") as progress:
        while len(source.scenes) < need:
            runtime.check_stop()  # what was done since the last commit is done again
            source.more()
            progress.update(min(len(source.scenes), need), rejected=sum(source.rejected.values()))
            if source.next_seed % each == 0 or len(source.scenes) >= need:
                run.charge(NAME)
                run.commit(**source.store())
        for layout, reasons in source.never_valid().items():
            run.say(f"warning: no draw of {layout} was a valid scene ({reasons}): nothing will be learned of it")
            run.metrics.write("never_valid", layout=layout, reasons=reasons)
        _draw(run, source.scenes[: run.config.scenes.pictures])
    for reason, n in sorted(source.rejected.items()):  # these rows belong to the commit that ends the stage
        run.metrics.write("rejected", reason=reason, n=n)
    return {"done": len(source.scenes), "unit": "scenes"}


def _draw(run: Run, scenes: list[Scene]) -> None:
    for scene in scenes:
        name = f"videos/scene_{scene.spec.scene_id}.png"
        write_strip(run.folder / name, films.picture(scene.spec, run.train, parts.robot_of(run.config)))
        run.metrics.write("scene", scene_id=scene.spec.scene_id, instruction=scene.spec.task.instruction, file=name)
