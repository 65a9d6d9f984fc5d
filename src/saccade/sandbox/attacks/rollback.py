"""Attacks on rollback: what a failed call leaves in descriptors, files, mappings and the process, seen by a later call.

`before` is kept, `code` fails, and `after` looks. A sandbox that closes what it cannot put back leaves nothing to see.
"""

from __future__ import annotations

from saccade.sandbox.attacks.attack import Attack

_FAIL = "\nraise RuntimeError('this call fails')\n"


def trace(name: str, tries: str, before: str, code: str, after: str) -> Attack:
    """An attack whose `code` fails: what of it can `after` see?"""
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
