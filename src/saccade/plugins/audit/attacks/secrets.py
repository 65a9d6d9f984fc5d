"""Attacks on secrets: environments, other sessions' files and memory, the sandbox's own processes."""

from __future__ import annotations

from dataclasses import replace

from saccade.plugins.audit.attacks.attack import Attack, attacks
from saccade.plugins.audit.attacks.rollback import between, trace

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


def _undone(name: str, tries: str, before: str, code: str, after: str) -> Attack:
    return replace(trace(name, tries, before, code, after), must_look=True)


def _branched(name: str, tries: str, before: str, look: str) -> Attack:
    """Return a branch, another one, and the origin after one more call must all see what `look` wants to see."""
    return replace(between(name, tries, before, look, look, look), must_look=True)


_TREE = """
for n in "abcfgh": open(n, "w").write(n)
os.mkdir("d"); os.symlink("a", "s"); os.link("b", "hard"); os.mkdir("e")
for n in "pqrst": open("d/" + n, "w").write(n)
def listed(): return [os.listdir(p) for p in (".", "d", "e")]
seen = listed()
"""
_ORDER = "if listed() != seen: breach(f'{seen} became {listed()}')"

_ROOM = """
def grow(name, start, length): return _libc.fallocate(os.open(name, os.O_RDWR), 1, *map(ctypes.c_long, (start, length)))
def room():
    disk = os.statvfs(".")
    own = disk.f_blocks * disk.f_frsize <= target["workspace_bytes"]
    return [os.stat(n).st_blocks for n in sorted(os.listdir("."))], disk.f_bfree if own else None
"""
_SAME_ROOM = "if room() != seen: breach(f'{seen} became {room()}')"

_FOLDER = """
def names(fd, most=10_000):
    buffer, found = ctypes.create_string_buffer(most), []
    number = {"x86_64": 217, "aarch64": 61}[platform.machine()]
    while (size := _libc.syscall(number, fd, buffer, most)) > 0:
        at = 0
        while at < size:
            length = int.from_bytes(buffer.raw[at + 16:at + 18], "little")
            found.append(buffer.raw[at + 19:at + length].split(b"\\0")[0].decode()); at += length
        if most < 10_000: break
    return found
"""

_LIBC = """
_libc.mmap.restype, _libc.mmap.argtypes = ctypes.c_void_p, [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3,
    ctypes.c_long]
_libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
"""

_KERNEL_WRITES = """
import mmap, struct
open("m.bin", "wb").write(bytes(4096)); f = open("m.bin", "r+b"); m = mmap.mmap(f.fileno(), 0)
base = ctypes.addressof(ctypes.c_char.from_buffer(m))
number = {"x86_64": dict(robust=273, rseq=334), "aarch64": dict(robust=99, rseq=293)}[platform.machine()]
def call(name, *args): return _libc.syscall(*map(ctypes.c_long, (number[name], *args)))
"""

_BACK = "os.chdir(os.environ['TMPDIR'])"


def _stands(name: str, tries: str, before: str, also: str = "") -> Attack:
    """Attack from an odd current folder: a session and its state live on after calls that are kept and that fail."""
    look = "if keep != 'kept' or not os.path.exists(os.environ['TMPDIR'] + '/keep.txt'): breach('the state is gone')\n"
    return _undone(name, tries, before, "open(os.environ['TMPDIR'] + '/left', 'w').close()", look + also)


RESTORED = (
    _undone(
        "order_of_names",
        "change the order in which folders list their names",
        _TREE,
        "import shutil\nos.remove('c'); os.remove('b'); shutil.rmtree('d'); os.rename('e', 'x'); os.rename('x', 'e')",
        _ORDER,
    ),
    _undone(
        "order_of_names_without_a_change",
        "rename folders to and fro, so that nothing but their order is another",
        _TREE,
        "for n in 'e', 'd': os.rename(n, 'x'); os.rename('x', n)\nos.utime('.', ns=(0, 0))",
        _ORDER,
    ),
    _branched("order_of_names_in_a_branch", "see a branch by the order of its names", _TREE, _ORDER),
    _undone(
        "room_beyond_the_end",
        "take room beyond the ends of files, and put their times back",
        _ROOM + "for i in range(6): open(f'f{i}', 'w').write('x' * 10 * i)\nseen = room()",
        "for i in range(6):\n"
        "    old = os.stat(f'f{i}'); print(grow(f'f{i}', i * 4096, 7 << 20))\n"
        "    os.utime(f'f{i}', ns=(old.st_atime_ns, old.st_mtime_ns))",
        _SAME_ROOM,
    ),
    _undone(
        "room_in_holes",
        "take room in a hole of a file, and put its times back",
        _ROOM + "f = open('f', 'w'); f.truncate(4 << 20); f.close(); seen = room()",
        "old = os.stat('f'); print(grow('f', 0, 4 << 20)); os.utime('f', ns=(old.st_atime_ns, old.st_mtime_ns))",
        _SAME_ROOM,
    ),
    _undone(
        "kept_room_is_given_up",
        "give up room beyond the end that a kept call took",
        _ROOM + "open('f', 'w').write('x' * 10); print(grow('f', 0, 1 << 20)); seen = room()",
        "os.truncate('f', 10); os.utime('f', (5, 5))",
        _SAME_ROOM,
    ),
    _branched(
        "kept_room_in_a_branch",
        "see a branch by the room that it has",
        _ROOM + "open('f', 'w').write('x' * 10); print(grow('f', 0, 1 << 20)); seen = room()",
        _SAME_ROOM,
    ),
    _undone(
        "removed_large_file_that_is_open",
        "remove a file that is open and fills more than half of the disk",
        "rest = [open(f'r{i}', 'w+b') for i in range(3)]\nfor r in rest: r.write(b'y' * (7 << 20)); r.flush()",
        "for i in range(3): os.chmod(f'r{i}', 0); os.remove(f'r{i}')",
        "for r in rest:\n"
        "    r.seek(0)\n"
        "    if r.read() != b'y' * (7 << 20) or os.fstat(r.fileno()).st_mode & 0o777 != 0o600: breach('it differs')",
    ),
    _undone(
        "path_of_a_removed_file",
        "keep a file without a name by O_PATH, and write to it",
        "open('x', 'w').write('kept'); p = os.open('x', os.O_PATH); os.remove('x')",
        "open(f'/proc/self/fd/{p}', 'r+').write('LEFT')",
        "if 'LEFT' in str(try_quietly(lambda: open(f'/proc/self/fd/{p}').read())): breach('the file is there')",
    ),
    _undone(
        "path_of_a_removed_folder",
        "keep a folder without a name by O_PATH, and enter it",
        "os.mkdir('x'); p = os.open('x', os.O_PATH); os.rmdir('x')",
        "os.open('y', os.O_CREAT | os.O_WRONLY, dir_fd=p)",
        "if try_quietly(os.listdir, f'/proc/self/fd/{p}') is not None: breach('the folder is there')",
    ),
    _undone(
        "names_of_one_symlink",
        "break up the two names of one symlink, and make one of two",
        "for a, b in ('s1', 's2'), ('s3', 's4'): os.symlink('keep.txt', a)\n"
        "os.link('s1', 's2', follow_symlinks=False); os.symlink('keep.txt', 's4')\n"
        "def look(): return [(os.lstat(n).st_nlink, os.readlink(n)) for n in ('s1', 's2', 's3', 's4')]\nseen = look()",
        "os.remove('s1'); os.remove('s4'); os.link('s3', 's4', follow_symlinks=False)",
        "if look() != seen or os.lstat('s1').st_ino != os.lstat('s2').st_ino: breach(f'{seen} became {look()}')",
    ),
    _branched(
        "names_of_one_symlink_in_a_branch",
        "see a branch by the number of names of a symlink",
        "os.symlink('keep.txt', 's1'); os.link('s1', 's2', follow_symlinks=False)",
        "if [os.lstat(n).st_nlink for n in ('s1', 's2')] != [2, 2]: breach('they are two')",
    ),
    _undone(
        "names_in_a_closed_folder",
        "remove a name of a file whose other names are in folders that nobody may enter",
        "os.mkdir('d'); open('d/x', 'w').write('same'); os.link('d/x', 'y'); os.symlink('no', 'd/s')\n"
        "os.link('d/s', 't', follow_symlinks=False); os.chmod('d', 0)",
        "os.remove('y'); os.remove('t')",
        "os.chmod('d', 0o700)\n"
        "if [os.lstat(n).st_nlink for n in ('d/x', 'y', 'd/s', 't')] != [2] * 4: breach('they are two')",
    ),
    _undone(
        "place_in_a_folder",
        "remove what a folder that was read in part has still to list",
        _FOLDER + "for n in 'abcdefgh': open(n, 'w').close()\n"
        "everything = sorted(os.listdir('.')); d = os.open('.', os.O_RDONLY); first = names(d, 120)",
        "for n in 'abcdefgh': os.remove(n)",
        "rest = names(d)\n"
        "if sorted(set(first + rest) - {'.', '..'}) != everything or set(first) & set(rest): "
        "breach(f'{first}, then {rest}')",
    ),
    _branched(
        "place_in_a_folder_in_a_branch",
        "read on in a folder that was read in part before a branch was made",
        _FOLDER + "os.mkdir('d')\nfor n in 'abcdefgh': open('d/' + n, 'w').close()\n"
        "d = os.open('d', os.O_RDONLY); first = names(d, 120)",
        "if len(set(first + (rest := names(d)))) != 10 or set(first) & set(rest): breach(f'{first}, {rest}')",
    ),
    _undone(
        "end_of_a_folder",
        "make files in a folder that was read to its end",
        _FOLDER + "d = os.open('.', os.O_RDONLY); names(d)",
        "for n in 'abc': open(n, 'w').close()\nos.remove('keep.txt')",
        "if rest := names(d): breach(f'it lists {rest} more')",
    ),
    _branched(
        "private_pages_without_rights",
        "hide private changes of a mapped file behind PROT_NONE while a branch is made, beyond the file's end, too",
        _LIBC + "open('m.bin', 'wb').write(b'A' * 5000); f = open('m.bin', 'r+b')\n"
        "at = [_libc.mmap(None, 3 << 14, 3, 2, f.fileno(), 0) for _ in range(3)]\n"
        "for place in at: ctypes.memmove(place, b'PRIVATE', 7); ctypes.memmove(place + 4096, b'SECOND', 6)\n"
        "for place, rights in zip(at, (0, 2, 1)): _libc.mprotect(place, 3 << 14, rights)",
        _LIBC + "for place in at:\n"
        "    _libc.mprotect(place, 3 << 14, 3)\n"
        "    got = ctypes.string_at(place, 8), ctypes.string_at(place + 4096, 7)\n"
        "    if got != (b'PRIVATEA', b'SECONDA'): breach(f'it holds {got}')",
    ),
    Attack(
        "list_of_robust_locks",
        "rollback",
        "have the kernel write to a mapped file when the process that keeps the state ends",
        "pass",
        before=_KERNEL_WRITES + "m[64:72] = struct.pack('Q', base); m[0:24] = struct.pack('QqQ', base + 64, 16, 0)\n"
        "m[80:84] = struct.pack('I', os.getpid()); call('robust', base, 24)\n"
        "word = m[80:84]",
        after="if m[80:84] != word or open('m.bin', 'rb').read()[80:84] != word: breach(f'{word} became {m[80:84]}')",
        must_look=True,
    ),
    _branched(
        "number_of_the_processor",
        "have the kernel write the processor's number to a mapped file",
        _KERNEL_WRITES + "m[:] = b'\\xff' * 4096\n"
        "size = lambda name: ctypes.c_ssize_t.in_dll(_libc, name).value\n"
        "_libc.pthread_self.restype = ctypes.c_void_p\n"
        "try: call('rseq', _libc.pthread_self() + size('__rseq_offset'), 32, 1, 0x53053053)\n"
        "except ValueError: pass\n"
        "call('rseq', base, 32, 0, 0x53053053)",
        "if m[:] != b'\\xff' * 4096: breach('it was written')",
    ),
    _stands("current_folder_in_proc", "stand in a folder of /proc", "try_quietly(os.chdir, '/proc/self/fd')"),
    _stands("current_folder_is_a_process", "stand in /proc/thread-self", "try_quietly(os.chdir, '/proc/thread-self')"),
    _stands(
        "current_folder_outside",
        "stand in the root folder",
        "os.chdir('/')",
        "if os.getcwd() != '/': breach('it stands elsewhere')\n" + _BACK,
    ),
    _stands(
        "current_folder_closed", "stand in a folder that is closed", "os.mkdir('d'); os.chdir('d'); os.chmod('.', 0)"
    ),
    _stands("top_folder_closed", "close the top folder in a call that is kept", "os.chmod('.', 0)"),
    _stands("top_folder_unreadable", "leave the top folder with nothing but search", "os.chmod('.', 0o100)"),
    _stands(
        "current_folder_too_deep",
        "stand in a folder whose path is longer than the kernel tells",
        "for _ in range(17): os.mkdir('x' * 250); os.chdir('x' * 250)",
    ),
    _stands(
        "names_that_are_no_text",
        "stand in a folder whose name is no UTF-8",
        "os.mkdir(b'\\xff\\xfe'); os.chdir(b'\\xff\\xfe')",
        _BACK,
    ),
    _undone(
        "mask_of_all_rights",
        "set the umask so that what is made has no rights, and remove folders",
        "os.makedirs('d/e'); open('d/e/x', 'w').write('x'); os.symlink('x', 'd/s'); os.umask(0o777)",
        "import shutil\nshutil.rmtree('d')",
        "if os.umask(0o77) != 0o777 or open('d/e/x').read() != 'x' or os.stat('d/e').st_mode & 0o777 != 0o700 or "
        "keep != 'kept': breach('the state is gone')",
    ),
    _branched(
        "mask_of_all_rights_in_a_branch",
        "branch with a umask of all rights",
        "os.makedirs('d/e'); open('d/e/x', 'w').write('x'); os.umask(0o777)",
        "if open('d/e/x').read() != 'x': breach('it differs')",
    ),
    _undone(
        "memory_to_the_last_byte",
        "keep all the memory that there is, so that the runtime has none to put back files",
        "hoard, room = [], bytearray(8 << 20)\nfor size in 1 << 24, 1 << 20, 1 << 16, 1 << 12, 1 << 9:\n"
        "    try:\n        while True: hoard.append(bytearray(size))\n    except MemoryError: pass\n"
        "del room",
        "os.remove('keep.txt')",
        "hoard = None\nif keep != 'kept' or not os.path.exists('keep.txt'): breach('the state is gone')",
    ),
    _undone(
        "folder_above_the_own",
        "leave files, links and folders in the folder above the workspace, and fill it",
        "",
        "for make, *names in ((os.mkdir, '../m'), (os.symlink, 'x', '../s'), (os.link, 'keep.txt', '../l'),\n"
        "    (os.rename, 'keep.txt', '../r'), (open, '../left', 'w')): try_quietly(make, *names)\n"
        "for i in range(6): try_quietly(lambda: open(f'../big{i}', 'wb').write(b'x' * (8 << 20)))",
        "for name in 'left', 'm', 's', 'l', 'r', 'big0':\n"
        "    if os.path.lexists('../' + name): breach(f'{name} is there')",
    ),
    _branched(
        "link_above_the_own_folder",
        "lay a link to an own file where a branch can reach it",
        "try_quietly(os.link, 'keep.txt', '../l'); try_quietly(os.symlink, os.getcwd(), '../s')",
        "for name in '../l', '../s/keep.txt':\n"
        "    if os.path.exists(name): breach('the file is there'); open(name, 'w').write('BRANCH')",
    ),
)
