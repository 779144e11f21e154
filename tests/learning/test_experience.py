"""The table of decisions: where transitions begin and lead, how batches are drawn, relabelled, given candidates, and restarted."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from coda_jax import runtime
from coda_jax.learning import experience as table
from coda_jax.learning.policies import flow
from coda_jax.learning.records import SOURCES, labelled_rows, sparse_labels
from coda_jax.types import Observation
from tests.learning import made, toy

H, J = 8, 2
RECORDS = [
    made.record(0, t=10, source="demonstration"),  # decisions of 4, 4, 2: rows 0..2, the last terminal
    made.record(1, t=8, success=False),  # rows 3, 4 and the closing row 5
    made.record(2, t=11, success=False, prefix=8),  # row 6 and the closing row 7: what the prefix did is nobody's decision
    made.record(3, t=3, source="control", instruction="put the blue can on the white plate"),  # row 8
]
LABELS = [made.labels(r, 10 + i) for i, r in enumerate(RECORDS)]


def built(records=RECORDS, labels=LABELS) -> table.Experience:
    return table.build(records, labels, made.embed, H, J)


def test_rows_are_decisions_and_closing_moments():
    whole = built()
    assert int(whole.size) == 9
    assert np.asarray(whole.episode[:9]).tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 3]
    assert np.asarray(whole.terminal[:9]).tolist() == [0, 0, 1, 0, 0, 0, 0, 0, 1]
    assert np.asarray(whole.mask[:9].sum(1)).tolist() == [4, 4, 2, 4, 4, 0, 3, 0, 3]
    assert np.asarray(whole.offsets).tolist() == [0, 3, 6, 7, 7]
    assert np.asarray(whole.order[:7]).tolist() == [0, 1, 2, 3, 4, 6, 8]
    assert len(whole.episode) == table.MIN_ROWS


def test_a_transition_leads_to_the_next_decision_or_to_the_last_moment():
    batch = table.critic_batch(built(), jnp.array([0, 2, 4, 6]))
    assert np.asarray(batch.terminal).tolist() == [False, True, False, False]
    views, of = [r.views for r in RECORDS], LABELS
    assert np.array_equal(batch.obs.pos, [views[0].pos[0], views[0].pos[8], views[1].pos[4], views[2].pos[8]])
    assert np.array_equal(batch.next_obs.pos[jnp.array([0, 2, 3])], [views[0].pos[4], views[1].pos[8], views[2].pos[11]])
    assert np.isfinite(batch.next_obs.quat).all()
    assert np.allclose(batch.phi, [of[0].phi[0], of[0].phi[8], of[1].phi[4], of[2].phi[8]])
    assert np.allclose(batch.next_phi[jnp.array([0, 2, 3])], [of[0].phi[4], of[1].phi[8], of[2].phi[11]])
    assert np.array_equal(batch.program.stage, [of[0].stage[0], of[0].stage[8], of[1].stage[4], of[2].stage[8]])
    assert np.array_equal(batch.next_program.code, [of[0].code, of[0].code, of[1].code, of[2].code])
    assert np.array_equal(batch.rewards.sum(1), [0, 1, 0, 0])
    assert batch.rewards[1, 1] == 1  # at the second and last step of the decision


def test_a_policys_own_chunk_stays_whole():
    """What was meant beyond the executed steps stands beside them, not what the next decision did; what was executed is as it was."""
    chunks = np.random.default_rng(5).normal(size=(3, 8, 7)).astype(np.float32)
    own = made.record(3, t=10, success=False, chunks=chunks, prefix=4)
    whole = table.build([own], [made.labels(own, 0)], made.embed, 8, 2)
    actions, mask = np.asarray(whole.actions[:3]), np.asarray(whole.mask[:3])
    assert mask.sum(1).tolist() == [4, 2, 0]  # two decisions after the prefix, and the closing row
    np.testing.assert_array_equal(actions[0, :4], own.actions[4:8])
    np.testing.assert_array_equal(actions[0, 4:], np.clip(chunks[1, 4:], -1, 1))
    np.testing.assert_array_equal(actions[1, :2], own.actions[8:])
    np.testing.assert_array_equal(actions[1, 2:], np.clip(chunks[2, 2:], -1, 1))
    with pytest.raises(ValueError, match="chunks"):
        table.build([dataclasses.replace(own, chunks=chunks[:2])], [made.labels(own, 0)], made.embed, 8, 2)


def test_actions_go_on_as_the_episode_did_and_then_hold_still():
    whole, own = built(), RECORDS[0].actions
    assert np.array_equal(whole.actions[0], own[:8])
    assert np.array_equal(whole.actions[1, :6], own[4:])
    assert np.array_equal(whole.actions[1, 6:, :6], np.zeros((2, 6)))
    assert np.array_equal(whole.actions[1, 6:, 6], own[[-1, -1], 6])
    batch = table.chunk_batch(whole, jnp.array([1]))
    assert np.asarray(batch.mask[0]).tolist() == [True] * 4 + [False] * 4
    assert np.array_equal(batch.roles, [[0, 6, 0, 6]])


def test_words_belong_to_their_episodes():
    seen = table.observation(built(), jnp.array([0, 8]))
    assert np.array_equal(seen.instruction, made.embed([RECORDS[0].instruction, RECORDS[3].instruction]))
    assert np.array_equal(seen.text[0, [0, 6]], made.embed(["red mug", "white plate"]))
    assert not seen.text[:, 2].any()


def test_sources_give_their_counts_and_weights_their_shares():
    heavy = [*RECORDS, made.record(4, t=4, weight=3.0)]  # one decision of weight 3 beside three of weight 1
    whole = built(heavy, [sparse_labels(r) for r in heavy])
    rows = np.asarray(table.rows_of(whole, jax.random.key(0), np.array((100, 3000, 7, 0)), 3107))
    assert set(rows[:100]) == {0, 1, 2}
    assert set(rows[100:3100]) == {3, 4, 6, 9}
    assert set(rows[3100:]) == {8}
    shares = [np.mean(rows[100:3100] == row) for row in (3, 4, 6, 9)]
    assert np.allclose(shares, [1 / 6, 1 / 6, 1 / 6, 1 / 2], atol=0.04)


def test_an_empty_source_is_served_by_the_others():
    whole = built()
    where = np.asarray(whole.order)[:7].tolist().index
    assert len(table.rows_of(whole, jax.random.key(0), np.array((1, 2, 1, 4)), 8)) == 8
    counts = np.zeros(len(SOURCES), int)
    for row in np.asarray(table.rows_of(whole, jax.random.key(0), np.array((100, 200, 100, 400)), 800)).tolist():
        counts[np.searchsorted(whole.offsets, where(row), side="right") - 1] += 1
    assert counts.tolist() == [200, 400, 200, 0]
    assert set(np.asarray(table.rows_of(whole, jax.random.key(1), np.array((0, 0, 0, 500)), 500))) == {0, 1, 2, 3, 4, 6, 8}


def test_relabelling_is_building_with_other_labels():
    other = [made.labels(r, 20 + i) for i, r in enumerate(RECORDS)]
    again, anew = table.relabelled(built(), **labelled_rows(RECORDS, other, H)), built(RECORDS, other)
    assert not np.array_equal(again.phi, built().phi)
    assert all(np.array_equal(a, b) for a, b in zip(jax.tree.leaves(again), jax.tree.leaves(anew), strict=True))
    with pytest.raises(ValueError, match="labels of 3 rows for a table of 9"):
        table.relabelled(built(), **labelled_rows(RECORDS[:1], other[:1], H))


@dataclasses.dataclass(frozen=True)
class Shifted:
    """A policy whose candidates say which observation, candidate and parameter they come from."""

    chunk: int = H

    def sample(self, params, obs: Observation, key, j, roles=None):
        noise = jax.vmap(lambda k: jax.random.uniform(k, (j, H, 7)))(key)
        return 0.01 * noise + 0.1 * obs.ee_pos[:, None, None, :1] + params


def test_candidates_are_drawn_for_every_row_and_only_those():
    whole, key = built(), jax.random.key(5)
    whole = table.refresh_candidates(Shifted(), jnp.float32(0.25), whole, key)
    expected = 0.25 + 0.1 * np.asarray(whole.steps["ee_pos"][:9, 0])
    assert np.allclose(whole.candidates[:9].mean((1, 2, 3)), expected, atol=0.01)
    assert np.abs(whole.candidates[0, 0] - whole.candidates[0, 1]).max() > 1e-4
    assert not whole.candidates[9:].any()
    old, compiled = np.asarray(whole.candidates), runtime.compile_count()
    same = table.refresh_candidates(Shifted(), jnp.float32(0.25), whole, key)
    assert np.array_equal(same.candidates, old)  # old buffer consumed, equal draw
    far = table.refresh_candidates(Shifted(), jnp.float32(9.0), same, key)
    assert np.abs(far.candidates).max() == 1.0
    assert runtime.compile_count() == compiled


def test_the_flow_policy_draws_candidates_told_the_roles_where_it_asks():
    policy = toy.policy(width=16, euler_steps=1, given_roles=True)
    params = policy.init(jax.random.key(0))
    whole = table.refresh_candidates(policy, params, built(), jax.random.key(1))
    rows = jnp.arange(9)
    keys = jax.vmap(lambda row: jax.random.fold_in(jax.random.key(1), row))(rows)
    roles = whole.roles[whole.episode[rows]]
    chunks = flow.sample_chunks(policy, params, table.observation(whole, rows), keys, J, roles)
    assert np.allclose(whole.candidates[:9], np.clip(chunks, -1, 1), atol=1e-5)


def test_growing_data_meets_one_shape():
    few, more = built(), built([*RECORDS, *RECORDS], [*LABELS, *LABELS])
    assert [a.shape for a in jax.tree.leaves(few)] == [a.shape for a in jax.tree.leaves(more)]
    room = table.build(RECORDS, LABELS, made.embed, H, J, least_rows=table.MIN_ROWS + 1)
    assert len(room.episode) == 2 * table.MIN_ROWS


@functools.partial(jax.jit, donate_argnums=0)
def regress(state, whole, key, count):
    """Updates of a linear fit to phi: what any training on the table does with key, step and rows."""

    def body(_, state):
        w, opt, step = state
        batch = table.critic_batch(whole, table.rows_of(whole, jax.random.fold_in(key, step), np.array((4, 4, 2, 2)), 12))
        gradient = jax.grad(lambda w: jnp.mean((batch.obs.ee_pos @ w - batch.phi) ** 2 + (batch.candidates[:, 0, 0, :3] @ w) ** 2))(w)
        updates, opt = optax.adam(0.1).update(gradient, opt, w)
        return optax.apply_updates(w, updates), opt, step + 1

    return jax.lax.fori_loop(0, count, body, state)


def test_killed_after_two_steps_and_rebuilt_it_goes_on_bit_for_bit():
    def fresh():
        return table.refresh_candidates(Shifted(), jnp.float32(0.1), built(), jax.random.key(3))

    def start():
        w = jnp.zeros(3)
        return w, optax.adam(0.1).init(w), jnp.int32(0)

    key = jax.random.key(7)
    whole = jax.device_get(regress(start(), fresh(), key, 4))
    saved = jax.device_get(regress(start(), fresh(), key, 2))
    resumed = jax.device_get(regress(jax.tree.map(jnp.asarray, saved), fresh(), key, 2))
    assert whole[2] == resumed[2] == 4
    assert whole[0].any() and not np.array_equal(whole[0], saved[0])
    assert all(np.array_equal(a, b) for a, b in zip(jax.tree.leaves(whole), jax.tree.leaves(resumed), strict=True))


def test_batches_are_drawn_without_leaving_the_device():
    whole, key, draw = (
        built(),
        jax.random.key(0),
        jax.jit(lambda w, k: table.critic_batch(w, table.rows_of(w, k, np.array((2, 2, 2, 2)), 8))),
    )
    draw(whole, key)
    with jax.transfer_guard("disallow"):
        draw(whole, key)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"source": "elsewhere"}, "use one of demonstration, targeted"),
        ({"actions": np.full((10, 7), 1.5, np.float32)}, "clip them"),
        ({"executed": np.array([4, 4], np.int32)}, "10 in all"),
        ({"executed": np.array([10], np.int32)}, "1 to 8"),
        ({"prefix": 3}, "inside a decision"),
        ({"prefix": 10}, "no decisions of the policy"),
        ({"names": (None,) * 8}, "do not belong to the tokens present"),
        ({"weight": 0.0}, "must be above 0"),
        ({"views": made.record(0, t=9).views}, "10 actions need"),
    ],
)
def test_malformed_records_are_named(changes, message):
    wrong = made.record(0, **changes)
    with pytest.raises(ValueError, match=message) as error:
        built([RECORDS[1], wrong], [LABELS[1], LABELS[0]])
    assert "record 1 ('put the red mug" in str(error.value)


def test_malformed_labels_are_named():
    for change, message in (({"phi": np.zeros(3)}, "labels.phi must be"), ({"stage": np.full(11, 5, np.int32)}, "stage must be in 0..4")):
        with pytest.raises(ValueError, match=message):
            built(RECORDS[:1], [dataclasses.replace(LABELS[0], **change)])
    with pytest.raises(ValueError, match="0 recorded episodes"):
        built([], [])
