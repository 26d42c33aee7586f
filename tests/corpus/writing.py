"""Submissions that change what is not theirs, each with the right answer after it."""

from corpus.case import Case, equipped

WRITE = """
import os, sys
def write(*paths):
    done = []
    for path in paths:
        for mode in ("a", "w"):
            try:
                with open(path, mode) as file:
                    file.write("forged")
                done.append(path)
            except OSError:
                pass
    return done
"""
writes = equipped(WRITE)  # ``write`` returns the paths that it could write to
CASES: list[Case] = [
    writes(
        "write-gradebook",
        "full marks in the gradebook",
        "return write(w.gradebook, w.gradebook + '-journal')",
        quick=True,
    ),
    writes("write-config", "code in nbgrader's configuration", "return write(w.config)"),
    writes(
        "write-submitted", "another student's notebook", "return write(w.other, w.submitted + '/new.ipynb')"
    ),
    writes("write-secret", "the course's secret", "return write(w.secret)"),
    writes("write-suites", "the hidden suite", "return write(w.suites)"),
    writes(
        "write-results",
        "a verdict where the grader keeps them",
        "os.makedirs(w.root + '/out/results/x')\nreturn write(w.root + '/out/results/x/ch01.json')",
    ),
    writes(
        "write-package",
        "the course's own code",
        "return write(w.package + '/__init__.py', w.package + '/grading/judge.py', w.package + '/check/ch01/cases.py')",
        quick=True,
    ),
    writes(
        "poison-bytecode",
        "compiled code beside the source",
        """
        made = []
        for folder in (w.package, w.package + "/grading", w.package + "/check"):
            try:
                os.makedirs(folder + "/__pycache__", exist_ok=True)
            except OSError:
                pass
            made += write(folder + f"/__pycache__/judge.{sys.implementation.cache_tag}.pyc", folder + "/json.py")
        return made
        """,
    ),
    writes(
        "start-up-files",
        "code that every later Python runs",
        """
        import site
        folders = [*site.getsitepackages(), sys.prefix, sys.base_prefix, *sys.path]
        return write(*(f"{f}/{n}" for f in folders if f and f != os.getcwd() for n in ("sitecustomize.py", "usercustomize.py", "x.pth")))
        """,
    ),
    writes(
        "write-home",
        "the grader's shell and keys",
        "return write(w.home + '/.bashrc', w.home + '/.ssh/authorized_keys', w.key)",
    ),
    writes(
        "write-temporary", "temporary files of others", "return write(w.root + '/x', '/var/tmp/x', '/run/x')"
    ),
    writes(
        "write-system",
        "the system",
        "return write('/etc/cron.d/x', '/usr/bin/x', '/etc/ld.so.preload', '/proc/sys/kernel/core_pattern', '/sys/power/state')",
    ),
    writes(
        "write-devices",
        "the machine's devices",
        "return write('/dev/mem', '/dev/kmsg', '/dev/sda', '/dev/vda', '/dev/tty')",
    ),
    writes(
        "write-processes",
        "settings of other processes",
        "return write(f'/proc/{os.getppid()}/oom_score_adj', f'/proc/{os.getppid()}/mem', '/proc/1/oom_score_adj')",
    ),
    writes(
        "change-modes",
        "mode, owner and times of the gradebook",
        """
        done = []
        for change in (
            lambda: os.chmod(w.gradebook, 0o777),
            lambda: os.chown(w.gradebook, os.getuid(), -1),
            lambda: os.utime(w.gradebook, (0, 0)),
            lambda: os.setxattr(w.gradebook, "user.x", b"x"),
            lambda: os.truncate(w.gradebook, 0),
            lambda: os.chmod(w.home, 0),
        ):
            try:
                change()
                done.append(change.__code__.co_names)
            except OSError:
                pass
        return done
        """,
        quick=True,
    ),
    writes(
        "remove",
        "removes and replaces the gradebook",
        """
        done = []
        for change in (
            lambda: os.unlink(w.gradebook),
            lambda: os.rename(w.gradebook, w.gradebook + ".old"),
            lambda: os.symlink("/dev/null", w.course + "/x"),
            lambda: os.mkfifo(w.course + "/fifo"),
            lambda: os.mkdir(w.course + "/folder"),
            lambda: os.rmdir(w.home),
        ):
            try:
                change()
                done.append(change.__code__.co_names)
            except OSError:
                pass
        return done
        """,
    ),
    writes(
        "namespaces",
        "makes itself root in a world of its own",
        """
        import ctypes
        libc = ctypes.CDLL(None)
        return [flag for flag in (0x10000000, 0x20000, 0x40000000, 0x20000000) if libc.unshare(flag) == 0]
        """,
    ),
    writes(
        "mount",
        "takes the covers off",
        """
        import ctypes
        libc = ctypes.CDLL(None)
        course = (w.package + "/course").encode()
        return [f for f in (lambda: libc.umount2(course, 2), lambda: libc.mount(b"x", b"/tmp", b"tmpfs", 0, 0), lambda: libc.chroot(b"/tmp")) if f() == 0]
        """,
    ),
    writes("become-root", "asks for root back", "os.setuid(0)\nreturn os.getuid() == 0"),
    writes(
        "set-uid",
        "a program that runs as root",
        "import subprocess\nreturn b'uid=0' in subprocess.run(['su', '-c', 'id'], capture_output=True, stdin=subprocess.DEVNULL).stdout",
    ),
]
