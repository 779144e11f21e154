"""How MJX's buckets hold the catalogue: ``python -m benchmarks.mjx_lint [--split=train] [--bucket=f4g7] [--all]``

One line an asset that stand-ins change (``--all``: every asset) or that does not fit: how its shapes are replaced, the share of its volume
that is added or left out, and by how much lower it reaches. Counts and one JSON object a bucket come last; exit code 1 where an asset of
the split does not fit.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from typing import Any

from absl import app, flags

_SPLIT = flags.DEFINE_string("split", "", "Split of the catalogue; all of it if left out.")
_BUCKET = flags.DEFINE_string("bucket", "", "MJX bucket; the largest slot if left out.")
_ALL = flags.DEFINE_bool("all", False, "Also list the assets that fit as they are.")


def report(asset: Any, bucket: Any) -> tuple[str, str]:
    """("as it is", "stands in" or "does not fit", what a reader should know)."""
    from coda_jax.scenes.articulated import Articulated
    from coda_jax.sim import mjx_buckets
    from coda_jax.sim.mjx_surrogates import SurrogateError, fit, height_change_m

    parts = [("object" if asset.kind == "object" else "fixture", asset.primitives)]
    if isinstance(asset, Articulated):
        parts = [("base", asset.primitives), ("link", asset.link.primitives)]
    changes, lines = "as it is", []
    for part, primitives in parts:
        try:
            mjx_buckets.fit(bucket, part, primitives)
        except SurrogateError as error:
            return "does not fit", f"{part}: {error}"
        found = fit(primitives, mjx_buckets.slot_of(bucket, part))
        if not found.exact:
            changes = "stands in"
            swaps = Counter(
                f"{p.shape} -> {' + '.join(s.shape for s in way.shapes)}"
                for p, way in zip(primitives, found.parts, strict=True)
                if way.shapes != (p,)
            )
            listed = ", ".join(f"{count} x {swap}" for swap, count in swaps.items())
            lower_mm = round(1000 * height_change_m(primitives, found), 1) + 0.0  # no -0.0
            lines.append(f"{part}: {listed}; volume {100 * found.loss:.0f} %, height {lower_mm:.1f} mm")
    return changes, "; ".join(lines)


def main(argv: list[str]) -> None:
    del argv
    from coda_jax.scenes.catalogue import Catalogue
    from coda_jax.sim.mjx_buckets import MJX_BUCKETS

    named = {b.name: b for b in MJX_BUCKETS}
    if _BUCKET.value and _BUCKET.value not in named:
        raise app.UsageError(f"--bucket={_BUCKET.value}: use one of {', '.join(named)}")
    bucket = named[_BUCKET.value] if _BUCKET.value else max(MJX_BUCKETS)
    catalogue = Catalogue(_SPLIT.value) if _SPLIT.value else Catalogue.all()
    counts: Counter[str] = Counter()
    for asset in catalogue:
        verdict, text = report(asset, bucket)
        counts[verdict] += 1
        if _ALL.value or verdict != "as it is":
            print(f"{asset.asset_id:16s} {verdict:12s} {text}", file=sys.stderr)
    print(json.dumps({"name": f"mjx_lint.{bucket.name}", "split": _SPLIT.value or "all", **dict(sorted(counts.items()))}))
    sys.exit(int(counts["does not fit"] > 0))


if __name__ == "__main__":
    app.run(main)
