"""Attacks on the kernel: system calls that widen its surface or change the process's standing."""

from __future__ import annotations

from saccade.sandbox.attacks.attack import Attack

KERNEL = (
    Attack(
        "new_namespaces",
        "kernel",
        "make or join namespaces",
        """
for name, flag in dict(user=0x10000000, mount=0x20000, pid=0x20000000, net=0x40000000, ipc=0x8000000,
                       cgroup=0x2000000, time=0x80).items():
    attempt("unshare " + name, raw, "unshare", flag)
for name in ("user", "mnt", "pid", "net"):
    fd = try_quietly(os.open, "/proc/1/ns/" + name, os.O_RDONLY)
    attempt("setns " + name, raw, "setns", fd if fd is not None else 3, 0)
""",
    ),
    Attack(
        "rare_calls",
        "kernel",
        "io_uring, bpf, userfaultfd, perf, fanotify, memfd_secret, kexec, modules, quota, accounting",
        """
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
""",
    ),
    Attack(
        "keyrings",
        "kernel",
        "add keys to and read from the kernel's keyrings",
        """
attempt("add_key", raw, "add_key", ctypes.c_char_p(b"user"), ctypes.c_char_p(b"name"), ctypes.c_char_p(b"x"), 1, -3)
for ring in (-1, -2, -3, -4, -5):
    attempt("keyring %d" % ring, raw, "keyctl", 0, ring, 1, 0, 0)
""",
    ),
    Attack(
        "privileges",
        "kernel",
        "become root, take capabilities, lift no_new_privs and the filter",
        """
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
    facts = dict(line.rstrip().split(":\\t", 1) for line in status if ":\\t" in line)
print({k: facts.get(k) for k in ("Uid", "CapEff", "CapPrm", "CapBnd", "NoNewPrivs", "Seccomp")})
if facts and int(facts.get("CapEff", "0"), 16):
    breach("capabilities are left: " + facts["CapEff"])
if facts.get("NoNewPrivs") == "0":
    breach("no_new_privs is off")
if _libc.prctl(39, 0, 0, 0, 0) == 0:
    breach("no_new_privs is off")
""",
    ),
    Attack(
        "process_attributes",
        "kernel",
        "personality, prctl and layout changes that make later attacks easier",
        """
ADDR_NO_RANDOMIZE, READ_IMPLIES_EXEC, MMAP_PAGE_ZERO = 0x40000, 0x400000, 0x100000
for flag in (ADDR_NO_RANDOMIZE, READ_IMPLIES_EXEC, MMAP_PAGE_ZERO):
    attempt("personality %x" % flag, raw, "personality", flag)
for option, name in {1: "PDEATHSIG", 4: "DUMPABLE", 8: "KEEPCAPS", 28: "SECUREBITS", 35: "MM", 36: "SUBREAPER",
                     40: "TID_ADDRESS", 47: "CAP_AMBIENT", 0x59616D61: "PTRACER"}.items():
    print(name, _libc.prctl(option, 1, 0, 0, 0))
""",
    ),
    Attack(
        "other_architecture",
        "kernel",
        "call the kernel by its 32-bit entry and by x32 numbers, past the filter",
        """
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
""",
    ),
    Attack(
        "clock_and_power",
        "kernel",
        "set the clock and the host name, reboot, swap",
        """
import time
attempt("clock", time.clock_settime, time.CLOCK_REALTIME, time.time())
attempt("settimeofday", raw, "settimeofday", ctypes.create_string_buffer(bytes(16)), 0)
attempt("host name", socket.sethostname, "attacked")
attempt("swap", raw, "swapon", ctypes.c_char_p(b"none"), 0)
# CAD off: harmless where it works, and needs the same right as a reboot.
attempt("reboot", raw, "reboot", ctypes.c_ulong(0xFEE1DEAD), 672274793, 0, 0)
""",
    ),
    Attack(
        "second_filter",
        "kernel",
        "install a system call filter that lies to the runtime",
        """
class Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_void_p)]
# Every sendmsg "succeeds" without being made: the call's end is never reported.
code = (ctypes.c_uint64 * 4)(0x20, 0x15 | 1 << 24 | 46 << 32, 0x0005000000000006, 0x7FFF000000000006)
program = Program(4, ctypes.addressof(code))
print(_libc.prctl(22, 2, ctypes.byref(program), 0, 0), ctypes.get_errno())
try_quietly(raw, "seccomp", 1, 0, ctypes.byref(program))
""",
        may_lose_session=True,
        wall_seconds=1.0,
    ),
)
