"""Which share of edited scenes passes the validity checks: ``python -m benchmarks.edits [--scenes=40]``.

For every verb, over seed scenes and magnitudes: in how many scenes it applies, how many of the edited scenes are valid, and which check
refused the others; in the last column, how many of the scenes of magnitude 1 the scripted planner solves. A table goes to stderr, one
JSON object a line to stdout.
"""

from __future__ import annotations

import collections
import json
import sys

from absl import app, flags

from coda_jax import config as settings
from coda_jax import runtime

MAGNITUDES = (0.25, 0.5, 0.75, 1.0)
_SCENES = flags.DEFINE_integer("scenes", 40, "Seed scenes to edit.", lower_bound=1)
_VERB = flags.DEFINE_string("verb", "", "One verb only.")


def main(argv: list[str]) -> None:
    del argv
    runtime.setup()
    from coda_jax.evaluation.freeze_suites import solve
    from coda_jax.loop import parts
    from coda_jax.scenes.catalogue import Catalogue
    from coda_jax.scenes.edits.verbs import VERBS, applicable, apply_edit
    from coda_jax.scenes.generate import sample_spec
    from coda_jax.sim import validity

    train, everything = Catalogue("train"), Catalogue.all()
    config = settings.default()
    limits, planner = parts.validity_of(config), parts.planner_of(config)
    bases = [sample_spec(train, "pick_place", "id", "train", seed) for seed in range(_SCENES.value)]
    versions = runtime.versions()
    print(f"{'verb':20}{'applies':>9}{'':>3}" + "".join(f"{m:>9g}" for m in MAGNITUDES) + "   solved  refused by", file=sys.stderr)
    for name in [_VERB.value] if _VERB.value else VERBS:
        bindings = [applicable(spec, name, train) for spec in bases]
        jobs = [
            (m, apply_edit(spec, name, bound, m, seed, train))
            for m in MAGNITUDES
            for seed, (spec, bound) in enumerate(zip(bases, bindings, strict=True))
            if bound is not None
        ]
        reports = validity.check([spec for _, spec in jobs], everything, limits)
        refused = collections.Counter(f.check for r in reports for f in r.failures[:1])
        applies = sum(b is not None for b in bindings)
        shares = [sum(r.valid for (at, _), r in zip(jobs, reports, strict=True) if at == m) / max(applies, 1) for m in MAGNITUDES]
        reasons = ", ".join(f"{check} {n}" for check, n in refused.most_common())
        hardest = [spec for (m, spec), r in zip(jobs, reports, strict=True) if m == MAGNITUDES[-1] and r.valid]
        solved = 0
        if hardest:
            sim = parts.native_simulator(config, everything, parts.common_bucket(hardest, everything))
            solved = solve(sim, hardest, planner, parts.horizon_of(config)).k
        print(
            f"{name:20}{applies:>5}/{len(bases):<6}" + "".join(f"{s:>9.0%}" for s in shares) + f"{solved:>5}/{len(hardest):<3}  {reasons}",
            file=sys.stderr,
        )
        for m, share in zip(MAGNITUDES, shares, strict=True):
            row = {"name": f"valid_share.{name}", "value": round(share, 4), "unit": "share", "magnitude": m, "scenes": applies}
            print(json.dumps(row | {"of": len(bases), "refused": dict(refused), "solved_at_1": solved, "versions": versions}))


if __name__ == "__main__":
    app.run(main)
