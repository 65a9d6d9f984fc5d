"""Attacks of branches on their origin and on each other: `before` prepares, `branch` and `sibling` and `after` look."""

from __future__ import annotations

from saccade.sandbox.attacks.attack import Attack

GUEST = """
def guest_modules():
    return [m for name, m in list(sys.modules.items()) if "guest" in str(getattr(m, "__file__", ""))]
def guest(name):
    return next(m for m in guest_modules() if m.__name__.endswith("." + name))
"""

_IS_LOCKED = """
try: fcntl.flock(open(os.__file__), fcntl.LOCK_EX | fcntl.LOCK_NB)
except OSError: breach("the lock is seen")
"""


def _between(name: str, tries: str, before: str, branch: str, after: str = "", sibling: str = "") -> Attack:
    return Attack(name, "branches", tries, "pass\n", before=before, branch=branch, sibling=sibling, after=after)


def _patched(name: str, tries: str, before: str, branch: str, after: str = "", sibling: str = "") -> Attack:
    """One whose program has patched its runtime: the sandbox may end it, or refuse to branch it."""
    return Attack(
        name,
        "branches",
        tries,
        "pass\n",
        before=GUEST + before,
        branch=branch,
        sibling=sibling,
        after=after,
        may_lose_session=True,
    )


BRANCHES = (
    _between(
        "pipe_between_siblings",
        "talk to a sibling through a pipe of the origin",
        "r, w = os.pipe(); os.dup2(r, 120); os.dup2(w, 121); os.set_blocking(120, False)",
        "try_quietly(os.write, 121, b'from a branch')",
        "data = try_quietly(os.read, 120, 20)\nif data: breach(f'the origin heard {data}')",
        "data = try_quietly(os.read, 120, 20)\nif data: breach(f'a sibling heard {data}')",
    ),
    _between(
        "file_of_the_origin",
        "write to a file that the origin holds open",
        "f = open('f.txt', 'w+'); f.write('origin'); f.flush(); os.dup2(f.fileno(), 122)",
        "os.pwrite(122, b'BRANCH', 0)\nf.seek(0); f.write('BRANCH'); f.flush()",
        "if os.pread(122, 6, 0) != b'origin' or open('f.txt').read() != 'origin': breach('the file was changed')",
        "if os.pread(122, 6, 0) != b'origin' or open('f.txt').read() != 'origin': breach('the file was changed')",
    ),
    _between(
        "position_in_a_file_of_the_origin",
        "move the position of a file that the origin holds open",
        "f = os.open('f.txt', os.O_CREAT | os.O_RDWR); os.write(f, b'0123456789'); os.lseek(f, 0, 0)",
        "os.lseek(f, 5, 0)",
        "if os.lseek(f, 0, 1): breach('the position was moved')",
        "if os.lseek(f, 0, 1): breach('the position was moved')",
    ),
    _between(
        "folder_of_the_origin_by_its_path",
        "go to the origin's folder by the path that was seen in the origin",
        "real = os.readlink('/proc/self/cwd'); open('f.txt', 'w').write('origin')",
        "try: open(real + '/f.txt', 'w').write('BRANCH')\nexcept OSError as error: print('stopped:', error)\n"
        "try: breach('it reads ' + str(os.listdir(real)))\nexcept OSError as error: print('stopped:', error)",
        "if open('f.txt').read() != 'origin': breach('the file was changed')",
        "try: breach('it reads ' + open(real + '/f.txt').read())\nexcept OSError as error: print('stopped:', error)",
    ),
    _between(
        "mapped_file_of_the_origin",
        "change a mapped file of the origin",
        "import mmap\nopen('m.bin', 'wb').write(b'A' * 8192); f = open('m.bin', 'r+b')\n"
        "m = mmap.mmap(f.fileno(), 0); m[:]",
        "m[0:4] = b'BBBB'\nif open('m.bin', 'rb').read(4) != b'BBBB': breach('the map is not of the own file')",
        "if m[:4] != b'AAAA' or open('m.bin', 'rb').read(4) != b'AAAA': breach('the file was changed')",
        "if m[:4] != b'AAAA' or open('m.bin', 'rb').read(4) != b'AAAA': breach('the file was changed')",
    ),
    _between(
        "flags_as_a_word",
        "talk by the flags of descriptor 0",
        "import fcntl",
        "fcntl.fcntl(0, fcntl.F_SETFL, os.O_APPEND)",
        "if fcntl.fcntl(0, fcntl.F_GETFL) & os.O_APPEND: breach('the flag is seen')",
        "if fcntl.fcntl(0, fcntl.F_GETFL) & os.O_APPEND: breach('the flag is seen')",
    ),
    _between(
        "lock_on_a_library",
        "talk by a lock on a file that every session can read",
        "import fcntl\nlibrary = open(os.__file__)",
        "try_quietly(fcntl.flock, library, fcntl.LOCK_EX)\nkept = library",
        _IS_LOCKED,
        _IS_LOCKED,
    ),
    _between(
        "position_in_a_library",
        "talk by the position in an open file of the interpreter",
        "library = open(os.__file__, 'rb', buffering=0)",
        "library.seek(11)",
        "if library.tell(): breach('the position is seen')",
        "if library.tell(): breach('the position is seen')",
    ),
    _between(
        "control_groups_of_the_branch",
        "find open files of control groups, and move processes with them",
        "",
        "for fd in descriptors():\n"
        "    if os.readlink(f'/proc/self/fd/{fd}').endswith('.procs'): breach('a control group is open')",
        "for fd in descriptors():\n"
        "    if os.readlink(f'/proc/self/fd/{fd}').endswith('.procs'): breach('a control group is open')",
    ),
    Attack(
        "waiting_in_a_library",
        "branches",
        "wait in a page of a library, which all sessions share, and be woken there",
        """
import mmap, threading, time
page = mmap.mmap(os.open(os.__file__, os.O_RDONLY), 4096, prot=mmap.PROT_READ)
import numpy as np
address = np.frombuffer(page, np.uint8).ctypes.data
word = ctypes.c_uint32.from_address(address).value
number = {"x86_64": 202, "aarch64": 98}[platform.machine()]
def futex(kind, value, patience=None):
    return _libc.syscall(*map(ctypes.c_long, (number, address, kind, value)), patience, None, 0)
patience = (ctypes.c_long * 2)(1, 0)
thread = threading.Thread(target=futex, args=(0, word, patience))
thread.start()
time.sleep(0.2)
for kind, name in ((1, "FUTEX_WAKE"), (10, "FUTEX_WAKE_BITSET")):
    if futex(kind, 1) > 0: breach(f"{name} reaches whoever waits there")
thread.join()
""",
    ),
    _between(
        "folder_that_is_gone",
        "branch while the current folder is one that was removed",
        "os.mkdir('gone'); os.chdir('gone'); os.rmdir('../gone')",
        "if os.listdir('.') != ['keep.txt']: breach(f'it stands among {os.listdir()}')",
        "if os.listdir('.') != ['keep.txt']: breach(f'it stands among {os.listdir()}')",
    ),
    _between(
        "files_in_the_standard_places",
        "write to the origin's files by descriptors 0 and 1, in whose places they are",
        "fd = os.open('f.txt', os.O_CREAT | os.O_RDWR); os.write(fd, b'kept')\n"
        "os.dup2(fd, 0); os.dup2(fd, 1); os.close(fd)",
        "os.write(0, b'BRANCH')\nif open('f.txt').read() != 'keptBRANCH': breach('it is not the own file')",
        "if os.lseek(0, 0, 1) != 4 or open('f.txt').read() != 'kept': breach('the file was changed')",
        "if os.lseek(1, 0, 1) != 4 or open('f.txt').read() != 'kept': breach('the file was changed')",
    ),
    _patched(
        "hoard_of_descriptors",
        "keep a copy of every descriptor that the runtime is given for a branch",
        """
hoard = []
wire = guest("wire")
receive = wire.receive
def greedy(sock):
    got = receive(sock)
    if got is not None:
        hoard.extend(os.dup(fd) for fd in got[1])
    return got
wire.receive = greedy
""",
        "for fd in hoard:\n    if stat.S_ISSOCK(os.fstat(fd).st_mode): breach('a socket was kept')",
        "for fd in hoard:\n"
        "    found = try_quietly(os.fstat, fd)\n"
        "    if found and stat.S_ISSOCK(found.st_mode): breach('a socket of a branch was kept')",
        "for fd in hoard:\n    if stat.S_ISSOCK(os.fstat(fd).st_mode): breach('a socket was kept')",
    ),
    _patched(
        "socket_of_the_origin",
        "keep the origin's own socket and outbox in a branch",
        """
session = guest("session")
become = session.become_branch
saved = []
def greedy(*args):
    saved.extend(os.dup(fd) for fd in (101, 102, 103))
    return become(*args)
session.become_branch = greedy
""",
        "for fd in saved:\n    if try_quietly(os.fstat, fd): breach('it holds what is the origin\\'s')",
    ),
    _patched(
        "map_of_the_origins_outbox",
        "keep a mapping of the origin's outbox in a branch",
        """
import mmap
session = guest("session")
become = session.become_branch
saved = []
def greedy(*args):
    saved.append(mmap.mmap(102, 4096))
    return become(*args)
session.become_branch = greedy
""",
        "if saved: breach('the branch has mapped what is the origin\\'s')",
    ),
    _patched(
        "files_of_the_origin_stay_open",
        "do not open the origin's files again in a branch",
        """
descriptors_module = guest("descriptors")
f = os.open('f.txt', os.O_CREAT | os.O_RDWR); os.write(f, b'origin')
descriptors_module.take_along = lambda kept: None
""",
        "try_quietly(os.pwrite, f, b'BRANCH', 0)",
        "if os.pread(f, 6, 0) != b'origin': breach('the file was changed')",
    ),
    _patched(
        "process_left_in_the_origins_group",
        "fork a process while the branch is made, which stays beside both",
        """
session = guest("session")
become = session.become_branch
def greedy(*args):
    if _libc.syscall(56 if platform.machine() == "x86_64" else 220, 0x8000 | 17, 0, 0, 0, 0) == 0:
        import time
        while True:
            time.sleep(0.01)
            try: os.write(101, b'{"op":"stray"}')
            except OSError: pass
    return become(*args)
session.become_branch = greedy
""",
        "breach('a branch was made with a process beside it')",
    ),
)
