"""Physics alone, backend beside backend: ``python -m benchmarks.simulation [--out=F] [--worlds=1,64,1024] [--backends=native,mjx]``

Worlds of 2, 4 and 6 blocks of one geom each (and, native, 6 things of 6 geoms), under a hand that moves at random. Value: simulated
seconds a CPU-second; also control steps a second, the scenes' and the executable's building time. The peer is LIBERO's official
state-only ``env.step`` in the same run, where the extra ``libero`` is installed. ``--different=1024`` instead builds that many different
scenes of each family into one batch and steps them. A table goes to stderr, one JSON object a line to stdout or ``--out``; what
stands there is not measured again.
"""

from __future__ import annotations

import functools
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from absl import app, flags

from coda_jax import runtime

_BACKENDS = flags.DEFINE_list("backends", ["native", "mjx"], "native, mjx.")
_SLOTS = flags.DEFINE_list("slots", ["2", "4", "6"], "Things in a scene.")
_WORLDS = flags.DEFINE_list("worlds", ["1", "64", "1024"], "Worlds stepped together.")
_SECONDS = flags.DEFINE_float("seconds", 3.0, "Wall time of each measurement, at least one control step.", lower_bound=0.1)
_DIFFERENT = flags.DEFINE_integer("different", 0, "Different scenes of each family in one batch, instead of the table.", lower_bound=0)
_FAMILIES = flags.DEFINE_list("families", [], "Families of --different; all registered ones if left out.")
_OUT = flags.DEFINE_string("out", "", "File of JSON lines that results are appended to.")


def _table(peers: dict[str, float]) -> Iterator[tuple[str, Any]]:
    from coda_jax.scenes.catalogue import Catalogue

    catalogue = Catalogue.all()
    six = next(a.asset_id for a in catalogue if a.kind == "object" and len(a.primitives) == 6)
    cases = [(b, int(n), "block_00", 1) for b in _BACKENDS.value for n in _SLOTS.value]
    cases += [("native", 6, six, 6)] if "native" in _BACKENDS.value else []
    for backend, slots, asset, geoms in cases:
        for worlds in map(int, _WORLDS.value):
            yield f"simulation_{backend}_{slots}x{geoms}_{worlds}", functools.partial(_row, backend, slots, asset, geoms, worlds, peers)


def _row(backend: str, slots: int, asset: str, geoms: int, worlds: int, peers: dict[str, float]) -> dict[str, Any]:
    from benchmarks.simulation import backends, scenes
    from coda_jax.scenes.catalogue import Catalogue
    from coda_jax.sim.bucket import Bucket

    catalogue = Catalogue.all()
    sim = backends.simulator(backend, Bucket(slots, geoms), worlds, catalogue)
    row = backends.measure(sim, [scenes.row_of(asset, slots, catalogue)], _SECONDS.value)
    return row | {"worlds": worlds, "peers": peers}


def _different() -> Iterator[tuple[str, Any]]:
    from coda_jax.scenes import families

    for backend in _BACKENDS.value:
        for family in _FAMILIES.value or families.names():
            yield f"different_{backend}_{family}_{_DIFFERENT.value}", functools.partial(_different_row, backend, family)


def _different_row(backend: str, family: str) -> dict[str, Any]:
    from benchmarks.simulation import backends, scenes
    from coda_jax.scenes.catalogue import Catalogue
    from coda_jax.sim.bucket import Bucket
    from coda_jax.sim.compile import bucket_of

    catalogue, episodes = Catalogue.all(), scenes.drawn(family, _DIFFERENT.value)
    needed = [bucket_of(e.spec, catalogue) for e in episodes]
    bucket = Bucket(max(b.free for b in needed), max(b.geoms for b in needed), any(b.articulated for b in needed))
    sim = backends.simulator(backend, bucket, len(episodes), catalogue)
    row = backends.measure(sim, episodes, _SECONDS.value)
    return row | {"worlds": len(episodes), "scenes": len({e.spec.scene_id for e in episodes}), "bucket": bucket.name}


def main(arguments: list[str]) -> None:
    if len(arguments) > 1:
        raise app.UsageError(f"unknown argument {arguments[1]!r}")
    runtime.setup()
    from benchmarks.simulation import libero

    out = Path(_OUT.value) if _OUT.value else None
    done = {json.loads(line)["name"] for line in out.read_text().splitlines()} if out and out.exists() else set()
    peers = {} if _DIFFERENT.value else libero.rates(_SECONDS.value)
    if not _DIFFERENT.value:
        said = ", ".join(f"{suite} {value:.2f}" for suite, value in peers.items())
        print(f"official LIBERO env.step, simulated s/CPU-s: {said or 'not installed (extra libero)'}", file=sys.stderr)
    for name, run in _different() if _DIFFERENT.value else _table(peers):
        if name in done:
            continue
        row = run()
        record = {
            "name": name,
            "value": round(row["cpu"], 2),
            "unit": "simulated s/CPU-s",
            "device": runtime.device_summary(),
            "substeps": 20,
            "worlds": row["worlds"],
            "versions": runtime.versions(),
            "compile_s": round(row["compile_s"], 2),
            **{k: round(row[k], 2) for k in ("control_steps_s", "physics_steps_s", "build_s")},
            **{k: row[k] for k in ("flagged", "scenes", "bucket") if k in row},
        }
        if found := row.get("peers"):
            record |= {"peer": "LIBERO env.step, state only", "peer_value": {suite: round(value, 3) for suite, value in found.items()}}
            record["ratio"] = {suite: round(row["cpu"] / value, 1) for suite, value in found.items()}
        line = json.dumps(record)
        if out:
            with out.open("a") as file:
                file.write(line + "\n")
        else:
            print(line, flush=True)
        ratio = f", {' / '.join(f'{r:.0f}' for r in record['ratio'].values())} times the peers" if "ratio" in record else ""
        print(
            f"{name:<34} {record['value']:>9.2f} simulated s/CPU-s, {record['control_steps_s']:>9,.0f} control steps/s, "
            f"compiled in {record['compile_s']:.0f} s{ratio}",
            file=sys.stderr,
            flush=True,
        )


if __name__ == "__main__":
    app.run(main)
