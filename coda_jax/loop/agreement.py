"""``--mode=agreement``: what two annotators' answers say of a run's diagnoses."""

from __future__ import annotations

import json
from collections.abc import Sequence, Set
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from coda_jax import config as settings
from coda_jax.evaluation.annotation.agreement import ASPECTS, GROUPS, Agreement, Diagnosed, Kappa, Share, agreement
from coda_jax.evaluation.annotation.answers import Answers, read_answers
from coda_jax.evaluation.diagnosers import read_agreement
from coda_jax.evaluation.metrics import atomic_write
from coda_jax.evaluation.wording import counted
from coda_jax.loop import workdir as folders
from coda_jax.memory.rows import ControlTest, Diagnosis
from coda_jax.memory.store import FILE, Memory
from coda_jax.runtime import InputError

NAME = "agreement.json"


def run(folder: Path, answers: Sequence[Path]) -> None:
    """Print the agreement and write it to agreement.json of the run.

    Raises:
      InputError: not two files of two annotators of one sheet of this run.
    """
    config = folders.read_config(folder)
    first, second = _both(answers)
    with Memory.reading(folder / FILE) as memory:
        _check(memory, folder, answers, (first, second))
        diagnoses = diagnosed(memory)
    found = agreement(diagnoses, first, second)
    print_agreement(found)
    record = {"sheet": first.sheet, "annotators": [first.annotator, second.annotator]}
    record |= {"diagnoser": settings.agent_kind(config, "diagnoser")} | plain(found)
    answered = {str(answer.episode) for one in (first, second) for answer in one.answers}
    record["verdicts"] = _verdicts(diagnoses, answered)
    path = folder / NAME
    atomic_write(path, (json.dumps(record, indent=1) + "\n").encode())
    print(path)


def diagnosed(memory: Memory) -> list[Diagnosed]:
    """Every diagnosis of a run with what the last control test of its mode said."""
    verdicts = {t.mode_id: t.verdict for t in memory.rows(ControlTest, "WHERE kind = 'test' ORDER BY round, rowid")}
    return [
        Diagnosed(d.episode_id, d.factor, d.phase, verdicts.get(d.mode_id) if d.mode_id else None)
        for d in memory.rows(Diagnosis, "ORDER BY episode_id")
    ]


def current(folder: Path) -> dict[str, Any] | None:
    """What agreement.json of a run says; None where there is none, or a control test has since said otherwise of what was answered."""
    record = read_agreement(folder / NAME)
    if record is None or not isinstance(stored := record.get("verdicts"), dict):
        return None
    with Memory.reading(folder / FILE) as memory:
        now = _verdicts(diagnosed(memory), stored.keys())
    return record if now == stored else None


def _verdicts(diagnoses: Sequence[Diagnosed], episodes: Set[str]) -> dict[str, str | None]:
    """Episode, as JSON has keys, to the verdict that its shares were counted with."""
    return {str(d.episode): d.verdict for d in diagnoses if str(d.episode) in episodes}


def _both(paths: Sequence[Path]) -> tuple[Answers, Answers]:
    if len(paths) != 2:
        raise InputError(f"--answers names {counted(len(paths), 'file')}; give those of two annotators: --answers=A.json,B.json")
    first, second = (read_answers(path) for path in paths)
    if first.annotator == second.annotator:
        raise InputError(f"{paths[0]} and {paths[1]} are both of annotator {first.annotator}; two people are needed")
    if first.sheet != second.sheet:
        raise InputError(f"{paths[0]} answers sheet {first.sheet}, {paths[1]} sheet {second.sheet}; both must answer the same page")
    return first, second


def _check(memory: Memory, folder: Path, paths: Sequence[Path], both: Sequence[Answers]) -> None:
    """Refuse answers about what this run did not diagnose."""
    known = dict(memory.select("SELECT episode_id, scene_id FROM diagnoses JOIN episodes USING (episode_id)"))
    for path, one in zip(paths, both, strict=True):
        for answer in one.answers:
            if known.get(answer.episode) != answer.scene_id:
                raise InputError(
                    f"{path}: {folder} has no diagnosis of episode {answer.episode} in scene {answer.scene_id}; another run's?"
                )


def print_agreement(found: Agreement) -> None:
    """Tables for people."""
    table = Table("diagnoses", *ASPECTS, box=None, pad_edge=False)
    for group in GROUPS:
        shares = [found.shares[group, aspect] for aspect in ASPECTS]
        table.add_row(Text(f"{group} ({shares[0].diagnoses})"), *(Text(_share_text(s)) for s in shares))
    table.add_row()
    table.add_row(Text("annotators, kappa"), *(Text(_kappa_text(found.kappas[aspect])) for aspect in ASPECTS))
    print(f"agreement of diagnoses and annotators, {found.answered} failures, % (95 % interval over failures)")
    Console(width=120, highlight=False).print(table)
    for aspect, kappa in found.kappas.items():
        if kappa.why:
            print(f"kappa of {aspect}, no {'value' if kappa.value is None else 'interval'}: {kappa.why}")
    print("unsure: " + ", ".join(f"{name} {n}" for name, n in found.unsure.items()))


def _share_text(share: Share) -> str:
    return f"{100 * share.k / share.n:.1f} ({100 * share.interval.low:.1f} .. {100 * share.interval.high:.1f})" if share.n else "-"


def _kappa_text(kappa: Kappa) -> str:
    if kappa.value is None:
        return f"- ({kappa.agree}/{kappa.n} alike)"
    interval = "no interval" if kappa.low is None or kappa.high is None else f"{kappa.low:.2f} .. {kappa.high:.2f}"
    return f"{kappa.value:.2f} ({interval}), {kappa.agree}/{kappa.n} alike"


def plain(found: Agreement) -> dict[str, Any]:
    """As JSON."""
    shares = {
        group: {
            aspect: {"k": s.k, "n": s.n, "diagnoses": s.diagnoses, "low": s.interval.low, "high": s.interval.high}
            for aspect in ASPECTS
            for s in (found.shares[group, aspect],)
        }
        for group in GROUPS
    }
    return {
        "answered": found.answered,
        "unsure": dict(found.unsure),
        "shares": shares,
        "kappa": {a: k._asdict() for a, k in found.kappas.items()},
    }
