"""Whether NVIDIA's warp is there; what needs it says so through ``require``."""

from __future__ import annotations

import importlib.util
import logging


class WarpMissingError(ImportError):
    """NVIDIA's warp is not installed; the message names the extra of setup.py that brings it."""


def installed() -> bool:
    """Whether the extra ``warp`` is there. Imports nothing of it."""
    return importlib.util.find_spec("warp") is not None


def require(instead: str) -> None:
    """Load warp, without its lines about every kernel on the output.

    Args:
      instead: what else the user can set.

    Raises:
      WarpMissingError: it is not installed.
    """
    if not installed():
        raise WarpMissingError(f"NVIDIA's warp is not installed: pip install '.[warp]', or {instead}")
    import warp  # pyright: ignore[reportMissingImports]

    warp.config.log_level = logging.WARNING
