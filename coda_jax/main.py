"""Entry point: ``python -m coda_jax.main --config=experiments/quickstart.py``. Cheap checks come first, jax is imported after them."""

from __future__ import annotations

import dataclasses
import errno
import importlib.util
import sys
import textwrap
import traceback
from pathlib import Path

from absl import flags, logging
from ml_collections import ConfigDict

from coda_jax import config as settings
from coda_jax import runtime
from coda_jax.runtime import InputError, Stopped

DONE, BUG, BAD_INPUT, RESUMABLE = 0, 1, 2, 3

MODES = {
    "run": "the whole job of --config, continued where --workdir left off",
    "evaluate": "evaluate the policy in --workdir on the suites again",
    "sweep": "evaluate every kept checkpoint of --workdir, and of the runs of --against, at each of config.sweep.temperatures",
    "check": "put --program (a file or a folder) through sandbox and validation, one JSON line each",
    "view": "draw one scene: of --program, or number --index of --suite; with --catalogue, what the catalogue holds",
    "build": "have the language model of config.agents.llm write the scene that --text says or --picture shows, and check it",
    "report": "write report.html of --workdir again",
    "verify": "test the generation program --program against the policy of --workdir: does its factor hurt more than another one",
    "replay": "make the video of rollout --episode of --workdir and say where it failed",
    "compare": "set the runs or evaluations of --against beside that of --workdir, suite by suite and scene by scene",
    "annotate": "write a page with clips of --count diagnosed failures of --workdir, for two people to say why they failed",
    "agreement": "compare the diagnoses of --workdir with what two people saved from that page, --answers=A.json,B.json",
    "serve": "let others ask the policy of --workdir over openpi's websocket protocol, at config.serve.host and .port",
    "doctor": "check devices, caches, packages, text encoder, sandbox, disk and memory, and say what to do",
}
_UNUSABLE = (errno.ENAMETOOLONG, errno.EROFS, errno.EACCES, errno.EPERM, errno.ELOOP, errno.ENOTDIR, errno.EISDIR)
TRAINED = ("run", "sweep", "verify", "serve")  # modes that train a policy, or need the parameters of one
NEEDS_NO_RUN = ("check", "view", "build", "doctor")  # modes that go by the defaults where neither --config nor a run is named

_EXAMPLES = """\
  python -m coda_jax.main --config=experiments/quickstart.py
  python -m coda_jax.main --config=experiments/quickstart.py:smoke --config.clone.steps=200 --workdir=runs/try
  python -m coda_jax.main --mode=evaluate --workdir=runs/quickstart --config.evaluate.executed=8
  python -m coda_jax.main --mode=check --program=scenes/"""


@dataclasses.dataclass(frozen=True)
class Command:
    """A parsed command line. ``config`` is None where the mode needs none."""

    mode: str
    workdir: Path | None
    config: settings.Config | None
    dry_run: bool
    program: Path | None
    suite: str
    index: int
    output: Path | None
    against: tuple[Path, ...] = ()
    episode: int = 0
    catalogue: str | None = None
    text: str = ""
    picture: Path | None = None
    count: int = 0
    answers: tuple[Path, ...] = ()


def _flags() -> flags.FlagValues:
    values = flags.FlagValues()
    flags.DEFINE_string(
        "config", None, "Experiment file, FILE.py or FILE.py:VARIANT; --config.KEY=VALUE changes one setting.", flag_values=values
    )
    flags.DEFINE_string("workdir", None, "Run folder; runs/NAME of the experiment file where left out.", flag_values=values)
    flags.DEFINE_string("mode", "run", "What to do, see above.", flag_values=values)
    flags.DEFINE_bool("dry_run", False, "Print the settings and what would run, and start nothing.", flag_values=values)
    flags.DEFINE_string(
        "program", None, "view: a scene program; check: any program, or a folder of them; verify: a generation program.", flag_values=values
    )
    flags.DEFINE_string("suite", "id", "view: suite of the scene.", flag_values=values)
    flags.DEFINE_integer("index", 0, "view: number of the scene in its suite.", lower_bound=0, flag_values=values)
    flags.DEFINE_string(
        "catalogue", None, "view: all for a picture of every category, or the name of one for all its instances.", flag_values=values
    )
    flags.DEFINE_string(
        "output",
        None,
        "view, replay: file to write the picture or video to; where left out, in videos/ of --workdir (view without one: runs/pictures/). "
        "annotate: the page (annotate.html in --workdir). "
        "build: file of the program, its picture beside it (runs/pictures/).",
        flag_values=values,
    )
    flags.DEFINE_string("text", "", "build: the scene in words.", flag_values=values)
    flags.DEFINE_string("picture", None, "build: PNG or JPEG file of a scene, alone or beside --text.", flag_values=values)
    flags.DEFINE_integer("episode", 0, "replay: number of the rollout.", lower_bound=0, flag_values=values)
    flags.DEFINE_integer("count", 100, "annotate: most diagnosed failures on the page.", lower_bound=1, flag_values=values)
    flags.DEFINE_list("answers", [], "agreement: two files that annotators saved, separated by a comma.", flag_values=values)
    flags.DEFINE_list(
        "against",
        [],
        "compare: other folders of runs, or RUN/evaluations/NAME, separated by commas; sweep: other folders of runs.",
        flag_values=values,
    )
    return values


def usage() -> str:
    """The text of ``--help``."""

    def entry(name: str, text: str) -> str:
        return textwrap.fill(text, width=100, initial_indent=f"  {name:<22}", subsequent_indent=" " * 24)

    values = _flags()
    described = [
        entry(
            f"--{name}" + ("" if values[name].boolean else "=..."),
            f"{values[name].help}" + (f" [{values[name].value}]" if values[name].value else ""),
        )
        for name in (
            "config",
            "workdir",
            "mode",
            "dry_run",
            "program",
            "suite",
            "index",
            "catalogue",
            "text",
            "picture",
            "output",
            "episode",
            "against",
            "count",
            "answers",
        )
    ]
    return "\n".join(
        [
            "usage: python -m coda_jax.main --config=FILE.py [--config.KEY=VALUE ...] [--workdir=FOLDER] [--mode=MODE]",
            "",
            "modes",
            *(entry(name, text) for name, text in MODES.items()),
            "",
            "flags",
            *described,
            "",
            "examples",
            _EXAMPLES,
            "",
            "exit codes: 0 done, 1 a bug of ours, 2 bad input, 3 stopped and resumable (the same command goes on)",
        ]
    )


def split_overrides(arguments: list[str]) -> tuple[list[str], list[tuple[str, str | None]]]:
    """Take ``--config.KEY=VALUE`` and ``--config.KEY VALUE`` out of the arguments, wherever they stand."""
    rest: list[str] = []
    overrides: list[tuple[str, str | None]] = []
    position = 0
    while position < len(arguments):
        argument = arguments[position]
        position += 1
        name = argument.lstrip("-")
        if not (argument.startswith("-") and name.startswith("config.")):
            rest.append(argument)
            continue
        key, equals, value = name.removeprefix("config.").partition("=")
        if equals:
            overrides.append((key, value))
        elif position < len(arguments) and not arguments[position].startswith("--"):
            overrides.append((key, arguments[position]))
            position += 1
        else:
            overrides.append((key, None))
    return rest, overrides


def load_config(argument: str) -> settings.Config:
    """Configuration of ``FILE.py`` or ``FILE.py:VARIANT`` (the text goes to its ``get_config``).

    Raises:
      InputError: the file is missing, fails, or sets what does not exist; file and line are named.
    """
    name, colon, variant = argument.partition(":")
    path = Path(name)
    if not path.is_file():
        folder = path.parent
        known = sorted(p.name for p in folder.glob("*.py")) if folder.is_dir() else []
        hint = f"; {folder} has: {', '.join(known)}" if known else ""
        raise InputError(f"there is no experiment file {path}{hint}")
    spec = importlib.util.spec_from_file_location(f"experiment_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise InputError(f"{path} is no Python file: an experiment file is FILE.py with get_config()")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
        if not hasattr(module, "get_config"):
            raise InputError("it has no get_config(variant)")
        config = module.get_config(variant) if colon else module.get_config()
    except Exception as error:
        lines = [
            f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == str(path) or Path(f.filename) == path.resolve()
        ]
        if isinstance(error, SyntaxError):
            lines.append(error.lineno)
        where = f"{path} line {lines[-1]}" if lines else str(path)
        # ml_collections' messages name the nearest key themselves
        kind = "" if isinstance(error, (InputError, AttributeError, SyntaxError)) else f"{type(error).__name__}: "
        text = str(error.args[0]) if isinstance(error, (KeyError, SyntaxError)) and error.args else str(error)
        raise InputError(f"{where}: {kind}{text}") from error
    if not isinstance(config, ConfigDict):
        raise InputError(f"{path}: get_config returned a {type(config).__name__}; begin with coda_jax.config.default() and return it")
    return config


def _default_workdir(argument: str) -> Path:
    name, _, variant = argument.partition(":")
    return Path("runs") / (Path(name).stem + (f"-{variant}" if variant else ""))


def _holds_run(workdir: Path) -> bool:
    from coda_jax.loop import workdir as folders

    return (workdir / folders.CONFIG_FILE).exists()


def _resolve_config(values: flags.FlagValues, overrides: list[tuple[str, str | None]], workdir: Path | None) -> settings.Config:
    if values.config is not None:
        config = load_config(values.config)
        settings.check_types(config, settings.default())
    elif values.mode != "run" and workdir is not None and (values.mode not in NEEDS_NO_RUN or _holds_run(workdir)):
        from coda_jax.loop import workdir as folders

        config = folders.read_config(workdir)
    elif values.mode in NEEDS_NO_RUN:
        config = settings.default()
    else:
        needed = "--config=FILE.py" if values.mode == "run" else "--workdir=FOLDER of a run, or --config=FILE.py"
        raise InputError(f"--mode={values.mode} needs {needed}, e.g. --config=experiments/quickstart.py")
    for key, text in overrides:
        if text is None:
            settings.check_key(config, key)
            if not isinstance(dict(settings.leaves(config))[key], bool):
                raise InputError(f"--config.{key} needs a value: --config.{key}={dict(settings.leaves(config))[key]}")
            text = "true"
        settings.override(config, key, text)
    if values.mode == "build":
        config.agents.engine = "llm"  # whoever writes a run's programs, this scene is a model's
    settings.validate(config, trains=values.mode not in ("evaluate", "sweep"))
    if config.policy.kind == "remote" and values.mode in TRAINED:
        raise InputError(
            f"--mode={values.mode} needs a policy that was trained here; one of config.policy.kind=remote is asked over the network and "
            "cannot be: use --mode=evaluate, or set config.policy.kind to flow"
        )
    return config


def parse(arguments: list[str]) -> Command:
    """Parse and check a command line, without importing jax.

    Raises:
      InputError: an unknown flag, mode, setting or file, or a value of the wrong type or out of range.
    """
    rest, overrides = split_overrides(arguments)
    values = _flags()
    try:
        stray = values(["coda_jax", *rest])[1:]
    except flags.Error as error:
        raise InputError(f"{error}; --help lists the flags") from None
    if stray:
        raise InputError(f'"{stray[0]}" is no flag; write --config=FILE.py (--help lists the flags)')
    mode = values.mode
    if mode not in MODES:
        raise InputError(f'--mode="{mode}" does not exist; use one of: {", ".join(MODES)}')
    if values.workdir == "":  # of an unset shell variable: the run of the default folder is not what was meant
        raise InputError("--workdir is empty; name a folder, or leave the flag out")
    workdir = Path(values.workdir) if values.workdir else None
    program = Path(values.program) if values.program else None
    if program is not None and not program.exists():
        raise InputError(f"--program={program} does not exist")
    config = None
    if (
        mode in ("run", "evaluate", "sweep", "verify", "serve", "build")
        or (mode in NEEDS_NO_RUN and values.config is not None)
        or overrides
    ):
        config = _resolve_config(values, overrides, workdir)
    if workdir is None and values.config is not None:
        workdir = _default_workdir(values.config)
    if mode in ("check", "verify") and program is None:
        raise InputError(f"--mode={mode} needs --program={'FILE_OR_FOLDER' if mode == 'check' else 'FILE'}")
    picture = Path(values.picture) if values.picture else None
    if mode == "build" and not values.text.strip() and picture is None:
        raise InputError('--mode=build needs --text="a red mug on ..." or --picture=FILE')
    if picture is not None and not picture.exists():
        raise InputError(f"--picture={picture} does not exist")
    if mode == "replay" and not values.episode:
        raise InputError("--mode=replay needs --episode=NUMBER; metrics.jsonl and report.html name those of diagnosed failures")
    if mode in ("evaluate", "sweep", "report", "compare", "verify", "replay", "annotate", "agreement", "serve") and workdir is None:
        raise InputError(f"--mode={mode} needs --workdir=FOLDER of a run")
    against = tuple(Path(name) for name in values.against)
    if mode == "compare" and not against:
        raise InputError("--mode=compare needs --against=FOLDER[,FOLDER ...] of other runs")
    output = Path(values.output) if values.output else None
    return Command(
        mode,
        workdir,
        config,
        values.dry_run,
        program,
        values.suite,
        values.index,
        output,
        against,
        values.episode,
        values.catalogue,
        values.text,
        picture,
        values.count,
        tuple(Path(name) for name in values.answers),
    )


def dispatch(command: Command) -> int:
    """Run a parsed command and return its exit code."""
    from coda_jax.loop import language, own_assets, own_families
    from coda_jax.loop import workdir as folders

    mode, workdir, config = command.mode, command.workdir, command.config
    if mode == "view" and config is None and workdir is not None and _holds_run(workdir):
        config = folders.read_config(workdir)  # its robot, its own assets and families
    own_assets.add(config)
    if config is not None:
        own_families.add(config)  # a name that does not exist says more than the difference to the folder's run
    if mode == "run":
        assert workdir is not None and config is not None
        language.prepare(config, dry_run=command.dry_run)
        if command.dry_run:
            runtime.setup()
            from coda_jax.loop import coevolve

            coevolve.run(config, workdir, dry_run=True)
            return DONE
        with runtime.orderly_stop(), folders.open_run(workdir, config):
            runtime.setup()
            from coda_jax.loop import coevolve

            coevolve.run(config, workdir, dry_run=False)
        return DONE
    if mode == "evaluate":
        assert workdir is not None and config is not None
        remote = config.policy.kind == "remote"  # which no run has trained: its folder is made here
        if not folders.check(workdir, config, free=("evaluate",)) and not remote:
            raise InputError(f"{workdir} holds no run; give the --workdir of one")
        runtime.setup()
        from coda_jax.loop import evaluate

        if command.dry_run:
            evaluate.run(config, workdir, dry_run=True)
            return DONE
        with runtime.orderly_stop(), folders.open_run(workdir, config) if remote else folders.locked(workdir):
            evaluate.run(config, workdir, dry_run=False)
        return DONE
    if mode == "sweep":
        assert workdir is not None and config is not None
        if not folders.check(workdir, config, free=("evaluate",)):
            raise InputError(f"{workdir} holds no run; give the --workdir of one")
        runtime.setup()
        from coda_jax.loop import sweep

        if command.dry_run:
            sweep.run(config, workdir, command.against, dry_run=True)
            return DONE
        with runtime.orderly_stop(), folders.locked(workdir):
            sweep.run(config, workdir, command.against, dry_run=False)
        return DONE
    if mode == "serve":
        assert workdir is not None and config is not None
        if not folders.check(workdir, config, free=("evaluate",)):
            raise InputError(f"{workdir} holds no run; give the --workdir of one")
        runtime.setup()
        from coda_jax.doors import serving

        serving.run(config, workdir)
        return DONE
    if mode == "report":
        assert workdir is not None
        folders.read_config(workdir)
        from coda_jax.evaluation.report import write_report

        print(write_report(workdir))
        return DONE
    if mode == "verify":
        assert workdir is not None and config is not None and command.program is not None
        if not folders.check(workdir, config, free=("control",)):
            raise InputError(f"{workdir} holds no run; give the --workdir of one")
        with runtime.orderly_stop(), folders.locked(workdir):
            runtime.setup()
            from coda_jax.loop import verify

            verify.run(config, workdir, command.program)
        return DONE
    if mode == "replay":
        assert workdir is not None
        own_assets.add(folders.read_config(workdir))
        runtime.setup()
        from coda_jax.loop import replay

        replay.run(workdir, command.episode, command.output)
        return DONE
    if mode == "annotate":
        assert workdir is not None
        own_assets.add(folders.read_config(workdir))
        runtime.setup()
        from coda_jax.loop import annotate

        annotate.run(workdir, command.count, command.output)
        return DONE
    if mode == "agreement":
        assert workdir is not None
        from coda_jax.loop import agreement

        agreement.run(workdir, command.answers)
        return DONE
    if mode == "compare":
        assert workdir is not None
        from coda_jax.loop import compare

        compare.run(workdir, command.against)
        return DONE
    if mode == "view":
        runtime.setup()
        if command.catalogue is not None:
            from coda_jax.loop import catalogue_sheet

            catalogue_sheet.run(command.catalogue, command.output)
            return DONE
        from coda_jax.loop import view

        view.run(config or settings.default(), command.program, command.suite, command.index, command.output, workdir)
        return DONE
    if mode == "build":
        from coda_jax.loop import language

        assert config is not None
        language.prepare(config)
        runtime.setup()
        from coda_jax.loop import build

        return DONE if build.run(config, command.text, command.picture, command.output) else BAD_INPUT
    if mode == "check":
        assert command.program is not None
        runtime.setup()
        from coda_jax.loop import check

        return DONE if check.run(command.config or settings.default(), command.program) else BAD_INPUT
    runtime.setup()
    from coda_jax.loop import doctor

    return DONE if doctor.run(command.config or settings.default(), workdir or Path("runs")) else BAD_INPUT


def main(arguments: list[str]) -> int:
    """Run one command line (without the program's name); messages go to stderr, the exit code is returned."""
    if not arguments or any(a in ("-h", "--help", "-help", "--helpshort", "--helpfull") for a in arguments):
        print(usage())
        return DONE if arguments else BAD_INPUT
    try:
        return dispatch(parse(arguments))
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        return BAD_INPUT
    except Stopped as stopped:
        print(stopped, file=sys.stderr)
        return RESUMABLE
    except KeyboardInterrupt:
        print("interrupted; the same command goes on from the last commit", file=sys.stderr)
        return RESUMABLE
    except BrokenPipeError:  # the reader of our output closed it, e.g. `| head`
        sys.stderr.close()
        return RESUMABLE
    except Exception as error:
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            print(
                f"error: the disk is full ({error.strerror}: {error.filename}); free some, the same command goes on from the last commit",
                file=sys.stderr,
            )
            return RESUMABLE
        if isinstance(error, OSError) and error.errno in _UNUSABLE:
            where = str(error.filename)[:200] if error.filename is not None else "a file or folder"
            print(f"error: {where} cannot be used ({error.strerror}); choose another path, or change its permissions", file=sys.stderr)
            return BAD_INPUT
        traceback.print_exc()
        print(
            f"error: a bug in coda_jax ({type(error).__name__} above); please report it with the command and the versions", file=sys.stderr
        )
        return BUG


if __name__ == "__main__":
    logging.set_verbosity(logging.WARNING)  # of the libraries; our own messages are printed
    sys.exit(main(sys.argv[1:]))
