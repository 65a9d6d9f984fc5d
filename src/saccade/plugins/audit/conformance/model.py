"""Programs drawn at random over every kind of state, with failures, kills and branches, held against a simple model.

    async with MySandbox(limits=LIMITS) as sandbox:
        await play(sandbox, draw(random.Random(7), 200))

Each step is a call of one of several sessions, or a branch. After it the session is asked for all it can observe, and
that must be what `world.ModelWorld` says. `play` raises `ConformanceError` at the first difference, with the steps that
led there. Steps are plain data, so that hypothesis can draw and shrink them, too.
"""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from saccade.plugins.audit.conformance.check import CheckGroup, ConformanceError, describe
from saccade.record.execution import Status
from saccade.sandbox.base import Sandbox, Session

# A model of what a session holds: memory, files by inode, open files, mappings, the process. It shares nothing, ever.
#
# An operation changes the model and says which Python code does the same in a session. A failed call is a model that
# was copied before and is taken again, a branch is a copy: so simple that it cannot be wrong about either.

NAMES = ("a", "b", "d/c")
HANDLES = ("f0", "f1")
MAPS = ("m0",)
PAGE = 64
"""Bytes of a file that is mapped."""


@dataclass
class Inode:
    """A file, whatever its names."""

    data: bytearray
    mtime: int = 0


@dataclass
class Handle:
    """An open file: the name that it was opened by (which follows a rename), or None once that name is gone."""

    inode: Inode
    path: str | None
    position: int = 0
    append: bool = False


@dataclass
class ModelWorld:
    """All that one session holds: memory, files and their names, open files, mappings, the process's own settings."""

    numbers: list[int] = field(default_factory=list)
    names: dict[str, Inode] = field(default_factory=dict)
    folder: bool = False
    """Whether the folder `d` exists."""
    inside: bool = False
    """Whether the session stands in it."""
    handles: dict[str, Handle | None] = field(default_factory=dict)
    """None for one that is closed."""
    maps: dict[str, Handle] = field(default_factory=dict)
    place: Handle | None = None
    """A file that is open for its place only (`O_PATH`)."""
    hidden: bytes = b""
    """Private memory of a mapped file with changes, which may be neither read nor written."""
    overlay: Inode | bytes | None = None
    """A file that is mapped privately, or what such a map holds: once it was written to, or a call has ended."""
    changed: list[Inode] = field(default_factory=list)
    """Files that the present call has mapped privately and changed there: cut off, they would lose it."""
    ends: dict[str, bool] = field(default_factory=dict)
    """Kind of what holds bytes or a count in the kernel -> whether the session's one of it works."""
    variable: str = ""
    umask: int = 0o077
    symlink: bool = False
    """Whether there is a symlink with two names."""
    last: dict[str, object] = field(default_factory=dict)
    """What was seen last of that which nobody can foretell (order of names, room that files take, what is left to read
    of a folder, flags of open files): only a call that is kept may change it. Empty after such a one."""
    generator: random.Random = field(default_factory=lambda: random.Random(1))

    def copied(self) -> ModelWorld:
        """Return a world that shares nothing with this one."""
        return copy.deepcopy(self)

    def ended(self) -> bool:
        """Close what cannot outlive a call that is kept; False if the call as a whole cannot be kept."""
        if any(kept.path is None for kept in self.maps.values()):
            return False
        self.handles = {name: kept if kept and kept.path else None for name, kept in self.handles.items()}
        self.place = self.place if self.place and self.place.path else None
        self.ends = dict.fromkeys(self.ends, False)
        self.overlay, self.changed = self.overlaid(), []
        return True

    def overlaid(self) -> bytes | None:
        """Return what the private map shows."""
        return bytes(self.overlay.data[:PAGE]) if isinstance(self.overlay, Inode) else self.overlay

    def forget(self, path: str) -> None:
        """A name is gone: what was opened by it has none any more."""
        self.names.pop(path, None)
        for kept in self.opened():
            if kept.path == path:
                kept.path = None

    def opened(self) -> list[Handle]:
        """Return all that was opened by a name."""
        return [kept for kept in (*self.handles.values(), *self.maps.values(), self.place) if kept is not None]

    def seen(self) -> dict[str, object]:
        """Return the text that `OBSERVE` must print."""
        handles: dict[str, object] = {}
        for name, kept in self.handles.items():
            handles[name] = kept and [kept.inode.data.decode("latin-1"), kept.position, kept.append]
        shown = {path: inode.data.decode("latin-1") for path, inode in self.names.items()}
        return {
            "numbers": self.numbers,
            "files": shown,
            "links": sorted([p, q] for p in self.names for q in self.names if p < q and self.names[p] is self.names[q]),
            "times": {path: inode.mtime for path, inode in self.names.items() if inode.mtime},
            "folder": self.folder,
            "symlink": [2, 2] if self.symlink else [],
            "inside": self.inside,
            "handles": handles,
            "maps": {name: kept.inode.data[:PAGE].decode("latin-1") for name, kept in self.maps.items()},
            "place": self.place and self.place.inode.data.decode("latin-1"),
            "hidden": self.hidden.decode(),
            "overlay": (self.overlaid() or b"").decode("latin-1"),
            "ends": self.ends,
            "timer": [0.0, True],
            "variable": self.variable,
            "umask": self.umask,
            "drawn": copy.deepcopy(self.generator).randrange(10**9),
        }


LAST = ("order", "room", "rest", "flags")

PREPARE = """
import ctypes, fcntl, json, mmap, os, platform, random, shutil, signal, socket
libc, reader = ctypes.CDLL(None), os.open(".", os.O_RDONLY)
getdents = {"x86_64": 217, "aarch64": 61}[platform.machine()]
def read_on(most):
    buffer, at, found = ctypes.create_string_buffer(most), 0, []
    size = libc.syscall(getdents, reader, buffer, most)
    while at < size:
        length = int.from_bytes(buffer.raw[at + 16:at + 18], "little")
        found.append(os.fsdecode(buffer.raw[at + 19:at + length].split(b"\\0")[0])); at += length
    return found
libc.mmap.restype, whole = ctypes.c_void_p, ctypes.c_size_t(mmap.PAGESIZE)
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
numbers, handles, maps, ends, generator = [], {}, {}, {}, random.Random(1)
place, hidden, overlay = None, None, b""
def hide(path, data):
    global hidden
    if hidden: libc.munmap(ctypes.c_void_p(hidden), whole)
    with open(path, "r+b") as file: hidden = libc.mmap(None, mmap.PAGESIZE, 3, mmap.MAP_PRIVATE, file.fileno(), 0)
    ctypes.memmove(hidden, data, len(data))
    libc.mprotect(ctypes.c_void_p(hidden), whole, 0)
def hold(kind, read, write):
    ends[kind] = read, write
    os.write(write, b"leftover")
    assert os.read(read, 99) == b"leftover"
def put(path, data):
    with open(path, "r+b" if os.path.exists(path) else "wb") as file:
        file.write(data)
        file.truncate()
    os.chmod(path, 0o600)
"""

OBSERVE = """
def observe(names=("a", "b", "d/c")):
    top = os.environ["TMPDIR"]
    here = {name: os.path.join(top, name) for name in names if os.path.exists(os.path.join(top, name))}
    stats = {name: os.stat(path) for name, path in here.items()}
    seen = {"numbers": numbers, "files": {}, "handles": {}}
    seen["maps"] = {name: m[:64].decode("latin-1") for name, m in maps.items()}
    for name, path in here.items():
        with open(path, "rb") as file: seen["files"][name] = file.read().decode("latin-1")
    for name, file in handles.items():
        try:
            size = os.fstat(file.fileno()).st_size
            where, flags = os.lseek(file.fileno(), 0, 1), fcntl.fcntl(file.fileno(), fcntl.F_GETFL)
            data = os.pread(file.fileno(), size + 10, 0).decode("latin-1")
            seen["handles"][name] = [data, where, bool(flags & os.O_APPEND)]
        except (OSError, ValueError):
            seen["handles"][name] = None
    seen["links"] = sorted([p, q] for p in here for q in here if p < q and stats[p].st_ino == stats[q].st_ino)
    seen["times"] = {name: int(s.st_mtime) for name, s in stats.items() if s.st_mtime < 1e9}
    seen["folder"] = os.path.isdir(os.path.join(top, "d"))
    two = [os.path.join(top, name) for name in ("s", "t")]
    seen["symlink"] = [os.lstat(path).st_nlink for path in two if os.path.islink(path)]
    seen["order"] = [os.listdir(top), os.listdir(os.path.join(top, "d")) if seen["folder"] else []]
    seen["room"] = {name: s.st_blocks for name, s in stats.items()}
    asked = (file.fileno() for file in handles.values())
    seen["flags"] = [[fd, libc.fcntl(fd, 1), libc.fcntl(fd, 3)] for fd in (0, 1, 2, reader, *asked)]
    where = os.lseek(reader, 0, 1)
    seen["rest"] = read_on(10_000)
    os.lseek(reader, where, 0)
    seen["place"], there = None, f"/proc/self/fd/{place}"
    if os.path.isfile(there):
        with open(there, "rb") as file: seen["place"] = file.read().decode("latin-1")
    seen["hidden"], seen["overlay"] = "", overlay[:64].decode("latin-1")
    if hidden:
        libc.mprotect(ctypes.c_void_p(hidden), whole, 1)
        seen["hidden"] = ctypes.string_at(hidden, 64).decode()
        libc.mprotect(ctypes.c_void_p(hidden), whole, 0)
    seen["inside"] = os.path.basename(os.getcwd()) == "d"
    seen["ends"] = {}
    for kind, (read, write) in ends.items():
        try: os.write(write, b"leftover"); seen["ends"][kind] = os.read(read, 99) == b"leftover"
        except OSError: seen["ends"][kind] = False
    seen["timer"] = [signal.getitimer(signal.ITIMER_REAL)[0], signal.getsignal(signal.SIGUSR2) is signal.SIG_DFL]
    seen["variable"], seen["umask"] = os.environ.get("MODEL", ""), os.umask(0)
    os.umask(seen["umask"])
    twin = random.Random(); twin.setstate(generator.getstate())
    seen["drawn"] = twin.randrange(10**9)
    return json.dumps(seen)
print(observe())
"""


def described(printed: str) -> dict[str, object] | None:
    """Read the output of an observation; None if it is none."""
    try:
        seen = json.loads(printed)
    except ValueError:
        return None
    return seen if isinstance(seen, dict) else None


@dataclass(frozen=True)
class ModelOperation:
    """Something that a program does. `choice` is a random number from which it takes what it needs."""

    name: str
    choice: int

    def apply(self, world: ModelWorld) -> str:
        """Do it to the model; the code that does it in a session, empty where there is nothing to do it to."""
        return OPERATIONS[self.name](world, self.choice)


def _path(world: ModelWorld, choice: int) -> str:
    name = NAMES[choice % len(NAMES)]
    return name if world.folder or "/" not in name else "a"


def _real(path: str) -> str:
    return f"os.path.join(os.environ['TMPDIR'], {path!r})"


def _text(choice: int, length: int) -> bytes:
    return bytes(65 + (choice + index) % 26 for index in range(length))


def _number(world: ModelWorld, choice: int) -> str:
    world.numbers.append(choice)
    return f"numbers.append({choice})"


def _write(world: ModelWorld, choice: int) -> str:
    path, data = _path(world, choice), _text(choice, PAGE + choice % 7)
    if path in world.names:
        world.names[path].data[:] = data
        world.names[path].mtime = 0
    else:
        world.names[path] = Inode(bytearray(data))
    # Not truncated first: a file that is mapped must not get shorter than its map.
    return f"put({_real(path)}, {data!r})"


def _remove(world: ModelWorld, choice: int) -> str:
    path = _path(world, choice)
    if path not in world.names:
        return ""
    world.forget(path)
    return f"os.remove({_real(path)})"


def _rename(world: ModelWorld, choice: int) -> str:
    if "a" not in world.names or world.names.get("b") is world.names["a"]:
        return ""
    inode = world.names["a"]
    moved = [kept for kept in world.opened() if kept.path == "a"]
    world.forget("b")
    world.forget("a")
    world.names["b"] = inode
    for kept in moved:
        kept.path = "b"
    return f"os.rename({_real('a')}, {_real('b')})"


def _link(world: ModelWorld, choice: int) -> str:
    if "a" not in world.names or "b" in world.names:
        return ""
    world.names["b"] = world.names["a"]
    return f"os.link({_real('a')}, {_real('b')})"


def _stamp(world: ModelWorld, choice: int) -> str:
    path = _path(world, choice)
    if path not in world.names:
        return ""
    world.names[path].mtime = choice % 1000 + 1
    return f"os.utime({_real(path)}, ({choice % 1000 + 1}, {choice % 1000 + 1}))"


def _make_folder(world: ModelWorld, choice: int) -> str:
    if world.folder:
        return ""
    world.folder = True
    return f"os.mkdir({_real('d')})\nos.chmod({_real('d')}, 0o700)"


def _remove_folder(world: ModelWorld, choice: int) -> str:
    if not world.folder or world.inside:
        return ""
    world.folder = False
    world.forget("d/c")
    return f"shutil.rmtree({_real('d')})"


def _go(world: ModelWorld, choice: int) -> str:
    world.inside = world.folder and not world.inside
    return f"os.chdir({_real('d')})" if world.inside else "os.chdir(os.environ['TMPDIR'])"


def _open(world: ModelWorld, choice: int) -> str:
    path, name = _path(world, choice), HANDLES[choice // 5 % len(HANDLES)]
    if path not in world.names:
        return ""
    world.handles[name] = Handle(world.names[path], path)
    return f"handles[{name!r}] = open({_real(path)}, 'r+b', buffering=0)"


def _use_handle(world: ModelWorld, choice: int) -> str:
    name = HANDLES[choice % len(HANDLES)]
    kept = world.handles.get(name)
    if kept is None:
        return ""
    data, place = _text(choice, 5), choice % 40
    if choice % 3 == 0:
        kept.position = place
        return f"handles[{name!r}].seek({place})"
    if choice % 3 == 1:
        kept.append = not kept.append
        flag = "os.O_APPEND" if kept.append else "0"
        return f"fcntl.fcntl(handles[{name!r}].fileno(), fcntl.F_SETFL, {flag})"
    start = len(kept.inode.data) if kept.append else kept.position
    kept.inode.data.extend(bytes(max(0, start - len(kept.inode.data))))
    kept.inode.data[start : start + 5] = data
    kept.inode.mtime = 0
    kept.position = start + 5
    return f"handles[{name!r}].write({data!r})"


def _map(world: ModelWorld, choice: int) -> str:
    path, name = _path(world, choice), MAPS[0]
    if path not in world.names or name in world.maps or len(world.names[path].data) < PAGE:
        return ""
    world.maps[name] = Handle(world.names[path], path)
    return (
        f"with open({_real(path)}, 'r+b') as file: maps[{name!r}] = mmap.mmap(file.fileno(), {PAGE})\nmaps[{name!r}][:]"
    )


def _use_map(world: ModelWorld, choice: int) -> str:
    kept = world.maps.get(MAPS[0])
    if kept is None:
        return ""
    data, place = _text(choice, 4), choice % (PAGE - 4)
    kept.inode.data[place : place + 4] = data
    # Whether a write through a mapping leaves a time depends on the file system: leave one that is known.
    stamp = choice % 500 + 1
    kept.inode.mtime = stamp
    path = kept.path
    if path is None:
        return ""
    return f"maps[{MAPS[0]!r}][{place}:{place + 4}] = {data!r}\nos.utime({_real(path)}, ({stamp}, {stamp}))"


def _place(world: ModelWorld, choice: int) -> str:
    path = _path(world, choice)
    if path not in world.names:
        return ""
    world.place = Handle(world.names[path], path)
    return f"place = os.open({_real(path)}, os.O_PATH)"


def _hide(world: ModelWorld, choice: int) -> str:
    path, data = _path(world, choice), _text(choice, 9)
    if path not in world.names or len(world.names[path].data) < PAGE:
        return ""
    world.hidden = data + bytes(world.names[path].data[9:PAGE])
    world.changed.append(world.names[path])
    return f"hide({_real(path)}, {data!r})"


def _overlay(world: ModelWorld, choice: int) -> str:
    path, data = _path(world, choice), _text(choice, 4)
    if path not in world.names or len(world.names[path].data) < PAGE:
        return ""
    world.overlay = world.names[path]
    code = (
        f"with open({_real(path)}, 'rb') as file: overlay = mmap.mmap(file.fileno(), {PAGE}, access=mmap.ACCESS_COPY)"
    )
    if choice % 2:
        return code
    world.changed.append(world.overlay)
    world.overlay = data + bytes(world.overlay.data[4:PAGE])
    return f"{code}\noverlay[:4] = {data!r}"


def _cut(world: ModelWorld, choice: int) -> str:
    path, data = _path(world, choice), _text(choice, PAGE + choice % 9)
    inode = world.names.get(path)
    if inode is None or any(inode is each for each in world.changed):
        return ""
    inode.data[:], inode.mtime = data, 0
    return f"with open({_real(path)}, 'wb') as file: file.write({data!r})"


def _hold(world: ModelWorld, choice: int) -> str:
    kind = ("pipe", "sockets", "counter")[choice % 3]
    world.ends[kind] = True
    made = ("*os.pipe()", "*(end.detach() for end in socket.socketpair())", "*[os.eventfd(0)] * 2")[choice % 3]
    return f"hold({kind!r}, {made})"


def _timer(world: ModelWorld, choice: int) -> str:
    # No call inherits a timer or a handler, whether it was kept or not.
    return "signal.setitimer(signal.ITIMER_REAL, 1000)\nsignal.signal(signal.SIGUSR2, signal.SIG_IGN)"


def _surroundings(world: ModelWorld, choice: int) -> str:
    if choice % 3 == 0:
        world.variable = str(choice)
        return f"os.environ['MODEL'] = '{choice}'"
    if choice % 3 == 1:
        world.umask = (0o077, 0o027, 0o022, 0o777)[choice // 3 % 4]
        return f"os.umask({world.umask})"
    world.generator.random()
    return "generator.random()"


def _allocate(world: ModelWorld, choice: int) -> str:
    path = _path(world, choice)
    if path not in world.names:
        return ""
    world.names[path].mtime = 0
    size = (choice % 5 + 1) << 13
    return f"libc.fallocate(os.open({_real(path)}, os.O_RDWR), 1, ctypes.c_long(0), ctypes.c_long({size}))"


def _reorder(world: ModelWorld, choice: int) -> str:
    name = ("a", "b", "d")[choice % 3]
    if not (world.folder if name == "d" else name in world.names):
        return ""
    return f"os.rename({_real(name)}, {_real('x')})\nos.rename({_real('x')}, {_real(name)})"


def _symlink(world: ModelWorld, choice: int) -> str:
    world.symlink = not world.symlink
    if world.symlink:
        return f"os.symlink('nowhere', {_real('s')})\nos.link({_real('s')}, {_real('t')}, follow_symlinks=False)"
    return f"os.remove({_real('s')})\nos.remove({_real('t')})"


def _read_on(world: ModelWorld, choice: int) -> str:
    return f"read_on({64 + choice % 64})" if choice % 4 else "os.lseek(reader, 0, 0)"


OPERATIONS: dict[str, Callable[[ModelWorld, int], str]] = {
    operation.__name__[1:]: operation
    for operation in (
        *(_number, _write, _remove, _rename, _link, _stamp, _make_folder, _remove_folder, _go, _open, _use_handle),
        *(_map, _use_map, _place, _hide, _overlay, _cut, _hold, _timer, _surroundings, _allocate, _reorder, _symlink),
        _read_on,
    )
}

GROUP = CheckGroup("model")
MOST_SESSIONS = 4
STEPS = 25
"""Steps of the check; tests draw many more."""
KEPT = ("keep", "shut", "astray")
ENDINGS = (*KEPT, "keep", "keep", "raise", "raise", "exit", "crash", "hang")
_ENDS = {
    "keep": ("", Status.OK),
    "shut": ("\nos.chmod(os.environ['TMPDIR'], 0)", Status.OK),
    "astray": ("\nos.chdir('/proc/self')", Status.OK),
    "raise": ("\nraise RuntimeError('fails')", Status.ERROR),
    "exit": ("\nos._exit(3)", Status.KILLED),
    "crash": ("\nimport ctypes\nctypes.string_at(0)", Status.KILLED),
    "hang": ("\nimport time\ntime.sleep(60)", Status.TIMEOUT),
}
_HANG_SECONDS = 1.0


@dataclass(frozen=True)
class ModelStep:
    """A call of session number `session` (modulo how many there are), or with `branch` a new session made of it."""

    session: int
    operations: tuple[ModelOperation, ...] = ()
    ending: str = "keep"
    branch: bool = False


def draw(chance: random.Random, count: int) -> list[ModelStep]:
    """`count` steps drawn from `chance`; one in ten is a branch, half of the calls fail."""
    names = list(OPERATIONS)
    steps = []
    for _ in range(count):
        operations = tuple(
            ModelOperation(chance.choice(names), chance.randrange(1000)) for _ in range(chance.randint(1, 6))
        )
        ending = chance.choice(ENDINGS)
        if ending == "hang" and chance.random() < 0.8:
            ending = "raise"  # each takes a second
        steps.append(ModelStep(chance.randrange(MOST_SESSIONS), operations, ending, branch=chance.random() < 0.1))
    return steps


class ModelPlay:
    """Sessions next to their models."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox
        self._sessions: list[tuple[Session, ModelWorld]] = []
        self._story_so_far: list[str] = []

    async def begin(self) -> None:
        """Open the first session."""
        session = await self._sandbox.open()
        self._sessions.append((session, ModelWorld()))
        await self._call(session, PREPARE, Status.OK)
        await self._look(0)

    async def step(self, step: ModelStep) -> None:
        """Do one step and compare. Raises `ConformanceError`."""
        index = step.session % len(self._sessions)
        session, world = self._sessions[index]
        if step.branch:
            if len(self._sessions) == MOST_SESSIONS:
                await self._sessions.pop(-1 if index == 0 else 0)[0].close()
            (twin,) = await session.branch(1)
            self._story_so_far.append(f"session {index} was branched")
            self._sessions.append((twin, world.copied()))
            await self._look(len(self._sessions) - 1)
            return
        after = world.copied()
        code = "\n".join(filter(None, (operation.apply(after) for operation in step.operations)))
        suffix, status = _ENDS[step.ending]
        kept = step.ending in KEPT
        after.inside = after.inside and step.ending != "astray"
        if kept and not after.ended():
            kept, status = False, Status.REFUSED
        self._story_so_far.append(f"session {index}, which must end with {status.value}:\n{code}{suffix}")
        await self._call(session, code + suffix, status)
        if kept:
            after.last = {}
            self._sessions[index] = (session, after)
        for each in range(len(self._sessions)):
            await self._look(each)

    async def _call(self, session: Session, code: str, status: Status) -> None:
        result = await session.run(code or "pass", wall_seconds=_HANG_SECONDS if status is Status.TIMEOUT else None)
        if result.status is not status:
            raise ConformanceError(f"{self._story()}\nthe last call must end with {status.value}: {describe(result)}")

    async def _look(self, index: int) -> None:
        session, world = self._sessions[index]
        result = await session.run(OBSERVE)
        seen = described(result.stdout)
        if seen is None:
            raise ConformanceError(f"{self._story()}\nsession {index} cannot be observed: {describe(result)}")
        wanted = {**world.seen(), **world.last}
        world.last = {key: seen.get(key) for key in LAST}
        differences = [
            f"{key}: expected {wanted[key]!r}, got {seen.get(key)!r}" for key in wanted if wanted[key] != seen.get(key)
        ]
        if differences:
            raise ConformanceError(f"{self._story()}\nthen session {index} shows\n  " + "\n  ".join(differences))

    def _story(self) -> str:
        return "\n".join(self._story_so_far[-12:])

    async def end(self) -> None:
        """Close every session."""
        for session, _world in self._sessions:
            await session.close()


async def play(sandbox: Sandbox, steps: Iterable[ModelStep]) -> None:
    """ModelPlay `steps`. Raises `ConformanceError` at the first difference between sandbox and model."""
    game = ModelPlay(sandbox)
    try:
        await game.begin()
        for step in steps:
            await game.step(step)
    finally:
        await game.end()


@GROUP.check
async def any_program(sandbox: Sandbox) -> None:
    """Programs over every kind of state, failed, killed and branched at random, leave what a simple model says."""
    await play(sandbox, draw(random.Random(30), STEPS))
