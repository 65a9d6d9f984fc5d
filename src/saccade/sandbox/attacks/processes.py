"""Attacks with processes: signals, floods, programs, strays that outlive the call, and threads outside Python."""

from __future__ import annotations

from saccade.sandbox.attacks.attack import Attack, kept_with_its_thread

PROCESSES = (
    Attack(
        "kill_parent",
        "processes",
        "kill the parent, process 1, the host and a bystander",
        """
import signal
for pid in (target["canary_pid"], target["host_pid"], os.getppid(), 1):
    if pid > 0:
        try_quietly(os.kill, pid, 0)
for pid in (target["canary_pid"], os.getppid(), 1):
    if pid > 0:
        for number in (signal.SIGTERM, signal.SIGSTOP, signal.SIGKILL):
            try_quietly(os.kill, pid, number)
            try_quietly(raw, "tkill", pid, int(number))
            try_quietly(raw, "tgkill", pid, pid, int(number))
""",
    ),
    Attack(
        "kill_everyone",
        "processes",
        "kill(-1): every process that can be signalled",
        """
import signal
try:
    os.kill(target["canary_pid"], 0)
    reachable = os.path.exists("/proc/" + str(target["canary_pid"]))
except OSError:
    reachable = False
if reachable:
    breach("the host's processes can be signalled")  # and stop here: the rest would hit the whole machine
else:
    try_quietly(os.kill, -1, signal.SIGKILL)
    try_quietly(os.killpg, os.getpgid(0), signal.SIGSTOP)
    try_quietly(os.kill, 0, signal.SIGKILL)
""",
    ),
    Attack(
        "signal_neighbours",
        "processes",
        "signal every process id near the own one",
        """
import signal
for pid in range(max(2, os.getpid() - 60), os.getpid() + 60):
    if pid != os.getpid():
        try:
            os.kill(pid, signal.SIGKILL)
        except OSError:
            continue
        print("signalled", pid)
""",
    ),
    Attack(
        "many_processes",
        "processes",
        "start 300 processes that wait",
        """
import time
made = 0
for _ in range(300):
    try:
        if os.fork() == 0:
            time.sleep(20)
            os._exit(0)
    except OSError as error:
        print("stopped:", error)
        break
    made += 1
print("made", made)
if made >= 300:
    breach("300 processes were started")
""",
    ),
    Attack(
        "fork_bomb",
        "processes",
        "a fork bomb, nine generations deep",
        """
import time
for _ in range(9):
    try_quietly(os.fork)
time.sleep(1.5)
os._exit(0)
""",
        wall_seconds=3.0,
    ),
    Attack(
        "many_threads",
        "processes",
        "start 2000 threads",
        """
import threading, time
threading.stack_size(65536)
made = 0
try:
    for _ in range(2000):
        threading.Thread(target=time.sleep, args=(30,), daemon=True).start()
        made += 1
except BaseException as error:
    print("stopped:", made, type(error).__name__, error)
if made >= 2000:
    breach("2000 threads were started")
""",
    ),
    Attack(
        "thread_left_behind",
        "processes",
        "leave a thread running that keeps running after the call",
        """
import threading, time
def work():
    while True:
        time.sleep(0.01)
        globals()["keep"] = "changed by a thread"
threading.Thread(target=work, daemon=True).start()
""",
    ),
    Attack(
        "native_thread_left_behind",
        "processes",
        "leave a thread running that Python does not know of",
        """
handle = ctypes.c_ulong()
pause = ctypes.cast(_libc.sleep, ctypes.c_void_p)
made = _libc.pthread_create(ctypes.byref(handle), None, pause, ctypes.c_void_p(600))
print("pthread_create gave", made)
""",
        check=kept_with_its_thread,
    ),
    Attack(
        "stray_by_clone_parent",
        "processes",
        "clone a process that is not a child of the session (CLONE_PARENT)",
        """
import time
for flags in (0x8000 | 17, 0x8000, 17, 0, 0x00800000 | 17):
    try:
        pid = raw("clone", flags, 0, 0, 0, 0)
    except OSError as error:
        print("stopped:", hex(flags), error)
        continue
    if pid == 0:
        _libc.sleep(600)
        _libc._exit(0)
    print("cloned", hex(flags), pid)
""",
    ),
    Attack(
        "stray_by_clone3",
        "processes",
        "clone a process by clone3, into another cgroup or namespace",
        """
class Args(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint64) for name in
        "flags pidfd child_tid parent_tid exit_signal stack stack_size tls set_tid set_tid_size cgroup".split()]
for flags in (0, 0x8000, 0x10000000, 0x20000000, 0x200000000):
    try:
        pid = raw("clone3", ctypes.byref(Args(flags=flags, exit_signal=17)), ctypes.sizeof(Args))
    except OSError as error:
        print("stopped:", hex(flags), error)
        continue
    if pid == 0:
        _libc.sleep(600)
        _libc._exit(0)
    print("cloned", hex(flags), pid)
""",
    ),
    Attack(
        "daemon",
        "processes",
        "leave a daemon behind by double fork and setsid",
        """
import time
if os.fork() == 0:
    try_quietly(os.setsid)
    try_quietly(os.setpgid, 0, 0)
    if os.fork() == 0:
        time.sleep(600)
    os._exit(0)
time.sleep(0.1)
""",
    ),
    Attack(
        "leave_the_group",
        "processes",
        "leave the process group and session so that a group kill misses",
        """
import time
try_quietly(os.setpgid, 0, 0)
try_quietly(os.setsid)
try_quietly(os.setpgid, 0, os.getppid())
_libc.prctl(1, 0)    # PR_SET_PDEATHSIG: none
_libc.prctl(36, 1)   # PR_SET_CHILD_SUBREAPER
_libc.prctl(4, 1)    # PR_SET_DUMPABLE
time.sleep(600)
""",
        wall_seconds=0.5,
    ),
    Attack(
        "shell",
        "processes",
        "run a shell by os.system, subprocess and ctypes",
        """
import subprocess
def system():
    code = os.system("echo shell > shell.txt")
    if code or not os.path.exists("shell.txt"): raise OSError("os.system gave " + str(code))
def by_c():
    code = _libc.system(b"echo shell > shell2.txt")
    if code or not os.path.exists("shell2.txt"): raise OSError("system gave " + str(code))
attempt("os.system", system)
attempt("import trick", lambda: 1 / int(__import__("os").system("true") == 0))
attempt("subprocess", subprocess.run, ["/bin/sh", "-c", "id"], capture_output=True, timeout=2)
attempt("python", subprocess.run, [sys.executable, "-c", "print(1)"], capture_output=True, timeout=2)
attempt("ctypes", by_c)
attempt("posix_spawn", os.posix_spawn, "/bin/sh", ["sh", "-c", "true"], {})
""",
        wall_seconds=3.0,
    ),
    Attack(
        "memory_file_program",
        "processes",
        "run a program from memory",
        """
fd = os.memfd_create("program")
os.write(fd, b"#!/bin/sh\\necho shell\\n")
attempt("execve", os.execve, fd, ["program"], {})
attempt("execveat", raw, "execveat", fd, ctypes.c_char_p(b""), 0, 0, 0x1000)
""",
    ),
    Attack(
        "timers_and_signals",
        "processes",
        "timer bombs, every signal blocked, finalizers that wait",
        """
import atexit, gc, signal, time
for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
    try: signal.signal(number, lambda *a: time.sleep(5))
    except (OSError, ValueError): pass
for which in (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF):
    try_quietly(signal.setitimer, which, 0.001, 0.001)
atexit.register(time.sleep, 600)
class Clingy:
    def __del__(self):
        while True: time.sleep(1)
trash = [Clingy()]; trash.append(trash); del trash
gc.collect()
""",
        wall_seconds=1.0,
    ),
    Attack(
        "sleep_ignoring_signals",
        "processes",
        "ignore every signal and sleep",
        """
import signal, time
for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
    try: signal.signal(number, signal.SIG_IGN)
    except (OSError, ValueError): pass
signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
while True: time.sleep(10)
""",
        wall_seconds=0.5,
    ),
    Attack(
        "stops_itself",
        "processes",
        "stop the own process, and whoever is beside it, before the call has ended",
        "import signal\nos.kill(0, signal.SIGSTOP)\nprint('on it goes')\n",
        wall_seconds=0.5,
    ),
    Attack("exit", "processes", "end the process by os._exit", "os._exit(0)\n"),
    Attack("abort", "processes", "end the process by abort", "os.abort()\n"),
    Attack("sys_exit", "processes", "end the interpreter by sys.exit", "sys.exit(0)\n"),
    Attack("segfault", "processes", "end the process by a segmentation fault", "ctypes.string_at(0)\n"),
)
