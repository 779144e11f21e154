"""Totals and pairs of LIBERO records, worked by hand."""

import pytest

from coda_jax.evaluation.libero.pairs import other_settings, pairs
from coda_jax.evaluation.libero.records import append
from coda_jax.evaluation.libero.totals import kind_of, task_of, totals
from coda_jax.evaluation.statistics import paired_difference, wilson
from coda_jax.loop import libero_tables
from tests.evaluation.libero.made import episode, failed, lost

RUN = [
    episode(init_index=0, steps=100),
    episode(init_index=1, steps=140, solved_by_settling=True),
    failed(init_index=2),
    lost(init_index=3),
    failed(init_index=0, prompt_source="filename", prompt="x"),
    episode(init_index=0, suite="libero_object", task=0, name="soup", prompt_source="both"),
]


def test_totals_keep_prompts_and_errors_apart():
    rows = {(r.group, r.source): r for r in totals(RUN)}
    assert list(rows) == [
        ("libero_goal_swap", "bddl"),
        ("libero_goal_swap", "filename"),
        ("libero_object", "bddl"),
        ("libero_object", "filename"),
    ]
    swap = rows["libero_goal_swap", "bddl"]
    assert (swap.k, swap.n, swap.errors, swap.settled, swap.steps) == (2, 3, 1, 1, 120)
    assert swap.interval == wilson(2, 3)
    none = rows["libero_goal_swap", "filename"]
    assert (none.k, none.n, none.steps) == (0, 1, None)
    assert next((r.group, r.k, r.n) for r in totals(RUN, task_of)) == ("libero_goal_swap 3: put_the_bowl_on_the_plate", 2, 3)


@pytest.mark.parametrize(
    ("suite", "kind"),
    [
        ("libero_object", "standard"),
        ("libero_object_object", "Object"),
        ("libero_spatial_swap", "Pos"),
        ("libero_10_task", "Task"),
        ("libero_goal_lan", "Language"),
        ("libero_goal_with_mug", "libero_goal_with_mug"),
        ("libero_mine", "libero_mine"),
        ("libero_100", "libero_100"),
    ],
)
def test_kinds_of_suites(suite, kind):
    assert kind_of(suite) == kind


@pytest.mark.parametrize("name", ["policy", "observes", "seed", "replan_steps", "step_limit"])
def test_what_is_not_alike_is_not_added_up(name):
    other = {"policy": "d" * 64, "observes": "pixels", "seed": 8, "replan_steps": 10, "step_limit": 200}[name]
    with pytest.raises(ValueError, match=f"differ in {name}"):
        totals([episode(), episode(init_index=1, **{name: other})])


@pytest.mark.parametrize("name", ["task", "bddl_sha256", "init_sha256"])
def test_one_name_does_not_stand_for_two_tasks_or_states(name):
    other = episode(prompt_source="filename", **{name: 9 if name == "task" else "e" * 64})
    with pytest.raises(ValueError, match=f"differ in {name} of libero_goal_swap, put_the_bowl"):
        totals([episode(), other])


def test_many_groups_take_no_more_than_their_episodes():
    looked = [0]

    def group(e):
        looked[0] += 1
        return e.suite

    many = [episode(suite=f"mine_{i}") for i in range(300)]
    assert len(totals(many, group)) == len(pairs(many, many)) == 300 and looked[0] == 300


def test_pairs_match_episodes_and_leave_errors_out():
    first = [
        episode(init_index=0),
        failed(init_index=1),
        failed(init_index=2),
        lost(init_index=3),
        episode(init_index=4),
        failed(init_index=9),
    ]
    changed = {"policy": "d" * 64, "replan_steps": 8}
    second = [
        episode(init_index=0, final_qpos=(0.1, 0.5), **changed),
        episode(init_index=1, **changed),
        failed(init_index=2, **changed),
        episode(init_index=3, **changed),
        failed(init_index=4, **changed),
        episode(init_index=11, **changed),
    ]
    (row,) = pairs(first, second)
    assert (row.n, row.both, row.only_first, row.only_second, row.errors, row.same_steps) == (4, 1, 1, 1, 1, 2)
    assert (row.first, row.second, row.p, pytest.approx(row.end_m)) == (2, 2, 1.0, 0.15)
    assert row.difference == paired_difference([0, 1, 0, -1])
    assert other_settings(first, second) == ["replan_steps 5 and 8"]
    assert other_settings(first, first) == []


def test_only_what_differs_in_common_episodes_is_told():
    longer = episode(suite="libero_10", name="a", step_limit=520)  # of a suite that the other run has not
    assert other_settings([episode(), longer], [episode()]) == []
    turned = {"wine_rack_1": (0.0, 0.1, 0.9, -1.0, 0.0, 0.0, 0.0)}
    assert other_settings([episode()], [episode(fixtures=turned)]) == []
    for other in ({"wine_rack_1": (0.0, 0.101, 0.9, 1.0, 0.0, 0.0, 0.0)}, {}):
        assert other_settings([episode(), episode(init_index=3)], [episode(fixtures=other), episode(init_index=3)]) == [
            "the places of fixtures in 1 of 2 episodes"
        ]


@pytest.mark.parametrize("name", ["bddl_sha256", "init_sha256", "prompt"])
def test_other_episodes_under_the_same_name_are_refused(name):
    with pytest.raises(ValueError, match=f"another {name}"):
        pairs([episode()], [episode(**{name: "e" * 64})])


def test_runs_without_a_common_episode_are_refused():
    with pytest.raises(ValueError, match="share no episode"):
        pairs([episode()], [episode(init_index=0)])


def test_a_prompt_of_both_sources_is_paired_with_each():
    rows = pairs([episode(prompt_source="both")], [episode(), failed(prompt_source="filename")])
    assert [(r.source, r.second) for r in rows] == [("bddl", 1), ("filename", 0)]


def test_the_command_prints_tables(tmp_path, capsys):
    first, second = tmp_path / "first.jsonl", tmp_path / "second.jsonl"
    append(first, RUN)
    append(second, [failed(init_index=0, policy="d" * 64)])
    assert libero_tables.main([str(first), "--tasks"]) == 0
    shown = capsys.readouterr().out
    assert "| libero_goal_swap | bddl | 2/3 | 67 % (21 .. 94) | 120 | 1 | 1 |" in shown and "| Pos | filename | 0/1 |" in shown
    assert "simulator error in libero_goal_swap, put_the_bowl_on_the_plate@3: the state is not finite" in shown
    assert libero_tables.main([str(first), str(second)]) == 0
    assert "| libero_goal_swap | bddl | 1/1 | 0/1 | -100 " in capsys.readouterr().out
    assert libero_tables.main([str(tmp_path / "absent")]) == 2
    assert libero_tables.main([str(first), str(tmp_path / "absent")]) == 2
    assert "error: " in capsys.readouterr().err


def test_what_a_record_says_moves_no_cursor(tmp_path, capsys):
    first, second, evil = tmp_path / "first.jsonl", tmp_path / "second.jsonl", "\x1b[2J\nforged\u202e"
    append(first, [lost(observes=evil, versions={"a": evil}, error=evil), episode(observes=evil, versions={"a": evil}, init_index=1)])
    append(second, [episode(observes=evil + "x", init_index=1)])
    for arguments in ([str(first)], [str(first), str(second)]):
        assert libero_tables.main(arguments) == 0
        shown = capsys.readouterr().out
        assert shown.replace("\n", "").isprintable() and "\nforged" not in shown and "forged" in shown
    append(second, [episode(observes="other")])
    assert libero_tables.main([str(second)]) == 2
    error = capsys.readouterr().err
    assert "differ in observes" in error and error.rstrip("\n").isprintable()


def test_episodes_that_were_cut_for_trying_out_are_named_so(tmp_path):
    cut, whole = (libero_tables.described(tmp_path, [episode(most_steps=n)]) for n in (40, 0))
    assert "ended after 40 steps at most" in cut and "ended after" not in whole
