"""Does the diagnoser find the causes that were put in, and does the control test tell true diagnoses from false ones?

``python -m benchmarks.injected_causes --run=runs/quickstart [--folder=runs/injected] [--diagnoser=scripted,llm,random]``: a run's policy is
rolled out in scenes with one factor made hard on purpose, with two, and with none; every scene also has mild edits of the other factors, so
that a diagnoser that only looks at what differs cannot win. Every diagnoser gets the same failures. A language model is the run's, or that
of --model at --base_url, or a recording (--replay); its calls are recorded in the folder. Results are lines of ``results.jsonl`` there; a
second start goes on. Tables go to stderr, one JSON object a line to stdout.
"""

from __future__ import annotations

import contextlib
import json
import sys
from pathlib import Path
from typing import Any

from absl import app, flags, logging

from benchmarks.injected_bench import CASES, aa_arm, diagnose_case, prepare, read, test_diagnoses
from benchmarks.injected_tables import records, tables
from coda_jax import runtime
from coda_jax.agents.base import Diagnoser
from coda_jax.agents.llm.recording import FILE as CALLS
from coda_jax.agents.llm.tally import Tally
from coda_jax.loop import diagnosers, language, parts
from coda_jax.loop import workdir as folders
from coda_jax.loop.run import opened

_RUN = flags.DEFINE_string("run", "runs/quickstart", "Run folder whose policy is diagnosed.")
_FOLDER = flags.DEFINE_string("folder", "runs/injected", "Where results are kept.")
_DIAGNOSER = flags.DEFINE_list("diagnoser", ["scripted"], "Who diagnoses: scripted, llm, random, or several of them.")
_MODEL = flags.DEFINE_string("model", "", "llm: model; that of the run where left out.")
_BASE_URL = flags.DEFINE_string("base_url", "", "llm: server; that of the run where left out.")
_REPLAY = flags.DEFINE_string("replay", "", "llm: recording to answer from.")
_PICTURES = flags.DEFINE_bool("pictures", True, "llm: whether the model sees pictures.")
_FAILURES = flags.DEFINE_integer("failures", 12, "Failures diagnosed of each case.", lower_bound=1)
_TESTS = flags.DEFINE_integer("tests", 12, "True diagnoses put to the control test, and as many false ones.", lower_bound=0)
_AA = flags.DEFINE_integer("aa", 8, "Sets of scenes for the A/A arm, each with 200 random labellings.", lower_bound=0)
_TABLES = flags.DEFINE_bool("tables", False, "Print the tables of the results that are there and stop.")


def named(run: Any, folder: Path, tally: Tally, resources: contextlib.ExitStack) -> dict[str, Diagnoser]:
    """The diagnosers of --diagnoser."""
    config, found = run.config, {}
    for name in _DIAGNOSER.value:
        if name not in ("scripted", "llm", "random"):
            raise app.UsageError(f'--diagnoser names "{name}"; use any of scripted, llm, random')
        chat = None
        if name == "llm":
            language.prepare(config)
            calls = folder / CALLS
            asking = parts.chat_of(config, folder, {}, calls.stat().st_size if calls.exists() else 0, resources, lambda a, n: None)
            chat = asking.chat
        found[name] = diagnosers.made(config, name, run.everything, run.train, chat, tally)
    return found


def main(arguments: list[str]) -> None:
    if len(arguments) > 1:
        raise app.UsageError(f"unknown argument {arguments[1]}")
    folder, workdir = Path(_FOLDER.value), Path(_RUN.value)
    folder.mkdir(parents=True, exist_ok=True)
    if not _TABLES.value:
        logging.set_verbosity(logging.WARNING)
        runtime.setup()
        config, tally = folders.read_config(workdir), Tally()
        llm = config.agents.llm
        llm.model, llm.base_url = _MODEL.value or llm.model, _BASE_URL.value or llm.base_url
        llm.replay, llm.pictures = _REPLAY.value or llm.replay, llm.pictures and _PICTURES.value
        with contextlib.ExitStack() as resources:
            resources.enter_context(folders.locked(workdir))
            run = resources.enter_context(opened(config, workdir))
            if "llm" in _DIAGNOSER.value:
                config.agents.diagnoser = "llm"
            bench = prepare(run, folder, named(run, folder, tally, resources))
            for case in CASES:
                diagnose_case(bench, case, _FAILURES.value)
            bench.store(kind="tally", counts=tally.plain())
            test_diagnoses(bench, _TESTS.value)
            aa_arm(bench, _AA.value)
    rows = read(folder)
    print(tables(rows, CASES), file=sys.stderr)
    for record in records(rows, CASES):
        print(json.dumps(record), flush=True)


if __name__ == "__main__":
    app.run(main)
