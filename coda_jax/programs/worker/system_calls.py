"""The system calls that the interpreter's worker may make, as a seccomp filter: everything else fails with EPERM.

Standard library alone: the launcher runs it without the project. The list is what the worker was seen to use from its start to its end,
for two kinds of processor, with what the C library may use in its place.
"""

from __future__ import annotations

import errno
import platform
import signal
import struct

X86_64, AARCH64 = 0xC000003E, 0xC00000B7  # linux/audit.h
X32_BIT = 0x40000000  # the numbers of the x32 interface, which the list does not know

# name: (x86-64, aarch64), None where there is no such call. The frequent ones first: a filter is read from its beginning.
PLAIN: dict[str, tuple[int | None, int]] = {
    "read": (0, 63),
    "write": (1, 64),
    "futex": (202, 98),
    "madvise": (28, 233),
    "munmap": (11, 215),
    "mremap": (25, 216),
    "brk": (12, 214),
    "clock_gettime": (228, 113),
    "readv": (19, 65),
    "writev": (20, 66),
    "rt_sigprocmask": (14, 135),
    "rt_sigaction": (13, 134),
    "rt_sigreturn": (15, 139),
    "restart_syscall": (219, 128),
    "sched_yield": (24, 124),
    "getrandom": (318, 278),
    "close": (3, 57),
    "fstat": (5, 80),
    "newfstatat": (262, 79),
    "statx": (332, 291),
    "lseek": (8, 62),
    "pread64": (17, 67),
    "poll": (7, None),
    "ppoll": (271, 73),
    "access": (21, None),
    "faccessat": (269, 48),
    "getpid": (39, 172),
    "gettid": (186, 178),
    "sigaltstack": (131, 132),
    "arch_prctl": (158, None),
    "sched_getaffinity": (204, 123),
    "set_tid_address": (218, 96),
    "set_robust_list": (273, 99),
    "rseq": (334, 293),
    "clock_nanosleep": (230, 115),
    "nanosleep": (35, 101),
    "gettimeofday": (96, 169),
    "membarrier": (324, 283),
    "exit": (60, 93),
    "exit_group": (231, 94),
}  # type: ignore[assignment]
# Allowed for some arguments only.
MMAP, MPROTECT = (9, 222), (10, 226)
OPENAT, FCNTL, PRLIMIT, TGKILL = (257, 56), (72, 25), (302, 261), (234, 131)
CLONE, CLONE3, EXECVEAT = (56, 220), (435, 435), (322, 281)
SECCOMP = (317, 277)

PROT_WRITE, PROT_EXEC = 2, 4
CLONE_THREAD = 0x10000
F_SETFL = 4  # the last of those that only copy, read and set flags
O_ACCMODE_AND_MAKING = 0x3 | 0o100 | 0o1000 | 0o20000000  # write access, creating, truncating, unnamed files
AT_EMPTY_PATH = 0x1000

_LOAD, _AND, _RETURN = 0x20, 0x54, 0x06
_EQUAL, _AT_LEAST, _ABOVE = 0x15, 0x35, 0x25
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16  # struct seccomp_data
_ALLOW, _ERRNO, _KILL = 0x7FFF0000, 0x00050000, 0x80000000

Instruction = tuple[int, int, int, int]  # code, jump if true, jump if false, constant


def machine() -> tuple[int, int] | None:
    """(audit number, column of the table) of this processor, None if the table does not know it."""
    return {"x86_64": (X86_64, 0), "aarch64": (AARCH64, 1)}.get(platform.machine())


def _argument(i: int, high: bool = False) -> Instruction:
    return (_LOAD, 0, 0, _ARGUMENTS + 8 * i + 4 * high)  # both processors are little-endian


def _if(code: int, constant: int, then: list[Instruction]) -> list[Instruction]:
    """Do ``then`` where the comparison holds, else jump over it."""
    return [(code, 0, len(then), constant), *then]


def _unless(code: int, constant: int, then: list[Instruction]) -> list[Instruction]:
    return [(code, len(then), 0, constant), *then]


def program(pid: int, executable: int, column: int, audit: int) -> list[Instruction]:
    """The filter. pid: of the worker. executable: the file descriptor that it is started from, closed by that."""
    allow, refuse = (_RETURN, 0, 0, _ALLOW), (_RETURN, 0, 0, _ERRNO | errno.EPERM)
    absent = (_RETURN, 0, 0, _ERRNO | errno.ENOSYS)
    kill = (_RETURN, 0, 0, _KILL)
    built = [(_LOAD, 0, 0, _ARCHITECTURE), *_unless(_EQUAL, audit, [kill]), (_LOAD, 0, 0, _NUMBER)]
    if audit == X86_64:
        built += _if(_AT_LEAST, X32_BIT, [kill])

    def equal_or_refuse(i: int, value: int) -> list[Instruction]:
        return [_argument(i), *_unless(_EQUAL, value, [refuse]), _argument(i, True), *_unless(_EQUAL, 0, [refuse])]

    for numbers in PLAIN.values():
        number = numbers[column]
        if number is not None:
            built += _if(_EQUAL, number, [allow])
    special: list[tuple[tuple[int, int], list[Instruction]]] = [
        # memory is never both writable and executable, and nothing becomes executable later
        (MMAP, [_argument(2), (_AND, 0, 0, PROT_WRITE | PROT_EXEC), *_if(_EQUAL, PROT_WRITE | PROT_EXEC, [refuse]), allow]),
        (MPROTECT, [_argument(2), (_AND, 0, 0, PROT_EXEC), *_unless(_EQUAL, 0, [refuse]), allow]),
        (OPENAT, [_argument(2), (_AND, 0, 0, O_ACCMODE_AND_MAKING), *_unless(_EQUAL, 0, [refuse]), allow]),
        (FCNTL, [_argument(1), *_if(_ABOVE, F_SETFL, [refuse]), allow]),
        (PRLIMIT, [*equal_or_refuse(0, 0), *equal_or_refuse(2, 0), allow]),  # its own limits, to read
        (TGKILL, [_argument(0), *_unless(_EQUAL, pid, [refuse]), _argument(2), *_unless(_EQUAL, signal.SIGABRT, [refuse]), allow]),
        (CLONE, [_argument(0), (_AND, 0, 0, CLONE_THREAD), *_unless(_EQUAL, CLONE_THREAD, [refuse]), allow]),
        (CLONE3, [absent]),  # its flags lie in memory, which a filter cannot read; the C library then uses clone
        (EXECVEAT, [*equal_or_refuse(0, executable), *equal_or_refuse(4, AT_EMPTY_PATH), allow]),
    ]
    for numbers, then in special:
        built += _if(_EQUAL, numbers[column], then)
    return [*built, refuse]


def packed(instructions: list[Instruction]) -> bytes:
    """As struct sock_filter."""
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in instructions)
