"""Attacks that ask for facts: of other sessions, of the zygote's past, of the host."""

from __future__ import annotations

from saccade.sandbox.attacks.attack import Attack

FACTS = (
    Attack(
        "frames_below_the_cell",
        "facts",
        "read what the functions below the program's own frames know",
        """
frame, seen = sys._getframe(), []
while frame:
    seen.append((frame.f_code.co_name, sorted(frame.f_locals) if frame.f_locals is not globals() else []))
    for name, value in list(frame.f_locals.items()):
        if type(value).__name__ in ("Zygote", "SessionBooks", "Nursery", "SessionEntry", "Template", "Standing"):
            breach(f"{frame.f_code.co_name} knows {name}")
        if name in ("settings", "control", "sessions", "by_pid"):
            breach(f"{frame.f_code.co_name} knows {name}")
    frame = frame.f_back
print(seen)
""",
    ),
    Attack(
        "objects_of_the_books",
        "facts",
        "find the objects in which the sandbox keeps its books",
        """
import gc
gc.unfreeze() if hasattr(gc, "unfreeze") else None
for thing in gc.get_objects():
    if "guest" in type(thing).__module__ and type(thing).__name__ in ("Zygote", "Nursery", "SessionEntry", "Template"):
        breach("there is a " + type(thing).__name__)
""",
    ),
    Attack(
        "clocks_of_other_processes",
        "facts",
        "ask for the CPU clocks of other processes",
        """
import struct
for pid in [p for p in range(1, 400) if p != os.getpid()]:
    buffer = ctypes.create_string_buffer(16)
    if _libc.clock_gettime(ctypes.c_int((~pid << 3) | 2), buffer) == 0:
        breach(f"process {pid} has used {struct.unpack('qq', buffer.raw)}")
        break
""",
    ),
    Attack(
        "ids_of_other_processes",
        "facts",
        "find out which process ids exist",
        """
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
""",
    ),
    Attack(
        "watch_what_others_open",
        "facts",
        "watch the interpreter's files for what others open",
        """
fd = _libc.inotify_init1(0o4000)
if fd >= 0 and _libc.inotify_add_watch(fd, os.path.dirname(os.__file__).encode(), 0x20) >= 0:
    breach("files that all sessions read can be watched")
""",
    ),
    Attack(
        "folders_above_the_own",
        "facts",
        "learn from the folders above the workspace when other sessions were opened, and how many there are",
        """
family = os.path.dirname(os.readlink("/proc/self/cwd"))
base = os.path.dirname(family)
if os.stat(base).st_mtime_ns > os.stat(family).st_mtime_ns - 20_000_000:
    breach("the folder of all sessions has the time at which this one was opened")
room = os.statvfs(base)
if base.count("/") == 1 and room.f_files != room.f_ffree:
    breach(f"{room.f_files - room.f_ffree} folders of sessions are in use")
""",
    ),
    Attack(
        "files_in_memory",
        "facts",
        "ask which pages of the interpreter's files are in memory, and which of its names: what others have used",
        """
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
""",
    ),
    Attack(
        "who_holds_the_wire",
        "facts",
        "ask the own socket who made it",
        """
for s in sockets():
    for option in (17, 77, 31, 59):
        try: data = s.getsockopt(socket.SOL_SOCKET, option, 64)
        except OSError as error: print("stopped:", option, error); continue
        breach(f"option {option} gives {data}")
""",
    ),
    Attack(
        "own_command_line",
        "facts",
        "find the host's folder and process id in the arguments of the interpreter",
        """
count, words = ctypes.c_int(), ctypes.POINTER(ctypes.c_wchar_p)()
ctypes.pythonapi.Py_GetArgcArgv(ctypes.byref(count), ctypes.byref(words))
said = [words[i] for i in range(count.value)] + sys.argv + sys.orig_argv
if any(str(target["host_pid"]) in str(word) for word in said if word):
    breach("the arguments name the host's process")
""",
    ),
    Attack(
        "name_of_the_host",
        "facts",
        "read the name of the machine",
        "print(os.uname().nodename)\n",
    ),
)
