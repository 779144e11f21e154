"""``--mode=verify``: one control test of a generation program, by anybody, against the policy of a run. Nothing is stored in the run."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

from coda_jax import config as settings
from coda_jax.agents.base import Trial
from coda_jax.evaluation.control_test import ControlResult, wants_more
from coda_jax.evaluation.statistics import Interval
from coda_jax.evaluation.trials import by_scene, rate_interval
from coda_jax.evaluation.wording import counted
from coda_jax.loop import cloning, own_families, parts
from coda_jax.loop.program_files import read_program
from coda_jax.loop.rounds import collect
from coda_jax.loop.rounds.control import Pairs, judged, pair_counts, trials_of
from coda_jax.loop.rounds.rollouts import Rollouts
from coda_jax.loop.rounds.variants import Base, Batch
from coda_jax.loop.run import Run, opened
from coda_jax.loop.seed_scenes import SceneSource
from coda_jax.programs.errors import ProgramError
from coda_jax.programs.sandbox import Sandbox
from coda_jax.runtime import InputError
from coda_jax.scenes.catalogue import Catalogue
from coda_jax.scenes.generation import GenerationProgram, evaluate_generation

WEAK = 0.1  # success on the base scenes below which an edit has hardly anything to take away


def run(config: settings.Config, workdir: Path, path: Path) -> None:
    """Test the program at its own level: what was found in words on stderr, as one JSON object on stdout.

    Raises:
      InputError: the program is refused, fits no scene, or the run has no trained policy yet.
    """
    with parts.mendable():
        own_families.add(config)
        with Sandbox(parts.limits_of(config)) as sandbox:
            try:
                text = read_program(path, config.sandbox.text_bytes)
                program = evaluate_generation(text, sandbox, Catalogue("train"))
            except ProgramError as error:
                raise InputError(f"{path}: {error}") from error
        with opened(config, workdir) as job:
            found, refused = tested(job, program)
            for line in described(program, found, config.control.rollouts):
                job.say(line)
        row = {"program": str(path), "factor": program.factor, "verbs": [e.verb for e in program.edits], "level": program.level}
        print(json.dumps(row | found.fields(config.control.rollouts) | {"refused": refused}))


@dataclasses.dataclass(frozen=True)
class Tested:
    """One control test. counts: base number to successes (edited, control); base: successes and healthy rollouts of the base itself."""

    result: ControlResult
    counts: dict[int, tuple[int, int]]
    base: dict[int, tuple[int, int]] = dataclasses.field(default_factory=dict)

    def rates(self, n: int) -> dict[str, tuple[int, int, Interval]]:
        """Successes, rollouts and 95 % interval over scenes of base, edited and control scenes; ``n`` rollouts of each variant."""
        edited, control = ([both[i] for both in self.counts.values()] for i in range(2))
        base = [(k, healthy) for k, healthy in self.base.values() if healthy]
        rollouts = {"base": [healthy for _, healthy in base], "edited": [n] * len(edited), "control": [n] * len(control)}
        successes = {"base": [k for k, _ in base], "edited": edited, "control": control}
        return {name: (sum(k), sum(rollouts[name]), rate_interval(k, rollouts[name])) for name, k in successes.items()}

    @property
    def lost(self) -> list[int]:
        """Rollouts that each scene lost to the edit beyond what it lost to the control edit, in the order of the scenes."""
        return [other - k for k, other in self.counts.values()]

    def fields(self, n: int) -> dict[str, Any]:
        rates = {name: {"k": k, "n": m, "low": interval.low, "high": interval.high} for name, (k, m, interval) in self.rates(n).items()}
        return dataclasses.asdict(self.result) | rates | {"lost": self.lost, "rollouts": n}


def described(program: GenerationProgram, found: Tested, n: int) -> list[str]:
    """What was found as lines for a person: verdict, success of the three kinds of scenes, what each scene lost."""
    r = found.result
    lines = [
        f"{r.verdict}: {' and '.join(e.verb for e in program.edits)} at level {program.level:g} costs {100 * r.mean:+.0f} points beyond "
        f"another factor ({100 * r.low:+.0f} .. {100 * r.high:+.0f}, 90 %), {counted(r.scenes, 'scene')}",
        "success, 95 % over scenes",
    ]
    for name, (k, rollouts, (low, high)) in found.rates(n).items():
        rate = f"{k}/{rollouts}"
        share = f"{100 * k / rollouts:.0f} %" if rollouts else "-"
        lines.append(f"  {name + ' scenes':<15} {rate:>9}  {share:>5}  ({100 * low:.0f} .. {100 * high:.0f})")
    k, rollouts, _ = found.rates(n)["base"]
    if rollouts and k < WEAK * rollouts:
        lines.append(
            f"the policy solves under {100 * WEAK:.0f} % of the scenes as they are: so weak a policy can show nothing; train it longer"
        )
    lost = " ".join(f"{d:+d}" if d else "0" for d in found.lost)
    return [*lines, f"lost beyond the control edit by each scene, of {n} rollouts: {lost}"]


def tested(run: Run, program: GenerationProgram) -> tuple[Tested, dict[str, int]]:
    """The control test of one program on fresh scenes, topped up while it is undecided, and why scenes were refused.

    The bases of the test are rolled out too, with the noise of their variants, so that both edits can be set beside no edit.

    Raises:
      InputError: no scene allows it, or there is no policy.
    """
    state = cloning.trained(run)
    round_number, n = run.config.rounds.count + 1, run.config.control.rollouts
    with SceneSource(run) as source:
        bases = collect.test_scenes(run, round_number, source)
    batch, rollouts = Batch(), Rollouts(run, state.ema)
    found = control_tested(run, program, bases, rollouts, batch)
    if found is None:
        reasons = "; ".join(
            f"{reason}, in {n} of {sum(batch.refused.values())}"
            for reason, n in sorted(batch.refused.items(), key=lambda item: -item[1])[:3]
        )
        raise InputError(f"no fresh scene allows this test ({reasons}): lower the level, or ask for other roles")
    trials = [Trial(b.spec, (b.number, r)) for b in bases if b.number in found.counts for r in range(n)]
    with rollouts.runner("control", round_number, len(trials), "base scenes") as rollout_fn:
        base = by_scene(rollout_fn(trials))
    return dataclasses.replace(found, base=base), batch.refused


def control_tested(run: Run, program: GenerationProgram, bases: list[Base], rollouts: Rollouts, batch: Batch) -> Tested | None:
    """Wave after wave of bases until decided or used up; None where no pair could be built."""
    settings = run.config.control
    supply, counts, result = Pairs(run, program, bases, batch), {}, None
    wanted = settings.scenes
    while wanted:
        pairs = supply.take(wanted)
        trials = trials_of(pairs, settings.rollouts)
        with rollouts.runner("control", run.config.rounds.count + 1, len(trials), "control test") as rollout_fn:
            counts |= pair_counts(pairs, rollout_fn(trials), settings.rollouts)
        if not counts:
            break
        (result,) = judged(run, [counts])
        wanted = wants_more(result, supply.left, settings.most_scenes)
    return Tested(result, counts) if result else None
