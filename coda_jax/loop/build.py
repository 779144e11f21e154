"""``--mode=build``: the scene that a text describes or a picture shows, as a program that passed every check, with a picture of it."""

from __future__ import annotations

import contextlib
import json
import sys
from pathlib import Path

from coda_jax import config as settings
from coda_jax.agents.llm.chat import Chat
from coda_jax.agents.llm.scene_author import BUILD, SceneAuthor
from coda_jax.agents.llm.tally import Tally
from coda_jax.evaluation.film import write_strip
from coda_jax.evaluation.metrics import atomic_write
from coda_jax.foreign import read_plain
from coda_jax.loop import engines, films, language, own_families, parts
from coda_jax.loop.told import Told
from coda_jax.loop.view import HEIGHT, PICTURES, WIDTH
from coda_jax.loop.workbench import Workbench
from coda_jax.programs.sandbox import Sandbox
from coda_jax.runtime import InputError
from coda_jax.scenes.catalogue import Catalogue
from coda_jax.scenes.program import to_program
from coda_jax.scenes.spec import SceneSpec

MOST_BYTES = 8 * 2**20  # of a picture
_PNG, _JPEG = b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff"


def picture_of(path: Path) -> bytes:
    """A picture file as PNG bytes.

    Raises:
      InputError: it is no PNG or JPEG file, larger than MOST_BYTES, or cannot be read.
    """
    try:
        raw = read_plain(path, MOST_BYTES)
    except OSError as error:
        raise InputError(f"--picture={path} cannot be read: {error.strerror}") from error
    if len(raw) > MOST_BYTES:
        raise InputError(f"--picture={path} is larger than {MOST_BYTES >> 20} MiB: make it smaller")
    if not raw.startswith((_PNG, _JPEG)):
        raise InputError(f"--picture={path} is no PNG or JPEG file")
    try:
        return films.as_png(raw)
    except ValueError as error:
        raise InputError(f"--picture={path}: {error}") from error


def built(config: settings.Config, chat: Chat, tally: Tally, text: str, png: bytes | None) -> SceneSpec | None:
    """The scene, None where no program of the model's was accepted; ``tally`` holds the reasons."""
    train = Catalogue("train")
    with Sandbox(parts.limits_of(config)) as sandbox:
        tools = Workbench(config, train, sandbox)
        chosen = settings.families(config)
        author = SceneAuthor(chat, engines.engine_settings(config), tally, train, chosen, tools, config.seed)
        return author.built(text, png)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def run(config: settings.Config, text: str, picture: Path | None, output: Path | None) -> bool:
    """Build one scene, print its program and write it and its picture; False, with the counted reasons, where none was accepted.

    The calls are recorded beside the program; asked again, the same question is answered from there. Another ``config.seed`` is another
    question.

    Args:
      output: file of the program; its picture stands beside it. None for runs/pictures/scene_ID.py.

    Raises:
      InputError: the families are LIBERO's, the picture or the endpoint cannot be used, or the files cannot be written.
    """
    if settings.of_libero(config):
        raise InputError(f"config.family is {config.family}, but programs of whole scenes are of our own table: name a family of it")
    with parts.mendable(), contextlib.ExitStack() as resources:
        own_families.add(config)
        png, tally = picture_of(picture) if picture is not None else None, Tally()
        calls = output.with_name(f"{output.stem}_calls") if output is not None else PICTURES / "build_calls"
        try:
            calls.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"{calls} cannot be made for the recording of the calls: {error}") from error
        llm = config.agents.llm
        _say(language.describe_most(config) + ("" if llm.replay else f"; the calls are recorded in {calls}"))
        asking = parts.chat_of(config, calls, {}, 0, resources, language.Watch(llm.model, _say))
        told = Told(asking.chat, tally, _say, llm.deadline_s)
        spec = built(config, told, tally, text, png)
        told.outcome()
        _say(language.describe(llm.model, asking.chat.asked, llm.tokens, parts.prices_of(config)))
        counts = tally.counts.get(BUILD, {})
        if spec is None:
            _say(f"no program was accepted; what was asked and answered stands in {asking.recording.path}")
            print(json.dumps({"accepted": False, "counts": counts}))
            return False
        program = to_program(spec)
        print(program)
        path = output or PICTURES / f"scene_{spec.scene_id}.py"
        drawn = films.picture(spec, Catalogue("train"), parts.robot_of(config), HEIGHT, WIDTH, wrist=True)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            atomic_write(path, program.encode())
            write_strip(path.with_suffix(".png"), drawn)
        except (OSError, ValueError) as error:
            raise InputError(f"--output={path} cannot be written: {error}") from error
        row = {"accepted": True, "scene_id": spec.scene_id, "program": str(path), "picture": str(path.with_suffix(".png"))}
        print(json.dumps(row | {"counts": counts}))
        return True
