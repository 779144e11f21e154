"""From settings to the plain dataclasses of the lower floors: the one place where a run's parts are put together."""

from __future__ import annotations

from typing import Any

from coda_jax import config as settings
from coda_jax import runtime
from coda_jax.learning.encoders.minilm import TextEncoder
from coda_jax.learning.policies.flow import FlowPolicy
from coda_jax.learning.steps import Training
from coda_jax.programs.limits import Limits
from coda_jax.runtime import InputError
from coda_jax.scenes import families
from coda_jax.scenes.catalogue import Catalogue
from coda_jax.scenes.spec import SceneSpec
from coda_jax.sim.bucket import Bucket
from coda_jax.sim.checks.record import ValiditySettings
from coda_jax.sim.demonstrate import NoiseSettings
from coda_jax.sim.native import NativeSimulator
from coda_jax.sim.planner import PlannerSettings
from coda_jax.sim.simulator import Episode

TEXT_DIM = 384
BUCKET = Bucket(6, 3)  # takes every pick-and-place scene; one bucket is one executable of the predicates


def policy_of(config: settings.Config) -> FlowPolicy:
    return settings.build(FlowPolicy, config.policy, text_dim=TEXT_DIM)


def training_of(config: settings.Config) -> Training:
    return settings.build(Training, config.clone)


def limits_of(config: settings.Config) -> Limits:
    return settings.build(Limits, config.sandbox)


def planner_of(config: settings.Config) -> PlannerSettings:
    return settings.build(PlannerSettings, config.planner)


def noise_of(config: settings.Config) -> NoiseSettings | None:
    noise = settings.build(NoiseSettings, config.noise)
    return noise if noise.action_std or noise.push_probability else None


def validity_of(config: settings.Config) -> ValiditySettings:
    values: dict[str, Any] = {k: tuple(v) if isinstance(v, (list, tuple)) else v for k, v in config.validity.items()}
    return ValiditySettings(worlds=config.sim.worlds, threads=config.sim.threads, **values)


def encoder_of() -> TextEncoder:
    return TextEncoder(runtime.cache_home() / "text")


def simulator_of(config: settings.Config) -> NativeSimulator:
    """The native batch, which takes every scene of the family.

    Raises:
      InputError: MJX is forced; its declared bucket takes box scenes only and has no planner yet.
    """
    if config.sim.backend == "mjx":
        raise InputError(
            "config.sim.backend is mjx, whose declared bucket holds two single-box objects only, too few for the suites: use auto or native"
        )
    return NativeSimulator(Catalogue.all(), BUCKET, config.sim.worlds, config.sim.threads)


def episode_of(spec: SceneSpec, horizon: int, key: tuple[int, int]) -> Episode:
    """An episode that watches nu (column 0) and the family's phases."""
    phases = families.phases(spec)
    return Episode(spec, (phases[-1][1], *[expression for _, expression in phases]), horizon, key)
