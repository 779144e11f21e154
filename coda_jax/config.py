"""Every default, once. Experiment files start from ``default()`` and state what differs; only ``main`` and ``loop`` read the result.

``cpu`` ends in minutes on two cores; ``paper`` are the published budgets, for accelerators.
"""

from __future__ import annotations

import dataclasses
import difflib
import re
from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

from ml_collections import ConfigDict

from coda_jax.runtime import InputError

PRESETS = ("cpu", "paper")
SUITES = ("id", "instances", "layouts", "tasks", "categories")
T = TypeVar("T")


def default(preset: str = "cpu") -> ConfigDict:
    """The whole configuration with its defaults, locked: unknown keys and other types are refused.

    Raises:
      InputError: the preset does not exist.
    """
    config = ConfigDict(
        {
            "seed": 0,  # of scenes, demonstrations, initial parameters, training and rollouts
            "preset": "cpu",  # name of the defaults this configuration started from
            "family": "pick_place",
            "horizon": 120,  # control steps of 0.1 s before an episode counts as failed
            "sim": {
                "backend": "auto",  # auto, native or mjx; auto takes native on a CPU
                "worlds": 128,  # worlds stepped together, per executable
                "threads": 0,  # native: threads of the physics pool, 0 for one per core
            },
            "scenes": {
                "seeds": 100,  # scene programs written for the seed set
            },
            "demos": {
                "count": 100,  # certified demonstrations to collect
            },
            "policy": {
                "width": 128,
                "horizon": 8,  # predicted actions per decision (h)
                "euler_steps": 5,
            },
            "clone": {
                "steps": 2000,
                "batch": 256,
                "learning_rate": 1e-3,
            },
            "evaluate": {
                "split": "test",
                "suites": SUITES,
                "scenes": 0,  # scenes per suite, 0 for all
                "executed": 4,  # actions executed of each chunk (e <= policy.horizon)
            },
        }
    )
    if preset == "paper":
        config.update(
            {
                "preset": "paper",
                "policy": {"width": 512},
                "clone": {"steps": 20_000},
                "evaluate": {"executed": 8},
            }
        )
    elif preset != "cpu":
        raise InputError(f'there is no preset "{preset}"; use one of: {", ".join(PRESETS)}')
    return config.lock()


def leaves(config: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Dotted path and value of every setting."""
    for key, value in config.items():
        if isinstance(value, (ConfigDict, Mapping)):
            yield from leaves(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def to_dict(config: ConfigDict) -> dict[str, Any]:
    """Nested plain dict in JSON's types (tuples become lists)."""

    def plain(value: Any) -> Any:
        if isinstance(value, Mapping):
            return {k: plain(v) for k, v in value.items()}
        return [plain(v) for v in value] if isinstance(value, (list, tuple)) else value

    return plain(config.to_dict())


def nearest(path: str, known: list[str]) -> str:
    """Known path most like ``path``: judged by the whole path, then by its last part."""
    whole = difflib.get_close_matches(path, known, n=1, cutoff=0.6)
    if whole:
        return whole[0]
    last = {k.rsplit(".", 1)[-1]: k for k in known}
    tail = difflib.get_close_matches(path.rsplit(".", 1)[-1], list(last), n=1, cutoff=0.6)
    return last[tail[0]] if tail else ""


def check_key(config: ConfigDict, path: str) -> None:
    """Refuse a path that is no setting of ``config``.

    Raises:
      InputError: it names the path, and the nearest setting or the section's settings.
    """
    known = [p for p, _ in leaves(config)]
    if path in known:
        return
    inside = [k for k in known if k.startswith(path + ".")]
    if inside:
        raise InputError(f'config.{path} is a section, not a setting; set one of: {", ".join("config." + k for k in inside)}')
    guess = nearest(path, known)
    if guess:
        raise InputError(f'there is no setting config.{path}; did you mean config.{guess} (now {dict(leaves(config))[guess]!r})?')
    section = path.split(".", 1)[0]
    siblings = [k for k in known if k.startswith(section + ".")] or sorted({k.split(".", 1)[0] for k in known})
    raise InputError(f'there is no setting config.{path}; there are: {", ".join(siblings)}')


def describe_type(value: Any) -> str:
    """"an int (now 3)", "a list of str (now ('id',))": what a setting takes, judged by its present value."""
    if isinstance(value, (list, tuple)):
        inner = type(value[0]).__name__ if value else "values"
        return f"a comma-separated list of {inner} (now {value!r})"
    name = {bool: "true or false", int: "a whole number", float: "a number", str: "a text"}.get(type(value), f"a {type(value).__name__}")
    return f"{name} (now {value!r})"


def check_types(config: ConfigDict, reference: ConfigDict) -> None:
    """Refuse settings of an experiment file that are unknown to ``reference``, missing, or of another type.

    Raises:
      InputError: the first such setting.
    """
    expected = dict(leaves(reference))
    found = dict(leaves(config))
    for path, value in found.items():
        check_key(reference, path)
        want = expected[path]
        listlike = isinstance(want, (list, tuple)) and isinstance(value, (list, tuple))
        number = isinstance(want, float) and isinstance(value, int) and not isinstance(value, bool)
        if not (listlike or number or type(value) is type(want)):
            raise InputError(f"config.{path} is {value!r}; it must be {describe_type(want)}")
    missing = sorted(expected.keys() - found.keys())
    if missing:
        raise InputError(f"config.{missing[0]} is missing: begin the experiment file with coda_jax.config.default()")


_AT_LEAST: dict[str, float] = {
    "seed": 0,
    "horizon": 1,
    "sim.worlds": 1,
    "sim.threads": 0,
    "scenes.seeds": 1,
    "demos.count": 1,
    "policy.width": 1,
    "policy.horizon": 1,
    "policy.euler_steps": 1,
    "clone.steps": 1,
    "clone.batch": 1,
    "clone.learning_rate": 1e-9,
    "evaluate.scenes": 0,
    "evaluate.executed": 1,
}
_ONE_OF: dict[str, tuple[str, ...]] = {
    "preset": PRESETS,
    "family": ("pick_place",),
    "sim.backend": ("auto", "native", "mjx"),
    "evaluate.split": ("validation", "test"),
    "evaluate.suites": SUITES,
}


def validate(config: ConfigDict) -> None:
    """Refuse values out of range and combinations that cannot work.

    Raises:
      InputError: it names the setting, its value and the valid ones.
    """
    check_types(config, default())
    values = dict(leaves(config))
    for path, low in _AT_LEAST.items():
        value = values[path]
        if not (low <= value < float("inf")):  # also refuses NaN
            raise InputError(f"config.{path} is {value!r}; it must be at least {low:g}")
    for path, choices in _ONE_OF.items():
        value = values[path]
        for one in value if isinstance(value, (list, tuple)) else (value,):
            if one not in choices:
                guess = difflib.get_close_matches(str(one), choices, n=1)
                hint = f' (did you mean "{guess[0]}"?)' if guess else ""
                raise InputError(f'config.{path} is "{one}"{hint}; use {"any" if isinstance(value, (list, tuple)) else "one"} of: {", ".join(choices)}')
    if config.evaluate.executed > config.policy.horizon:
        raise InputError(
            f"config.evaluate.executed is {config.evaluate.executed}, but only config.policy.horizon = {config.policy.horizon} actions "
            f"are predicted; lower the first or raise the second"
        )


def override(config: ConfigDict, path: str, text: str) -> None:
    """Set one setting from the command line's text, e.g. ``clone.steps`` to ``"500"``.

    Raises:
      InputError: the setting does not exist or takes another type.
    """
    check_key(config, path)
    now = dict(leaves(config))[path]
    try:
        value = _parse(text, now)
    except ValueError:
        raise InputError(f'config.{path} is given as "{text}"; it must be {describe_type(now)}') from None
    section, _, key = path.rpartition(".")
    target = config
    for name in section.split(".") if section else ():
        target = target[name]
    target[key] = value


_LIST = re.compile(r"^[\[(]?(.*?),?[\])]?$")


def _parse(text: str, now: Any) -> Any:
    if isinstance(now, bool):
        lowered = text.strip().lower()
        if lowered not in ("true", "false", "1", "0"):
            raise ValueError(text)
        return lowered in ("true", "1")
    if isinstance(now, int):
        return int(text.replace("_", ""))
    if isinstance(now, float):
        return float(text)
    if isinstance(now, (list, tuple)):
        match = _LIST.match(text.strip())
        items = [item.strip().strip("'\"") for item in match.group(1).split(",")] if match and match.group(1) else []
        return tuple(_parse(item, now[0]) if now else item for item in items)
    return text


def differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """One line per setting in which two configurations differ: "clone.steps: 2000 -> 500"."""

    def plain(value: Any) -> Any:
        return list(value) if isinstance(value, tuple) else value

    old, new = dict(leaves(before)), dict(leaves(after))
    absent = "(absent)"
    return [
        f"{path}: {old.get(path, absent)!r} -> {new.get(path, absent)!r}".replace(repr(absent), absent)
        for path in sorted(old.keys() | new.keys())
        if plain(old.get(path, absent)) != plain(new.get(path, absent))
    ]


def build(cls: type[T], section: ConfigDict, **extra: Any) -> T:
    """A plain dataclass of a lower floor from a section's settings and ``extra`` fields.

    Raises:
      TypeError: a setting is no field of ``cls`` (it would change nothing), or a field without default is given nowhere.
    """
    names = {f.name for f in dataclasses.fields(cls)}  # type: ignore[arg-type]
    values = {k: v for k, v in section.items() if not isinstance(v, ConfigDict)}
    unused = sorted(values.keys() - names)
    if unused:
        raise TypeError(f"{cls.__name__} has no field for: {', '.join(unused)}")
    return cls(**values, **extra)
