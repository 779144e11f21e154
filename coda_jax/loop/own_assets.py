"""The user's own assets of a configuration, made known before anything asks the catalogue; imports no jax."""

from __future__ import annotations

from pathlib import Path

from coda_jax import config as settings
from coda_jax.runtime import InputError


def add(config: settings.Config | None) -> None:
    """Make the assets of ``scenes.own_assets`` known to this process; without a configuration or a folder there are none.

    Raises:
      InputError: the folder, or a record in it, cannot be used.
    """
    if config is None or not config.scenes.own_assets:
        return
    from coda_jax.scenes import own

    try:
        own.add_folder(Path(config.scenes.own_assets))
    except own.OwnAssetError as error:
        raise InputError(f"config.scenes.own_assets: {error}") from error
