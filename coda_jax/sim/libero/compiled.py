"""The controller as MuJoCo's control callback: machine code that runs inside a batch's threads, at every physics step, without Python.

The callback belongs to the process: it acts on worlds that carry the controller's userdata and returns at once for every other. Offsets of
fields in MuJoCo's structures belong to its version and are measured in the running process, so that a wrong one cannot be compiled in.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import importlib.util
import math
from collections.abc import Iterator
from typing import Any

import mujoco
import numpy as np

from coda_jax.sim.libero import control as law
from coda_jax.sim.libero.control import ARM

_WORDS = 64 * 1024  # searched in a structure at most
_FIELDS = ("qpos", "qvel", "ctrl", "userdata", "site_xpos", "site_xmat", "xanchor", "xaxis", "M", "qfrc_bias")


def available() -> bool:
    """Whether numba is installed, which compiles the callback."""
    return importlib.util.find_spec("numba") is not None


def _word(address: int, value: int) -> int:
    """Byte offset of the last of the first run of words equal to ``value`` behind ``address``.

    Empty fields of a structure point to where the next field begins, so that the last pointer of a run is the one that holds something.

    Raises:
      RuntimeError: there is none.
    """
    for word in range(_WORDS):
        if ctypes.c_int64.from_address(address + 8 * word).value == value:
            while ctypes.c_int64.from_address(address + 8 * (word + 1)).value == value:
                word += 1
            return 8 * word
    raise RuntimeError(f"MuJoCo {mujoco.__version__} keeps its data in another way than expected")


@functools.cache
def offsets() -> tuple[int, ...]:
    """Byte offsets in this process's MuJoCo: nuserdata in its model, then _FIELDS in its data.

    Raises:
      RuntimeError: a field is not found, or not at the same place in two models.
    """
    found = []
    for users, bodies in ((12345, 1), (23456, 3)):
        body = "<body><joint/><geom size='.1'/><site/></body>"
        named = body.replace("<joint/>", "<joint name='a'/>")
        model = mujoco.MjModel.from_xml_string(
            f"<mujoco><size nuserdata='{users}'/><worldbody>{named}{body * bodies}</worldbody>"
            "<actuator><motor joint='a'/></actuator></mujoco>"
        )
        data = mujoco.MjData(model)
        fields = [_word(data._address, getattr(data, f).ctypes.data) for f in _FIELDS]  # pyright: ignore[reportAttributeAccessIssue]
        found.append((_word(model._address, users), *fields))  # pyright: ignore[reportAttributeAccessIssue]
    if found[0] != found[1]:
        raise RuntimeError(f"MuJoCo {mujoco.__version__} keeps its data in another way than expected")
    return found[0]


@functools.cache
def callback() -> Any:
    """The compiled callback. Raises RuntimeError, ImportError as ``offsets`` and numba do."""
    import numba  # pyright: ignore[reportMissingImports]
    from numba import carray, types  # pyright: ignore[reportMissingImports]
    from numba.extending import intrinsic  # pyright: ignore[reportMissingImports]

    places = offsets()
    at_count, (at_qpos, at_qvel, at_ctrl, at_user, at_site, at_frame, at_anchor, at_axis, at_mass, at_bias) = places[0], places[1:]
    kp, kd, null_kp, null_kd = law.KP, float(law.KD), law.NULL_KP, float(law.NULL_KD)
    position_m, rotation_rad, grip_step, middle, half = (
        law.POSITION_M,
        law.ROTATION_RAD,
        law.GRIP_STEP,
        law.FINGER_MIDDLE_M,
        law.FINGER_HALF_M,
    )
    limits, magic, count = law.TORQUE_LIMITS_NM, law.MAGIC_NUMBER, law.USERDATA
    SITE, FRESH, ACTION, GOAL_POS, GOAL_ROT, GRIP, MAGIC, HOME = (
        law.SITE, law.FRESH, law.ACTION, law.GOAL_POS, law.GOAL_ROT, law.GRIP, law.MAGIC, law.HOME,
    )  # fmt: skip
    n = ARM

    @intrinsic
    def pointer(typingctx: Any, address: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return builder.inttoptr(args[0], context.get_value_type(types.voidptr))

        return types.voidptr(types.int64), generate

    @numba.njit(inline="always")
    def field(data: Any, offset: int, size: int) -> Any:
        address = carray(data, (offset // 8 + 1,), np.int64)[offset // 8]
        return carray(pointer(address), (size,), np.float64)  # pyright: ignore[reportCallIssue]

    @numba.njit
    def factor(a: Any, size: int) -> None:
        """Cholesky factor of a, in its lower triangle; a pivot that vanishes leaves its direction out."""
        for j in range(size):
            s = a[j, j]
            for k in range(j):
                s -= a[j, k] * a[j, k]
            a[j, j] = math.sqrt(s) if s > 1e-15 * abs(a[j, j]) else math.inf
            for i in range(j + 1, size):
                s = a[i, j]
                for k in range(j):
                    s -= a[i, k] * a[j, k]
                a[i, j] = s / a[j, j]

    @numba.njit
    def solve(a: Any, size: int, x: Any) -> None:
        for i in range(size):
            s = x[i]
            for k in range(i):
                s -= a[i, k] * x[k]
            x[i] = s / a[i, i]
        for i in range(size - 1, -1, -1):
            s = x[i]
            for k in range(i + 1, size):
                s -= a[k, i] * x[k]
            x[i] = s / a[i, i]

    @numba.njit
    def take_up(user: Any, position: Any, frame: Any) -> None:
        turn = np.zeros(3)
        for i in range(3):
            user[GOAL_POS + i] = position[i] + position_m * min(max(user[ACTION + i], -1.0), 1.0)
            turn[i] = rotation_rad * min(max(user[ACTION + 3 + i], -1.0), 1.0)
        user[FRESH] = 0.0
        if turn[0] == 0.0 and turn[1] == 0.0 and turn[2] == 0.0:
            return
        angle = math.sqrt(turn[0] * turn[0] + turn[1] * turn[1] + turn[2] * turn[2])
        q = np.empty(4, np.float32)
        q[0] = np.float32(math.cos(angle / 2))
        for i in range(3):
            q[1 + i] = np.float32(turn[i] / angle * math.sin(angle / 2))
        square = 0.0
        for i in range(4):
            square += np.float64(np.float32(q[i] * q[i]))
        scale = math.sqrt(2.0 / np.float64(np.float32(square)))
        for i in range(4):
            q[i] = np.float32(q[i] * scale)
        r = np.empty((3, 3))
        p = np.empty((4, 4), np.float32)
        for i in range(4):
            for j in range(4):
                p[i, j] = np.float32(q[i] * q[j])
        for i in range(3):
            j, k = (i + 1) % 3, (i + 2) % 3
            r[i, i] = 1.0 - np.float64(p[min(j, k) + 1, min(j, k) + 1]) - np.float64(p[max(j, k) + 1, max(j, k) + 1])
            r[j, k] = np.float64(np.float32(p[j + 1, k + 1] - p[0, i + 1]))
            r[k, j] = np.float64(np.float32(p[j + 1, k + 1] + p[0, i + 1]))
        for i in range(3):
            for j in range(3):
                user[GOAL_ROT + 3 * i + j] = r[i, 0] * frame[j] + r[i, 1] * frame[3 + j] + r[i, 2] * frame[6 + j]

    @numba.njit
    def run(user: Any, q: Any, qd: Any, position: Any, frame: Any, anchors: Any, axes: Any, packed: Any, bias: Any, ctrl: Any) -> None:
        if user[FRESH] != 0.0:
            take_up(user, position, frame)
        jacobian = np.empty((6, n))
        velocity = np.zeros(6)
        pull = np.empty(n)
        for i in range(n):
            ax, ay, az = axes[3 * i], axes[3 * i + 1], axes[3 * i + 2]
            dx, dy, dz = position[0] - anchors[3 * i], position[1] - anchors[3 * i + 1], position[2] - anchors[3 * i + 2]
            jacobian[0, i], jacobian[1, i], jacobian[2, i] = ay * dz - az * dy, az * dx - ax * dz, ax * dy - ay * dx
            jacobian[3, i], jacobian[4, i], jacobian[5, i] = ax, ay, az
            for r in range(6):
                velocity[r] += jacobian[r, i] * qd[i]
            pull[i] = null_kp * (user[HOME + i] - q[i]) - null_kd * qd[i]
        wanted = np.zeros(6)
        for r in range(3):
            wanted[r] = user[GOAL_POS + r] - position[r]
        for c in range(3):  # half the sum of crossed columns
            cx, cy, cz = frame[c], frame[3 + c], frame[6 + c]
            gx, gy, gz = user[GOAL_ROT + c], user[GOAL_ROT + 3 + c], user[GOAL_ROT + 6 + c]
            wanted[3] += 0.5 * (cy * gz - cz * gy)
            wanted[4] += 0.5 * (cz * gx - cx * gz)
            wanted[5] += 0.5 * (cx * gy - cy * gx)
        taken = np.zeros(6)
        for r in range(6):
            wanted[r] = kp * wanted[r] - kd * velocity[r]
            for i in range(n):
                taken[r] += jacobian[r, i] * pull[i]
        mass = np.empty((n, n))
        k = 0
        for i in range(n):
            for j in range(i + 1):
                mass[i, j] = packed[k]
                k += 1
        factor(mass, n)
        half_way = np.empty((6, n))  # rows L^-1 of the Jacobian's rows, so that J M^-1 J^T is their products
        for r in range(6):
            for i in range(n):
                s = jacobian[r, i]
                for j in range(i):
                    s -= mass[i, j] * half_way[r, j]
                half_way[r, i] = s / mass[i, i]
        whole, linear, turning = np.empty((6, 6)), np.empty((3, 3)), np.empty((3, 3))
        for r in range(6):
            for c in range(6):
                s = 0.0
                for i in range(n):
                    s += half_way[r, i] * half_way[c, i]
                whole[r, c] = s
                if r < 3 and c < 3:
                    linear[r, c] = s
                elif r >= 3 and c >= 3:
                    turning[r - 3, c - 3] = s
        factor(whole, 6)
        factor(linear, 3)
        factor(turning, 3)
        solve(linear, 3, wanted[:3])
        solve(turning, 3, wanted[3:])
        solve(whole, 6, taken)
        for i in range(n):
            torque = bias[i]
            for r in range(6):
                torque += jacobian[r, i] * (wanted[r] - taken[r])
            k = i * (i + 1) // 2
            for j in range(i + 1):
                torque += packed[k + j] * pull[j]
            for j in range(i + 1, n):
                torque += packed[j * (j + 1) // 2 + i] * pull[j]
            ctrl[i] = min(max(torque, -limits[i]), limits[i])
        sign = 1.0 if user[ACTION + 6] > 0 else (-1.0 if user[ACTION + 6] < 0 else 0.0)
        user[GRIP] = min(max(user[GRIP] - grip_step * sign, -1.0), 1.0)
        ctrl[n] = middle + half * user[GRIP]
        ctrl[n + 1] = -middle - half * user[GRIP]

    @numba.cfunc(types.void(types.voidptr, types.voidptr))
    def entry(model: Any, data: Any) -> None:
        if carray(model, (at_count // 8 + 1,), np.int64)[at_count // 8] != count:
            return
        user = field(data, at_user, count)
        if user[MAGIC] != magic:
            return
        site = int(user[SITE])
        run(
            user,
            field(data, at_qpos, n),
            field(data, at_qvel, n),
            field(data, at_site, 3 * site + 3)[3 * site :],
            field(data, at_frame, 9 * site + 9)[9 * site :],
            field(data, at_anchor, 3 * n),
            field(data, at_axis, 3 * n),
            field(data, at_mass, n * (n + 1) // 2),
            field(data, at_bias, n),
            field(data, at_ctrl, n + 2),
        )

    return entry


@contextlib.contextmanager
def installed() -> Iterator[None]:
    """Inside, MuJoCo runs the controller in every world that carries its userdata; another callback of the process waits meanwhile."""
    before = mujoco.get_mjcb_control()
    mujoco.set_mjcb_control(callback().ctypes)
    try:
        yield
    finally:
        mujoco.set_mjcb_control(before)
