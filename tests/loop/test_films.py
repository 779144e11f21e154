"""Film strips show what the robot does to its target."""

import numpy as np
from PIL import Image

from coda_jax import config as settings
from coda_jax.evaluation.results import Result
from coda_jax.loop import films, parts
from coda_jax.scenes.catalogue import Catalogue
from coda_jax.scenes.generate import sample_spec
from coda_jax.sim.bucket import Bucket
from coda_jax.sim.cameras import FILMED, FRONT
from coda_jax.sim.compile import compile_scene
from coda_jax.sim.demonstrate import demonstrate
from coda_jax.sim.native import NativeSimulator
from coda_jax.sim.observe import role_tokens
from coda_jax.sim.panda import PANDA
from coda_jax.sim.render import frames
from coda_jax.sim.simulator import episode_of

CATALOGUE = Catalogue.all()


def seen(scene, tokens, qpos, camera) -> np.ndarray:
    """Pixels of ``tokens`` in a film's frames."""
    drawn = frames(scene.model, qpos, camera, height=films.HEIGHT, width=films.WIDTH, samples=1)
    return np.isin(drawn.segmentation, tokens).sum((1, 2))


def test_the_target_is_seen_in_every_frame(tmp_path):
    bucket = Bucket(6, 6)
    sim = NativeSimulator(CATALOGUE, bucket, 2)
    episodes = [episode_of(sample_spec(Catalogue("train"), "pick_place", "id", "train", seed), 120, (seed, 0)) for seed in (0, 3)]
    shares: dict[str, list[float]] = {"front": [], "film": []}
    for one in demonstrate(sim, CATALOGUE, episodes, parts.planner_of(settings.default()), None, 0):
        spec = one.episode.spec
        scene, tokens = compile_scene(spec, CATALOGUE, bucket, PANDA), role_tokens(spec, CATALOGUE)[::2]
        moments = one.qpos[np.linspace(0, len(one.qpos) - 1, 7).astype(int)]
        chosen = films.camera_for(scene, moments, FILMED, tokens, 1)
        assert chosen in FILMED
        for name, camera in (("front", FRONT), ("film", chosen)):
            shares[name].extend(seen(scene, tokens, moments, camera).tolist())
        result = Result(one.episode, one.success, one.predicates, one.qpos, one.executed, np.array([len(one.qpos)]), 0, 0, 0, None, None)
        path = tmp_path / f"{one.episode.key[0]}.png"
        films.write_film(path, result, CATALOGUE, bucket, PANDA, 1)
        assert Image.open(path).height > films.HEIGHT
    assert np.median(shares["film"]) > 1.5 * np.median(shares["front"])
    assert np.mean(np.array(shares["film"]) < 12) < 0.1, "the target is hidden in some frames"
