"""The scripted potential compiler on demonstrations: subgoals lie in the diagnosed phase, every text passes the door and the gates."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest

from coda_jax.agents.base import Failing, PotentialCompiler, Stalled
from coda_jax.agents.scripted.potentials import PotentialSettings, ScriptedPotentials, in_phase, tools_for
from coda_jax.agents.scripted.refinement import RefinementSettings, refined
from coda_jax.programs.expressions import Expr, encode, evaluate, stack
from coda_jax.programs.sandbox import Sandbox
from coda_jax.programs.training.gates import Demonstrated, constructed, measured
from coda_jax.programs.training.measured import MeasuredProgress, first_ramp, measure
from coda_jax.programs.training.program import DenseProgram, SparseProgram, Tools, TrainingProgram, check_program, evaluate_training
from coda_jax.programs.training.rewrite import rewritten
from coda_jax.programs.training.values import tables, values
from coda_jax.scenes.families import PHASES
from coda_jax.scenes.families.staging import CUTS, MOVING, TASK_TEXT
from tests.programs.training.made import LIMITS, cut, demonstrations, e

REFINEMENT = RefinementSettings(least_stopped=0.5, split=True)
SETTINGS = PotentialSettings("diagnosed", 4, 0.005, True, REFINEMENT)
COMPILER: PotentialCompiler = ScriptedPotentials(SETTINGS)


@pytest.fixture(scope="module")
def sandbox():
    with Sandbox(LIMITS) as made:
        yield made


def compiled(sandbox, phase: str, **changes):
    compiler = ScriptedPotentials(dataclasses.replace(SETTINGS, **changes))
    wanted = Failing("pick_place", "SPATIAL", phase, "gap_to_target:low")
    text, same = compiler.compile([wanted, wanted])
    assert text == same
    return evaluate_training(text, sandbox)


def phase_steps(demonstration: Demonstrated) -> list[int]:
    """The control step at which each phase of the family is first met."""
    apart = e("horizontal_distance", "target", "reference")
    goal = demonstration.scene.nu.args[0]
    assert isinstance(goal, Expr)
    beside = goal.op == "all_of"
    over = goal.args[1].args[1] if beside else 0.06  # pyright: ignore[reportAttributeAccessIssue]
    held = e("all_of", e("at_least", e("grasped", "target"), 1.0), e("at_least", e("lifted", "target"), 0.02))
    roles = [e("at_most", e("distance", "gripper", "target"), 0.045), held, e("at_most", apart, over)]
    index = {role: demonstration.scene.index[name] for role, name in demonstration.scene.roles.items()}
    rows = len(demonstration.views.control_step)
    met = [np.asarray(evaluate(stack([encode(roles, index)] * rows), demonstration.views))[:, :3]]
    own = encode([goal, demonstration.scene.nu], demonstration.scene.index)
    met.append(np.asarray(evaluate(stack([own] * rows), demonstration.views))[:, :2])
    return [int(column.argmax()) for column in np.concatenate(met, 1).T]


@pytest.mark.parametrize(("phase", "stages"), list(itertools.product(PHASES, (2, 3, 4))))
def test_subgoals_lie_in_the_diagnosed_phase(sandbox, phase, stages):
    """At least two of them (one of two) are met after the phase begins and no later than it ends, in most demonstrations."""
    program = compiled(sandbox, phase, stages=stages)
    assert isinstance(program, TrainingProgram) and program.stages == stages
    number, enough, judged = PHASES.index(phase), 0, 0
    for demonstration in demonstrations():
        steps = phase_steps(demonstration)
        begin, end = steps[number - 1] if number else -1, steps[number]
        if end - begin < 2:  # a release that ends in the same control step as the placing shows nothing
            continue
        judged += 1
        stage = measured(program, [demonstration])[1].stage
        first = [int((stage >= i).argmax()) for i in range(1, stages + 1)]
        enough += sum(begin < step <= end for step in first) >= min(2, stages - 1)
    assert judged and enough >= 0.75 * judged


@pytest.mark.parametrize("phase", PHASES)
def test_compiled_programs_pass_the_gates(sandbox, phase):
    program = compiled(sandbox, phase)
    assert isinstance(program, TrainingProgram)
    found = constructed(program, demonstrations())
    assert found.repairs in ((), ("latched",))
    assert found.repairs == () or phase == "place"  # a target is carried low over the reference on the way to its other side


def test_task_text_has_a_stage_for_each_phase_and_passes(sandbox):
    program = compiled(sandbox, "release", variant="task_text", tools=False)
    assert program == compiled(sandbox, "approach", variant="task_text", tools=False) == rewritten(TASK_TEXT)
    assert isinstance(program, TrainingProgram) and constructed(program, demonstrations()).repairs == ()


def test_free_form_and_sparse_hold_no_potential(sandbox):
    dense = compiled(sandbox, "grasp", variant="free_form", dense_weight=0.01)
    assert isinstance(dense, DenseProgram) and dense.weight == 0.01
    for demonstration in demonstrations()[:2]:
        n = len(demonstration.views.control_step)
        reward = values(tables([dense], [demonstration.scene]), np.zeros(n, int), demonstration.views).reward
        assert reward.min() >= 0 and reward.max() <= 0.01 and reward[-1] > reward[0]
    assert isinstance(compiled(sandbox, "grasp", variant="sparse"), SparseProgram)


def test_tools_are_switched_off_by_one_setting(sandbox):
    for variant in ("diagnosed", "task_text", "free_form", "sparse"):
        assert compiled(sandbox, "transport", variant=variant, tools=False).tools == Tools()
        assert compiled(sandbox, "transport", variant=variant).tools == tools_for("SPATIAL", "transport") != Tools()
    assert tools_for("EXECUTION", "grasp").demo_share == 0.5 and tools_for("TASK", "approach").start_states is None


def test_unknown_phase_or_size_is_named():
    with pytest.raises(ValueError, match="no phase 'insert': use one of approach, grasp"):
        COMPILER.compile([Failing("pick_place", "TASK", "insert", "")])
    with pytest.raises(ValueError, match="5 stages: use 2, 3 or 4"):
        in_phase(MOVING, "grasp", 5)


def stopped_at(program: TrainingProgram, stalled: int, entry: float, best: tuple[float, float, float]) -> MeasuredProgress:
    reached = tuple(1.0 if i < stalled else 0.25 for i in range(program.stages))
    return MeasuredProgress(20, reached, stalled, entry, best)


def ramp_of(program: TrainingProgram, number: int) -> tuple:
    ramp = first_ramp(program.subgoals[number].progress)
    assert ramp is not None
    return ramp.args[1:]


def test_a_stalled_stage_is_split_where_there_is_room():
    program = in_phase(MOVING, "approach", 2)  # near, placed
    measured_progress = stopped_at(program, 0, 0.28, (0.2, 0.12, 0.09))
    after = refined(program, measured_progress, REFINEMENT)
    assert [s.name for s in after.subgoals] == ["half_way1", "near", "placed"]
    reach = e("distance", "gripper", "target")
    assert after.subgoals[0].done == e("at_most", reach, 0.12) and after.subgoals[0].progress == e("ramp", reach, 0.28, 0.12)
    assert after.subgoals[1].done == program.subgoals[0].done
    assert refined(program, measured_progress, REFINEMENT) == after
    again = refined(after, stopped_at(after, 1, 0.12, (0.1, 0.08, 0.07)), REFINEMENT)
    assert [s.name for s in again.subgoals] == ["half_way1", "half_way2", "near", "placed"]
    assert again.subgoals[1].done == e("all_of", after.subgoals[0].done, e("at_most", reach, 0.08))
    check_program(again)


def test_without_room_the_ramp_is_fitted_to_what_was_reached():
    program = in_phase(MOVING, "grasp", 4)
    after = refined(program, stopped_at(program, 0, 0.3, (0.16, 0.12, 0.08)), REFINEMENT)
    assert ramp_of(after, 0) == (0.16, 0.06)  # begins at the worst tenth, ends where it did
    assert after.subgoals[1:] == program.subgoals[1:] and after.subgoals[0].done == program.subgoals[0].done
    lifted = refined(program, stopped_at(program, 2, 0.0, (0.001, 0.004, 0.03)), REFINEMENT)
    assert ramp_of(lifted, 2) == (0.001, 0.03)  # rising; the best tenth comes beyond the old end
    wide = refined(
        in_phase(MOVING, "approach", 2),
        stopped_at(in_phase(MOVING, "approach", 2), 0, 0.28, (0.2, 0.12, 0.09)),
        RefinementSettings(0.5, False),
    )
    assert wide.stages == 2 and ramp_of(wide, 0)[0] == 0.2


@pytest.mark.parametrize(
    "found",
    [
        MeasuredProgress(8, (1.0, 1.0, 1.0, 1.0), None, None, None),
        MeasuredProgress(8, (0.9, 0.8, 0.7, 0.6), 3, 0.3, (0.2, 0.1, 0.1)),  # few stop anywhere
        MeasuredProgress(8, (1.0, 0.0, 0.0, 0.0), 1, None, None),  # nothing to fit
    ],
)
def test_nothing_changes_without_a_stalled_stage(found):
    program = in_phase(MOVING, "grasp", 4)
    assert refined(program, found, REFINEMENT) == program


def test_refinement_from_rollouts_passes_the_gates_again(sandbox):
    """Rollouts that end on the way to the target: the stage of the approach is split at what they reached."""
    program = compiled(sandbox, "approach", stages=3)
    assert isinstance(program, TrainingProgram)
    rollouts = []
    for i, demonstration in enumerate(demonstrations()):
        token = demonstration.scene.index[demonstration.scene.roles["target"]]
        gap = np.linalg.norm(demonstration.views.pos[:, token] - demonstration.views.ee_pos, axis=-1)
        rollouts.append((demonstration.scene, cut(demonstration.views, np.arange(int((gap < 0.19 + 0.002 * i).argmax()) + 1))))
    found = measure(program, rollouts)
    assert found.stalled == 0 and found.stopped == 1.0 and found.best is not None and 0.15 < found.best[1] < 0.21
    failing = Failing("pick_place", "SPATIAL", "approach", "gap_to_target:low")
    (text,) = COMPILER.refine([Stalled(failing, program, found, lambda other: measure(other, rollouts))])
    after = evaluate_training(text, sandbox)
    assert isinstance(after, TrainingProgram) and after.stages == 4 and after.program_id != program.program_id
    assert constructed(after, demonstrations()).repairs == ()
    again = measure(after, rollouts)
    assert found.reached[0] == 0.0 and again.reached[0] >= 0.25  # some of them now complete a subgoal


def test_every_cut_reads_well():
    for phase, cut_ in CUTS.items():
        check_program(in_phase(MOVING, phase, 4))
        assert len(set(cut_.spare)) == 2 and 3 not in cut_.spare
