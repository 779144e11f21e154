"""Tables of what LIBERO's planner certifies."""

from __future__ import annotations

from benchmarks.libero_planner_tables import tables


def row(task: str, solved: int, failed: dict[str, str], noise: bool = False):
    return {
        "task": task, "noise": noise, "states": 10, "solved": solved, "first_grasp": 1, "steps": [60, 70, 90] if solved else [],
        "horizon": 300, "failed": failed, "cpu_s": 2.0, "control_steps": 1000,
    }  # fmt: skip


def test_every_task_has_a_line_and_failures_their_causes():
    text = tables([row("a/one", 10, {}), row("a/two", 7, {"1": "late", "2": "slipped", "3": "late"}), row("a/one", 0, {}, noise=True)])
    without, disturbed = text.split("With noise: ")
    assert without.startswith("Without noise: 1 of 2 tasks from at least 80 % of their initial states; 17/20 episodes.")
    assert "| `a/two` | 7/10 | 1 | 60, 70, 90 of 300 | late (2); slipped (1) |" in without
    assert "2000 control steps in 4 CPU-s: 2.0 ms a step, 255 solved a CPU minute." in without
    assert disturbed.startswith("0 of 1 tasks") and "| `a/one` | 0/10 |" in disturbed
