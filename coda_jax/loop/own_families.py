"""Families of a configuration that are not our own table's: LIBERO's and the user's, made known before anything asks for them."""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Sequence

from coda_jax import config as settings
from coda_jax import runtime
from coda_jax.runtime import InputError


def add(config: settings.Config) -> None:
    """Register LIBERO's families where the run names one, and import the modules that register families of the user.

    Raises:
      InputError: LIBERO's package is missing or another release, MuJoCo is of another version than its models were compared with, or a file
        of its suites is missing or cannot be scored; a module cannot be imported, or none of them registers a family that the run names.
    """
    if settings.of_libero(config):
        _add_libero(settings.families(config), config.evaluate.suites)
    modules = settings.own_families(config)
    if not modules:
        return
    runtime.setup()  # before the user's modules, which may import jax
    for module in modules:
        try:
            importlib.import_module(module)
        except ImportError as error:
            raise InputError(f"config.own_families: {module} cannot be imported ({error}); give a module that Python finds") from error
        except (Exception, SystemExit) as error:  # the user's own text runs here
            kind = type(error).__name__
            raise InputError(f"config.own_families: {module} fails when it is imported ({kind}: {error}); mend it") from error
    from coda_jax.scenes import families

    known = families.names()
    if missing := [name for name in settings.families(config) if name not in known]:
        guess = difflib.get_close_matches(missing[0], known, n=1)
        hint = f' (did you mean "{guess[0]}"?)' if guess else ""
        raise InputError(f'config.family is "{missing[0]}"{hint}, which no module registers; registered are: {", ".join(known)}')


def _add_libero(chosen: Sequence[str], suites: Sequence[str]) -> None:
    """suites: that are evaluated; what cannot be scored in them ends a run before its work."""
    from coda_jax.evaluation.libero import lint
    from coda_jax.scenes.libero import families, held_out, package, tasks
    from coda_jax.scenes.libero.suites import BY_NAME

    package.find()
    package.require_release()
    package.require_mujoco()
    perturbations = dict.fromkeys(suite.removesuffix(BY_NAME) for suite in suites)
    lint.refuse_unscorable([lint.lint(family + tasks.PERTURBATIONS[p]) for family in chosen for p in perturbations])
    held_out.rules()  # from every suite's task files: one that is missing is told now, not at the first scene that is judged
    held_out.sentences()
    families.add()
