"""Submissions that read what is none of their business, each with the right answer after it."""

from corpus.case import BROKE_OUT, Case, equipped, stopped

READ = """
import glob, os
def canaries(text):
    return [c for c in w.canaries if c in text]
def read(path):
    try:
        with open(path, "rb") as file:
            return file.read(1 << 22).decode(errors="replace")
    except OSError:
        return ""
"""
reads = equipped(READ)
CASES: list[Case] = [
    reads("secret", "the course's secret", "return read(w.secret)", quick=True),
    reads("suites", "the hidden suite", "return read(w.suites)"),
    reads("gradebook", "the gradebook", "return read(w.gradebook)"),
    reads("config", "nbgrader's configuration", "return read(w.config)"),
    reads("other-student", "another student's notebook", "return read(w.other)", quick=True),
    reads(
        "home",
        "a private key, by the path and by HOME",
        "return read(w.key) or read(os.path.expanduser('~/.ssh/id_rsa'))",
    ),
    reads(
        "environment",
        "the environment of the grader",
        "return canaries(str(os.environ) + read('/proc/self/environ') + read('/proc/1/environ') + read(f'/proc/{os.getppid()}/environ'))",
    ),
    reads(
        "proc",
        "environment, command line and memory of every process",
        """
        got = []
        for pid in [p for p in os.listdir("/proc") if p.isdigit()] or range(1, 5000):
            for name in ("environ", "cmdline", "maps", "stack"):
                text = read(f"/proc/{pid}/{name}")
                if canaries(text) or (name == "environ" and "CANARY" in text):
                    got.append((pid, name))
        return got
        """,
        quick=True,
    ),
    reads(
        "memory-of-others",
        "the memory of its parent",
        """
        for pid in (os.getppid(), 1):
            with open(f"/proc/{pid}/mem", "rb") as file:
                return f"opened the memory of {pid}"
        """,
    ),
    reads(
        "ptrace",
        "traces its parent",
        "import ctypes\nlibc = ctypes.CDLL(None)\nreturn [p for p in {os.getppid(), 1} if libc.ptrace(16, p, 0, 0) == 0]",
    ),
    reads(
        "files-of-others",
        "open files of every process",
        "return [t for t in (os.readlink(p) for p in glob.glob('/proc/[0-9]*/fd/*') if f'/{os.getpid()}/' not in p) if w.root in t]",
    ),
    reads("passwords", "the system's accounts", "return read('/etc/shadow') or read('/etc/passwd')"),
    reads(
        "walk",
        "every file there is, for a canary",
        """
        got = []
        for at, folders, names in os.walk("/"):
            folders[:] = [f for f in folders if f"{at}/{f}" not in ("//usr", "//proc", "//sys")]
            folders[:] = [f for f in folders if f not in ("dev", "lib", "lib64", "share", "include")]
            got += [n for n in names if canaries(read(f"{at}/{n}"))]
        return got
        """,
    ),
    reads(
        "exists",
        "asks whether a file is there",
        "return os.path.exists(w.secret)",
        landlock=BROKE_OUT,
    ),
    reads("names", "the names of all students", "return os.listdir(w.submitted)"),
    reads(
        "link", "links the secret into its own folder", "os.link(w.secret, 'x')\nreturn read('x') or 'linked'"
    ),
    reads("symlink", "a symbolic link to the secret", "os.symlink(w.secret, 'x')\nreturn read('x')"),
    reads("rename", "moves the secret into its own folder", "os.rename(w.secret, 'x')\nreturn 'moved'"),
    reads(
        "by-handle",
        "opens a file by its number, round all paths",
        "import ctypes\nreturn ctypes.CDLL(None).open_by_handle_at(os.open('.', 0), b'\\0' * 64, 0) >= 0",
    ),
    reads(
        "watch",
        "is told of every file that is touched",
        "import ctypes\nlibc = ctypes.CDLL(None)\nfd = libc.inotify_init()\nreturn fd >= 0 and libc.inotify_add_watch(fd, b'/', 0xFFF) >= 0",
    ),
    reads(
        "rules",
        "the visible cases out of the package",
        "import decodelab.check.ch01 as c\nreturn c.VISIBLE",
        quick=True,
    ),
    reads(
        "course-data",
        "the references out of the package",
        "from decodelab.course import load\nreturn load('ch01').todo('ch01.3').code",
    ),
    reads(
        "course-file", "the references as a file", "return read(w.package + '/course/ch01.json')", quick=True
    ),
    reads(
        "solution",
        "the answer as a learner asks for it",
        "from decodelab import solution\nsolution('ch01.3')\nreturn 'shown'",
    ),
    reads(
        "chapter",
        "the reference by way of the next chapters",
        "from decodelab import chapters\nreturn chapters.chapter('ch01')",
    ),
    reads("judge", "the judge's own code", "import decodelab.grading.judge as j\nreturn j.__file__"),
    reads(
        "installed-copies",
        "any other copy of the course",
        "import sys\nreturn [p for d in sys.path for p in glob.glob(d + '/decodelab/course/ch01.json') + glob.glob(d + '/decodelab/check/ch01/cases.py') if read(p)]",
    ),
    stopped(
        "tcp",
        "a connection to this machine",
        "import socket\nsocket.create_connection(('127.0.0.1', 22), 1)\nreturn 'connected'",
    ),
    stopped(
        "tcp-server",
        "waits for others",
        "import socket\ns = socket.socket()\ns.bind(('', 0))\nreturn s.getsockname()",
    ),
    stopped(
        "udp",
        "a datagram to anywhere",
        "import socket\nreturn socket.socket(type=socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', 9))",
        quick=True,
    ),
    stopped(
        "unix-socket",
        "a socket of the system",
        "import socket\ns = socket.socket(socket.AF_UNIX)\ns.connect('/run/dbus/system_bus_socket')\nreturn 'connected'",
    ),
    stopped(
        "abstract-socket",
        "a socket without a file",
        "import socket\ns = socket.socket(socket.AF_UNIX)\ns.bind('\\0decodelab')\nreturn 'bound'",
    ),
    stopped(
        "raw-and-odd-sockets",
        "families that a network namespace does not hold",
        "import socket\nreturn [f for f in range(1, 46) if f in (16, 17, 38, 40) and socket.socket(f, socket.SOCK_RAW)]",
    ),
    stopped("dns", "a name lookup", "import socket\nreturn socket.getaddrinfo('example.org', 80)"),
    stopped(
        "keyring",
        "the kernel's keyring",
        "import ctypes\nreturn ctypes.CDLL(None).syscall(250, 0, -3, 1) > 0",
    ),
]
