"""A seccomp filter: what student code never needs is refused by the kernel, whatever the sandbox around it.

Standard library only; it runs inside the sandbox. Network and namespaces, other processes' memory
and limits, memory that belongs to no process, and every change of a file's owner, mode or times,
which Landlock does not watch.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct

ARCHITECTURES = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1)}  # audit number, column of REFUSED
X32 = 0x40000000  # numbers from here on are x86_64's other ABI
NO_NEW_PRIVS, SECCOMP, FILTER = 38, 22, 2  # of prctl(2)
ALLOW, ERRNO = 0x7FFF0000, 0x00050000
LOAD, EQUAL, AT_LEAST, ANY_BIT, RETURN = 0x20, 0x15, 0x35, 0x45, 0x06  # of linux/bpf_common.h
NUMBER, ARCHITECTURE, ARGUMENT = 0, 4, 16  # offsets in struct seccomp_data
NAMESPACES = 0x7E020000  # CLONE_NEW*

# Numbers on x86_64 and aarch64; None where the call does not exist.
REFUSED: dict[str, tuple[int | None, int]] = {
    "socket": (41, 198),
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "kcmp": (312, 272),
    "pidfd_getfd": (438, 438),
    "setpriority": (141, 140),
    "sched_setparam": (142, 118),
    "sched_setscheduler": (144, 119),
    "sched_setaffinity": (203, 122),
    "sched_setattr": (314, 274),
    "ioprio_set": (251, 30),
    "unshare": (272, 97),
    "setns": (308, 268),
    "io_uring_setup": (425, 425),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "open_by_handle_at": (304, 265),
    "inotify_init": (253, 26),
    "inotify_init1": (294, 26),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "memfd_create": (319, 279),
    "memfd_secret": (447, 447),
    "shmget": (29, 194),
    "msgget": (68, 186),
    "semget": (64, 190),
    "mq_open": (240, 180),
    "truncate": (76, 45),
    "chmod": (90, 53),
    "fchmod": (91, 52),
    "fchmodat": (268, 53),
    "fchmodat2": (452, 452),
    "chown": (92, 54),
    "fchown": (93, 55),
    "lchown": (94, 54),
    "fchownat": (260, 54),
    "utime": (132, 88),
    "utimes": (235, 88),
    "futimesat": (261, 88),
    "utimensat": (280, 88),
    "setxattr": (188, 5),
    "lsetxattr": (189, 6),
    "fsetxattr": (190, 7),
    "setxattrat": (463, 463),
    "removexattr": (197, 14),
    "lremovexattr": (198, 15),
    "fremovexattr": (199, 16),
    "removexattrat": (466, 466),
    "file_setattr": (469, 469),
}
PRLIMIT, CLONE, CLONE3 = (302, 261), (56, 220), (435, 435)


def statement(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    """``struct sock_filter``: the jumps count statements to skip."""
    return struct.pack("HBBI", code, if_true, if_false, value)


def refuse(number: int, code: int = errno.EPERM) -> list[bytes]:
    """Fail this call; the accumulator holds the number of the call that is made."""
    return [statement(EQUAL, number, 0, 1), statement(RETURN, ERRNO | code)]


def refuse_if(number: int, test: bytes) -> list[bytes]:
    """Fail this call where ``test`` of its first argument skips nothing."""
    return [
        statement(EQUAL, number, 0, 4),
        statement(LOAD, ARGUMENT),
        test,
        statement(RETURN, ERRNO | errno.EPERM),
        statement(RETURN, ALLOW),
    ]


def program(audit: int, column: int) -> list[bytes]:
    """The whole filter for one architecture."""
    numbers = sorted({n for call in REFUSED.values() if (n := call[column]) is not None})
    other = statement(EQUAL, 0, 1, 0)  # prlimit64 of oneself is fine
    return [
        statement(LOAD, ARCHITECTURE),
        statement(EQUAL, audit, 1, 0),
        statement(RETURN, ERRNO | errno.EPERM),
        statement(LOAD, NUMBER),
        *([statement(AT_LEAST, X32, 0, 1), statement(RETURN, ERRNO | errno.EPERM)] if column == 0 else []),
        *(part for number in numbers for part in refuse(number)),
        *refuse(CLONE3[column], errno.ENOSYS),  # its flags cannot be seen; the C library then takes clone
        *refuse_if(CLONE[column], statement(ANY_BIT, NAMESPACES, 0, 1)),
        *refuse_if(PRLIMIT[column], other),
        statement(RETURN, ALLOW),
    ]


class Program(ctypes.Structure):
    """``struct sock_fprog``."""

    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_char_p)]


def refuse_needless() -> bool:
    """Bind this process and its children to the filter; False on an architecture that it does not know."""
    known = ARCHITECTURES.get(os.uname().machine)
    if known is None:
        return False
    statements = program(*known)
    code = Program(len(statements), b"".join(statements))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(NO_NEW_PRIVS, 1, 0, 0, 0) or libc.prctl(SECCOMP, FILTER, ctypes.byref(code), 0, 0):
        raise OSError(ctypes.get_errno(), "seccomp")
    return True
