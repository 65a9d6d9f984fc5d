"""Attacks on rollback: what a failed call leaves in descriptors, files, mappings and the process, seen by a later call.

`before` is kept, `code` fails, and `after` looks. A sandbox that closes what it cannot put back leaves nothing to see.
"""

from __future__ import annotations

from saccade.plugins.audit.attacks.attack import Attack

_FAIL = "\nraise RuntimeError('this call fails')\n"


def trace(name: str, tries: str, before: str, code: str, after: str) -> Attack:
    """Return an attack whose `code` fails: what of it can `after` see?"""
    return Attack(name, "rollback", tries, code + _FAIL, before=before, after=after)


_HIGH = "import fcntl\ndef high(fd, at):\n    os.dup2(fd, at); os.close(fd); return at\n"

ROLLBACK = (
    trace(
        "bytes_in_a_pipe",
        "leave bytes in a pipe that was kept",
        _HIGH + "r, w = os.pipe(); r, w = high(r, 110), high(w, 111); os.set_blocking(r, False)",
        "os.write(w, b'left')",
        "data = try_quietly(os.read, r, 10)\nif data: breach(f'the pipe holds {data}')",
    ),
    trace(
        "bytes_in_a_socket_pair",
        "leave bytes in a pair of sockets that was kept",
        "a, b = socket.socketpair(); b.setblocking(False)",
        "a.send(b'left')",
        "data = try_quietly(b.recv, 10)\nif data: breach(f'the socket holds {data}')",
    ),
    trace(
        "descriptors_in_flight",
        "leave an open file in a socket that was kept",
        "a, b = socket.socketpair(); b.setblocking(False); f = open('in_flight.txt', 'w')",
        "socket.send_fds(a, [b'x'], [f.fileno()])",
        "data = try_quietly(socket.recv_fds, b, 10, 4)\nif data and data[1]: breach('a descriptor came through')",
    ),
    trace(
        "counter_of_an_event",
        "count up an eventfd that was kept",
        "e = os.eventfd(0, os.EFD_NONBLOCK)",
        "os.eventfd_write(e, 7)",
        "n = try_quietly(os.eventfd_read, e)\nif n: breach(f'the counter stands at {n}')",
    ),
    trace(
        "timer_descriptor",
        "set a timer that was kept as a descriptor",
        "t = _libc.timerfd_create(1, 0o4000)",
        "import struct\n"
        "print(_libc.timerfd_settime(t, 0, ctypes.create_string_buffer(struct.pack('4q', 0, 0, 0, 1)), None))",
        "import time\ntime.sleep(0.05)\ndata = try_quietly(os.read, t, 8)\nif data: breach('the timer went off')",
    ),
    trace(
        "watched_descriptors",
        "add a descriptor to an epoll that was kept",
        "import select\nep = select.epoll(); r, w = os.pipe()",
        "os.write(w, b'x'); ep.register(r, select.EPOLLIN)",
        "data = try_quietly(ep.poll, 0)\nif data: breach(f'the epoll watches {data}')",
    ),
    trace(
        "offset_of_a_high_descriptor",
        "move the position of a file beyond the runtime's own descriptors",
        _HIGH + "open('f.txt', 'w').write('0123456789'); fd = high(os.open('f.txt', os.O_RDWR), 119)",
        "os.lseek(fd, 7, 0)",
        "at = try_quietly(os.lseek, fd, 0, 1)\nif at: breach(f'the position is {at}')",
    ),
    trace(
        "offset_of_a_folder",
        "read part of a folder that was kept open",
        "open('one', 'w').close(); d = os.open('.', os.O_RDONLY)",
        "list(os.scandir(d))",
        "n = try_quietly(lambda: len(os.listdir(d)))\nif n == 0: breach('the folder is read already')",
    ),
    trace(
        "flags_of_a_file",
        "change the flags of a file that was kept open",
        "import fcntl\nopen('f.txt', 'w').write('0123456789'); fd = os.open('f.txt', os.O_RDWR)",
        "fcntl.fcntl(fd, fcntl.F_SETFL, os.O_APPEND | os.O_NONBLOCK)",
        "flags = try_quietly(fcntl.fcntl, fd, fcntl.F_GETFL)\n"
        "if flags and flags & os.O_APPEND: breach('O_APPEND stays')",
    ),
    trace(
        "flags_of_a_file_that_comes_back",
        "remove a file that was kept open with rare flags, so that it is opened again",
        "import fcntl\nopen('f.txt', 'w').close(); fd = os.open('f.txt', os.O_RDWR | os.O_SYNC); os.dup2(fd, 77)\n"
        "place = os.open('f.txt', os.O_PATH); fcntl.fcntl(fd, fcntl.F_SETFL, os.O_ASYNC)\n"
        "def flags(): return [fcntl.fcntl(each, ask) for each in (fd, 77, place) for ask in (1, 3)]\nseen = flags()",
        "os.remove('f.txt')",
        "if flags() != seen: breach(f'{seen} became {flags()}')",
    ),
    trace(
        "flags_of_standard_input",
        "change the flags of descriptor 0",
        "import fcntl",
        "fcntl.fcntl(0, fcntl.F_SETFL, os.O_APPEND | os.O_NONBLOCK)",
        "if fcntl.fcntl(0, fcntl.F_GETFL) & (os.O_APPEND | os.O_NONBLOCK): breach('the flags stay')",
    ),
    trace(
        "lock_on_a_kept_file",
        "lock a file that was kept open",
        "import fcntl\nopen('f.txt', 'w').close(); fd = os.open('f.txt', os.O_RDWR)",
        "fcntl.flock(fd, fcntl.LOCK_EX)",
        "other = os.open('f.txt', os.O_RDWR)\n"
        "try: fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)\n"
        "except OSError: breach('the lock stays')",
    ),
    trace(
        "lock_of_a_description",
        "lock a range of a file that was kept open, by its open description",
        "import fcntl, struct\nopen('f.txt', 'w').close(); fd = os.open('f.txt', os.O_RDWR)",
        "fcntl.fcntl(fd, 37, struct.pack('hhqqi4x', 1, 0, 0, 0, 0))",
        "other = os.open('f.txt', os.O_RDWR)\n"
        "told = fcntl.fcntl(other, 36, struct.pack('hhqqi4x', 1, 0, 0, 0, 0))\n"
        "if struct.unpack('hhqqi4x', told)[0] != 2: breach('the lock stays')",
    ),
    trace(
        "file_without_a_name",
        "write to a file that was opened without a name and kept",
        "fd = try_quietly(os.open, '.', os.O_TMPFILE | os.O_RDWR, 0o600)",
        "os.pwrite(fd, b'left', 0)",
        "data = try_quietly(os.pread, fd, 10, 0)\nif data: breach(f'the file holds {data}')",
    ),
    trace(
        "removed_file",
        "write to a file that was removed while it was open, and kept",
        "f = open('gone.txt', 'w+'); os.remove('gone.txt')",
        "f.write('left'); f.flush()",
        "data = try_quietly(os.pread, f.fileno(), 10, 0)\nif data: breach(f'the file holds {data}')",
    ),
    trace(
        "temporary_file",
        "write to a file of tempfile that was kept",
        "import tempfile\nf = tempfile.TemporaryFile()",
        "f.write(b'left'); f.flush()",
        "data = try_quietly(os.pread, f.fileno(), 10, 0)\nif data: breach(f'the file holds {data}')",
    ),
    trace(
        "name_taken_from_a_kept_file",
        "remove a file that is open and make another of its name",
        "f = open('f.txt', 'w+'); f.write('kept'); f.flush()",
        "os.remove('f.txt'); open('f.txt', 'w').write('other'); f.seek(0); f.write('LEFT'); f.flush()",
        "f.seek(0); text = f.read(); f.seek(0); f.write('more'); f.flush()\n"
        "if text != 'kept' or open('f.txt').read() != 'more': breach(f'the open file reads {text!r}')",
    ),
    trace(
        "page_of_a_mapped_array",
        "change a mapped array that was read first, so that no time is stamped",
        "import numpy as np\nm = np.memmap('m.bin', np.uint8, 'w+', shape=8192); m[:] = 65; m.flush()",
        "int(m.sum()); m[:4] = 66",
        "if bytes(m[:4]) != b'AAAA' or open('m.bin', 'rb').read(4) != b'AAAA': breach('the page stays')",
    ),
    trace(
        "page_of_a_short_mapping",
        "map a file, change a page of it and take the mapping away",
        "import mmap\nopen('m.bin', 'wb').write(b'A' * 8192)",
        "with open('m.bin', 'r+b') as f, mmap.mmap(f.fileno(), 0) as m: m[:]; m[0:4] = b'BBBB'",
        "if open('m.bin', 'rb').read(4) != b'AAAA': breach('the page stays')",
    ),
    trace(
        "kept_change_through_a_mapping",
        "keep a change through a mapping, then fail: the kept one must stay",
        "import mmap\nopen('m.bin', 'wb').write(b'A' * 8192)\nf = open('m.bin', 'r+b')\n"
        "m = mmap.mmap(f.fileno(), 0); m[:]",
        "open('x', 'w').close()",
        "if keep != 'kept' or m[:4] != b'AAAA': breach('the mapping differs')",
    ),
    trace(
        "private_pages_of_a_cut_file",
        "cut off, hollow out or replace files of which a kept call has changed private pages",
        "import mmap\n"
        "for n in 'cut', 'hollow', 'other', 'gone': open(n, 'wb').write(b'A' * 9000)\n"
        "maps = {n: mmap.mmap(os.open(n, os.O_RDWR), 4096, access=mmap.ACCESS_COPY, offset=at)\n"
        "        for n, at in (('cut', 0), ('hollow', 4096), ('other', 0), ('gone', 0))}\n"
        "for m in maps.values(): m[:4] = b'MINE'\nos.remove('gone')",
        "os.truncate('cut', 0); open('cut', 'wb').write(b'B' * 9000)\n"
        "_libc.fallocate(os.open('hollow', os.O_RDWR), 3, ctypes.c_long(0), ctypes.c_long(8192))\n"
        "os.truncate('other', 1); os.remove('other'); open('other', 'wb').write(b'B' * 9000)",
        "for n, m in maps.items():\n    if m[:] != b'MINE' + b'A' * 4092: breach(f'{n} shows {m[:8]}')",
    ),
    Attack(
        "kept_change_without_a_time",
        "rollback",
        "keep a change that no time tells of, then fail in a way that rewrites files",
        "open('m.bin', 'r+b').write(b'CCCC')" + _FAIL,
        before="""
import mmap
open('m.bin', 'wb').write(b'A' * 8192)
with open('m.bin', 'r+b') as f, mmap.mmap(f.fileno(), 0) as m:
    m[:]
    stamps = os.stat('m.bin')
    m[0:4] = b'BBBB'
os.utime('m.bin', ns=(stamps.st_atime_ns, stamps.st_mtime_ns))
""",
        after="data = open('m.bin', 'rb').read(4)\nif data != b'BBBB': breach(f'the file holds {data}')",
    ),
    trace(
        "full_disk",
        "fill the disk and remove what was kept",
        "open('precious', 'wb').write(b'p' * 4_000_000); big = list(range(1000))",
        "os.remove('precious')\n"
        "for i in range(40):\n"
        "    try: open(f'full{i}', 'wb').write(b'x' * (7 << 20))\n"
        "    except OSError as error: print('stopped:', error)\n"
        "open('keep.txt', 'ab').write(b'y' * 4000) if False else None",
        "if sum(big) != 499500 or open('precious', 'rb').read() != b'p' * 4_000_000: breach('something is gone')\n"
        "if any(name.startswith('full') for name in os.listdir('.')): breach('files are left')",
    ),
    trace(
        "full_disk_by_a_kept_file",
        "fill the disk with a file that was kept, and remove the others",
        "open('a', 'wb').write(b'a' * 3_000_000); open('z', 'wb').write(b'z' * 3_000_000)",
        "os.remove('z')\n"
        "for name in 'a', 'keep.txt':\n"
        "    with open(name, 'ab') as f:\n"
        "        try:\n"
        "            for _ in range(64): f.write(b'x' * (1 << 20)); f.flush()\n"
        "        except OSError as error: print('stopped:', error)",
        "for name in 'a', 'z':\n    if open(name, 'rb').read() != name.encode() * 3_000_000: breach(name + ' differs')",
    ),
    trace(
        "holes_that_were_filled",
        "fill the holes of a file that does not end with a page",
        "with open('s', 'wb') as f: f.truncate(30_001); f.seek(9000); f.write(b'x')\nroom = os.stat('s').st_blocks",
        "open('s', 'r+b').write(bytes(30_001))",
        "if os.stat('s').st_blocks != room: breach(f'it took {room} blocks, and now {os.stat(\"s\").st_blocks}')",
    ),
    trace(
        "room_of_removed_files",
        "remove files that are open, mapped or the current folder, which would go on taking room beside the new ones",
        "import mmap, time\nos.mkdir('d'); os.chdir('d'); open('f', 'wb').write(b'x' * 99_000)\n"
        "f = open('f', 'r+b'); m = mmap.mmap(f.fileno(), 0)\n"
        "def room(): there = os.statvfs('.'); return there.f_blocks - there.f_bfree, there.f_files - there.f_ffree\n"
        "taken = room()",
        "os.remove('f'); os.chdir('..'); os.rmdir('d')",
        "end = time.monotonic() + 2\n"
        "while room() > taken and taken[1] < 99 and time.monotonic() < end: time.sleep(0.01)\n"
        "if room() > taken and taken[1] < 99: breach(f'{taken} blocks and files became {room()}')\n"
        "os.chdir(os.environ['TMPDIR'])",
    ),
    trace(
        "memory_that_no_fork_inherits",
        "have the kernel wipe memory, or leave it out, when the next process is made",
        "import mmap\nm = mmap.mmap(-1, 4096, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS); m[:4] = b'kept'\n"
        "for advice in 18, 10: try_quietly(m.madvise, advice)",
        "m[:4] = b'LEFT'",
        "if m[:4] != b'kept': breach(f'it holds {m[:4]}')",
    ),
    trace(
        "times_of_folders",
        "change the times of folders and files",
        "os.mkdir('d'); open('d/x', 'w').close(); os.utime('d', (5, 5)); os.utime('d/x', (6, 6))\n"
        "os.utime('.', (7, 7)); seen = [os.stat(p).st_mtime for p in ('.', 'd', 'd/x')]",
        "open('d/y', 'w').close(); os.utime('d/x', (8, 9)); os.remove('d/y')",
        "now = [os.stat(p).st_mtime for p in ('.', 'd', 'd/x')]\nif now != seen: breach(f'{seen} became {now}')",
    ),
    trace(
        "names_of_one_file",
        "break up the two names of one file",
        "open('one', 'w').write('same'); os.link('one', 'two')",
        "os.remove('one'); open('one', 'w').write('other')",
        "open('one', 'a').write('!')\nif open('two').read() != 'same!': breach('the names stand for two files')",
    ),
    trace(
        "current_folder",
        "remove the folder in which the session stands",
        "os.mkdir('here'); os.chdir('here'); open('x', 'w').write('x')",
        "import shutil\nos.chdir('..'); shutil.rmtree('here')",
        "try: found = (os.getcwd(), os.listdir('.'))\nexcept OSError as error: found = error\n"
        "os.chdir(os.environ['TMPDIR'])\n"
        "if 'here' not in str(found) or 'x' not in str(found): breach(f'it stands in {found}')",
    ),
    trace(
        "mode_of_the_top_folder",
        "close the top folder of the workspace to everybody",
        "",
        "os.chmod('.', 0)",
        "if not os.stat('.').st_mode & 0o700 or not os.path.exists('keep.txt'): breach('the folder stays closed')",
    ),
    trace(
        "bytes_behind_stdout",
        "leave bytes in the memory behind descriptors 1 and 2, beyond what is read",
        "",
        "for fd in descriptors():\n"
        "    if stat.S_ISREG(os.fstat(fd).st_mode) and os.fstat(fd).st_size: "
        "try_quietly(os.pwrite, fd, b'LEFT-BEHIND', os.fstat(fd).st_size - 64)",
        "for fd in descriptors():\n"
        "    if stat.S_ISREG(os.fstat(fd).st_mode) and os.fstat(fd).st_size:\n"
        "        data = try_quietly(os.pread, fd, 11, os.fstat(fd).st_size - 64)\n"
        "        if data == b'LEFT-BEHIND': breach(f'descriptor {fd} holds it')",
    ),
    trace(
        "shared_device_memory",
        "keep memory that is shared through a device, and change it",
        "import mmap\ntry: z = mmap.mmap(os.open('/dev/zero', os.O_RDWR), 4096)\n"
        "except OSError as error: print(error); z = None",
        "z[:4] = b'LEFT'",
        "if globals().get('z') is not None and z[:4] == b'LEFT': breach('the memory holds it')",
    ),
    trace(
        "mapping_of_the_outbox",
        "keep a mapping of the runtime's own shared memory, and write to it",
        "import mmap\nmaps = []\n"
        "for fd in descriptors():\n"
        "    if stat.S_ISREG(os.fstat(fd).st_mode) and os.fstat(fd).st_size >= 4096:\n"
        "        made = try_quietly(mmap.mmap, fd, 4096); maps += [made] if made else []",
        "for m in maps: m[2000:2004] = b'LEFT'",
        "for m in globals().get('maps', []):\n    if m[2000:2004] == b'LEFT': breach('the memory holds it')",
    ),
    trace(
        "database_in_a_transaction",
        "fail in the middle of a transaction of a kept database",
        "import sqlite3\nc = sqlite3.connect('d.db'); c.execute('create table t(x)')\n"
        "c.execute('insert into t values(1)'); c.commit()",
        "c.execute('insert into t values(2)'); c.commit(); c.execute('insert into t values(3)')",
        "found = c.execute('select x from t').fetchall()\nif found != [(1,)]: breach(f'the table holds {found}')\n"
        "c.execute('insert into t values(4)'); c.commit()",
    ),
)

# Attacks of branches on their origin and on each other: `before` prepares, `branch` and `sibling` and `after` look.

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


def between(name: str, tries: str, before: str, branch: str, after: str = "", sibling: str = "") -> Attack:
    """Return an attack of a branch on its origin, or the other way round: what does one see of the other?"""
    return Attack(name, "branches", tries, "pass\n", before=before, branch=branch, sibling=sibling, after=after)


def _patched(name: str, tries: str, before: str, branch: str, after: str = "", sibling: str = "") -> Attack:
    """Return one whose program has patched its runtime: the sandbox may end it, or refuse to branch it."""
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
    between(
        "pipe_between_siblings",
        "talk to a sibling through a pipe of the origin",
        "r, w = os.pipe(); os.dup2(r, 120); os.dup2(w, 121); os.set_blocking(120, False)",
        "try_quietly(os.write, 121, b'from a branch')",
        "data = try_quietly(os.read, 120, 20)\nif data: breach(f'the origin heard {data}')",
        "data = try_quietly(os.read, 120, 20)\nif data: breach(f'a sibling heard {data}')",
    ),
    between(
        "file_of_the_origin",
        "write to a file that the origin holds open",
        "f = open('f.txt', 'w+'); f.write('origin'); f.flush(); os.dup2(f.fileno(), 122)",
        "os.pwrite(122, b'BRANCH', 0)\nf.seek(0); f.write('BRANCH'); f.flush()",
        "if os.pread(122, 6, 0) != b'origin' or open('f.txt').read() != 'origin': breach('the file was changed')",
        "if os.pread(122, 6, 0) != b'origin' or open('f.txt').read() != 'origin': breach('the file was changed')",
    ),
    between(
        "position_in_a_file_of_the_origin",
        "move the position of a file that the origin holds open",
        "f = os.open('f.txt', os.O_CREAT | os.O_RDWR); os.write(f, b'0123456789'); os.lseek(f, 0, 0)",
        "os.lseek(f, 5, 0)",
        "if os.lseek(f, 0, 1): breach('the position was moved')",
        "if os.lseek(f, 0, 1): breach('the position was moved')",
    ),
    between(
        "folder_of_the_origin_by_its_path",
        "go to the origin's folder by the path that was seen in the origin",
        "real = os.readlink('/proc/self/cwd'); open('f.txt', 'w').write('origin')",
        "try: open(real + '/f.txt', 'w').write('BRANCH')\nexcept OSError as error: print('stopped:', error)\n"
        "try: breach('it reads ' + str(os.listdir(real)))\nexcept OSError as error: print('stopped:', error)",
        "if open('f.txt').read() != 'origin': breach('the file was changed')",
        "try: breach('it reads ' + open(real + '/f.txt').read())\nexcept OSError as error: print('stopped:', error)",
    ),
    between(
        "mapped_file_of_the_origin",
        "change a mapped file of the origin",
        "import mmap\nopen('m.bin', 'wb').write(b'A' * 8192); f = open('m.bin', 'r+b')\n"
        "m = mmap.mmap(f.fileno(), 0); m[:]",
        "m[0:4] = b'BBBB'\nif open('m.bin', 'rb').read(4) != b'BBBB': breach('the map is not of the own file')",
        "if m[:4] != b'AAAA' or open('m.bin', 'rb').read(4) != b'AAAA': breach('the file was changed')",
        "if m[:4] != b'AAAA' or open('m.bin', 'rb').read(4) != b'AAAA': breach('the file was changed')",
    ),
    between(
        "private_pages_in_a_branch",
        "cut off, in a branch, a file of which the origin has changed private pages",
        "import mmap\nopen('p.bin', 'wb').write(b'A' * 8192)\n"
        "m = mmap.mmap(os.open('p.bin', os.O_RDWR), 0, access=mmap.ACCESS_COPY); m[:4] = b'MINE'",
        "if m[:] != b'MINE' + b'A' * 8188: breach('the branch shows other bytes')\n"
        "open('p.bin', 'wb').write(b'B'); m[:4] = b'THEM'",
        "if m[:] != b'MINE' + b'A' * 8188: breach('the origin shows other bytes')",
        "if m[:] != b'MINE' + b'A' * 8188: breach('the sibling shows other bytes')",
    ),
    between(
        "flags_as_a_word",
        "talk by the flags of descriptor 0",
        "import fcntl",
        "fcntl.fcntl(0, fcntl.F_SETFL, os.O_APPEND)",
        "if fcntl.fcntl(0, fcntl.F_GETFL) & os.O_APPEND: breach('the flag is seen')",
        "if fcntl.fcntl(0, fcntl.F_GETFL) & os.O_APPEND: breach('the flag is seen')",
    ),
    between(
        "flags_of_files_in_a_branch",
        "tell by the flags of open files whether one is a branch",
        "import fcntl\nopen('f.txt', 'w').close(); fd = os.open('f.txt', os.O_RDWR | os.O_DSYNC); os.dup2(fd, 77)\n"
        "def flags(): return [fcntl.fcntl(each, ask) for each in (0, 1, 2, fd, 77) for ask in (1, 3)]\nseen = flags()",
        "if flags() != seen: breach(f'{seen} became {flags()}')",
    ),
    between(
        "lock_on_a_library",
        "talk by a lock on a file that every session can read",
        "import fcntl\nlibrary = open(os.__file__)",
        "try_quietly(fcntl.flock, library, fcntl.LOCK_EX)\nkept = library",
        _IS_LOCKED,
        _IS_LOCKED,
    ),
    between(
        "position_in_a_library",
        "talk by the position in an open file of the interpreter",
        "library = open(os.__file__, 'rb', buffering=0)",
        "library.seek(11)",
        "if library.tell(): breach('the position is seen')",
        "if library.tell(): breach('the position is seen')",
    ),
    between(
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
    between(
        "folder_that_is_gone",
        "branch while the current folder is one that was removed",
        "os.mkdir('gone'); os.chdir('gone'); os.rmdir('../gone')",
        "if os.listdir('.') != ['keep.txt']: breach(f'it stands among {os.listdir()}')",
        "if os.listdir('.') != ['keep.txt']: breach(f'it stands among {os.listdir()}')",
    ),
    between(
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
