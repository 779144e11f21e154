"""Recorded episodes on the host, what a training program says about them, and their rows in the table of decisions (experience.py)."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from coda_jax.learning.dataset import SHAPES
from coda_jax.programs.training.limits import CODE_DIM, MAX_STAGES
from coda_jax.types import ACTION_DIM, STEP_FIELDS, WorldView

SOURCES = ("demonstration", "targeted", "control", "replay")


@dataclasses.dataclass(frozen=True)
class EpisodeRecord:
    """One episode of ``t`` control steps and ``k`` decisions; without success it is truncated: its last moment still has a value.

    views: the t + 1 moments (sim/recording.py). actions: [t, 7] carried out, in [-1, 1]. executed: [k] steps of each decision.
    prefix: steps before the policy took over; their decisions are nobody's and get no rows. source: one of SOURCES.
    names: words of the 8 tokens, None for absent ones. instruction: the sentence. roles: tokens of target and reference, by goal.
    weight: how often its rows are drawn beside others of their source (``sampling_weight`` of its training program).
    chunks: [k, h, 7] that the policy meant to carry out, of which ``executed`` steps were. What it meant beyond them belongs to its sample:
    a flow policy that learns the executed part beside other actions than its own unlearns how the two go together. None for a
    demonstration, whose actions go on as they went.
    """

    views: WorldView
    actions: np.ndarray
    executed: np.ndarray
    prefix: int
    success: bool
    source: str
    names: tuple[str | None, ...]
    instruction: str
    roles: tuple[int, ...]
    weight: float
    chunks: np.ndarray | None = None

    @property
    def starts(self) -> np.ndarray:
        """Control step at which each of the policy's decisions begins."""
        ends = np.cumsum(self.executed)
        return (ends - self.executed)[ends > self.prefix]

    @property
    def moments(self) -> np.ndarray:
        """Control steps of the episode's rows: its decisions, and the last moment where it was truncated."""
        return self.starts if self.success else np.append(self.starts, len(self.actions))


@dataclasses.dataclass(frozen=True)
class Labels:
    """What an episode's training program says about it; raw values, never shaped rewards.

    stage: [t + 1] completed subgoals. progress: [t + 1] inside the present one. phi: [t + 1] potential. rewards: [t] of each control step:
    1 once at success, plus a free-form program's own. code: [CODE_DIM], tells programs apart.
    """

    stage: np.ndarray
    progress: np.ndarray
    phi: np.ndarray
    rewards: np.ndarray
    code: np.ndarray


def sparse_labels(record: EpisodeRecord) -> Labels:
    """Labels without a training program: 1 at success, no potential."""
    t = len(record.actions)
    rewards = np.zeros(t, np.float32)
    rewards[t - 1] = record.success
    zeros = np.zeros(t + 1, np.float32)
    return Labels(np.zeros(t + 1, np.int32), zeros, zeros, rewards, np.zeros(CODE_DIM, np.float32))


def decisions(t: int, executed: int) -> np.ndarray:
    """Steps of each decision where ``t`` control steps are cut into decisions of ``executed``; the last one may be shorter."""
    whole, rest = divmod(t, executed)
    return np.array([executed] * whole + [rest] * (rest > 0), np.int32)


def check_record(number: int, record: EpisodeRecord, labels: Labels, h: int) -> None:
    """Refuse a malformed record.

    Raises:
      ValueError: it names the record by number, the field and what is wrong.
    """
    t = len(record.actions)
    where = f"record {number} ({record.instruction!r})"
    if record.source not in SOURCES:
        raise ValueError(f"{where}: source is {record.source!r}; use one of {', '.join(SOURCES)}")
    if record.actions.shape != (t, ACTION_DIM) or not np.abs(record.actions).max(initial=0.0) <= 1.0 + 1e-6:  # NaN fails too
        raise ValueError(f"{where}: actions {record.actions.shape} must be [t, 7] in [-1, 1], as they were carried out; clip them")
    steps = record.executed
    if steps.ndim != 1 or (steps < 1).any() or (steps > h).any() or steps.sum() != t:
        raise ValueError(f"{where}: executed must be the steps of each decision, 1 to {h}, {t} in all; it is {steps.tolist()}")
    if record.prefix not in (0, *np.cumsum(steps)):
        raise ValueError(f"{where}: prefix is {record.prefix}, inside a decision; it must end with one of {np.cumsum(steps).tolist()}")
    if record.chunks is not None and (record.chunks.shape != (len(steps), h, ACTION_DIM) or not np.isfinite(record.chunks).all()):
        raise ValueError(f"{where}: chunks {record.chunks.shape} must be finite numbers ({len(steps)}, {h}, 7), one for each decision")
    if not len(record.starts):
        raise ValueError(f"{where} has no decisions of the policy: leave it out")
    for name, shape in SHAPES.items():
        values = getattr(record.views, name)
        if np.shape(values) != (t + 1, *shape):
            raise ValueError(f"{where}: views.{name} has shape {np.shape(values)}; {t} actions need {(t + 1, *shape)}")
        if not np.isfinite(values).all():
            raise ValueError(f"{where}: views.{name} holds NaN or infinity; drop the episode")
    if [bool(p) for p in record.views.present[0]] != [name is not None for name in record.names]:
        raise ValueError(f"{where}: names {record.names} do not belong to the tokens present, {record.views.present[0].tolist()}")
    if not (np.isfinite(record.weight) and record.weight > 0):
        raise ValueError(f"{where}: weight is {record.weight}; it must be above 0")
    check_labels(where, t, labels)


def check_labels(where: str, t: int, labels: Labels) -> None:
    """Refuse labels of another episode.

    Raises:
      ValueError: a field has another length than the episode, or values out of range.
    """
    wanted = {"stage": (t + 1,), "progress": (t + 1,), "phi": (t + 1,), "rewards": (t,), "code": (CODE_DIM,)}
    for name, shape in wanted.items():
        values = getattr(labels, name)
        if np.shape(values) != shape or not np.isfinite(values).all():
            raise ValueError(f"{where}: labels.{name} must be {shape} finite numbers, not {np.shape(values)}")
    if not ((labels.stage >= 0) & (labels.stage <= MAX_STAGES)).all():
        raise ValueError(f"{where}: labels.stage must be in 0..{MAX_STAGES}")


def observed_rows(records: Sequence[EpisodeRecord]) -> dict[str, np.ndarray]:
    """STEP_FIELDS [n, ...] at the rows of all records, in their order."""
    return {f: np.concatenate([getattr(r.views, f)[r.moments] for r in records]) for f in STEP_FIELDS}


def labelled_rows(records: Sequence[EpisodeRecord], labels: Sequence[Labels], h: int) -> dict[str, np.ndarray]:
    """stage, progress, phi [n] and rewards [n, h] at the rows of all records, code [m, CODE_DIM]: what ``relabelled`` takes."""
    found = {name: np.concatenate([getattr(of, name)[r.moments] for r, of in zip(records, labels, strict=True)]) for name in _ROW_LABELS}
    rewards = [_windows(of.rewards, r, h) * _mask(r, h) for r, of in zip(records, labels, strict=True)]
    return found | {"rewards": np.concatenate(rewards), "code": np.stack([of.code for of in labels])}


_ROW_LABELS = ("stage", "progress", "phi")


def acted_rows(records: Sequence[EpisodeRecord], h: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """actions [n, h, 7], mask [n, h] and terminal [n] at the rows of all records."""
    actions, masks, terminal = [], [], []
    for record in records:
        window, inside = _windows(record.actions, record, h), _inside(record, h)
        window[..., : ACTION_DIM - 1] *= inside[..., None]  # past the end: hold still and keep the gripper
        if record.chunks is not None:
            decided = np.clip(record.chunks[len(record.executed) - len(record.starts) :], -1.0, 1.0)
            window[: len(decided)] = np.where(_mask(record, h)[: len(decided), :, None], window[: len(decided)], decided)
        actions.append(window)
        masks.append(_mask(record, h))
        ends = np.zeros(len(record.moments), bool)
        ends[-1] = record.success
        terminal.append(ends)
    return np.concatenate(actions), np.concatenate(masks), np.concatenate(terminal)


def _index(record: EpisodeRecord, h: int) -> np.ndarray:
    return record.moments[:, None] + np.arange(h)


def _inside(record: EpisodeRecord, h: int) -> np.ndarray:
    return _index(record, h) < len(record.actions)


def _windows(values: np.ndarray, record: EpisodeRecord, h: int) -> np.ndarray:
    """The ``h`` values [rows, h, ...] from each row on; past the episode's end its last one."""
    return values[np.minimum(_index(record, h), len(values) - 1)]


def _mask(record: EpisodeRecord, h: int) -> np.ndarray:
    """[rows, h] bool, carried out in the row's own decision; nothing in a closing row."""
    steps = record.executed[len(record.executed) - len(record.starts) :]
    steps = steps if record.success else np.append(steps, 0)
    return np.arange(h) < steps[:, None]
