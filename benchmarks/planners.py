"""How many valid seed scenes of a family its planner certifies: ``python -m benchmarks.planners [--families=put_inside] [--scenes=128]``.

For every family: the share of drawn scenes that is valid, the share of valid scenes solved in one undisturbed try, with the share by the
target's category and by the goal's relation, what the others failed of, and certified demonstrations a minute of wall time. A table goes
to stderr, one JSON object a line to stdout.
"""

from __future__ import annotations

import collections
import json
import sys
import time

from absl import app, flags

from coda_jax import config as settings
from coda_jax import runtime

_FAMILIES = flags.DEFINE_list("families", [], "Families; all registered ones if left out.")
_SCENES = flags.DEFINE_integer("scenes", 128, "Seed scenes drawn of each family.", lower_bound=1)
_START = flags.DEFINE_integer("start", 0, "Seed of the first one.", lower_bound=0)
_SUITE = flags.DEFINE_string("suite", "id", "Suite that the scenes are drawn for.")
_SPLIT = flags.DEFINE_string("split", "train", "Split of the suite: train (of id), validation or test.")


def main(argv: list[str]) -> None:
    del argv
    runtime.setup()
    from coda_jax.loop import parts
    from coda_jax.scenes import families
    from coda_jax.scenes.catalogue import Catalogue
    from coda_jax.scenes.generate import sample_spec
    from coda_jax.sim import validity
    from coda_jax.sim.demonstrate import demonstrate, success_by_category
    from coda_jax.sim.simulator import episode_of

    config, everything = settings.default(), Catalogue.all()
    config.sim.threads = 1
    catalogue = Catalogue("train") if _SPLIT.value == "train" else everything
    versions = runtime.versions()
    for family in _FAMILIES.value or families.names():
        began = time.perf_counter()
        drawn = [sample_spec(catalogue, family, _SUITE.value, _SPLIT.value, _START.value + i) for i in range(_SCENES.value)]
        drawing_s = time.perf_counter() - began
        reports = validity.check(drawn, everything, parts.validity_of(config))
        valid = [spec for spec, report in zip(drawn, reports, strict=True) if report.valid]
        refused = collections.Counter(r.failures[0].check for r in reports if not r.valid)
        if not valid:
            print(f"{family}: none of {len(drawn)} scenes is valid: {dict(refused)}", file=sys.stderr)
            continue
        sim = parts.native_simulator(config, everything, parts.common_bucket(valid, everything))
        jobs = [episode_of(spec, settings.horizon(config, family), (i, 0)) for i, spec in enumerate(valid)]
        began = time.perf_counter()
        found = list(demonstrate(sim, everything, jobs, parts.planner_of(config), None, 0))
        wall_s = time.perf_counter() - began
        solved = [t for t in found if t.success]
        relations: dict[str, list[int]] = {}
        for t in found:
            counts = relations.setdefault(families.relation(t.episode.spec), [0, 0])
            counts[0] += t.success
            counts[1] += 1
        categories = success_by_category(found, everything)
        causes = collections.Counter(t.cause for t in found if not t.success)
        a_minute = 60 * len(solved) / wall_s
        steps = sum(len(t.actions) for t in solved) / max(len(solved), 1)
        print(
            f"{family}: {len(valid)}/{len(drawn)} valid ({len(drawn) / drawing_s:.0f} drawn a second), planner {len(solved)}/{len(found)}, "
            f"{a_minute:.0f} demonstrations a minute of {steps:.0f} steps",
            file=sys.stderr,
        )
        print("  by relation: " + ", ".join(f"{r} {k}/{n}" for r, (k, n) in sorted(relations.items())), file=sys.stderr)
        print("  by category: " + ", ".join(f"{c} {k}/{n}" for c, (k, n) in categories.items()), file=sys.stderr)
        for what, counted in (("refused by", refused), ("failed", causes)):
            if counted:
                print(f"  {what}: " + ", ".join(f"{cause} {n}" for cause, n in counted.most_common()), file=sys.stderr)
        row = {"name": f"planner.{family}", "value": round(len(solved) / len(found), 4), "unit": "share", "of": len(found)}
        row |= {"suite": _SUITE.value, "split": _SPLIT.value, "valid": round(len(valid) / len(drawn), 4), "by_relation": relations}
        row |= {"by_category": categories, "causes": dict(causes), "demonstrations_a_minute": round(a_minute, 1), "versions": versions}
        print(json.dumps(row))


if __name__ == "__main__":
    app.run(main)
