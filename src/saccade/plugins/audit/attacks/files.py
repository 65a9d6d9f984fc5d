"""Attacks on files: reading what is outside, writing outside, and escaping by links, paths and devices."""

from __future__ import annotations

from saccade.plugins.audit.attacks.attack import Attack, attacks, kept_with_its_thread
from saccade.plugins.audit.attacks.rollback import GUEST

FILES = (
    *attacks(
        "files",
        r"""
== read_passwd: read /etc/passwd and /etc/shadow
for path in ("/etc/passwd", "/etc/shadow", "/etc/hostname", "/root/.bashrc"):
    attempt(path, read, path)
== list_home: list the home folder and read files in it
# A private root may show the folders on the way to the interpreter, and nothing beside them.
ways = [os.path.realpath(way) + "/" for way in (sys.prefix, sys.base_prefix, sys.executable, *sys.path) if way]
for place in {target["home"], "/root", "/home", os.environ.get("HOME") or "/root"}:
    if os.path.realpath(place) == os.path.realpath(os.getcwd()):
        continue
    for name in try_quietly(os.listdir, place) or ():
        path = os.path.join(os.path.realpath(place), name)
        if not any(way.startswith(path + "/") for way in ways):
            breach("seen: " + path)
    for name in (".bashrc", ".profile", ".ssh/id_rsa", ".ssh/id_ed25519", ".netrc", ".cache", ".config"):
        text = try_quietly(read, os.path.join(place, name))
        if text:
            breach("read: " + os.path.join(place, name))
== read_world_readable: read a world-readable file outside
attempt("canary", read, target["canary_file"])
== write_outside: create, change and delete files outside
folder = target["canary_folder"]
attempt("create", open, folder + "/created", "w")
attempt("append", open, target["canary_file"], "a")
attempt("delete", os.remove, target["canary_file"])
attempt("rename", os.rename, target["canary_file"], folder + "/moved")
attempt("chmod", os.chmod, target["canary_file"], 0o777)
attempt("truncate", os.truncate, target["canary_file"], 0)
attempt("utime", os.utime, target["canary_file"])
attempt("mkdir", os.mkdir, folder + "/made")
for place in ("/tmp", "/var/tmp", "/dev/shm", "/run", "/etc", "/usr", "/"):
    path = place + "/saccade-attack-" + target["token"]
    if try_quietly(open, path, "w"):
        print("created", path)
== symlink_escape: reach outside through symbolic links
os.symlink("/", "root")
os.symlink(target["canary_file"], "direct")
os.symlink("../" * 20, "up")
attempt("absolute link", read, "root" + target["canary_file"])
attempt("direct link", read, "direct")
attempt("relative link", read, "up" + target["canary_file"])
attempt("write through a link", open, "direct", "w")
== dotdot_escape: reach outside through .. and odd spellings
path = target["canary_file"]
for spelling in ("../" * 30 + path, "/proc/self/root" + path, "/proc/self/cwd/" + "../" * 30 + path,
                 "/proc/1/root" + path, "//" + path, "/." + path, "./../" * 20 + path):
    attempt(spelling[:30], read, spelling)
for spelling in ("\u2025/" * 8 + path, "\uff0e\uff0e/" * 8 + path, "..\u200b/" * 8 + path, ".. /" * 8 + path):
    attempt(ascii(spelling[:12]), read, spelling)
""",
    ),
    Attack(
        "picture_link",
        "files",
        "have the host decode a picture outside through a link in the workspace",
        """
os.symlink(target["canary_picture"], "mine.png")
try_quietly(os.link, target["canary_picture"], "hard.png")
os.mkfifo("fifo.png") if hasattr(os, "mkfifo") else None
""",
        check=lambda result: "a picture from outside came back" if result.pictures else None,
        wall_seconds=2.0,
    ),
    *attacks(
        "files",
        r"""
== hard_links: hard-link files from outside into the workspace
import PIL
for source in (target["canary_file"], sys.executable, PIL.__file__, "/etc/passwd"):
    attempt(source, os.link, source, "linked")
== patch_libraries: change the interpreter's and libraries' files
import numpy, PIL
for path in (numpy.__file__, PIL.__file__, os.__file__, sys.executable, numpy.core.__file__
             if hasattr(numpy, "core") else numpy.__file__):
    attempt("append to " + path, open, path, "ab")
    attempt("create beside " + path, open, os.path.dirname(path) + "/saccade_attack.pth", "w")
    attempt("rename " + path, os.rename, path, path + ".moved")
== inherited_folders: walk up from folders that descriptors still hold open
flags = os.O_RDONLY | getattr(os, "O_PATH", 0)
for fd in [None, *descriptors()]:
    try:
        if fd is not None and not stat.S_ISDIR(os.fstat(fd).st_mode):
            continue
        base = os.open(".", flags) if fd is None else os.dup(fd)
        inode = None
        for _ in range(40):
            up = os.open("..", flags, dir_fd=base)
            info = os.fstat(up)
            if (info.st_dev, info.st_ino) == inode:
                break
            inode, base = (info.st_dev, info.st_ino), up
        inside = os.open(target["canary_file"].lstrip("/"), os.O_RDONLY, dir_fd=base)
        breach(repr(os.read(inside, 100)))
    except OSError as error:
        print("stopped:", fd, error)
== chroot_escape: leave the private root by chroot, pivot_root and fchdir
attempt("chroot", os.chroot, ".")
attempt("chroot by number", raw, "chroot", ctypes.c_char_p(b"."))
attempt("pivot_root", raw, "pivot_root", ctypes.c_char_p(b"."), ctypes.c_char_p(b"."))
attempt("canary", read, target["canary_file"])
== open_by_handle: open files by handle, past the mount table
handle = ctypes.create_string_buffer(b"\x08\0\0\0\x01\0\0\0\x02\0\0\0\0\0\0\0", 128)
base = os.open(".", os.O_RDONLY)
attempt("open_by_handle_at", raw, "open_by_handle_at", base, handle, 0)
== mount: mount a file system, the old and the new way
os.mkdir("m")
for kind in (b"proc", b"tmpfs", b"sysfs", b"devtmpfs"):
    attempt("mount " + kind.decode(), raw, "mount", ctypes.c_char_p(b"none"), ctypes.c_char_p(b"m"),
            ctypes.c_char_p(kind), 0, ctypes.c_char_p(None))
attempt("bind", raw, "mount", ctypes.c_char_p(b"/"), ctypes.c_char_p(b"m"), ctypes.c_char_p(None), 4096, 0)
attempt("remount", raw, "mount", ctypes.c_char_p(b"none"), ctypes.c_char_p(b"/"), ctypes.c_char_p(None), 32, 0)
attempt("fsopen", raw, "fsopen", ctypes.c_char_p(b"tmpfs"), 0)
attempt("open_tree", raw, "open_tree", -100, ctypes.c_char_p(b"/"), 1)
== device_nodes: make and open devices
attempt("mknod", os.mknod, "disk", stat.S_IFBLK | 0o600, os.makedev(8, 0))
attempt("mknod mem", os.mknod, "mem", stat.S_IFCHR | 0o600, os.makedev(1, 1))
for path in ("/dev/mem", "/dev/kmem", "/dev/sda", "/dev/vda", "/dev/fuse", "/dev/kvm", "/dev/net/tun", "/dev/kmsg",
             "/dev/ptmx", "/dev/tty"):
    for mode in (os.O_RDONLY, os.O_RDWR):
        attempt(path, os.open, path, mode | os.O_NONBLOCK)
== setuid_files: make set-uid files and run set-uid programs
import shutil
with open("script", "w") as f: f.write("#!/bin/sh\nid\n")
os.chmod("script", 0o6755)
for program in ("/usr/bin/su", "/usr/bin/sudo", "/usr/bin/passwd", "/bin/mount", "./script"):
    attempt(program, os.execv, program, [program])
attempt("chown", os.chown, "script", 0, 0) if os.geteuid() else None
== kernel_switches: write to /proc/sys, /sys and /proc/self
for path in ("/proc/sys/kernel/core_pattern", "/proc/sys/kernel/hostname", "/proc/sys/vm/drop_caches",
             "/proc/sysrq-trigger", "/proc/self/uid_map", "/proc/1/oom_score_adj", "/sys/kernel/uevent_helper",
             "/sys/fs/cgroup/cgroup.procs", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
    attempt(path, os.open, path, os.O_WRONLY)
""",
    ),
)

# Attacks that ask for facts: of other sessions, of the zygote's past, of the host.

FACTS = attacks(
    "facts",
    """
== frames_below_the_cell: read what the functions below the program's own frames know
frame, seen = sys._getframe(), []
while frame:
    seen.append((frame.f_code.co_name, sorted(frame.f_locals) if frame.f_locals is not globals() else []))
    for name, value in list(frame.f_locals.items()):
        if type(value).__name__ in ("Zygote", "Nursery", "SessionEntry", "Template", "Standing"):
            breach(f"{frame.f_code.co_name} knows {name}")
        if name in ("settings", "control", "sessions", "by_pid"):
            breach(f"{frame.f_code.co_name} knows {name}")
    frame = frame.f_back
print(seen)
== objects_of_the_books: find the objects in which the sandbox keeps its books
import gc
gc.unfreeze() if hasattr(gc, "unfreeze") else None
for thing in gc.get_objects():
    if "guest" in type(thing).__module__ and type(thing).__name__ in ("Zygote", "Nursery", "SessionEntry", "Template"):
        breach("there is a " + type(thing).__name__)
== load_of_the_machine: ask how much memory is free, how many processes there are, and how busy they are
numbers = (ctypes.c_ulong * 16)()
if not _libc.sysinfo(numbers): breach(f'it is told {list(numbers)}')
for ask in os.getloadavg, lambda: read('/proc/meminfo'), lambda: read('/proc/stat'): attempt('it', ask)
== clocks_of_other_processes: ask for the CPU clocks of other processes
import struct
for pid in [p for p in range(1, 400) if p != os.getpid()]:
    buffer = ctypes.create_string_buffer(16)
    if _libc.clock_gettime(ctypes.c_int((~pid << 3) | 2), buffer) == 0:
        breach(f"process {pid} has used {struct.unpack('qq', buffer.raw)}")
        break
== ids_of_other_processes: find out which process ids exist
me = os.getpid()
for name, ask in (("getpgid", os.getpgid), ("getsid", os.getsid),
                  ("affinity", os.sched_getaffinity), ("scheduler", os.sched_getscheduler),
                  ("priority", lambda pid: os.getpriority(os.PRIO_PROCESS, pid))):
    found = []
    for pid in range(1, 400):
        if pid == me: continue
        try: ask(pid)
        except OSError: continue
        found.append(pid)
    if found: breach(f"{name} knows {found[:5]}")
== watch_what_others_open: watch the interpreter's files for what others open
fd = _libc.inotify_init1(0o4000)
if fd >= 0 and _libc.inotify_add_watch(fd, os.path.dirname(os.__file__).encode(), 0x20) >= 0:
    breach("files that all sessions read can be watched")
== folders_above_the_own: learn from the folders above the workspace when other sessions were opened, and how many
==   there are
family = os.path.dirname(os.readlink("/proc/self/cwd"))
base = os.path.dirname(family)
if os.stat(base).st_mtime_ns > os.stat(family).st_mtime_ns - 20_000_000:
    breach("the folder of all sessions has the time at which this one was opened")
room = os.statvfs(base)
if base.count("/") == 1 and room.f_files != room.f_ffree:
    breach(f"{room.f_files - room.f_ffree} folders of sessions are in use")
== files_in_memory: ask which pages of the interpreter's files are in memory, and which of its names: what others
==   have used
import mmap, struct
path = os.__file__
fd = os.open(path, os.O_RDONLY)
try: told = os.preadv(fd, [bytearray(1)], 0, os.RWF_NOWAIT)
except OSError as error: told = error.errno == errno.EAGAIN
if told: breach("a read that does not wait tells it")
how = ctypes.create_string_buffer(struct.pack("QQQ", 0, 0, 0x20))
try: told = raw("openat2", -100, ctypes.c_char_p(path.encode()), how, 24)
except OSError as error: told = error.errno == errno.EAGAIN
if told: breach("openat2 tells it")
page = mmap.mmap(fd, mmap.PAGESIZE, prot=mmap.PROT_READ, flags=mmap.MAP_PRIVATE)
import numpy as np
where = np.frombuffer(page, np.uint8).ctypes.data
if _libc.mincore(ctypes.c_void_p(where), ctypes.c_size_t(mmap.PAGESIZE), ctypes.create_string_buffer(1)) == 0:
    breach("mincore tells it")
== who_holds_the_wire: ask the own socket who made it
for s in sockets():
    for option in (17, 77, 31, 59):
        try: data = s.getsockopt(socket.SOL_SOCKET, option, 64)
        except OSError as error: print("stopped:", option, error); continue
        breach(f"option {option} gives {data}")
== own_command_line: find the host's folder and process id in the arguments of the interpreter
count, words = ctypes.c_int(), ctypes.POINTER(ctypes.c_wchar_p)()
ctypes.pythonapi.Py_GetArgcArgv(ctypes.byref(count), ctypes.byref(words))
said = [words[i] for i in range(count.value)] + sys.argv + sys.orig_argv
if any(str(target["host_pid"]) in str(word) for word in said if word):
    breach("the arguments name the host's process")
== name_of_the_host: read the name of the machine
print(os.uname().nodename)
""",
)

# Attacks that work on when their call has ended: siblings, threads, a keeper or a leaf that never sleeps.

_SIBLING = """
import time
number = 56 if platform.machine() == "x86_64" else 220
def sibling():
    return _libc.syscall(number, 0x8000 | 17, 0, 0, 0, 0)
"""
_STOP = """
import signal
def stop(*args):
    for _ in range(20): os.kill(0, signal.SIGSTOP)
"""
_BURN = "    while True: pass\n"

REST = (
    Attack(
        "sibling_outlives_a_kept_call",
        "rest",
        "clone a sibling in a call that is kept, which writes through later rollbacks",
        "raise RuntimeError('this call fails')\n",
        before=_SIBLING
        + "if sibling() == 0:\n"
        + "    while True:\n        time.sleep(0.005)\n        open('from_the_sibling', 'a').write('x')\n",
        after="import time\ntime.sleep(0.2)\nif os.path.exists('from_the_sibling'): breach('the sibling writes')\n",
    ),
    Attack(
        "sibling_burns",
        "rest",
        "clone siblings that compute after the call",
        _SIBLING + "for _ in range(3):\n    if sibling() == 0:\n        while True: pass\n",
    ),
    Attack(
        "sibling_of_a_sibling",
        "rest",
        "clone a sibling whose sibling computes after the call",
        _SIBLING
        + "if sibling() == 0:\n"
        + "    for _ in range(200):\n        if sibling() == 0: time.sleep(0.002)\n        else: os._exit(0)\n"
        + _BURN.lstrip(),
    ),
    Attack(
        "native_thread_burns",
        "rest",
        "leave a thread of C computing that Python does not know of",
        """
handle = ctypes.c_ulong()
made = _libc.pthread_create(ctypes.byref(handle), None, ctypes.cast(_libc.pause, ctypes.c_void_p), None)
print("pthread_create gave", made)
""",
        check=kept_with_its_thread,
    ),
    Attack(
        "keeper_that_never_sleeps",
        "rest",
        "patch the runtime so that the process that keeps the state computes for ever",
        GUEST + "def burn(*args):\n" + _BURN + "guest('session').keep.__globals__['give_back_memory'] = burn\n",
        may_lose_session=True,
    ),
    Attack(
        "keeper_that_burns_after_forking",
        "rest",
        "patch the runtime so that the keeper forks a leaf and then computes for ever",
        GUEST
        + """
session = guest("session")
class Forker:
    def __init__(self, real): self.real = real
    def fork(self, *args):
        pid = self.real.fork(*args)
        while pid: pass
        return pid
import gc
for thing in gc.get_objects():
    if type(thing).__name__ == "Interpreter":
        thing.forker = Forker(thing.forker)
""",
        may_lose_session=True,
    ),
    Attack(
        "leaf_that_waits_busily",
        "rest",
        "patch the runtime so that the process of the next call computes while it waits",
        GUEST
        + """
session = guest("session")
def lead(state):
    os.kill(0, 19)
    while True: pass
session.lead = lead
""",
        may_lose_session=True,
    ),
    Attack(
        "leaf_that_breeds",
        "rest",
        "patch the runtime so that siblings are cloned beside the next leaf",
        GUEST
        + _SIBLING
        + """
session = guest("session")
real = session.lead
def lead(state):
    if sibling() == 0:
        while True: pass
    return real(state)
session.lead = lead
""",
        may_lose_session=True,
    ),
    Attack(
        "timer_that_wakes",
        "rest",
        "set a timer that continues the stopped process",
        """
import struct
event = ctypes.create_string_buffer(struct.pack("qii48x", 0, 18, 0))
timer = ctypes.c_void_p()
if _libc.timer_create(1, event, ctypes.byref(timer)) == 0:
    _libc.timer_settime(timer, 0, ctypes.create_string_buffer(struct.pack("4q", 0, 1000000, 0, 1000000)), None)
    breach("a timer sends SIGCONT")
else:
    print("stopped:", os.strerror(ctypes.get_errno()))
""",
    ),
    Attack(
        "keeper_that_stops_itself",
        "rest",
        "patch the runtime so that the process that keeps the state stops itself again and again, and never gets ready",
        "pass\n",
        before=GUEST + _STOP + "guest('session').keep.__globals__['give_back_memory'] = stop\n",
        after="print('here')\n",
        may_lose_session=True,
        wall_seconds=2.0,
    ),
    Attack(
        "leaf_that_stops_the_keeper",
        "rest",
        "patch the runtime so that the process of the next call stops itself and its keeper before it is known",
        "pass\n",
        before=GUEST + _STOP + "guest('session').keep.__globals__['lead'] = stop\n",
        after="print('here')\n",
        may_lose_session=True,
        wall_seconds=2.0,
    ),
    Attack(
        "leaf_that_does_not_stop",
        "rest",
        "patch the runtime so that a process whose call has ended does not stop itself, and computes",
        "pass\n",
        before=GUEST
        + "import sys\nkill = guest('session')._kill\ndef burn(*args):\n"
        + "    if sys._getframe(1).f_code.co_name == 'lead': return kill(*args)\n"
        + _BURN
        + "guest('session').call.__globals__.update(_kill=burn)\n",
        may_lose_session=True,
    ),
    Attack(
        "slow_to_get_ready",
        "rest",
        "patch the runtime so that the next call waits for ever",
        "pass\n",
        before=GUEST + "import time\n" + "guest('session').keep.__globals__['lead'] = lambda state: time.sleep(600)\n",
        after="print('here')\n",
        may_lose_session=True,
        wall_seconds=2.0,
    ),
)
