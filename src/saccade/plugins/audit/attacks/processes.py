"""Attacks with processes: signals, floods, programs, strays that outlive the call, and threads outside Python."""

from __future__ import annotations

from saccade.plugins.audit.attacks.attack import Attack, attacks, kept_with_its_thread
from saccade.plugins.audit.attacks.rollback import trace

PROCESSES = (
    *attacks(
        "processes",
        """
== kill_parent: kill the parent, process 1, the host and a bystander
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
== kill_everyone: kill(-1): every process that can be signalled
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
== signal_neighbours: signal every process id near the own one
import signal
for pid in range(max(2, os.getpid() - 60), os.getpid() + 60):
    if pid != os.getpid():
        try:
            os.kill(pid, signal.SIGKILL)
        except OSError:
            continue
        print("signalled", pid)
== many_processes: start 300 processes that wait
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
== fork_bomb, 3.0 s: a fork bomb, nine generations deep
import time
for _ in range(9):
    try_quietly(os.fork)
time.sleep(1.5)
os._exit(0)
== many_threads: start 2000 threads
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
== thread_left_behind: leave a thread running that keeps running after the call
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
    *attacks(
        "processes",
        r"""
== stray_by_clone_parent: clone a process that is not a child of the session (CLONE_PARENT)
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
== stray_by_clone3: clone a process by clone3, into another cgroup or namespace
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
== daemon: leave a daemon behind by double fork and setsid
import time
if os.fork() == 0:
    try_quietly(os.setsid)
    try_quietly(os.setpgid, 0, 0)
    if os.fork() == 0:
        time.sleep(600)
    os._exit(0)
time.sleep(0.1)
== leave_the_group, 0.5 s: leave the process group and session so that a group kill misses
import time
try_quietly(os.setpgid, 0, 0)
try_quietly(os.setsid)
try_quietly(os.setpgid, 0, os.getppid())
_libc.prctl(1, 0)    # PR_SET_PDEATHSIG: none
_libc.prctl(36, 1)   # PR_SET_CHILD_SUBREAPER
_libc.prctl(4, 1)    # PR_SET_DUMPABLE
time.sleep(600)
== shell, 3.0 s: run a shell by os.system, subprocess and ctypes
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
== memory_file_program: run a program from memory
fd = os.memfd_create("program")
os.write(fd, b"#!/bin/sh\necho shell\n")
attempt("execve", os.execve, fd, ["program"], {})
attempt("execveat", raw, "execveat", fd, ctypes.c_char_p(b""), 0, 0, 0x1000)
== timers_and_signals, 1.0 s: timer bombs, every signal blocked, finalizers that wait
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
== sleep_ignoring_signals, 0.5 s: ignore every signal and sleep
import signal, time
for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
    try: signal.signal(number, signal.SIG_IGN)
    except (OSError, ValueError): pass
signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
while True: time.sleep(10)
== stops_itself, 0.5 s: stop the own process, and whoever is beside it, before the call has ended
import signal
os.kill(0, signal.SIGSTOP)
print('on it goes')
== exit: end the process by os._exit
os._exit(0)
== abort: end the process by abort
os.abort()
== sys_exit: end the interpreter by sys.exit
sys.exit(0)
== segfault: end the process by a segmentation fault
ctypes.string_at(0)
""",
    ),
)

# Attacks on the kernel: system calls that widen its surface or change the process's standing.

KERNEL = attacks(
    "kernel",
    r"""
== new_namespaces: make or join namespaces
for name, flag in dict(user=0x10000000, mount=0x20000, pid=0x20000000, net=0x40000000, ipc=0x8000000,
                       cgroup=0x2000000, time=0x80).items():
    attempt("unshare " + name, raw, "unshare", flag)
for name in ("user", "mnt", "pid", "net"):
    fd = try_quietly(os.open, "/proc/1/ns/" + name, os.O_RDONLY)
    attempt("setns " + name, raw, "setns", fd if fd is not None else 3, 0)
== rare_calls: io_uring, bpf, userfaultfd, perf, fanotify, memfd_secret, kexec, modules, quota, accounting
area = ctypes.create_string_buffer(4096)
attempt("io_uring", raw, "io_uring_setup", 4, area)
for command in (0, 5, 8):
    attempt("bpf", raw, "bpf", command, area, 120)
for flags in (0, 1, 0x80000):
    attempt("userfaultfd", raw, "userfaultfd", flags)
attempt("perf", raw, "perf_event_open", area, 0, -1, -1, 0)
attempt("fanotify", raw, "fanotify_init", 0, 0)
attempt("memfd_secret", raw, "memfd_secret", 0)
attempt("module", raw, "init_module", area, 10, area)
attempt("module from a file", raw, "finit_module", 3, area, 0)
attempt("kexec", raw, "kexec_load", 0, 0, 0, 0)
attempt("quota", raw, "quotactl", 0x800002 << 8, area, 0, area)
attempt("accounting", raw, "acct", area)
attempt("kernel log", raw, "syslog", 3, area, 4096)
== keyrings: add keys to and read from the kernel's keyrings
attempt("add_key", raw, "add_key", ctypes.c_char_p(b"user"), ctypes.c_char_p(b"name"), ctypes.c_char_p(b"x"), 1, -3)
for ring in (-1, -2, -3, -4, -5):
    attempt("keyring %d" % ring, raw, "keyctl", 0, ring, 1, 0, 0)
== privileges: become root, take capabilities, lift no_new_privs and the filter
class Header(ctypes.Structure):
    _fields_ = [("version", ctypes.c_uint32), ("pid", ctypes.c_int)]
data = (ctypes.c_uint32 * 6)(*[0xFFFFFFFF] * 6)
attempt("capset", raw, "capset", ctypes.byref(Header(0x20080522, 0)), data)
ids = [int(i) for i in try_quietly(os.getresuid) or ()]
if 0 not in ids:
    attempt("setuid", raw, "setuid", 0)
    attempt("setresuid", raw, "setresuid", 0, 0, 0)
    attempt("setgroups", os.setgroups, [0])
_libc.prctl(38, 0, 0, 0, 0)
with open("/proc/self/status") if os.path.exists("/proc/self/status") else open(os.devnull) as status:
    facts = dict(line.rstrip().split(":\t", 1) for line in status if ":\t" in line)
print({k: facts.get(k) for k in ("Uid", "CapEff", "CapPrm", "CapBnd", "NoNewPrivs", "Seccomp")})
if facts and int(facts.get("CapEff", "0"), 16):
    breach("capabilities are left: " + facts["CapEff"])
if facts.get("NoNewPrivs") == "0":
    breach("no_new_privs is off")
if _libc.prctl(39, 0, 0, 0, 0) == 0:
    breach("no_new_privs is off")
== process_attributes: personality, prctl and layout changes that make later attacks easier
ADDR_NO_RANDOMIZE, READ_IMPLIES_EXEC, MMAP_PAGE_ZERO = 0x40000, 0x400000, 0x100000
for flag in (ADDR_NO_RANDOMIZE, READ_IMPLIES_EXEC, MMAP_PAGE_ZERO):
    attempt("personality %x" % flag, raw, "personality", flag)
for option, name in {1: "PDEATHSIG", 4: "DUMPABLE", 8: "KEEPCAPS", 28: "SECUREBITS", 35: "MM", 36: "SUBREAPER",
                     40: "TID_ADDRESS", 47: "CAP_AMBIENT", 0x59616D61: "PTRACER"}.items():
    print(name, _libc.prctl(option, 1, 0, 0, 0))
== other_architecture: call the kernel by its 32-bit entry and by x32 numbers, past the filter
import mmap
if platform.machine() != "x86_64":
    print("stopped: there is no 32-bit entry here")
else:
    # x32 first: getpid with the x32 bit; then int 0x80 with eax=20 (getpid of 32-bit).
    if _libc.syscall(ctypes.c_long(0x40000000 | 41), 2, 1, 0) >= 0:
        breach("a socket by the x32 entry")
    area = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    area.write(bytes([0xB8, 0x05, 0x00, 0x00, 0x00, 0xCD, 0x80, 0xC3]))
    start = ctypes.addressof(ctypes.c_char.from_buffer(area))
    result = ctypes.CFUNCTYPE(ctypes.c_int)(start)()
    breach("the 32-bit entry answered %d" % result) if result >= -1 else print("stopped: int 0x80 gave", result)
== clock_and_power: set the clock and the host name, reboot, swap
import time
attempt("clock", time.clock_settime, time.CLOCK_REALTIME, time.time())
attempt("settimeofday", raw, "settimeofday", ctypes.create_string_buffer(bytes(16)), 0)
attempt("host name", socket.sethostname, "attacked")
attempt("swap", raw, "swapon", ctypes.c_char_p(b"none"), 0)
# CAD off: harmless where it works, and needs the same right as a reboot.
attempt("reboot", raw, "reboot", ctypes.c_ulong(0xFEE1DEAD), 672274793, 0, 0)
== second_filter, 1.0 s, may lose its session: install a system call filter that lies to the runtime
class Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_void_p)]
# Every sendmsg "succeeds" without being made: the call's end is never reported.
code = (ctypes.c_uint64 * 4)(0x20, 0x15 | 1 << 24 | 46 << 32, 0x0005000000000006, 0x7FFF000000000006)
program = Program(4, ctypes.addressof(code))
print(_libc.prctl(22, 2, ctypes.byref(program), 0, 0), ctypes.get_errno())
try_quietly(raw, "seccomp", 1, 0, ctypes.byref(program))
""",
)

# More attacks on rollback: the folder a session stands in, the descriptors it was born with, doubles, holes, links.

_HOME = "\nos.chdir(os.environ['TMPDIR'])"

STANDING = (
    trace(
        "current_folder_elsewhere",
        "be put back into the workspace from a folder outside of it",
        "os.chdir('/usr'); was = os.getcwd()",
        "os.chdir('/')",
        "if os.getcwd() != was: breach(f'it stands in {os.getcwd()}')" + _HOME,
    ),
    trace(
        "current_folder_that_is_gone",
        "stand in a folder that was removed, so that nothing can go back there",
        "os.mkdir('gone'); os.chdir('gone'); os.rmdir('../gone')",
        "open('x', 'w').close()",
        "if os.listdir('.') != ['keep.txt']: breach(f'it stands among {os.listdir()}')" + _HOME,
    ),
    trace(
        "current_folder_of_another_name",
        "rename the folder in which the session stands, and put another in its place",
        "os.mkdir('here'); open('here/x', 'w').close(); os.chdir('here')",
        "os.rename('../here', '../there'); os.mkdir('../here')",
        "if os.listdir('.') != ['x']: breach(f'it stands among {os.listdir()}')" + _HOME,
    ),
    trace(
        "position_in_standard_input",
        "put a file in the place of descriptor 0 and move its position",
        "fd = os.open('f.txt', os.O_CREAT | os.O_RDWR); os.write(fd, b'0123456789'); os.dup2(fd, 0); os.close(fd)\n"
        "os.lseek(0, 2, 0)",
        "os.lseek(0, 5, 0)",
        "if os.lseek(0, 0, 1) != 2: breach(f'the position is {os.lseek(0, 0, 1)}')",
    ),
    trace(
        "position_in_standard_output",
        "put a file in the place of descriptor 1 and write to it",
        "fd = os.open('f.txt', os.O_CREAT | os.O_RDWR); os.write(fd, b'kept'); os.dup2(fd, 1); os.close(fd)",
        "os.write(1, b'left')",
        "if os.lseek(1, 0, 1) != 4: breach(f'the position is {os.lseek(1, 0, 1)}')",
    ),
    trace(
        "name_taken_from_standard_input",
        "put a file in the place of descriptor 0 and remove it",
        "fd = os.open('f.txt', os.O_CREAT | os.O_RDWR); os.write(fd, b'0123456789'); os.dup2(fd, 0); os.close(fd)",
        "os.remove('f.txt')",
        "if os.fstat(0).st_ino != os.stat('f.txt').st_ino: breach('it is another file')",
    ),
    trace(
        "position_in_the_workspace",
        "read part of the workspace by the runtime's own descriptor of it",
        "mine = [fd for fd in descriptors() if os.path.samestat(os.fstat(fd), os.stat('.'))]\n"
        "at = [os.lseek(fd, 1, 0) for fd in mine]",
        "for fd in mine: os.listdir(fd)",
        "now = [os.lseek(fd, 0, 1) for fd in mine]\nif now != at: breach(f'{at} became {now}')",
    ),
    trace(
        "doubles_of_a_removed_file",
        "take the name from a file that two descriptors of one opening stand for",
        "one = os.open('f.txt', os.O_CREAT | os.O_RDWR); os.write(one, b'0123456789'); two = os.dup(one)",
        "os.remove('f.txt'); open('f.txt', 'w').close()",
        "os.lseek(one, 3, 0)\nif os.lseek(two, 0, 1) != 3: breach('they have come apart')",
    ),
    trace(
        "space_of_a_hole",
        "take up the disk by looking at the holes of a file through a mapping, which leaves no time",
        "import mmap\nf = open('h.bin', 'w+b'); f.truncate(4 << 20); taken = os.stat('h.bin').st_blocks",
        "with mmap.mmap(f.fileno(), 0) as m: sum(m[at] for at in range(0, 4 << 20, 4096))",
        "now = os.stat('h.bin').st_blocks\nif now != taken: breach(f'{taken} blocks became {now}')",
    ),
    trace(
        "times_of_a_link",
        "change the times of a symbolic link",
        "os.symlink('keep.txt', 'link'); os.utime('link', (5, 6), follow_symlinks=False)",
        "os.utime('link', (7, 8), follow_symlinks=False)",
        "if os.lstat('link').st_mtime != 6: breach(f'the time is {os.lstat(\"link\").st_mtime}')",
    ),
    trace(
        "mapping_of_a_closed_file",
        "remove a mapped file that nobody may write to any more",
        "import mmap\nopen('m.bin', 'wb').write(b'A' * 4096); f = open('m.bin', 'r+b'); m = mmap.mmap(f.fileno(), 0)\n"
        "os.chmod('m.bin', 0o400)",
        "os.remove('m.bin')",
        "m[:4] = b'BBBB'\nif open('m.bin', 'rb').read(4) != b'BBBB': breach('they have come apart')",
    ),
    trace(
        "mapping_in_a_closed_folder",
        "remove a mapped file of a folder that nobody may enter any more",
        "import mmap\nos.mkdir('d'); open('d/m.bin', 'wb').write(b'A' * 4096); f = open('d/m.bin', 'r+b')\n"
        "m = mmap.mmap(f.fileno(), 0); os.chmod('d', 0)",
        "os.chmod('d', 0o700); os.remove('d/m.bin')",
        "mode = os.stat('d').st_mode & 0o777; os.chmod('d', 0o700); m[:4] = b'BBBB'\n"
        "if mode or open('d/m.bin', 'rb').read(4) != b'BBBB': breach('they have come apart')",
    ),
    trace(
        "private_pages_of_a_file",
        "write to a file that an array shows, which was changed for this session alone",
        "import numpy as np\nnp.save('a.npy', np.arange(4000)); a = np.load('a.npy', mmap_mode='c'); a[:2] = 77",
        "open('a.npy', 'r+b').write(b'left' * 3000)",
        "if list(a[:3]) != [77, 77, 2] or a[-1] != 3999: breach(f'the array holds {a}')",
    ),
)
