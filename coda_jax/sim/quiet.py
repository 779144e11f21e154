"""No log file of MuJoCo in the user's folder."""

from __future__ import annotations

import mujoco


def quiet() -> None:
    """Let MuJoCo of this process write no MUJOCO_LOG.TXT: what goes wrong is flagged, counted or raised here."""
    log = mujoco.MjLogConfig.get()
    log.logto_file = log.logto_console = False
    mujoco.MjLogConfig.set(log)
