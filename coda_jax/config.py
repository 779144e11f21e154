"""Every default, once. Experiment files start from ``default()`` and state what differs; only ``main`` and ``loop`` read the result.

``cpu`` ends in minutes on two cores; ``paper`` are the published budgets, for accelerators.
"""

from __future__ import annotations

import dataclasses
import difflib
import re
import urllib.parse
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from ml_collections import ConfigDict

from coda_jax import combinations
from coda_jax.bounds import AT_LEAST, AT_MOST, BELOW
from coda_jax.runtime import InputError

ROBOT = "panda"  # of our own, for which the suites are frozen
PRESETS = ("cpu", "paper")
FAMILIES = ("pick_place", "articulated", "put_inside", "stack_insert")
LIBERO_FAMILIES = ("libero_object", "libero_goal", "libero_spatial")  # of LIBERO-Pro, where its package is installed
NOT_BUILT = ("none", "learnability")  # strategies of the method that are still to come
STRATEGIES = ("sft", "domain_randomization", "uniform", "success_rate", "coda_no_memory", "coda")
AGENTS = ("engine", "diagnoser", "potentials", "supervisor")
SUITES = ("id", "instances", "layouts", "tasks", "categories")
LIBERO_SUITES = ("standard", "pos", "task", "standard_by_name", "pos_by_name", "task_by_name")
T = TypeVar("T")

if TYPE_CHECKING:
    Config = Any  # a type checker cannot know the settings
else:
    Config = ConfigDict


def default(preset: str = "cpu") -> Config:
    """The whole configuration with its defaults, locked: unknown keys and other types are refused.

    Raises:
      InputError: the preset does not exist.
    """
    config = ConfigDict(
        {
            "seed": 0,  # of scenes, demonstrations, initial parameters, training and rollouts
            "family": "pick_place",  # or several, separated by commas: one policy for all of them
            "own_families": "",  # modules, separated by commas, that register families of the user; imported at the start
            "robot": ROBOT,  # or the record (.json) of an arm of one's own, see docs/own_robot.md
            "horizon": {  # control steps of 0.1 s before an episode counts as failed, of each family
                "pick_place": 120,
                "articulated": 120,
                "put_inside": 240,
                "stack_insert": 240,
                "libero_object": 280,  # of LIBERO-Pro control steps of 0.05 s
                "libero_goal": 300,
                "libero_spatial": 220,
                "own": 240,  # of families that the user registered
            },
            "sim": {
                "backend": "auto",  # auto, native or mjx; auto takes native on a CPU
                "worlds": 64,  # native: worlds stepped together
                "mjx_impl": "jax",  # of MJX: jax, or warp, whose worlds share one pool of contacts (docs/mjx.md)
                "mjx_worlds": 0,  # mjx: worlds over all devices; 0: as many as were once found best here, on LIBERO sim.worlds
                "threads": 0,  # native: threads of the physics pool, 0 for one per core
            },
            "obs": "state",  # what the policy sees: state, or pixels (pictures of two cameras, the gripper and the instruction)
            "pixels": {  # of a policy of pictures
                "height": 64,  # of a picture
                "width": 64,
                "renderer": "auto",  # native, jax or warp; auto: native on a CPU, warp on NVIDIA where it is installed, jax elsewhere
                "every": 2,  # control steps between the drawn states of a demonstration
                "disk_gb": 4.0,  # most that the drawn demonstrations may take
                "patch": 4,  # side of a cell, pixels
                "channels": 32,
                "layers": 2,  # of 3x3 cells
                "place_weight": 5.0,  # of guessing where target and reference are, within the grounding loss
            },
            "sandbox": {  # what one program may use
                "text_bytes": 64 * 1024,
                "time_s": 2.0,
                "grace_s": 1.0,  # how much longer the parent waits before it kills the worker
                "memory_bytes": 64 * 2**20,
                "recursion": 200,
                "output_chars": 10_000,
                "reply_chars": 200_000,
            },
            "scenes": {
                "pictures": 8,  # training scenes drawn for the report, and half as many environments of each round
                "own_programs": "",  # folder of one's own scene programs: the first training scenes, where they pass every check
                "own_assets": "",  # folder of records of one's own assets (import_mesh), drawn like any other; empty for none
            },
            "validity": {  # when a scene counts as a fair task
                "penetration_m": 0.001,
                "pedestal_m": 0.1,  # fixtures may stand this high above the table
                "settle_s": 1.0,
                "settle_move_m": 0.005,
                "settle_tilt_rad": 0.087,
                "settle_speed_m_s": 0.02,
                "settle_opening": 0.01,  # share of its range by which a joint may creep meanwhile
                "density_kg_m3": (100.0, 3000.0),
                "scale": (0.7, 1.4),
                "longest_m": (0.015, 0.25),
                "jaw_m": 0.075,
                "workspace_x_m": (0.25, 0.75),
                "workspace_y_m": (-0.4, 0.4),
                "reach_m": 0.005,
                "reach_rad": 0.05,
            },
            "planner": {
                "speed": 0.5,  # share of the largest displacement per control step; slower demonstrations clone better
                "attempts": 3,  # grasps tried before a scene is given up
                "gain": 1.6,  # commanded share of the remaining error
                "revisions": 3,  # further tries of a scene with a plan that the supervisor changed; 0 for none
            },
            "noise": {  # disturbance of what the planner executes; labels stay clean
                "action_std": 0.15,
                "push_probability": 0.06,  # that a push starts, per control step
                "push_steps": 3,
                "push_size": 0.8,
            },
            "demos": {
                "count": 100,  # certified demonstrations to collect, each of a scene of its own
                "wave": 128,  # demonstrations between commits
            },
            "policy": {
                "kind": "flow",  # flow: our own; remote: one that a server of openpi's protocol holds, which can be evaluated only
                "chunk": 8,  # predicted actions per decision (h)
                "width": 256,
                "heads": 4,  # two of them find target and reference; two more for a second goal, in families that ask for one
                "key_dim": 32,
                "euler_steps": 5,
                "yaw_frame": True,  # relative positions also in the gripper's yaw frame
                "multi_scale": True,  # relative positions through tanh at two scales
                "cumulative": True,  # chunks are learned as displacements from the chunk's start
                "distractor_dropout": 0.3,  # share of tokens without a role hidden in training
                "grounding_weight": 0.1,
                "hard_attention": True,
                "relations": False,  # tells things of one name apart by what lies around them; for scenes that have such
                "given_roles": False,  # an analysis: tells grounding from motor failures
            },
            "clone": {
                "steps": 6000,
                "batch": 256,
                "learning_rate": 1e-3,
                "warmup": 50,
                "weight_decay": 1e-4,
                "clip_norm": 1.0,
                "ema": 0.995,
                "language_batch": 256,  # instructions without a scene in each step, 0 for none
                "language_weight": 0.1,
            },
            "language": {
                "phrases": 60,  # instructions without a scene, of each training template
                "two_goals": 600,  # of each one that names what is moved second: whose words are whose takes more of them
            },
            "checkpoint": {
                "every": 500,  # updates between saves
                "keep": 2,
                "rollouts": 256,  # of policy or planner, between commits in the other stages of a round
            },
            "memory": {
                "start": "",  # memory.sqlite of a finished run whose modes and programs this one begins with
                "start_mode": "live",  # live: this run goes on with them; frozen: it uses them and never changes them
            },
            "agents": {  # who writes programs and diagnoses: scripted, or llm, a language model (docs/language_models.md)
                "kind": "scripted",
                "engine": "",  # of one agent, where it differs; empty for kind
                "diagnoser": "",  # also: random, a base rate
                "potentials": "",
                "supervisor": "scripted",  # of demonstrations, with its inspector: it would ask at every failed try, so only where named
                "llm": {
                    "base_url": "",  # of any server with chat.completions; empty: $OPENAI_BASE_URL, else OpenAI's own
                    "model": "",  # empty: $CODA_JAX_MODEL
                    "key_variable": "OPENAI_API_KEY",  # environment variable that holds the key
                    "temperature": 0.7,
                    "tokens": 500_000,  # budget of the run, questions and answers together
                    "answer_tokens": 4096,  # most of one answer
                    "price_in": 0.0,  # of a million tokens, for the ledger
                    "price_out": 0.0,
                    "deadline_s": 120.0,  # of one call with all its tries
                    "retries": 3,
                    "concurrency": 8,  # most calls at once
                    "reply_bytes": 2**20,  # most that is read of one answer
                    "replay": "",  # calls.jsonl of a run, or its folder: answers come from there alone
                    "tools": True,  # whether the model can call tools; else the facts stand in the questions
                    "pictures": True,  # whether the model sees pictures; else it gets words alone
                },
                "llm_engine": {  # of a data engine that asks a language model (docs/data_engine_llm.md)
                    "programs": 2,  # asked for side by side for a difficulty
                    "repairs": 2,  # attempts at a program after its first
                    "tool_rounds": 6,  # answers of one program in which tools may be used
                    "tool_chars": 4000,  # of one tool's answer
                    "rollouts": 16,  # quick ones for one program, of tries that its model asks for
                    "mends": 8,  # questions of one stage about scenes that no standard repair cures
                },
                "llm_diagnoser": {  # what a model is shown of a failed rollout (docs/diagnosis.md)
                    "frames": 6,  # pictures, both cameras side by side
                    "rows": 24,  # of the table of its moments
                },
                "llm_potentials": {"repairs": 2},  # attempts at a training program after its first (docs/text2potential.md)
                "llm_supervisor": {  # docs/planners.md
                    "scenes": 32,  # of each stage, or wave of one, whose failed tries a language model looks at: the first ones
                    "frames": 3,  # pictures of a failed try, 0 for none
                },
            },
            "strategy": "coda",  # where the environments of a round come from; STRATEGIES lists them
            "rounds": {
                "count": 0,  # rounds of co-evolution after cloning
                "bases": 48,  # fresh training scenes that a round's variants are made from
                "collect": 2,  # rollouts of each base and of its edited variant
                "environments": 32,  # accepted environments of a round
                "demos": 2,  # certified demonstrations of each
                "own": 64,  # most successful rollouts of the policy itself that a round learns from (filtered cloning)
                "rollouts": 4,  # of each environment before and after the training
                "practice": 4,  # of each environment to learn from; half begin inside its demonstrations where its program asks for it
                "most_rollouts": 16,  # of an environment of which fewer do not tell whether it lies in the band
                "steps": 1500,  # updates between measurements; a round has one such block, or more under the schedule
                "learning_rate": 3e-4,
                "warmup": 50,
            },
            "experience": {  # recorded episodes that a round's critic and weighted updates learn from
                "rows": 65536,  # decisions that the table holds; the oldest rollouts make room
                "episodes": 4096,
                "seeds": 100,  # seed demonstrations among them, beside the certified ones of the rounds
            },
            "critic": {
                "width": 64,
                "layers": 4,
                "heads": 4,
                "tokens": 4,  # leading actions of a chunk that are read: those that are carried out are enough
                "early_ends": "fill",  # chunks that success cut short are completed by a candidate; or mask: read as short ones
                "projection": "hl_gauss",  # of targets onto bins; or two_hot
                "low": -1.0,  # range of targets, [-beta m, 1] with m = 4 stages
                "high": 1.0,
                "bins": 101,  # in all, the margins included
                "margin": 2.25,  # bins beyond the range at each end
                "smoothing": 0.75,  # standard deviation of hl_gauss, in bins
                "gamma": 0.99,
                "gamma_unit": "step",  # step: discounts every control step; chunk: every decision
                "beta": 0.25,  # weight of the potential; beta m is then what success is worth, 1
                "backup": "mean",  # value of a state from its candidates
                "backup_temperature": 0.1,  # of softmax and log_mean_exp, in units of value
                "state_value": "mean",  # V of advantages, from the candidates; or log_mean_exp
                "candidates": 4,  # drawn at each decision, once a round
                "steps": 750,  # updates of a round
                "batch": 64,  # transitions
                "learning_rate": 1e-3,
                "warmup": 20,
                "weight_decay": 1e-4,
                "clip_norm": 1.0,
                "tau": 0.05,  # of the target network's moving average; 0.005 needs ten times the updates to pass success back to the start
                "relabel": "shift",  # when a potential is refined: shift decoded values, or reset the head
                "shift_steps": 50,
                "shares": (0.25, 0.35, 0.2, 0.2),  # of a batch: demonstrations, targeted, control, replay
            },
            "awr": {
                "improve": "awr",  # awr; filtered: clone own successes; frozen: only the actor's choice improves
                "advantage": "critic",  # critic: Q(o, a) - V(o); trajectory: by how much the episode went on better than V(o)
                "trace": 0.95,  # of trajectory: 1 asks what was earned in the end, 0 the critic one decision later
                "advantage_unit": "std",  # std: in standard deviations of the policy's advantages; raw
                "temperature": 1.0,  # lambda
                "most_weight": 20.0,
                "least_sd": 0.02,  # floor of the standard deviation
                "sd_decay": 0.5,  # of its running mean over rounds
                "shares": (0.5, 0.3, 0.1, 0.1),  # of a batch: demonstrations (at least 0.25), targeted, control, replay
                "drift_weight": 0.0,  # of the squared distance from the clone's velocities
            },
            "actor": {
                # who acts once there is a critic: policy, one chunk; or among candidates by their values: sample, argmax or average
                "collect": "sample",  # in rollouts to learn from
                "evaluate": "argmax",  # in every measurement
                "candidates": 4,
                "temperature": 0.5,
                "temperature_unit": "std",  # std: in standard deviations of a state's candidates; raw
                "least_sd": 0.01,  # floor of that
            },
            "potential": {
                "signal": "diagnosed",  # subgoals in the diagnosed phase; task_text: one a phase; free_form: a dense reward; sparse
                "stages": 4,
                "dense_weight": 0.01,  # of the free-form reward, at each control step; at most 1 - gamma, or values pass critic.high
                "tools": True,  # whether programs bring learning tools
                "refine": True,  # mend the stage at which rollouts stop
                "least_stopped": 0.3,  # share of rollouts that must stop there
                "split": True,  # whether stages may be split
                "gate_demos": 6,  # demonstrations on which a training program must pass the gates
            },
            "lora": {  # low-rank adapters in the trainings of rounds
                "rank": 0,  # 0: every parameter is trained
                "alpha": 32.0,  # adapters count alpha / rank times
                "targets": ("net/.*",),  # regular expressions over whole names of layers; each must match
            },
            "diagnose": {
                "failures": 20,  # most failures diagnosed in a round
                "rerollouts": 8,  # of each arm of a diagnosis
                "least_gain": 0.2,  # success that reverting must bring, else the cause is EXECUTION
                "sure": 0.9,  # probability with which it must bring any
                "regression_weight": 0.5,  # how much the round's regression counts beside the re-rollouts
            },
            "engine": {
                "modes": 4,  # most modes that get a generation program in a round
                "levels": (0.25, 0.5, 0.75, 1.0),  # of a program, tried to find the one in the band
                "scenes": 8,  # variants of each level
                "rollouts": 2,  # of each variant
                "repairs": 2,  # attempts to mend an invalid scene
                "traces": True,  # whether earlier constructions limit what is asked for (strategies that remember)
                "least_band": 0.5,  # least probability that the level lies in the band, or the program is not used
            },
            "control": {
                "modes": 2,  # most modes tested in a round
                "scenes": 16,  # base scenes of a test
                "most_scenes": 32,  # after topping up an undecided one
                "rollouts": 8,  # of each variant
                "least_drop": 0.10,  # a smaller drop of success is not worth practising
                "false_discovery": 0.10,  # Benjamini-Hochberg over the tests of a round
            },
            "allocation": {
                "novelty": 0.15,  # share of environments that no mode asked for
                "replay": 0.10,  # share that repeats mastered and retired modes
                "ucb": 1.0,  # exploration coefficient
                "mastered": 0.8,  # success from which a mode counts as mastered
            },
            "schedule": {
                "kind": "adaptive",  # adaptive: by what is in band and what still moves; fixed: after most_updates
                "least_modes": 2,  # fewer in band end the round
                "window": 1500,  # updates over which progress is judged
                "least_gain": 0.02,  # success on in-band environments that counts as progress
                "most_updates": 3000,  # of one round; a multiple of rounds.steps
            },
            "evaluate": {
                "split": "validation",  # test suites are read once, when everything is fixed
                "suites": SUITES,
                "scenes": 0,  # scenes per suite, 0 for all
                "seeds": 1,  # rollouts of each scene, with other noise of the policy
                "films": 2,  # film strips of each suite, of successes and of failures; modes of each round that get one
                "executed": 4,  # actions executed of each chunk (e <= policy.chunk)
            },
            "remote": {  # where a policy of kind remote is asked (docs/serving.md)
                "address": "ws://localhost:8000",
                "deadline_s": 120.0,  # of one answer: a server may compile at its first
                "retries": 2,  # new connections after a lost one
                "connections": 4,  # decisions asked for side by side
                "key_variable": "",  # environment variable that holds the server's key, empty for none
            },
            "serve": {  # --mode=serve
                "host": "127.0.0.1",  # 0.0.0.0 lets other machines in
                "port": 8000,  # 0 for any free one
                "clients": 16,  # most at once
                "message_mb": 16.0,  # most of one observation
            },
            "sweep": {  # --mode=sweep, under the settings of evaluate
                "temperatures": (0.0, 0.5, 1.0),  # what the noise of the flow is multiplied by; 1 as in training and in every other mode
                "checkpoints": 0,  # newest ones of each run, 0 for every one that is kept
                "block": 0,  # worlds of one policy in stacked decisions; 0: each policy by itself, verdicts bit for bit as evaluated alone
                "test": False,  # whether the test split may be swept
            },
        }
    )
    if preset == "paper":
        config.update(
            {
                "policy": {"width": 512},
                "pixels": {"height": 224, "width": 224, "every": 1, "disk_gb": 100.0, "patch": 8, "channels": 64, "layers": 4},
                "clone": {"steps": 20_000},
                "rounds": {
                    "count": 5,
                    "bases": 256,
                    "environments": 64,
                    "demos": 4,
                    "own": 512,
                    "rollouts": 16,
                    "practice": 8,
                    "steps": 5_000,
                    "learning_rate": 1e-4,
                },
                "actor": {"candidates": 8},
                "experience": {"rows": 131_072, "episodes": 8192},
                "lora": {"rank": 32},
                "agents": {"llm": {"tokens": 2_500_000}},
                "critic": {
                    "tokens": 8,
                    "steps": 20_000,
                    "batch": 256,
                    "candidates": 8,
                    "learning_rate": 3e-4,
                    "beta": 0.5,
                    "low": -2.0,
                    "backup": "max",
                    "tau": 0.005,
                },
                "diagnose": {"failures": 128},
                "engine": {"modes": 16, "rollouts": 4},
                "control": {"modes": 4},
                "schedule": {"least_modes": 8, "window": 5_000, "most_updates": 10_000},
                "evaluate": {"executed": 8},
            }
        )
    elif preset != "cpu":
        raise InputError(f'there is no preset "{preset}"; use one of: {", ".join(PRESETS)}')
    return config.lock()


def families(config: Config) -> tuple[str, ...]:
    """The families of a run, in the order given."""
    return tuple(name.strip() for name in config.family.split(","))


def own_families(config: Config) -> tuple[str, ...]:
    """Modules of the user that register families."""
    return tuple(name.strip() for name in config.own_families.split(",") if name.strip())


def horizon(config: Config, family: str) -> int:
    """Control steps of an episode of a family."""
    return config.horizon[family] if family in FAMILIES + LIBERO_FAMILIES else config.horizon.own


def of_libero(config: Config) -> bool:
    """Whether the run's families are those of LIBERO-Pro."""
    return any(name in LIBERO_FAMILIES for name in families(config))


def suites(config: Config) -> tuple[str, ...]:
    """The suites that the run's families have."""
    return LIBERO_SUITES if of_libero(config) else SUITES


def agent_kind(config: Config, agent: str) -> str:
    """ "scripted", "llm", or of the diagnoser "random": who does the work of one of AGENTS."""
    return config.agents[agent] or config.agents.kind


def asks_models(config: Config) -> bool:
    """Whether any agent of a run asks a language model."""
    return any(agent_kind(config, agent) == "llm" for agent in AGENTS)


def longest_horizon(config: Config) -> int:
    """Control steps of the longest episode of the run's families."""
    return max(horizon(config, name) for name in families(config))


def _check_robot(config: Config) -> None:
    if config.robot == ROBOT:
        return
    if not config.robot.endswith(".json"):
        raise InputError(f'config.robot is "{config.robot}"; it must be {ROBOT}, or the record (.json) of a robot of your own')
    if config.sim.backend == "mjx":
        raise InputError(f"config.sim.backend is mjx, which simulates the {ROBOT} only; set it to native for config.robot={config.robot}")


_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def _check_agents(config: Config) -> None:
    llm = config.agents.llm
    if llm.replay and not asks_models(config):
        raise InputError(
            f'config.agents.llm.replay is "{llm.replay}", but no agent asks a language model; set config.agents.kind to llm, or drop it'
        )
    if not _VARIABLE.fullmatch(llm.key_variable):
        raise InputError("config.agents.llm.key_variable must be the name of an environment variable, not the key itself")
    if llm.base_url:
        check_address(llm.base_url, "config.agents.llm.base_url")


def check_address(base_url: str, name: str) -> None:
    """Refuse an address that is none of a server, or that holds secrets; ``name``: of the setting.

    Raises:
      InputError: it does not show the address, which may hold a password.
    """
    try:
        parts = urllib.parse.urlsplit(base_url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        usable, parts = False, urllib.parse.urlsplit("")
    if not usable or any(not "\x21" <= c <= "\x7e" for c in base_url):
        raise InputError(f"{name} must be the address of a server, like http://localhost:8000/v1")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise InputError(
            f"{name} must be an address alone: put the key into the environment variable that config.agents.llm.key_variable names"
        )


def _check_remote(config: Config) -> None:
    try:
        parts = urllib.parse.urlsplit(config.remote.address)
        usable = parts.scheme in ("ws", "wss") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
        usable = usable and not (parts.username or parts.password or parts.fragment)
    except ValueError:
        usable = False
    if not usable or any(not "\x21" <= c <= "\x7e" for c in config.remote.address):
        raise InputError("config.remote.address must be the address of a policy server, like ws://localhost:8000, without a password")
    if config.remote.key_variable and not _VARIABLE.fullmatch(config.remote.key_variable):
        raise InputError("config.remote.key_variable must be the name of an environment variable, not the key itself")


def _check_families(config: Config) -> None:
    chosen = families(config)
    if len(set(chosen)) < len(chosen):
        raise InputError(f'config.family is "{config.family}"; name each family once')
    for name in chosen:
        if name not in FAMILIES + LIBERO_FAMILIES and not own_families(config):
            guess = difflib.get_close_matches(name, FAMILIES + LIBERO_FAMILIES, n=1)
            hint = f' (did you mean "{guess[0]}"?)' if guess else ""
            raise InputError(
                f'config.family is "{name}"{hint}; use any of: {", ".join(FAMILIES + LIBERO_FAMILIES)}, or name the module that registers '
                "yours in config.own_families"
            )


def _check_platform(config: Config) -> None:
    """Suites are those of the families, and what only our own table has is not asked for elsewhere."""
    if wrong := [suite for suite in config.evaluate.suites if suite not in suites(config)]:
        raise InputError(
            f"config.evaluate.suites names {wrong[0]}, which config.family={config.family} has not; use any of: {', '.join(suites(config))}"
        )
    if not of_libero(config):
        return
    if others := [name for name in families(config) if name not in LIBERO_FAMILIES]:
        raise InputError(
            f'config.family is "{config.family}"; {others[0]} is simulated on another platform: run it by itself, or name any of '
            + ", ".join(LIBERO_FAMILIES)
        )
    for path, only in (("robot", ROBOT), ("obs", "state"), ("scenes.own_programs", ""), ("scenes.own_assets", "")):
        if (value := dict(leaves(config))[path]) != only:
            raise InputError(f'config.{path} is "{value}"; with families of LIBERO-Pro it must be {only or "empty"}')
    if config.sim.backend == "mjx" and config.sim.mjx_impl != "jax":
        raise InputError(f'config.sim.mjx_impl is "{config.sim.mjx_impl}"; with families of LIBERO-Pro it must be jax')


def leaves(config: Config | Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Dotted path and value of every setting."""
    for key, value in config.items():
        if isinstance(value, (ConfigDict, Mapping)):
            yield from leaves(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def to_dict(config: Config) -> dict[str, Any]:
    """Nested plain dict in JSON's types (tuples become lists)."""

    def plain(value: Any) -> Any:
        if isinstance(value, Mapping):
            return {k: plain(v) for k, v in value.items()}
        return [plain(v) for v in value] if isinstance(value, (list, tuple)) else value

    return plain(config.to_dict())


def nearest(path: str, known: list[str]) -> str:
    """Known path most like ``path``: judged by the whole path, then by its last part."""
    whole = difflib.get_close_matches(path, known, n=1, cutoff=0.6)
    if whole:
        return whole[0]
    last = {k.rsplit(".", 1)[-1]: k for k in known}
    tail = difflib.get_close_matches(path.rsplit(".", 1)[-1], list(last), n=1, cutoff=0.6)
    return last[tail[0]] if tail else ""


def check_key(config: Config, path: str) -> None:
    """Refuse a path that is no setting of ``config``.

    Raises:
      InputError: it names the path, and the nearest setting or the section's settings.
    """
    known = [p for p, _ in leaves(config)]
    if path in known:
        return
    inside = [k for k in known if k.startswith(path + ".")]
    if inside:
        raise InputError(f"config.{path} is a section, not a setting; set one of: {', '.join('config.' + k for k in inside)}")
    guess = nearest(path, known)
    if guess:
        raise InputError(f"there is no setting config.{path}; did you mean config.{guess} (now {dict(leaves(config))[guess]!r})?")
    section = path.split(".", 1)[0]
    siblings = [k for k in known if k.startswith(section + ".")] or sorted({k.split(".", 1)[0] for k in known})
    raise InputError(f"there is no setting config.{path}; there are: {', '.join('config.' + k for k in siblings)}")


def describe_type(value: Any) -> str:
    """ "an int (now 3)", "a list of str (now ('id',))": what a setting takes, judged by its present value."""
    if isinstance(value, (list, tuple)):
        inner = type(value[0]).__name__ if value else "values"
        return f"a comma-separated list of {inner} (now {value!r})"
    name = {bool: "true or false", int: "a whole number", float: "a number", str: "a text"}.get(type(value), f"a {type(value).__name__}")
    return f"{name} (now {value!r})"


def _fits(value: Any, want: Any) -> bool:
    """Whether a value has the type of ``want``; a whole number also fits where a fraction may stand, and lists are judged by element."""
    if isinstance(want, (list, tuple)):
        return isinstance(value, (list, tuple)) and all(_fits(one, want[0]) for one in value)
    return type(value) is type(want) or (type(want) is float and type(value) is int)


def check_types(config: Config, reference: Config) -> None:
    """Refuse settings of an experiment file that are unknown to ``reference``, missing, or of another type.

    Raises:
      InputError: the first such setting.
    """
    expected = dict(leaves(reference))
    found = dict(leaves(config))
    for path, value in found.items():
        check_key(reference, path)
        want = expected[path]
        if not _fits(value, want):
            raise InputError(f"config.{path} is {value!r}; it must be {describe_type(want)}")
    missing = sorted(expected.keys() - found.keys())
    if missing:
        raise InputError(f"config.{missing[0]} is missing: begin the experiment file with coda_jax.config.default()")


_FAR = 1e9  # beyond any length, density or factor
RANGES = ("validity.density_kg_m3", "validity.scale", "validity.longest_m", "validity.workspace_x_m", "validity.workspace_y_m")
_AGENT_KINDS = ("scripted", "llm")
ONE_OF: dict[str, tuple[str, ...]] = {
    "agents.kind": _AGENT_KINDS,
    **{f"agents.{agent}": ("", *_AGENT_KINDS) for agent in AGENTS},
    "agents.diagnoser": ("", *_AGENT_KINDS, "random"),
    "strategy": STRATEGIES,
    "policy.kind": ("flow", "remote"),
    "critic.gamma_unit": ("step", "chunk"),
    "critic.backup": ("max", "mean", "softmax", "log_mean_exp"),
    "memory.start_mode": ("live", "frozen"),
    "critic.early_ends": ("fill", "mask"),
    "critic.projection": ("hl_gauss", "two_hot"),
    "critic.state_value": ("mean", "log_mean_exp"),
    "critic.relabel": ("shift", "reset"),
    "awr.improve": ("awr", "filtered", "frozen"),
    "awr.advantage": ("critic", "trajectory"),
    "awr.advantage_unit": ("std", "raw"),
    "actor.collect": ("policy", "sample", "argmax", "average"),
    "actor.evaluate": ("policy", "sample", "argmax", "average"),
    "actor.temperature_unit": ("std", "raw"),
    "potential.signal": ("diagnosed", "task_text", "free_form", "sparse"),
    "schedule.kind": ("adaptive", "fixed"),
    "sim.backend": ("auto", "native", "mjx"),
    "sim.mjx_impl": ("jax", "warp"),
    "obs": ("state", "pixels"),
    "pixels.renderer": ("auto", "native", "jax", "warp"),
    "evaluate.split": ("validation", "test"),
    "evaluate.suites": SUITES + LIBERO_SUITES,
}


def validate(config: Config, trains: bool = True) -> None:
    """Refuse values out of range and combinations that cannot work; ``trains`` as in combinations.check.

    Raises:
      InputError: it names the setting, its value and the valid ones.
    """
    check_types(config, default())
    values = dict(leaves(config))
    for path, low in AT_LEAST.items():
        value = values[path]
        if not (low <= value < float("inf")):  # also refuses NaN
            raise InputError(f"config.{path} is {value!r}; it must be at least {low:.15g}")
    for path, high in BELOW.items():
        if not values[path] < high:
            raise InputError(f"config.{path} is {values[path]!r}; it must be below {high:.15g}")
    for path, high in AT_MOST.items():
        if not values[path] <= high:
            raise InputError(f"config.{path} is {values[path]!r}; it must be at most {high:.15g}")
    for path in RANGES:
        if len(values[path]) != 2 or not -_FAR < values[path][0] < values[path][1] < _FAR:
            raise InputError(f"config.{path} is {values[path]!r}; it must be two numbers, the lower one first")
    if config.strategy in NOT_BUILT:
        raise InputError(f"config.strategy={config.strategy} is not built yet; use one of: {', '.join(STRATEGIES)}")
    for path, choices in ONE_OF.items():
        value = values[path]
        for one in value if isinstance(value, (list, tuple)) else (value,):
            if one not in choices:
                guess = difflib.get_close_matches(str(one), choices, n=1)
                hint = f' (did you mean "{guess[0]}"?)' if guess else ""
                raise InputError(
                    f'config.{path} is "{one}"{hint}; use {"any" if isinstance(value, (list, tuple)) else "one"} of: '
                    + ", ".join(choice or "(empty)" for choice in choices)
                )
    _check_families(config)
    _check_agents(config)
    _check_remote(config)
    _check_robot(config)
    _check_platform(config)
    combinations.check(config, trains)


def override(config: Config, path: str, text: str) -> None:
    """Set one setting from the command line's text, e.g. ``clone.steps`` to ``"500"``.

    Raises:
      InputError: the setting does not exist or takes another type.
    """
    check_key(config, path)
    now = dict(leaves(config))[path]
    try:
        value = _parse(text, now)
    except ValueError:
        raise InputError(f'config.{path} is given as "{text}"; it must be {describe_type(now)}') from None
    section, _, key = path.rpartition(".")
    target = config
    for name in section.split(".") if section else ():
        target = target[name]
    target[key] = value


_LIST = re.compile(r"^[\[(]?(.*?),?[\])]?$")


def _parse(text: str, now: Any) -> Any:
    if isinstance(now, bool):
        lowered = text.strip().lower()
        if lowered not in ("true", "false", "1", "0"):
            raise ValueError(text)
        return lowered in ("true", "1")
    if isinstance(now, int):
        return int(text.replace("_", ""))
    if isinstance(now, float):
        return float(text)
    if isinstance(now, (list, tuple)):
        match = _LIST.match(text.strip())
        items = [item.strip().strip("'\"") for item in match.group(1).split(",")] if match and match.group(1) else []
        return tuple(_parse(item, now[0]) if now else item for item in items)
    return text


def differences(before: Config | Mapping[str, Any], after: Config | Mapping[str, Any]) -> list[str]:
    """One line per setting in which two configurations differ: "clone.steps: 2000 -> 500"."""

    def plain(value: Any) -> Any:
        return list(value) if isinstance(value, tuple) else value

    old, new = dict(leaves(before)), dict(leaves(after))
    absent = "(absent)"
    return [
        f"{path}: {old.get(path, absent)!r} -> {new.get(path, absent)!r}".replace(repr(absent), absent)
        for path in sorted(old.keys() | new.keys())
        if plain(old.get(path, absent)) != plain(new.get(path, absent))
    ]


def build(cls: type[T], section: Config, **extra: Any) -> T:
    """A plain dataclass of a lower floor from a section's settings and ``extra`` fields.

    Raises:
      TypeError: a setting is no field of ``cls`` (it would change nothing), or a field without default is given nowhere.
    """
    names = {f.name for f in dataclasses.fields(cls)}  # type: ignore[arg-type]
    values = {k: v for k, v in section.items() if not isinstance(v, ConfigDict)}
    unused = sorted(values.keys() - names)
    if unused:
        raise TypeError(f"{cls.__name__} has no field for: {', '.join(unused)}")
    return cls(**values, **extra)
