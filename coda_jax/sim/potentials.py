"""Training programs meet scenes: what a program is bound to, and demonstrations as its gates read them."""

from __future__ import annotations

from coda_jax.programs.training.binding import Scene
from coda_jax.programs.training.gates import Demonstrated
from coda_jax.scenes import families
from coda_jax.scenes.catalogue import Catalogue
from coda_jax.scenes.spec import SceneSpec
from coda_jax.sim.demonstrate import Trajectory
from coda_jax.sim.platforms import token_index


def program_scene(spec: SceneSpec, catalogue: Catalogue) -> Scene:
    """Roles, success predicate and tokens of a scene; the roles are those of its goal."""
    goal = families.read_goal(spec)
    return Scene({"target": goal.target, "reference": goal.reference}, families.success(spec), token_index(spec, catalogue))


def demonstrated(trajectory: Trajectory, catalogue: Catalogue) -> Demonstrated:
    """A certified demonstration for the gates, named by its scene.

    Raises:
      ValueError: it did not end in success.
    """
    spec = trajectory.episode.spec
    if not trajectory.success:
        raise ValueError(f"scene {spec.scene_id}: {trajectory.cause}: the gates are asked on certified demonstrations only")
    return Demonstrated(spec.scene_id, program_scene(spec, catalogue), trajectory.views)
