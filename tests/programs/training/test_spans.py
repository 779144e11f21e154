"""Subgoals against the span of a phase."""

import numpy as np
import pytest

from coda_jax.agents.scripted.potentials import in_phase
from coda_jax.loop.check_training import LEAST_INSIDE
from coda_jax.programs.training.rewrite import rewritten
from coda_jax.programs.training.spans import Span, phase_spans, placing
from coda_jax.scenes.families import PHASES
from coda_jax.scenes.families.staging import MOVING
from tests.agents.llm.gated import checked
from tests.programs.training.made import demonstrations, e, simple


def test_spans_follow_one_another():
    met = np.zeros((10, 5))
    for column, step in enumerate((1, 3, 3, 7, 9)):
        met[step:, column] = 1
    assert phase_spans(met) == [Span(0, 2), Span(2, 4), Span(4, 4), Span(4, 8), Span(8, 10)]
    assert [s.has_inside for s in phase_spans(met)] == [True, True, False, True, True]


def test_of_two_goals_the_first_ones_phases_count_and_a_phase_never_met_is_empty():
    shares = np.zeros((6, 5))
    shares[1:, 0], shares[4:, 0] = 0.5, 1.0
    shares[0, 1] = 0.5  # before the approach: it ends with it
    assert phase_spans(shares)[:3] == [Span(0, 2), Span(2, 2), Span(2, 2)]


@pytest.mark.parametrize("phase", PHASES)
def test_scripted_programs_lie_in_their_phase_and_not_in_a_far_one(phase):
    gates, number = checked("pick_place"), PHASES.index(phase)
    for stages in (2, 3, 4):
        program = rewritten(in_phase(MOVING, phase, stages))
        found = placing(program, gates.demonstrations, [s[number] for s in gates.spans])
        assert found.needed == min(2, stages - 1) and found.share is not None and found.share >= LEAST_INSIDE
        assert found.first.shape == found.inside.shape == (sum(s[number].has_inside for s in gates.spans), stages)
        other = placing(program, gates.demonstrations, [s[(number + 2) % 4] for s in gates.spans])
        # of two subgoals success alone may lie in a later phase
        assert stages == 2 or (other.share is not None and other.share < LEAST_INSIDE)


def test_what_holds_at_the_reset_and_what_is_met_together_lies_inside_once_or_not_at_all():
    shown = demonstrations()
    spans = [Span(0, len(d.views.control_step) - 1) for d in shown]
    near, lifted = e("distance", "gripper", "target"), e("lifted", "target")
    at_once = e("at_least", e("gripper_opening"), 0.001)  # the hand is open
    two = simple(e("at_most", near, 0.15), e("at_least", lifted, 0.02))
    apart = placing(two, shown, spans)
    assert apart.share == 1 and apart.inside.all()
    reset = placing(simple(at_once, e("at_most", near, 0.15)), shown, spans)
    assert not reset.first[:, 0].any() and not reset.inside[:, 0].any() and reset.inside[:, 1:].all()
    twins = placing(simple(e("at_most", near, 0.15), e("at_most", near, 0.1499)), shown, [Span(0, int(f[0])) for f in apart.first])
    same = twins.first[:, 0] == twins.first[:, 1]
    assert same.any() and (twins.inside[same].sum(1) == 1).all() and twins.share == 0


def test_a_phase_that_no_demonstration_shows_is_no_reason_to_refuse():
    gates = checked("pick_place")
    found = placing(in_phase(MOVING, "grasp", 4), gates.demonstrations, [Span(3, 3)] * len(gates.demonstrations))
    assert found.share is None
