"""Who looks at failed demonstrations and changes their plans in a run: rules, or a language model that falls back to them."""

from __future__ import annotations

from collections.abc import Sequence

from PIL import Image

from coda_jax import config as settings
from coda_jax.agents.llm.chat import Picture
from coda_jax.agents.llm.supervision import LlmInspector, LlmSupervisor, SupervisionSettings
from coda_jax.evaluation.film import png_of
from coda_jax.loop import parts
from coda_jax.loop.run import Run
from coda_jax.scenes.spec import SceneSpec
from coda_jax.sim.demonstrate import Trajectory
from coda_jax.sim.platforms import coordinates
from coda_jax.sim.render import render
from coda_jax.sim.supervision.scene_tries import SceneTries
from coda_jax.sim.supervision.supervisor import ScriptedSupervisor

HEIGHT, WIDTH = 192, 256


def tries_of(run: Run, spec: SceneSpec, each: int, number: int) -> SceneTries:
    """The tries of a scene. number: of the scene in its stage, from 0; a language model is asked about the first ones alone, so that its
    questions are bounded and who is asked does not depend on which try ends first."""
    config, own = run.config, run.config.agents.llm_supervisor
    if settings.agent_kind(config, "supervisor") != "llm" or number >= own.scenes:
        return parts.tries_of(config, run.everything, spec, each)
    revisions, chosen = (
        config.planner.revisions,
        SupervisionSettings(own.frames if config.agents.llm.pictures else 0, config.agents.llm.answer_tokens, config.seed),
    )
    inspector = LlmInspector(
        run.chat, chosen, run.tally, parts.platform_of(config).inspector(run.everything), lambda t, steps: frames(run, t, steps)
    )
    supervisor = LlmSupervisor(run.chat, chosen, run.tally, ScriptedSupervisor(revisions), revisions)
    return SceneTries(spec, each, revisions, inspector, supervisor)


def frames(run: Run, trajectory: Trajectory, steps: Sequence[int]) -> list[Picture]:
    """A try after some control steps, seen from the front."""
    config, bucket = run.config, parts.training_bucket(run.config, run.train)
    platform = parts.platform_of(config)
    scene = platform.drawable(trajectory.episode.spec, run.everything, bucket, parts.robot_of(config))
    states, size = coordinates(scene, trajectory.qpos[list(steps)]), {"height": HEIGHT, "width": WIDTH}
    drawn = render(scene.model, states, platform.cameras.front, **size, threads=config.sim.threads or 1)
    captions = [f"after control step {step}, in {trajectory.skills[step]}" for step in steps]
    return [Picture(png_of(Image.fromarray(frame)), caption) for frame, caption in zip(drawn, captions, strict=True)]
