"""From the configuration to the plain dataclasses and objects of lower floors."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import jax

from coda_jax import config as settings
from coda_jax.agents.base import DataEngine
from coda_jax.agents.llm.budget import Asked, Budgeted, Prices
from coda_jax.agents.llm.endpoint import Endpoint, EndpointSettings
from coda_jax.agents.llm.recording import FILE as CALLS
from coda_jax.agents.llm.recording import OwnRecording, Recorded, Recording
from coda_jax.agents.scripted.diagnoser import DiagnoserSettings, ScriptedDiagnoser
from coda_jax.agents.scripted.engine import ScriptedEngine
from coda_jax.learning import lora
from coda_jax.learning.clone import DivergedError
from coda_jax.learning.encoders.minilm import TEXT_DIM, EncoderMissingError, TextEncoder
from coda_jax.learning.policies.base import Params
from coda_jax.learning.policies.flow import FlowPolicy
from coda_jax.learning.policies.grounding import NAMED_HEADS
from coda_jax.learning.policies.pixels import PixelPolicy
from coda_jax.learning.steps import Training
from coda_jax.loop import language, mjx_worlds
from coda_jax.loop.checkpoint import CheckpointError
from coda_jax.programs.limits import Limits
from coda_jax.runtime import InputError, cache_home, on_nvidia
from coda_jax.scenes import families
from coda_jax.scenes.catalogue import Catalogue, UnknownAsset
from coda_jax.scenes.spec import SceneSpec
from coda_jax.scenes.suites import SuiteError
from coda_jax.sim import mjx_buckets, platforms, raycast, warp_extra, warp_render
from coda_jax.sim.bucket import Bucket
from coda_jax.sim.compile import SceneError
from coda_jax.sim.demonstrate import NoiseSettings
from coda_jax.sim.eyes import Batched, Eyes, Renderer
from coda_jax.sim.own_robot import load
from coda_jax.sim.own_robot.errors import RobotError
from coda_jax.sim.panda import PANDA
from coda_jax.sim.planner import PlannerSettings
from coda_jax.sim.platforms import Counted, Platform
from coda_jax.sim.render import NativeRenderer
from coda_jax.sim.robot import Robot
from coda_jax.sim.simulator import Simulator
from coda_jax.sim.supervision.scene_tries import SceneTries
from coda_jax.sim.supervision.supervisor import ScriptedSupervisor
from coda_jax.sim.validity import ValiditySettings

if TYPE_CHECKING:
    from coda_jax.learning.policies.remote import RemotePolicy

_ADAPTERS = 2**20  # stream of the seed, beyond those of scenes and rollouts


def policy_of(config: settings.Config) -> FlowPolicy:
    """The policy of a run: ``policy.heads`` is for one goal; every further goal that a family may ask for adds its named heads."""
    goals = max(families.get(name).most_targets for name in settings.families(config))
    layers = {name: value for name, value in config.policy.items() if name != "kind"}
    if config.obs == "pixels":
        seen = config.pixels
        own = {"height": seen.height, "columns": seen.width, "place_weight": seen.place_weight}
        own |= {name: seen[name] for name in ("patch", "channels", "layers")}
        policy = settings.build(PixelPolicy, layers, text_dim=TEXT_DIM, goals=1, **own)
    else:
        policy = settings.build(FlowPolicy, layers, text_dim=TEXT_DIM, goals=1)
    return dataclasses.replace(policy, heads=policy.heads + NAMED_HEADS * (goals - 1), goals=goals)


def remote_of(config: settings.Config) -> RemotePolicy:
    """The policy behind ``remote.address``, connected.

    Raises:
      InputError: nobody answers there, or the key's environment variable is not set.
    """
    from coda_jax.learning.policies.remote import RemotePolicy, RemoteSettings

    chosen = {name: value for name, value in config.remote.items() if name != "key_variable"}
    variable = config.remote.key_variable
    if variable and not os.environ.get(variable):
        raise InputError(f"the environment variable {variable}, which config.remote.key_variable names, is not set")
    return RemotePolicy(RemoteSettings(**chosen, api_key=os.environ[variable] if variable else ""))


def renderer_name(config: settings.Config) -> str:
    """ "native", "jax" or "warp": what ``pixels.renderer`` stands for on this machine."""
    if config.pixels.renderer != "auto":
        return config.pixels.renderer
    if jax.default_backend() == "cpu":
        return "native"
    return "warp" if warp_extra.installed() and on_nvidia() else "jax"


def renderer_of(config: settings.Config) -> Renderer:
    """Who draws what a policy of pictures sees."""
    name = renderer_name(config)
    if name == "native":
        return NativeRenderer(config.sim.threads)
    return Batched({"jax": raycast.frames, "warp": warp_render.frames}[name], config.sim.worlds)


def training_of(config: settings.Config) -> Training:
    return settings.build(Training, config.clone)


def adapted(config: settings.Config, params: Params) -> Params:
    """``params`` as rounds train them: with adapters where ``lora.rank`` asks for them and there are none yet, else unchanged.

    Raises:
      TargetError: ``lora.targets`` names layers that the policy does not have.
    """
    chosen = config.lora
    if not chosen.rank or lora.targeted(params):
        return params
    key = jax.random.fold_in(jax.random.key(config.seed), _ADAPTERS)
    return lora.attach(params, chosen.rank, chosen.alpha, tuple(chosen.targets), key)


def robot_of(config: settings.Config) -> Robot:
    """Who acts: the Panda, or the robot of a record, which is read once in a process.

    Raises:
      InputError: the robot cannot be used.
    """
    if config.robot == settings.ROBOT:
        return PANDA
    try:
        return _own_robot(Path(config.robot).resolve())
    except RobotError as error:
        raise InputError(f"config.robot: {error}") from error


@functools.cache
def _own_robot(record: Path) -> Robot:
    return load.robot_of(record)


def platform_of(config: settings.Config) -> Platform:
    """Where the scenes of the run's families are simulated.

    Raises:
      InputError: they are of more than one platform.
    """
    chosen = {name: families.get(name).platform for name in settings.families(config)}
    if len(set(chosen.values())) > 1:
        listed = ", ".join(f"{name} on {platform}" for name, platform in chosen.items())
        raise InputError(f'config.family is "{config.family}" ({listed}); one run has one platform: name families of one of them')
    return platforms.get(next(iter(chosen.values())))


def validity_of(config: settings.Config) -> ValiditySettings:
    return settings.build(ValiditySettings, config.validity, worlds=config.sim.worlds, threads=config.sim.threads, robot=robot_of(config))


def planner_of(config: settings.Config) -> PlannerSettings:
    return settings.build(PlannerSettings, config.planner)


def tries_of(config: settings.Config, catalogue: Catalogue, spec: SceneSpec, each: int) -> SceneTries:
    """The tries of a scene under the run's inspector and supervisor."""
    revisions = config.planner.revisions
    return SceneTries(spec, each, revisions, platform_of(config).inspector(catalogue), ScriptedSupervisor(revisions))


def noise_of(config: settings.Config) -> NoiseSettings | None:
    """The disturbance of demonstrations, None where it is switched off."""
    chosen = settings.build(NoiseSettings, config.noise)
    return chosen if chosen.action_std or chosen.push_probability else None


def learns(config: settings.Config) -> bool:
    """Whether rounds train a critic; filtered cloning needs none."""
    return bool(config.rounds.count) and config.awr.improve != "filtered"


def practises(config: settings.Config) -> bool:
    """Whether rounds have the stage "practice", whose rollouts the critic learns from."""
    return learns(config) and config.rounds.practice > 0


def most_demonstrations(config: settings.Config) -> int:
    """Demonstrations and own successes that the run collects at most."""
    return config.demos.count + config.rounds.count * (config.rounds.environments * config.rounds.demos + config.rounds.own)


def horizon_of(config: settings.Config) -> Callable[[SceneSpec], int]:
    """Control steps of an episode of a scene, by its family."""
    return lambda spec: settings.horizon(config, spec.task.family)


def scripted_diagnoser(config: settings.Config) -> ScriptedDiagnoser:
    chosen = config.diagnose
    return ScriptedDiagnoser(DiagnoserSettings(chosen.rerollouts, chosen.least_gain, chosen.sure, chosen.regression_weight))


def engine_of(catalogue: Catalogue) -> DataEngine:
    """The scripted engine; loop/engines.py chooses that of a run."""
    return ScriptedEngine(catalogue)


@dataclasses.dataclass(frozen=True)
class Asking:
    """The language model of a run. recording: what it is read from, and written to where it is the run's own."""

    chat: Budgeted
    recording: Recording

    @property
    def calls_bytes(self) -> int:
        """Length of the run's own recording."""
        return self.recording.bytes if isinstance(self.recording, OwnRecording) else 0


def chat_of(
    config: settings.Config,
    folder: Path,
    asked: Mapping[str, Asked],
    calls_bytes: int,
    resources: contextlib.ExitStack,
    watch: Callable[[int, int], None],
) -> Asking:
    """The language model that a run in ``folder`` asks, or the recording that stands in for it.

    asked, calls_bytes: of the last commit. watch: as of ``Budgeted``.

    Raises:
      InputError: a recording, the address, the key, the proxy or the openai package; the message says what to do.
    """
    llm = config.agents.llm
    if llm.replay:
        recording, source = Recording(Path(llm.replay)), None
    else:
        recording = resources.enter_context(OwnRecording(folder / CALLS, calls_bytes))
        source = resources.enter_context(endpoint_of(config, llm.deadline_s, llm.retries))
    recorded = Recorded(recording, llm.model, llm.temperature, source)
    return Asking(Budgeted(recorded, llm.tokens, llm.answer_tokens, asked, watch), recording)


def endpoint_of(config: settings.Config, deadline_s: float, retries: int) -> Endpoint:
    """The server of the settings and the environment. Raises InputError as ``chat_of``."""
    llm = config.agents.llm
    key = language.key_of(config)
    chosen = EndpointSettings(
        language.address_of(config), llm.model, llm.temperature, deadline_s, retries, llm.concurrency, llm.reply_bytes
    )
    return Endpoint(chosen, key)


def prices_of(config: settings.Config) -> Prices:
    return Prices(config.agents.llm.price_in, config.agents.llm.price_out)


def limits_of(config: settings.Config) -> Limits:
    return settings.build(Limits, config.sandbox)


def encoder_of() -> TextEncoder:
    return TextEncoder(cache_home() / "text")


def training_bucket(config: settings.Config, catalogue: Catalogue) -> Bucket:
    """The smallest bucket that takes every scene of the generator of the run's families."""
    return platform_of(config).training_bucket(settings.families(config), catalogue)


def common_bucket(specs: list[SceneSpec], catalogue: Catalogue) -> Bucket:
    """The smallest bucket that takes all of the scenes, of which there is at least one.

    Raises:
      SceneError: one of them fits none.
    """
    return platforms.of(specs[0]).bucket(specs, catalogue)


def native_simulator(config: settings.Config, catalogue: Catalogue, bucket: Bucket, worlds: int = 0) -> Counted:
    """The native simulator of the run's platform. worlds: 0 for ``sim.worlds``."""
    return platform_of(config).simulator(catalogue, bucket, worlds or config.sim.worlds, config.sim.threads, robot_of(config))


def backend(config: settings.Config, bucket: Bucket) -> str:
    """ "native" or "mjx": what ``sim.backend`` stands for on this machine and bucket, with this robot."""
    if config.sim.backend != "auto":
        return config.sim.backend
    own = config.robot == settings.ROBOT and platform_of(config) is platforms.get(families.TABLETOP)
    fast = own and jax.default_backend() != "cpu" and mjx_buckets.holds(bucket)
    return "mjx" if fast else "native"


def device_bucket(config: settings.Config, bucket: Bucket) -> Bucket:
    """The bucket whose executables MJX has for one of the run's platform. Raises SceneError where there is none."""
    return bucket if settings.of_libero(config) else mjx_buckets.declared(bucket)


def simulator(config: settings.Config, catalogue: Catalogue, bucket: Bucket, spread: bool = True) -> Simulator:
    """The backend for closed-loop rollouts of ``evaluate.executed`` steps a decision, with eyes for a policy of pictures.

    spread: over all devices of MJX, else the first has all worlds; LIBERO's are on the first in any case.

    Raises:
      SceneError: ``sim.backend=mjx`` and the bucket has no MJX executable.
    """
    sim = _backend_simulator(config, catalogue, bucket, spread)
    if config.obs != "pixels":
        return sim
    return Eyes(sim, catalogue, robot_of(config), renderer_of(config), config.pixels.height, config.pixels.width)


def _backend_simulator(config: settings.Config, catalogue: Catalogue, bucket: Bucket, spread: bool) -> Simulator:
    if backend(config, bucket) == "native":
        return native_simulator(config, catalogue, bucket)
    if settings.of_libero(config):
        from coda_jax.sim.libero.simulator import LiberoSimulator

        worlds = config.sim.mjx_worlds or config.sim.worlds
        mjx_worlds.announce(bucket, worlds)
        return LiberoSimulator(worlds, config.sim.threads, mjx=True)
    from coda_jax.sim.mjx import MjxSimulator

    mesh, chunk = mjx_worlds.devices_mesh() if spread else None, config.evaluate.executed
    impl = config.sim.mjx_impl
    try:
        worlds = mjx_worlds.worlds_for(config.sim.mjx_worlds, catalogue, bucket, chunk, mesh, settings.families(config), impl)
    except (ValueError, MemoryError) as error:
        raise InputError(str(error)) from error
    mjx_worlds.announce(mjx_buckets.declared(bucket), worlds)
    return MjxSimulator(catalogue, bucket, worlds, chunk, mesh, impl, settings.longest_horizon(config) if practises(config) else 0)


@contextlib.contextmanager
def mendable() -> Iterator[None]:
    """Inside, errors that the user can mend end the command with one message and exit code 2."""
    try:
        yield
    except (EncoderMissingError, CheckpointError, lora.TargetError, SuiteError, UnknownAsset, SceneError, DivergedError) as error:
        message = error.args[0] if isinstance(error, KeyError) and error.args else error  # KeyError shows its message in quotes
        raise InputError(str(message)) from error
