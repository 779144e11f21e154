"""Small rows of every kind."""

import json
from typing import Any

from coda_jax.memory.rows import (
    Construction,
    Diagnosis,
    Episode,
    Evidence,
    Mode,
    Program,
    Repair,
    Scene,
    Verb,
    mode_id_of,
    program_id_of,
    scene_id_of,
)


def scene(number: int = 0, **changes: Any) -> Scene:
    spec = json.dumps({"scene": number})
    return Scene(**{"scene_id": scene_id_of(spec), "spec": spec, "origin": "seed", "round": 0} | changes)


def edited(number: int, base: Scene, **changes: Any) -> Scene:
    verbs = (Verb("clearance", 0.4),)
    return scene(
        number, **{"origin": "targeted", "base_scene_id": base.scene_id, "factor": "SPATIAL", "verbs": verbs, "level": 0.4} | changes
    )


def episode(scene_number: int = 0, **changes: Any) -> Episode:
    given = {"round": 1, "purpose": "collect", "scene_id": scene(scene_number).scene_id, "repeat": 0, "policy_step": 60, "success": True}
    given |= {"steps": 40} | changes
    if not given["success"]:
        given.setdefault("phase_failed", "grasp")
    return Episode(**given)


def diagnosis(episode_id: int, **changes: Any) -> Diagnosis:
    evidence = Evidence((12, 13), {"clearance_m": 0.004, "tilt_rad": 0.5})
    given = {"factor": "SPATIAL", "phase": "grasp", "cause": "obstacle beside the target", "evidence": evidence, "confidence": 0.7}
    return Diagnosis(episode_id=episode_id, **given | changes)


def mode(cause: str = "obstacle beside target", **changes: Any) -> Mode:
    given: dict[str, Any] = {"family": "pick_place", "factor": "SPATIAL", "phase": "grasp", "cause": cause, "version": 1}
    given |= {"severity": 0.25, "importance": 0.0, "status": "new", "round": 1} | changes
    return Mode(mode_id=mode_id_of(given["family"], given["factor"], given["phase"], given["cause"]), **given)


def program(text: str = "scene.edit()", **changes: Any) -> Program:
    given: dict[str, Any] = {"kind": "generation", "version": 1, "mode_id": mode().mode_id, "level": 0.4, "status": "candidate"}
    given |= {"verdict": None, "round": 1} | changes
    return Program(program_id=program_id_of(given["kind"], text), text=text, **given)


def construction(**changes: Any) -> Construction:
    repair = Repair("move", "box_2", 0.02, "m", (1.0, 0.0, 0.0))
    given = {"round": 1, "verb": "clearance", "check": "overlap", "object": "box_2", "other": "mug_1", "amount": 0.012, "unit": "m"}
    return Construction(**{"repair": repair, "accepted": True} | given | changes)
