"""What a runner does to itself before it takes student code in: limits, another user, Landlock.

Standard library only; it runs inside the sandbox, next to ``runner.py``. ``options`` is what
``sandbox.py`` sends on the command line.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import struct
import time
from typing import Any

from decodelab.grading.syscalls import refuse_needless

SET_PDEATHSIG, SET_KEEPCAPS, SET_CHILD_SUBREAPER, SET_NO_NEW_PRIVS, CAP_AMBIENT = 1, 8, 36, 38, 47
DAC_READ_SEARCH = 2  # the capability to read what another user's permissions would hide
CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446  # the same numbers on every architecture

# Access rights of linux/landlock.h, and the ABI version that brought them.
LIST = 1 << 3
READ = 1 << 0 | 1 << 2 | LIST  # execute, read a file, list a folder
ALL_FILES = {1: (1 << 13) - 1, 2: 1 << 13, 3: 1 << 14, 5: 1 << 15}
ALL_NETWORK = {4: 1 << 0 | 1 << 1}  # bind and connect over TCP
ALL_SCOPES = {6: 1 << 0 | 1 << 1}  # abstract Unix sockets, signals to processes outside


def confine(options: dict[str, Any]) -> None:
    """Bind this process and all its children for ever to what ``options`` allow."""
    if options.get("subreaper"):
        become_supervisor()
    limit(options.get("limits", {}))
    if options.get("uid"):
        become(options["uid"], reads_all=options.get("reads_all", False))
    if "landlock" in options:
        landlock(**options["landlock"])
    if options.get("subreaper"):
        prctl(SET_PDEATHSIG, signal.SIGKILL)  # after the change of user, which clears it
    if options.get("filter") and not refuse_needless() and options.get("subreaper"):
        raise OSError("Landlock alone leaves too much open")


def become(uid: int, reads_all: bool) -> None:
    """Go on as another user, who owns the scratch folder.

    ``reads_all``: Python may lie in root's home; what may be read is then Landlock's to say.
    """
    if reads_all:
        os.chown(".", uid, uid)
        prctl(SET_KEEPCAPS, 1)
    os.setgroups([])
    os.setgid(uid)
    os.setuid(uid)
    keep_only(1 << DAC_READ_SEARCH if reads_all else 0)
    if reads_all:
        prctl(CAP_AMBIENT, 2, DAC_READ_SEARCH)  # for its children, too


def keep_only(capabilities: int) -> None:
    """Drop every other capability."""
    header = struct.pack("Ii", 0x20080522, 0)
    data = struct.pack("6I", *[capabilities] * 3, 0, 0, 0)  # effective, permitted, inheritable
    if ctypes.CDLL(None, use_errno=True).capset(header, data):
        raise OSError(ctypes.get_errno(), "capset")


def limit(limits: dict[str, int]) -> None:
    """Set ``{"RLIMIT_AS": bytes, ...}``, memory beyond what is in use now; where there are no rlimits (Windows), nothing."""
    with contextlib.suppress(ImportError):
        import resource

        for name, value in limits.items():
            number = getattr(resource, name)
            hard = resource.getrlimit(number)[1]
            value += mapped() if name == "RLIMIT_AS" else 0
            value = value if hard == resource.RLIM_INFINITY else min(value, hard)
            resource.setrlimit(number, (value, value))


def mapped() -> int:
    """The address space of this process in bytes; 0 where ``/proc`` does not say."""
    with contextlib.suppress(OSError), open("/proc/self/statm") as file:
        return int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    return 0


def system(number: int, *arguments: Any) -> int:
    """A system call by number; OSError where the kernel says no."""
    libc = ctypes.CDLL(None, use_errno=True)
    done = libc.syscall(number, *arguments)
    if done < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return done


def prctl(option: int, *values: int) -> None:
    """``prctl(2)``; what the kernel does not know is not done."""
    ctypes.CDLL(None, use_errno=True).prctl(option, *values, *[0] * (4 - len(values)))


class Ruleset(ctypes.Structure):
    """``struct landlock_ruleset_attr``."""

    _fields_ = [("files", ctypes.c_uint64), ("network", ctypes.c_uint64), ("scopes", ctypes.c_uint64)]


class PathRule(ctypes.Structure):
    """``struct landlock_path_beneath_attr``."""

    _pack_ = 1
    _fields_ = [("access", ctypes.c_uint64), ("folder", ctypes.c_int32)]


def landlock_version() -> int:
    """The kernel's Landlock ABI, 0 where there is none."""
    try:
        return system(CREATE_RULESET, None, ctypes.c_size_t(0), 1)
    except (OSError, AttributeError, TypeError):
        return 0


def landlock(read: list[str], names: list[str], write: list[str]) -> None:
    """Allow reading below ``read``, listing below ``names``, everything below ``write``; no TCP, no signals outwards."""
    version = landlock_version()

    def known(rights: dict[int, int]) -> int:
        return sum(bits for since, bits in rights.items() if since <= version)

    rules = Ruleset(known(ALL_FILES), known(ALL_NETWORK), known(ALL_SCOPES))
    size = 8 if version < 4 else 16 if version < 6 else 24
    ruleset = system(CREATE_RULESET, ctypes.byref(rules), ctypes.c_size_t(size), 0)
    for paths, access in ((read, READ), (names, LIST), (write, rules.files)):
        for path in paths:
            with contextlib.suppress(FileNotFoundError):
                folder = os.open(path, os.O_PATH | os.O_CLOEXEC)
                of_file = access & (1 << 0 | 1 << 1 | 1 << 2 | known({3: 1 << 14, 5: 1 << 15}))
                rule = PathRule(access if os.path.isdir(path) else of_file, folder)
                system(ADD_RULE, ruleset, 1, ctypes.byref(rule), 0)
                os.close(folder)
    prctl(SET_NO_NEW_PRIVS, 1)
    system(RESTRICT_SELF, ruleset, 0)
    os.close(ruleset)


def become_supervisor() -> None:
    """Fork: the child goes on as the runner, the parent stays to end all that descends from it."""
    prctl(SET_CHILD_SUBREAPER, 1)
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    child = os.fork()
    if child == 0:
        os.setsid()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
        return
    signal.signal(signal.SIGTERM, lambda *_: end_all(child))
    prctl(SET_PDEATHSIG, signal.SIGTERM)  # a judge that is killed takes its runners along
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
    for number in (0, 1, 2):
        os.close(number)  # the judge must see the runner's end, not ours
    _, status = os.waitpid(child, 0)
    end_all(child, os.waitstatus_to_exitcode(status))


def end_all(child: int, code: int = 0) -> None:
    """Kill the runner's process group at one blow, then stop and kill who left it, and leave."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    with contextlib.suppress(OSError):
        os.killpg(child, signal.SIGKILL)
    for sign in (signal.SIGSTOP, signal.SIGKILL):
        for _ in range(200):
            alive = descendants(os.getpid())
            for pid in alive:
                with contextlib.suppress(OSError):
                    os.kill(pid, sign)
            with contextlib.suppress(ChildProcessError):
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass
            if not alive or (sign == signal.SIGSTOP and descendants(os.getpid()) == alive):
                break
            time.sleep(0.005)
    os._exit(code if code >= 0 else 128 - code)


def descendants(pid: int) -> list[int]:
    """The pids of all processes below this one, from /proc."""
    found: list[int] = []
    for parent in (pids := [pid]):  # grows while it is walked
        with contextlib.suppress(OSError):
            for task in os.listdir(f"/proc/{parent}/task"):
                with open(f"/proc/{parent}/task/{task}/children") as file:
                    children = [int(child) for child in file.read().split()]
                pids += children
                found += children
    return found


def usage(pid: int) -> tuple[int, int]:
    """How many processes a process and all below it are, and their memory in bytes; 0 where there is no /proc."""
    pids, total = [pid, *descendants(pid)], 0
    for each in pids:
        with contextlib.suppress(OSError, ValueError, IndexError), open(f"/proc/{each}/statm") as file:
            total += int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return len(pids), total
