"""Updates a second of critic and policy: ``python -m benchmarks.learning [--turns=9] [--flat=10000] [--only=critic_e4]``.

The peer is the same network, loss and optimiser in PyTorch (``pip install -e ".[bench]"``), given features that are read already while the
project's update also draws its batch, reads features and measures itself. Both take turns in one process; before, the losses and
parameters of four updates from one start are compared. Further: share of the machine's float32 matmul rate, compilations over many updates,
where the time goes. A table goes to stderr, one JSON object a line to stdout.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from collections.abc import Callable
from typing import Any

from absl import app, flags

from coda_jax import runtime

_TURNS = flags.DEFINE_integer("turns", 9, "Turns of each contestant.", lower_bound=3)
_FLAT = flags.DEFINE_integer("flat", 10_000, "Updates over which compilations of the critic are counted, 0 for none.", lower_bound=0)
_ONLY = flags.DEFINE_list("only", [], "Kinds of update, all by default: critic_e4, critic_e8, policy_cloning, policy_awr.")
_COMPILED = flags.DEFINE_bool("compiled", True, "Also torch.compile, which needs a C++ compiler and minutes.")

SIZE = 2048  # of the square product that the machine's rate is measured with
SAME = 1e-4  # largest relative difference of losses, and difference of parameters, between the two
PROFILED = 20  # updates


def peaks() -> dict[str, Callable[[int], object]]:
    """Large products, by library."""
    import jax
    import jax.numpy as jnp
    import numpy as np

    matrix = np.random.default_rng(0).normal(size=(SIZE, SIZE)).astype(np.float32)
    product, mine = jax.jit(jnp.matmul), jnp.asarray(matrix)
    found: dict[str, Callable[[int], object]] = {"jax": lambda n: [product(mine, mine).block_until_ready() for _ in range(n)]}
    if importlib.util.find_spec("torch"):
        from benchmarks.learning.torch_tools import torch

        theirs = torch.from_numpy(matrix)
        found["torch"] = lambda n: [theirs @ theirs for _ in range(n)]
    return found


def report(name: str, value: float, unit: str, **more: Any) -> None:
    versions = runtime.versions() | ({"torch": torch} if (torch := runtime.package_version("torch")) else {})
    record = {
        "name": name,
        "value": value,
        "unit": unit,
        "device": runtime.device_summary(),
        "load": round(os.getloadavg()[0], 1),
        "versions": versions,
        **more,
    }
    print(json.dumps(record), flush=True)


def peers_of(subject: Any, contestants: list[Any]) -> tuple[float, float]:
    """Add the peers that prove to be the same network to the contestants; returns the largest differences found."""
    from benchmarks.learning.measure import Contestant
    from benchmarks.learning.subjects import difference, repeated
    from benchmarks.learning.torch_tools import tensors, torch

    batches, worst = [tensors(subject.batch(step)) for step in range(4)], (0.0, 0.0)
    for name, make in subject.peers.items():
        if name.startswith("compiled") and not _COMPILED.value:
            continue
        torch.set_num_threads(1)
        peer = make()
        try:
            apart = difference(subject, peer, 4)
        except Exception as error:  # torch.compile fails in many ways, for want of a compiler first of all
            if not name.startswith("compiled"):
                raise
            print(f"{subject.name}: PyTorch {name} left out: {str(error).splitlines()[0]}", file=sys.stderr)
            continue
        if max(apart) > SAME:
            raise SystemExit(f"{subject.name}: PyTorch {name} differs by {apart[0]:.2g} in the loss, {apart[1]:.2g} in a parameter")
        worst = max(worst[0], apart[0]), max(worst[1], apart[1])
        for threads in sorted({1, len(os.sched_getaffinity(0))}):
            plural = "s" if threads > 1 else ""
            contestants.append(Contestant(f"{name}, {threads} thread{plural}", repeated(peer, batches, threads)))
    return worst


def measure(subject: Any) -> None:
    """Race one kind of update against its peers and the machine, and print what came of it."""
    from benchmarks.learning import costs
    from benchmarks.learning.measure import Contestant, race

    own = Contestant("coda_jax", subject.run)
    machine = [Contestant(name, run) for name, run in peaks().items()]
    peers: list[Contestant] = []
    same = peers_of(subject, peers) if importlib.util.find_spec("torch") else None
    race([own, *machine, *peers], _TURNS.value)
    flops = costs.product_flops(subject.one, subject.state)
    peak = max(2 * SIZE**3 * one.rate for one in machine)
    best = max(peers, key=lambda one: one.rate, default=None)
    more: dict[str, Any] = {"compile_s": round(own.compile_s, 2), "quartiles": [round(x, 1) for x in own.spread]}
    more |= {"cpu_ms": round(own.cpu_ms, 2), "gflops_of_products": round(flops / 1e9, 3)}
    more |= {"gflops_per_s": round(flops * own.rate / 1e9, 1), "peak_gflops_per_s": round(peak / 1e9, 1)}
    more |= {"share_of_peak": round(flops * own.rate / peak, 3)}
    # of the processor's time, which does not count what other work took
    cpu_peak = max(2 * SIZE**3 / one.cpu_ms * 1e3 for one in machine)
    more |= {"share_of_peak_cpu": round(flops / own.cpu_ms * 1e3 / cpu_peak, 3)}
    if best and same:
        more |= {"peer": f"PyTorch, {best.name}", "peer_value": round(best.rate, 1), "ratio": round(own.rate / best.rate, 2)}
        least = min(peers, key=lambda one: one.cpu_ms)
        more |= {"peer_quartiles": [round(x, 1) for x in best.spread], "peer_cpu_ms": round(least.cpu_ms, 2)}
        more |= {"cpu_ratio": round(least.cpu_ms / own.cpu_ms, 2), "largest_difference": same}
        more |= {"peers": {one.name: [round(one.rate, 1), round(one.cpu_ms, 2)] for one in peers}}
    spent = costs.profile(lambda: subject.run(PROFILED), subject.lowered().compile().as_text(), PROFILED)
    more |= {"largest_costs": {place: round(share, 3) for place, share in spent[:6]}}
    report(subject.name, round(own.rate, 1), "updates/s", **more)

    low, high = own.spread
    print(f"{subject.name}: {own.rate:.1f} updates/s ({low:.1f} .. {high:.1f}), {own.cpu_ms:.1f} ms of CPU time", file=sys.stderr)
    for one in peers:
        low, high = one.spread
        print(f"  PyTorch {one.name:<36} {one.rate:>7.1f} ({low:.1f} .. {high:.1f}), {one.cpu_ms:.1f} ms of CPU time", file=sys.stderr)
    share = f"{more['share_of_peak']:.0%} of wall time's, {more['share_of_peak_cpu']:.0%} of CPU time's"
    print(f"  {flops / 1e9:.2f} Gflop of products: {more['gflops_per_s']} Gflop/s, {share} peak", file=sys.stderr)
    print("  " + "; ".join(f"{place} {share:.0%}" for place, share in spent[:3]), file=sys.stderr)


def flat(subject: Any, updates: int) -> None:
    """Count compilations over many updates, in blocks of changing length."""
    subject.run(1)
    before, done, lengths = runtime.compile_count(), 0, (50, 37, 250, 1, 500)
    while done < updates:
        block = min(lengths[done % len(lengths)], updates - done)
        subject.run(block)
        done += block
    report(f"{subject.name}_compilations", runtime.compile_count() - before, f"executables in {updates} updates")
    print(f"  {runtime.compile_count() - before} compilations in {updates} further updates", file=sys.stderr)


def main(arguments: list[str]) -> None:
    if len(arguments) > 1:
        raise app.UsageError(f"unknown argument {arguments[1]!r}")
    runtime.setup()
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # PyTorch's threads would starve each other where other work runs
    from benchmarks.learning.subjects import critic_subject, policy_subjects

    makers = {"critic_e4": lambda: critic_subject(4), "critic_e8": lambda: critic_subject(8)}
    makers |= {"policy_cloning": lambda: policy_subjects()[0], "policy_awr": lambda: policy_subjects()[1]}
    if unknown := [name for name in _ONLY.value if name not in makers]:
        raise app.UsageError(f"--only={unknown[0]}: use {', '.join(makers)}")
    for name in _ONLY.value or makers:
        subject = makers[name]()
        print(f"\n{runtime.device_summary()}, load {os.getloadavg()[0]:.1f}", file=sys.stderr)
        measure(subject)
        if name == "critic_e4" and _FLAT.value:
            flat(subject, _FLAT.value)


if __name__ == "__main__":
    app.run(main)
