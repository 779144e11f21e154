"""What can go wrong with things that are picked and put down: each function finds one kind of event in a record."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from coda_jax.sim.detour import REACH_M
from coda_jax.sim.supervision.record import PLACE, Record
from coda_jax.sim.supervision.remarks import KINDS, Remark
from coda_jax.types import TABLE

LYING_RAD = 0.6
_TURNED_RAD = 0.35
_MOVED_M = 0.015
_TOUCHED_M = 0.002
_AWAY_M = 0.03
_FELL_M = 0.012
_SETTLED = 8  # moments in which something let go comes to rest
_STILL_M, _STILL_STEPS = 0.004, 12  # no nearer by more than this in more control steps than these
_STAYED_M = 0.01  # by which a hand without progress may wander meanwhile
_NOT_HANDLED = 8  # moments after which a thing that was held counts as left alone
_SKILLS_WITH_LOAD = ("carry", "lower")


def remark(record: Record, moment: int, kind: str, name: str, amount: float, message: str, by: str = "") -> Remark:
    """A remark about a moment, with the skill of that moment."""
    step = min(moment, record.steps - 1)
    return Remark(step, record.skill(moment), kind, name, round(float(amount), 4), KINDS[kind][0], message, by)


def knocked_over(record: Record) -> Iterator[Remark]:
    """Things that came to lie without having been held shortly before."""
    for name in record.free:
        lean = record.lean(name)
        if is_jointed(record, name) or not (lean > LYING_RAD).any() or lean[0] > LYING_RAD:
            continue
        k = int(np.argmax(lean > LYING_RAD))
        held = record.held(name)
        if held[max(k - _NOT_HANDLED, 0) : k + 1].any():
            continue
        start = k - int(np.argmax(lean[k::-1] < 0.15)) if (lean[: k + 1] < 0.15).any() else k  # when it began to lean
        off = float(np.linalg.norm(record.ee[start, :2] - record.position(name)[start, :2]))
        by = record.maker(name, k)
        if name in record.targets and not held[:k].any() and by not in record.index:  # what is carried collides, see ``collisions``
            height = float(record.ee[start, 2] - record.position(name)[start, 2])
            where = f"with the grip point {off:.3f} m beside its middle, {height:.3f} m above it"
            text = f"{name} was knocked over by {by or 'nothing seen'}, {where}"
            yield remark(record, k, "toppled", name, off, text, by)


def pushed(record: Record) -> Iterator[Remark]:
    """Things that no goal moves, away from where they stood; what rolls by itself is nobody's fault."""
    for name in record.free:
        if name in record.targets:
            continue
        moved = np.linalg.norm(record.position(name) - record.position(name)[0], axis=1)
        if (moved > _MOVED_M).any():
            k = int(np.argmax(moved > _MOVED_M))
            began = int(np.flatnonzero(moved[: k + 1] < _TOUCHED_M)[-1]) + 1
            by, most = record.maker(name, began) or record.maker(name, k), float(moved.max())
            if by:
                yield remark(record, k, "bumped", name, most, f"{name} was pushed {most:.3f} m by {by}", by)


def grasps(record: Record) -> Iterator[Remark]:
    """Jaws that closed without the target, and targets that were lost while they were carried."""
    for (skill, first, end), (after, _, _) in zip(record.runs(), record.runs()[1:], strict=False):
        name = record.target_at(end - 1)
        if skill == "grasp" and after in ("approach", "failed"):
            off = float(np.linalg.norm(record.ee[end] - record.position(name)[end]))
            yield remark(record, end - 1, "missed", name, off, f"the jaws closed without {name}, {off:.3f} m from its middle")
        elif skill in _SKILLS_WITH_LOAD and after in ("approach", "failed"):
            held = np.flatnonzero(record.held(name)[first : end + 1])
            lost = min(first + int(held[-1]), end - 1) if len(held) else first
            fast = record.speed(lost)
            yield remark(record, lost, "slipped", name, fast, f"{name} was lost in {skill}, with the hand at {fast:.2f} m/s")


def turned(record: Record) -> Iterator[Remark]:
    """Things that turned in the jaws while they were carried, one remark each."""
    said = set()
    for skill, first, end in record.runs():
        name = record.target_at(first)
        if skill in _SKILLS_WITH_LOAD and name not in said:
            lean, held = record.lean(name)[first : end + 1], record.held(name)[first : end + 1]
            change = np.where(held, lean - lean[0], 0.0)
            if change.max() > _TURNED_RAD:
                said.add(name)
                k = first + int(np.argmax(change > _TURNED_RAD))
                yield remark(record, k, "swung", name, change.max(), f"{name} turned by {change.max():.2f} rad in the jaws", "both fingers")


def collisions(record: Record) -> Iterator[Remark]:
    """What is carried touched something that it does not come from and does not go to, one remark for each pair."""
    said = set()
    for skill, first, end in record.runs():
        if skill not in _SKILLS_WITH_LOAD:
            continue
        name = record.target_at(first)
        token, goal = record.index[name], record.goals[record.goal_of(name)]
        began = set(np.flatnonzero(record.views.contact[max(first - 5, 0), token]))
        for k in range(first + 1, end + 1):
            if not record.held(name)[k]:
                continue
            for other in map(int, np.flatnonzero(record.views.contact[k, token])):
                hit = record.names.get(other, "")
                if other == TABLE or other in began or hit in ("", goal.reference) or (name, hit) in said:
                    continue
                said.add((name, hit))
                top = record.pos[k, other, 2] + record.height(other, k)
                under = max(float(top - (record.pos[k, token, 2] - record.height(token, k))), 0.0)
                text = f"{name} touched {hit} in {skill}, which reaches {under:.3f} m above the underside of {name}"
                yield remark(record, k, "collided", hit, under, text, name)


def releases(record: Record) -> Iterator[Remark]:
    """What became of things after they were let go."""
    runs = record.runs()
    for i, (skill, first, _) in enumerate(runs):
        if skill != "release":
            continue
        name = record.target_at(first)
        end = next((a for s, a, _ in runs[i + 1 :] if s in ("grasp", "carry")), record.steps)
        first = min(first + record.trajectory.parameters.rest_steps, end)  # until then the jaws stay closed
        settled, pos, lean = min(first + _SETTLED, end), record.position(name), record.lean(name)
        fell = float(pos[first, 2] - pos[first : settled + 1, 2].min())
        away = np.linalg.norm(pos[first : end + 1, :2] - pos[first, :2], axis=1)
        lie = lean[first : end + 1] - lean[first]
        if record.holds(record.goal_of(name), end):
            continue
        if fell > _FELL_M:
            yield remark(record, first, "dropped", name, fell, f"{name} fell {fell:.3f} m after it was let go")
        if lie.max() > _TURNED_RAD:
            k = first + int(np.argmax(lie > _TURNED_RAD))
            yield remark(record, k, "tipped", name, lie.max(), f"{name} tipped by {lie.max():.2f} rad after it was let go")
        elif away.max() > _AWAY_M:
            k = first + int(np.argmax(away > _AWAY_M))
            yield remark(record, k, "rolled", name, away.max(), f"{name} went {away.max():.3f} m away after it was let go")
        elif fell <= _FELL_M and end - first > _SETTLED:
            off = record.apart(record.goal_of(name), settled)
            reference = record.goals[record.goal_of(name)].reference
            text = f"{name} rests {off:.3f} m from the middle of {reference}, and the goal is not met"
            yield remark(record, settled, "misplaced", name, off, text)


def lost_goals(record: Record) -> Iterator[Remark]:
    """A goal that held without a hand on it, and later did not."""
    met = record.trajectory.predicates[:, PLACE] > 1 - 1e-3
    tokens = [record.index[name] for name in record.targets]
    alone = met & ~np.asarray(record.views.finger_contact[1:, tokens]).any((1, 2))
    ends = np.flatnonzero(alone[:-1] & ~met[1:])
    if len(ends):
        k = int(ends[0])
        held = k - int(np.flatnonzero(~alone[:k])[-1]) if not alone[:k].all() else k + 1
        name = next((n for n in record.targets if not record.holds(record.goal_of(n), k + 2)), record.targets[-1])
        text = f"the goal of {name} was met for {held} control steps and then lost"
        yield remark(record, k + 1, "goal_lost", name, held, text, record.maker(name, k + 2))


def undone(record: Record) -> Iterator[Remark]:
    """What an earlier goal had placed, moved while a later one was worked on."""
    for name in record.targets:
        held = np.flatnonzero(record.held(name))
        if len(record.targets) < 2 or not len(held):
            continue
        others = [n for n in record.targets if n != name]
        later = [int(k) for n in others for k in np.flatnonzero(record.held(n)) if k > held[-1] + _SETTLED]
        if later:
            start = min(later)
            moved = np.linalg.norm(record.position(name)[start:] - record.position(name)[start], axis=1)
            if moved.max() > _MOVED_M:
                k = start + int(np.argmax(moved > _MOVED_M))
                by = record.maker(name, k)
                text = f"{name}, placed before, was moved {moved.max():.3f} m by {by or 'nothing seen'}"
                yield remark(record, k, "undone", name, moved.max(), text, by)


def blocked(record: Record) -> Iterator[Remark]:
    """The hand came no further in the last skill of the try, though it may have been shaken."""
    skill, first, end = next((r for r in reversed(record.runs()) if r[0] != "failed"), ("failed", 0, 0))
    if skill not in _LEADS or end - first <= _STILL_STEPS:
        return
    name = record.target_at(end)
    left = _left(record, skill, name, end)[first : end + 1]
    best = np.minimum.accumulate(left)
    began = first + int(np.argmax(best <= best[-1] + _STILL_M))
    still, half = end - began, (began + end) // 2
    went = np.linalg.norm(np.median(record.ee[began:half], axis=0) - np.median(record.ee[half : end + 1], axis=0)) if half > began else 0.0
    if still <= _STILL_STEPS or went > _STAYED_M:
        return
    amount = float(np.median(left[began - first :]))
    fingers = np.asarray(record.views.finger_contact[began : end + 1]).any((0, 2))
    by = next((record.names[t] for t in map(int, np.flatnonzero(fingers)) if record.names.get(t, name) != name), "")
    text = f"the hand stood still in {skill} for {still} control steps, with {name} {amount:.3f} m {_LEADS[skill]}"
    yield remark(record, began, "blocked", name, amount, text + (f", touching {by}" if by else ""), by)


# what is measured in ``_left``
_LEADS = {"approach": "from the grip point", "carry": "from the middle of the reference", "lower": "above its resting place"}


def _left(record: Record, skill: str, name: str, end: int) -> np.ndarray:
    """[t + 1] m that were left to where a skill leads; the resting place is that of the end."""
    number, at = record.goal_of(name), record.position(name)
    if skill == "approach":
        return np.linalg.norm(at - record.ee, axis=1)
    if skill == "carry":
        return np.linalg.norm((at - record.position(record.goals[number].reference))[:, :2], axis=1)
    return np.maximum(at[:, 2] - record.rest_z(number, end), 0.0)


def out_of_reach(record: Record) -> Iterator[Remark]:
    """Targets that ended where the hand does not come."""
    for name in record.targets:
        away = np.linalg.norm(record.position(name)[:, :2], axis=1)
        beyond = np.maximum(away - REACH_M[1], REACH_M[0] - away)
        if beyond[-1] > 0.03 and beyond[0] <= 0.03 and not is_jointed(record, name):
            k = int(np.argmax(beyond > 0.03))
            yield remark(record, k, "out_of_reach", name, beyond[-1], f"{name} ended {beyond[-1]:.3f} m beyond the reach of the hand")


def is_jointed(record: Record, name: str) -> bool:
    """Whether a thing is the articulated one."""
    return record.jointed and name == record.targets[0]
