"""Stage "evaluate": one rollout for each suite scene and seed, k/n, where they failed, film strips and records."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from coda_jax import config as settings
from coda_jax import runtime
from coda_jax.evaluation.asking import Asking
from coda_jax.evaluation.failures import PHASES, phase_failed
from coda_jax.evaluation.guidance import Guided
from coda_jax.evaluation.metrics import Moment, Tally
from coda_jax.evaluation.records import EvalRecord, write_records
from coda_jax.evaluation.results import Result
from coda_jax.evaluation.rollouts import PolicyFn, rollout
from coda_jax.evaluation.scan_rollouts import InScan
from coda_jax.evaluation.statistics import wilson
from coda_jax.evaluation.terminal import Progress
from coda_jax.learning import lora
from coda_jax.learning.actor import Actor, Selection, act
from coda_jax.learning.critic.batch import ProgramInput
from coda_jax.learning.critic.network import Critic
from coda_jax.learning.encoders.minilm import TextEncoder
from coda_jax.learning.policies.base import Params
from coda_jax.learning.policies.flow import FlowPolicy
from coda_jax.learning.policies.grounding import ROLES, filled_roles
from coda_jax.learning.policies.pixels import PixelPolicy
from coda_jax.loop import films, libero_records, parts
from coda_jax.loop.shared_rollouts import Known, known_of, rollout_key, twin
from coda_jax.programs.training.program import AnyProgram
from coda_jax.scenes import suites
from coda_jax.scenes.catalogue import Catalogue
from coda_jax.scenes.spec import SceneSpec
from coda_jax.sim.eyes import Eyes
from coda_jax.sim.observe import role_tokens
from coda_jax.sim.simulator import Episode, Simulator, episode_of
from coda_jax.sim.watching import Watching
from coda_jax.types import Array, Observation

if TYPE_CHECKING:
    from coda_jax.learning.policies.remote import RemotePolicy

NAME = "evaluate"


@dataclasses.dataclass(frozen=True)
class SuiteOutcome:
    """records: one per rollout, in the order of scenes, then seeds. shared: how many of them are those of the same episodes of another
    suite, which were not rolled out again. sim_steps: physics steps (0 where the backend does not count).

    measured: how an actor chose (guidance.Choices.means), what a policy of pictures had drawn, empty for a policy of states alone.
    """

    suite: str
    records: tuple[EvalRecord, ...]
    sim_steps: int
    clipped: int
    measured: dict[str, float] = dataclasses.field(default_factory=dict)
    shared: int = 0

    @property
    def tally(self) -> Tally:
        return Tally(sum(r.success for r in self.records), len(self.records))


def chosen_scenes(config: settings.Config, folder: Any = None) -> dict[str, list[SceneSpec]]:
    """The frozen scenes of ``evaluate.suites``, the first ``evaluate.scenes`` of each family, one family after the other.

    Raises:
      SuiteError: a suite is not frozen, damaged, or of another catalogue.
    """
    most = config.evaluate.scenes or None

    def scenes(suite: str) -> list[SceneSpec]:
        every = (suites.load(family, suite, config.evaluate.split, folder)[:most] for family in settings.families(config))
        return [spec for chosen in every for spec in chosen]

    return {suite: scenes(suite) for suite in config.evaluate.suites}


class GivenRoles(Watching):
    """A simulator that remembers who runs in its worlds, for the analysis in which the policy is told target and reference."""

    def __init__(self, sim: Simulator, catalogue: Catalogue):
        super().__init__(sim)
        self._catalogue = catalogue
        self.roles = np.full((sim.worlds, ROLES), -1, np.int32)

    def _note(self, worlds: Sequence[int], episodes: Sequence[Episode]) -> None:
        self.roles = self.roles.copy()  # jax may still read the old ones
        for world, episode in zip(worlds, episodes, strict=True):
            self.roles[world] = filled_roles(role_tokens(episode.spec, self._catalogue))


@dataclasses.dataclass(frozen=True)
class Guide:
    """An actor's critic, and which training program each episode has; ``program_of`` and ``unprogrammed`` as in Guided.

    temperature_of: of the choice in an episode, None for the actor's own.
    """

    actor: Actor
    critic: Critic
    params: Params
    program_of: Callable[[Episode], AnyProgram | None]
    unprogrammed: AnyProgram
    temperature_of: Callable[[Episode], float | None] = lambda _: None


@dataclasses.dataclass(frozen=True)
class OneSample:
    """A sample of the policy as the decision, as InScan wants it."""

    policy: FlowPolicy

    def __call__(self, params: Params, obs: Observation, keys: Array) -> Array:
        return self.policy.sample(params, obs, keys, 1)[:, 0]


def acting(
    policy: FlowPolicy, params: Params, sim: Simulator, catalogue: Catalogue, guide: Guide | None = None
) -> tuple[Simulator, PolicyFn]:
    """The simulator to roll out in and the function that gives a chunk for each of its worlds: a sample of the policy, or the choice of
    ``guide`` among several; adapters are merged first. A policy of pictures looks through the simulator's eyes at every decision.

    Raises:
      ValueError: such a policy, and the simulator has none, or a critic, which judges states, is to choose.
    """
    params = lora.merged(params)
    if isinstance(policy, PixelPolicy):
        return sim, _seeing(policy, params, sim, guide)
    watched = GivenRoles(sim, catalogue) if policy.given_roles else None
    simulator = watched or sim

    def roles() -> np.ndarray | None:
        return watched.roles if watched else None

    if guide is None or guide.actor.mode == "policy":
        if watched is None:
            return simulator, InScan(OneSample(policy), params)
        return simulator, lambda obs, keys: policy.sample(params, obs, keys, 1, roles())[:, 0]

    def choose(obs: Observation, program: ProgramInput, keys: Array, temperatures: Array) -> tuple[Array, Selection]:
        return act(guide.actor, policy, params, guide.critic, guide.params, obs, program, keys, temperatures, roles())

    def temperature_of(episode: Episode) -> float:
        asked = guide.temperature_of(episode)
        return guide.actor.temperature if asked is None else asked

    return simulator, Guided(choose, guide.program_of, guide.unprogrammed, temperature_of, catalogue)


def _seeing(policy: PixelPolicy, params: Params, sim: Simulator, guide: Guide | None) -> PolicyFn:
    if not isinstance(sim, Eyes):
        raise ValueError(f"a policy of pictures needs a simulator with eyes (sim/eyes.py), not {type(sim).__name__}")
    if guide is not None:
        raise ValueError("a critic judges states, and is not made to choose among the chunks of a policy of pictures")
    return lambda obs, keys: policy.sample(params, dataclasses.replace(obs, pixels=sim.look()), keys, 1)[:, 0]


def run_suite(
    config: settings.Config,
    folder: Path,
    suite: str,
    specs: Sequence[SceneSpec],
    sim: Simulator,
    params: Params,
    encoder: TextEncoder,
    catalogue: Catalogue,
    moment: Moment = "after",
    guide: Guide | None = None,
    remote: RemotePolicy | None = None,
    known: Known | None = None,
) -> SuiteOutcome:
    """Roll out one suite, draw its films and store its records.

    moment: "before" or "after" the rounds; both have the same noise, so that they can be compared scene by scene. guide: who chooses among
    the policy's chunks, None for nobody. remote: who acts in place of the policy with these ``params``, which are then not read. known: of
    the suite's twin (shared_rollouts); scenes that are in it are not rolled out again.

    Raises:
      InputError: the remote policy is lost. Stopped: a signal asked for it; nothing of this suite is stored.
    """
    seeds = config.evaluate.seeds
    horizon = parts.horizon_of(config)
    taken = {(i, seed): r for i, s in enumerate(specs) for seed in range(seeds) if (r := (known or {}).get((s.scene_id, seed)))}
    keys = [(i, seed) for i in range(len(specs)) for seed in range(seeds)]
    jobs = [episode_of(specs[key[0]], horizon(specs[key[0]]), key) for key in keys if key not in taken]
    if remote is not None:
        simulator = policy_fn = Asking(sim, catalogue, remote, config.evaluate.executed)
    else:
        simulator, policy_fn = acting(parts.policy_of(config), params, sim, catalogue, guide)
    before = getattr(sim, "physics_steps", 0)
    drawn = (sim.frames, sim.seconds) if isinstance(sim, Eyes) else (0, 0.0)
    results: list[Result] = []
    key = rollout_key(config.seed, suite)
    label = f"{NAME} {suite}" if moment == "after" else f"{NAME} {suite}, before the rounds"
    with Progress(label, len(jobs), "rollouts") as progress:
        for result in rollout(simulator, catalogue, jobs, policy_fn, encoder.encode, config.evaluate.executed, key):
            runtime.check_stop()
            results.append(result)
            progress.advance(success=f"{sum(r.success for r in results)}/{len(results)}")
    results.sort(key=lambda r: r.episode.key)
    shown = _to_film(results, config.evaluate.films)
    done = {key: dataclasses.replace(record, suite=suite) for key, record in taken.items()}
    for number, result in enumerate(results):
        film = None
        if number in shown:
            scene, seed = result.episode.key
            film = f"videos/{suite}_{config.evaluate.split}_{moment}_{scene:03d}_{seed}.png"
            films.write_film(folder / film, result, catalogue, sim.bucket, parts.robot_of(config), config.sim.threads)
        done[result.episode.key] = _record(config, suite, result, film, moment)
    records = [done[key] for key in keys]
    write_records(folder, records)
    if settings.of_libero(config):
        libero_records.write(folder, config, suite, moment, specs, records, _who(params, guide, remote))
    measured = policy_fn.choices.means() if isinstance(policy_fn, Guided) else {}
    if isinstance(sim, Eyes):
        measured = {"frames": sim.frames - drawn[0], "rendering_s": round(sim.seconds - drawn[1], 2)}
    steps, clipped = getattr(sim, "physics_steps", 0) - before, sum(r.clipped for r in results)
    return SuiteOutcome(suite, tuple(records), steps, clipped, measured, len(taken))


def _who(params: Params, guide: Guide | None, remote: RemotePolicy | None) -> str:
    """SHA-256 of who acts: what a server says of itself, or the weights and settings that decide here."""
    if remote is not None:
        return remote.identity
    if guide is None or guide.actor.mode == "policy":
        return libero_records.fingerprint(params)
    return libero_records.fingerprint(params, guide.params, settings=str(guide.actor))


def _to_film(results: Sequence[Result], most: int) -> set[int]:
    """Numbers of the first successes and the first failures, ``most`` of each."""
    chosen: set[int] = set()
    for success in (True, False):
        chosen.update([i for i, r in enumerate(results) if r.success is success][:most])
    return chosen


def _record(config: settings.Config, suite: str, result: Result, film: str | None, moment: Moment) -> EvalRecord:
    spec = result.episode.spec
    watched = result.predicates[:, : 1 + len(PHASES)]  # the table is padded
    phase = None if result.success else phase_failed(watched) or PHASES[-1]
    return EvalRecord(
        family=spec.task.family,
        suite=suite,
        split=config.evaluate.split,
        moment=moment,
        scene_id=spec.scene_id,
        seed=result.episode.key[1],
        success=result.success,
        steps=result.steps,
        phase_failed=phase,
        instruction=spec.task.instruction,
        health=result.health,
        film=film,
    )


def describe(outcome: SuiteOutcome) -> str:
    """One line: "id: 31/50 = 62 % (48 .. 74), failed in approach 3, grasp 9"."""
    k, n = outcome.tally.k, outcome.tally.n
    low, high = wilson(k, n)
    failed = [(phase, sum(r.phase_failed == phase for r in outcome.records)) for phase in PHASES]
    where = ", ".join(f"{phase} {count}" for phase, count in failed if count)
    families = dict.fromkeys(r.family for r in outcome.records)
    each = [(f, [r.success for r in outcome.records if r.family == f]) for f in families] if len(families) > 1 else []
    shared = f"; {outcome.shared} of them as in {twin(outcome.suite)}, where the prompts agree" if outcome.shared else ""
    return (
        f"{outcome.suite}: {k}/{n} = {100 * k / n:.0f} % ({100 * low:.0f} .. {100 * high:.0f})"
        + (f", failed in {where}" if where else "")
        + (f"; {', '.join(f'{f} {sum(s)}/{len(s)}' for f, s in each)}" if each else "")
        + shared
    )


def each_suite(
    config: settings.Config,
    folder: Path,
    skip: Sequence[str],
    params: Params,
    encoder: TextEncoder,
    catalogue: Catalogue,
    store: Callable[[SuiteOutcome], None],
    moment: Moment = "after",
    guide: Guide | None = None,
    remote: RemotePolicy | None = None,
) -> None:
    """Roll out the suites that are not in ``skip``, each handed to ``store`` as soon as it is done. Arguments as of run_suite.

    skip: suites whose records are in the folder already, of this policy at this moment.
    """
    done = set(skip)
    scenes = chosen_scenes(config)
    bucket = parts.common_bucket([s for specs in scenes.values() for s in specs], catalogue)
    sim = parts.simulator(config, catalogue, bucket)
    for suite, specs in scenes.items():
        if suite not in done:
            known = known_of(folder, twin(suite), config.evaluate.split, moment) if twin(suite) in done else None
            store(run_suite(config, folder, suite, specs, sim, params, encoder, catalogue, moment, guide, remote, known))
            done.add(suite)
