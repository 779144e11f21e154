"""Whether environments lie in the band: more rollouts of those of which the first few do not tell, and the share that was on target."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from coda_jax.agents.base import Outcome, Trial
from coda_jax.evaluation.trials import success_rate
from coda_jax.loop.journal import Environment
from coda_jax.loop.rounds import recall
from coda_jax.loop.rounds.rollouts import Rollouts
from coda_jax.loop.run import Run
from coda_jax.memory import band

Counts = Sequence[tuple[int, int]]  # (successes, healthy rollouts) of each environment


def memberships(environments: Sequence[Environment], counts: Counts) -> list[band.Membership]:
    """Each environment by its own rollouts or, where they are few, with those of its mode, which has one program and level in a round."""
    named = zip(environments, counts, strict=True)
    return band.memberships([band.Environment(e.mode_id or e.scene_id, 0.0, k, n) for e, (k, n) in named])


def pooled(environments: Sequence[Environment], counts: Counts) -> dict[str, tuple[int, int]]:
    """Mode to (successes, rollouts) over its environments; those of no mode are left out."""
    found: dict[str, tuple[int, int]] = {}
    for e, (k, n) in zip(environments, counts, strict=True):
        if e.mode_id:
            own = found.get(e.mode_id, (0, 0))
            found[e.mode_id] = own[0] + k, own[1] + n
    return found


def open_environments(environments: Sequence[Environment], counts: Counts) -> list[bool]:
    """Of each environment whether its membership is undecided."""
    return [m.undecided for m in memberships(environments, counts)]


def open_modes(environments: Sequence[Environment], counts: Counts) -> list[bool]:
    """Of each environment whether the membership of its mode, all its rollouts together, is undecided."""
    undecided = {mode for mode, (k, n) in pooled(environments, counts).items() if band.undecided(k, n)}
    return [e.mode_id in undecided for e in environments]


def top_up(
    run: Run,
    round_number: int,
    rollouts: Rollouts,
    environments: Sequence[Environment],
    outcomes: Sequence[Outcome],
    is_open: Callable[[Sequence[Environment], Counts], list[bool]],
) -> list[list[Outcome]]:
    """The rollouts of each environment, in the order of their repeats: ``outcomes``, ``rounds.rollouts`` of each, and as many again while
    it is open, up to ``rounds.most_rollouts``. Noise is that of measuring, so that both sides of a training get the same."""
    rounds, scenes = run.config.rounds, recall.Scenes(run.memory)
    own = [list(outcomes[i * rounds.rollouts : (i + 1) * rounds.rollouts]) for i in range(len(environments))]
    while True:
        flags = is_open(environments, [success_rate(o) for o in own])
        wanted = [i for i, flag in enumerate(flags) if flag and len(own[i]) < rounds.most_rollouts]
        trials, owners = [], []
        for i in wanted:
            for repeat in range(len(own[i]), min(len(own[i]) + rounds.rollouts, rounds.most_rollouts)):
                trials.append(Trial(scenes.spec(environments[i].scene_id), (environments[i].number, repeat)))
                owners.append(i)
        if not trials:
            return own
        with rollouts.runner("measure", round_number, len(trials), "band") as rollout_fn:
            for i, outcome in zip(owners, rollout_fn(trials), strict=True):
                own[i].append(outcome)


def write_targeting(run: Run, round_number: int, environments: Sequence[Environment], own: Sequence[Sequence[Outcome]]) -> None:
    """A row of ``metrics.jsonl``: memberships before the training, and the share of environments on target (see ``band``)."""
    judged = memberships(environments, [success_rate(o) for o in own])
    counts = [success_rate(o[: band.OWN]) for o in own]
    run.metrics.write(
        "targeting",
        round=round_number,
        environments=len(judged),
        in_band=sum(m.in_band for m in judged),
        undecided=sum(m.undecided for m in judged),
        rollouts=sum(len(o) for o in own),
        exact=sum(n == band.OWN for _, n in counts),
        share=band.targeting_share(counts) if counts else None,
    )
