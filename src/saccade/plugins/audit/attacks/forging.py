"""Attacks on the runtime inside the guest: forged results, hostile values, shadowed modules.

A program may spoil its own session's output (that is its own to write). It must not crash or block the host, pass any
cap, or reach another session.
"""

from __future__ import annotations

from saccade.plugins.audit.attacks.attack import Attack, attacks
from saccade.plugins.audit.attacks.rollback import GUEST
from saccade.sandbox.result import RunResult

RUNTIME = attacks(
    "forging",
    r"""
== forge_by_monkeypatch, may lose its session: replace the functions of the guest's own modules so that a failing
==   call reports ok
import types
own = [m for name, m in list(sys.modules.items())
       if name.split(".")[0] in ("guest", "saccade") or ".guest" in name or "guest" in str(getattr(m, "__file__", ""))]
print([m.__name__ for m in own])
def lie(*args, **kwargs):
    return {"status": "ok", "stdout": "forged", "value": "forged", "pictures": [], "files": []}
for module in own:
    for name, value in list(vars(module).items()):
        if isinstance(value, types.FunctionType) and name not in ("lead", "keep"):
            setattr(module, name, lie)
keep = "forged"
raise RuntimeError("this call failed")
== patch_the_runtime_and_hang, 1.0 s: replace json, os and socket functions that the runtime needs, then hang
import json, time, signal
def hang(*args, **kwargs):
    while True:
        time.sleep(1)
for module, names in ((json, ("dumps", "loads")), (os, ("write", "read", "_exit", "getpid", "lseek", "fstat")),
                      (signal, ("pthread_sigmask", "sigwait", "signal"))):
    for name in names:
        setattr(module, name, hang)
socket.socket.sendmsg = hang
socket.socket.send = hang
sys.stdout.flush = hang
== patch_builtins: replace and delete builtins that the runtime needs
import builtins
for name in ("len", "open", "isinstance", "print", "dict", "list", "str", "repr", "Exception",
             "BaseException", "compile", "exec"):
    try: delattr(builtins, name)
    except AttributeError: pass
== trace_the_runtime: trace, profile and hook the runtime's own frames
import gc, threading
def tracer(frame, event, argument):
    f = frame
    while f:
        for name, value in list(f.f_locals.items()):
            if isinstance(value, dict) and "status" in value:
                value["status"] = "ok"
        f = f.f_back
    return tracer
sys.settrace(tracer); sys.setprofile(tracer); threading.settrace(tracer)
gc.callbacks.append(lambda *a: tracer(sys._getframe(), "gc", None))
sys.excepthook = sys.displayhook = sys.unraisablehook = lambda *a: os._exit(0)
frame = sys._getframe()
while frame.f_back:
    frame = frame.f_back
    frame.f_trace = tracer
    print(frame.f_code.co_filename.rsplit("/", 1)[-1], frame.f_code.co_name, sorted(frame.f_locals)[:8])
raise RuntimeError("this call failed")
== objects_of_the_runtime, may lose its session: find the runtime's sockets and settings by the garbage collector and
==   change them
import gc
for thing in gc.get_objects():
    try:
        if isinstance(thing, socket.socket):
            thing.setblocking(False); thing.settimeout(0.001)
        elif type(thing).__name__ in ("GuestConfig", "Interpreter", "Outbox", "Workspace", "Shown", "Forker"):
            for name in getattr(thing, "__dict__", None) or getattr(thing, "__slots__", ()):
                value = getattr(thing, name)
                if isinstance(value, int):
                    object.__setattr__(thing, name, 2**62)
    except BaseException as error:
        print("stopped:", type(error).__name__)
from PIL import Image
for i in range(200): Image.new("RGB", (600, 600), (i, 0, 0)).show()
print("x" * (1 << 25))
== finalizers, 1.0 s: run code after the call by finalizers and weak references
import weakref
class Late:
    def __del__(self):
        globals()["keep"] = "changed late"
        while True: pass
    def __repr__(self): return "x" * (1 << 26)
    def __eq__(self, other): raise SystemExit
    __hash__ = object.__hash__
late = Late()
weakref.finalize(late, os._exit, 0)
del late
== hostile_values: results whose repr, str and attributes raise, lie or never end
class Meta(type):
    def __instancecheck__(cls, other): raise KeyboardInterrupt
    def __getattribute__(cls, name): raise SystemExit(0)
class Value(metaclass=Meta):
    def __getattribute__(self, name): raise MemoryError(name)
    def __repr__(self): return 5
    def __class__(self): raise GeneratorExit
Value()
== hostile_exception: an exception that lies while it is formatted
class Evil(BaseException):
    @property
    def __traceback__(self): os._exit(0)
    @property
    def __cause__(self): return self
    def __str__(self): return "\x00\x1b[2J\ud800" * 1_000_000
    __repr__ = __str__
def deep(n):
    try:
        deep(n - 1) if n else 1 / 0
    except BaseException as error:
        raise Evil() from error
deep(300)
== deep_code: code that overflows the compiler's stack
eval("(" * 5000 + ")" * 5000) if False else compile("-" * 200_000 + "1", "x", "eval")
== path_imports: modules in the workspace that shadow what the runtime imports
for name in ("json", "traceback", "ast", "linecache", "PIL", "numpy", "matplotlib", "cell", "outbox", "encodings"):
    with open(name + ".py", "w") as f:
        f.write("import os; os._exit(0)\n")
with open("sitecustomize.py", "w") as f: f.write("import os; os._exit(0)\n")
for name in ("traceback", "linecache", "ast"):
    sys.modules.pop(name, None)
sys.path.insert(0, os.getcwd())
raise RuntimeError("format me")
""",
)

# Attacks by forged reports: paths that leave the workspace, escapes for terminals, claims that cost time.

_LIE = (
    GUEST
    + """
outbox = guest("outbox")
honest = outbox.encode
def lie(**changes):
    outbox.encode = lambda report: honest({**report, **changes})
def raw(body):
    outbox.encode = lambda report: body
def picture(**changes):
    return {"source": "show", "mode": "RGB", "width": 8, "height": 8, "offset": start(), "path": None, **changes}
def start():
    import gc
    return next(t.layout.pictures for t in gc.get_objects() if type(t).__name__ == "Outbox")
"""
)


def _report(name: str, tries: str, code: str) -> Attack:
    return Attack(name, "reports", tries, _LIE + code, may_lose_session=True)


def _no_outage(result: RunResult) -> str | None:
    return "the host took it for an outage of its own" if result.status.value == "lost" else None


def _charged(result: RunResult) -> str | None:
    """Return the call finds no keeper, and its program is told so.

    Another end would mean that the attack never took place.
    """
    if result.status.value == "killed":
        return None
    return _no_outage(result) or f"the process that keeps the state lived on: {result.status.value}"


def _keeper(name: str, tries: str, code: str) -> Attack:
    """`code` gives `after` what the process that keeps the state does once its call is kept."""
    after = "def after(action): guest('session').keep.__globals__['give_back_memory'] = action\n"
    return Attack(
        name,
        "reports",
        tries,
        "print('gone')\n",
        before=GUEST + after + code + "\n",
        check=_charged,
        may_lose_session=True,
    )


REPORTS = (
    _report(
        "file_above", "report a file above the workspace", "lie(files=[{'path': '../../../etc/cron.d/x', 'size': 5}])"
    ),
    _report("file_elsewhere", "report a file by an absolute path", "lie(files=[{'path': '/etc/passwd', 'size': 5}])"),
    _report("file_inside_and_out", "report a file by way of a folder", "lie(files=[{'path': 'a/../../x', 'size': 5}])"),
    _report(
        "file_of_no_name", "report files without a name", "lie(files=[{'path': p, 'size': 5} for p in ('', '.', './')])"
    ),
    _report(
        "file_that_a_terminal_obeys",
        "report a file whose name moves the cursor and sets the title",
        "lie(files=[{'path': '\\x1b]0;owned\\x07\\x1b[2J\\x9b31m\\r\\nx', 'size': 5}])",
    ),
    _report(
        "file_with_a_zero_byte",
        "report a file with a zero byte and half a character in its name",
        "lie(files=[{'path': 'a\\0b', 'size': 5}, {'path': '\\ud800', 'size': 5}])",
    ),
    _report(
        "notes_that_a_terminal_obeys",
        "send escapes in notes",
        "lie(notes=['\\x1b[2Jgone\\x07', 'a\\r\\nb', '\\x9b1m'])",
    ),
    _report(
        "repairs_that_a_terminal_obeys",
        "send escapes in the names of repairs",
        "lie(repairs=[{'name': '\\x1b[2J', 'note': '\\x1b]0;x\\x07'}])",
    ),
    _report(
        "picture_above",
        "report a picture that lies above the workspace",
        "from PIL import Image\nImage.new('RGB', (8, 8)).show()\nlie(pictures=[picture(path='../../../root/x.png')])",
    ),
    _report(
        "pictures_over_holes",
        "claim the largest pictures over memory that was never written",
        "side = 1000\n"
        "lie(pictures=[picture(width=side, height=side, mode='RGBA', offset=start() + i * side * side * 4) "
        "for i in range(4)])",
    ),
    _report(
        "picture_of_an_odd_shape",
        "claim a picture a million pixels wide",
        "lie(pictures=[picture(width=1 << 20, height=1), picture(width=1, height=1 << 20)])",
    ),
    _report(
        "report_of_empty_lists", "send a report of a million empty lists", "raw(b'{\"x\":[' + b'[],' * 80_000 + b'0]}')"
    ),
    _report(
        "path_of_lists",
        "send a hundred thousand lists in the place of a path",
        "raw(b'{\"files\":[{\"size\":1,\"path\":[' + b'[],' * 80_000 + b'0]}]}')",
    ),
    _report(
        "report_nested_without_end",
        "send lists within lists, as deep as a parser goes",
        "raw(b'{\"x\":[' + (b'[' * 900 + b']' * 900 + b',') * 140 + b'0]}')",
    ),
    _report(
        "lists_in_other_letters",
        "send many lists in UTF-16, behind a letter that looks like a quotation mark to who counts them",
        "raw(('{\"\\u0122\":[' + '[],' * 40_000 + '0]}').encode('utf-16-le'))",
    ),
    _report(
        "paths_of_many_parts",
        "report files whose paths have thousands of parts",
        "lie(files=[{'path': 'a/' * 1_900, 'size': 1}] * 60)",
    ),
    _report(
        "texts_to_spell_out",
        "send a report of nothing but characters that must be spelled out",
        "honest_encode = honest\n"
        "def honest(report):\n"
        "    return honest_encode(report).replace(b'@', b'\\x7f')\n"
        "lie(value='@' * 95_000, traceback='@' * 95_000, notes=['@' * 2_000] * 30)",
    ),
    _report(
        "output_of_no_letters",
        "print as many bytes as possible that are no text",
        "for fd in (1, 2):\n    os.write(fd, b'\\xff' * (1 << 20))",
    ),
    _report(
        "report_of_many_files",
        "send a report of more files than a workspace holds",
        "lie(files=[{'path': 'a', 'size': 1}] * 9_000)",
    ),
    _report("report_of_numbers", "send a report of long numbers", "raw(b'{\"run\":' + b'9' * 200_000 + b'}')"),
    _report("report_beyond_its_room", "claim a report longer than its room", "raw(b'{' + b' ' * 900_000 + b'}')"),
    _report(
        "times_of_a_year", "claim to have computed for a year", "lie(run=31_536_000.0, cpu=31_536_000.0, capture=1e300)"
    ),
    _report("counts_without_end", "claim to have printed more than there are numbers for", "lie(stdout=[0, 10**4000])"),
    Attack(
        "names_that_are_not_what_they_show",
        "reports",
        "write files whose names turn the direction of text, begin lines or cannot be seen",
        """
for name in ("a\u202egnp.exe", "b\u2066c\u2069", "d\u2028e", "f\u200bg", "h\U000e0041i", "\ufeffj", "k\x9bm"):
    open(name, "w").close()
""",
    ),
    _keeper(
        "keeper_that_leaves",
        "end the process that keeps the state, to be counted as an outage",
        "after(lambda: os._exit(3))",
    ),
    _keeper(
        "keeper_that_crashes",
        "crash the process that keeps the state, to be counted as an outage",
        "after(lambda: ctypes.string_at(0))",
    ),
    _keeper(
        "keeper_that_calls_another_machine",
        "have the kernel end the process that keeps the state, by a forbidden kind of call",
        # Without a filter of system calls the kernel does not end it, and it ends itself.
        "after(lambda: (_libc.syscall(0x40000000 | 39), os._exit(3)))",
    ),
    _keeper(
        "keeper_that_uses_up_its_time",
        "let the process that keeps the state use up its CPU time, to be counted as an outage",
        "def burn():\n    while True: pass\nafter(burn)",
    ),
    Attack(
        "words_of_the_zygote",
        "reports",
        "say what only the zygote says: ended, died, lost",
        """
import json
for s in sockets():
    for op in ("ended", "died", "close", "failed", "lost"):
        try_quietly(s.send, json.dumps({"op": op, "id": 1, "error": "an outage"}).encode())
""",
        check=_no_outage,
        may_lose_session=True,
    ),
)

# Attacks on the wire between guest and host: garbage, floods, forged frames, lies about lengths and pixels.
#
# After these the host may drop the attacked session, and nothing else.

FRAMES = r'''
import json
def flood(frames, rounds=1):
    """Send each frame on every socket that the process holds."""
    for s in sockets():
        for _ in range(rounds):
            for frame in frames:
                try:
                    s.send(frame if isinstance(frame, bytes) else json.dumps(frame).encode())
                except OSError as error:
                    print("stopped:", error)
                    break
def memory_files():
    """Every descriptor that is a file in memory, other than the standard ones."""
    found = []
    for fd in descriptors():
        if stat.S_ISREG(os.fstat(fd).st_mode) and os.fstat(fd).st_nlink == 0:
            found.append(fd)
    return found
'''

WIRE = attacks(
    "wire",
    r"""
== close_every_descriptor, 2.0 s, may lose its session: close every descriptor
os.closerange(0, 4096)
== replace_descriptors, 2.0 s, may lose its session: put other files in the place of stdout and of the wire
null = os.open("/dev/null", os.O_RDWR)
pipe = os.pipe()
for fd in [0, 1, 2, *descriptors()]:
    if fd not in (null, *pipe):
        try_quietly(os.dup2, pipe[1] if fd % 2 else null, fd)
== garbage_on_every_descriptor, 2.0 s, may lose its session: write random bytes to every descriptor
import random
for fd in descriptors():
    for size in (0, 1, 4, 100, 4096, 48 * 1024, 200_000):
        for call in (lambda: os.write(fd, random.randbytes(size)), lambda: os.pwrite(fd, random.randbytes(size), 0)):
            try_quietly(call) if not os.isatty(fd) else None
        try:
            s = socket.socket(fileno=os.dup(fd)); s.setblocking(False); s.send(random.randbytes(size))
        except OSError: pass
== frames_of_lists, may lose its session: say that the call has ended in a frame of thousands of lists
flood([b'{"op":"result","call":[' + b"[]," * 15_000 + b"0]}"])
== empty_packets, 2.0 s, may lose its session: send empty packets, which look like the end of the wire, and shut the
==   wire down
flood([b""], 50)
for s in sockets():
    try_quietly(s.shutdown, socket.SHUT_WR)
    try_quietly(s.shutdown, socket.SHUT_RDWR)
== wrong_types, 2.0 s, may lose its session: frames with wrong types, missing fields and unknown orders
odd = [None, True, -1, 2**200, 1.5, float("nan"), float("inf"), "", "x" * 1000, [], [[]], {}, {"a": 1},
       "\ud800", "\x00"]
flood([json.dumps({"op": op, "call": v, "length": v, "pid": v, "id": v}).encode()
       for op in ("result", "ready", "branched", "adopt", "need", "image", "commit", "open", "close", "hello", "")
       for v in odd])
flood([b"null", b"[]", b"5", b"{}", b"{", b"\xff\xfe", b'"op"', b'{"op":null}', b'{"op":["result"]}', b"NaN"])
== deep_nesting, 2.0 s, may lose its session: frames with deep nesting, huge numbers and repeated keys
flood([b"[" * 40_000, b'{"op":' * 7000 + b"1" + b"}" * 7000, b'{"op":"result","call":' + b"9" * 40_000 + b"}",
       b'{"op":"result","length":1e400}', b"{" + b",".join(b'"op":"result"' for _ in range(3000)) + b"}"])
== frame_flood, 2.5 s, may lose its session: millions of small frames
import time
end = time.monotonic() + 1.5
while time.monotonic() < end:
    flood([{"op": "ready", "pid": os.getpid()}, {"op": "x"}], 200)
== blocking_flood, 2.0 s, may lose its session: a full wire that nobody reads, with the call hanging behind it
for s in sockets():
    s.setblocking(True)
    s.settimeout(0.5)
    try:
        while True:
            s.send(b"x" * 40_000)
    except OSError as error:
        print("stopped:", error)
== results_for_other_calls, may lose its session: report results for calls that were never made, before and after the
==   own one
flood([{"op": "result", "call": n, "length": 10} for n in range(-5, 200)])
flood([{"op": "ready", "pid": p} for p in (0, 1, -1, 2, os.getppid(), os.getpid(), target["canary_pid"], 2**31, 2**63)])
flood([{"op": "adopt", "pid": p} for p in (0, 1, -1, os.getppid(), os.getpid(), target["canary_pid"])])
flood([{"op": "branched"}] * 20)
keep = "forged"
raise RuntimeError("this call failed")
== lengths_outside_the_outbox, may lose its session: claim reports and pixels outside the shared memory
for length in (0, -1, 2**31, 2**40, 2**63, 2**64, 10**30):
    flood([{"op": "result", "call": n, "length": length} for n in range(1, 6)])
== lying_reports, may lose its session: write a report of pictures of 10^9 pixels, offsets outside, bad modes and paths
def picture(**lie):
    return {"source": "figure", "mode": "RGB", "width": 4, "height": 4, "offset": 0, "length": 48, "path": None, **lie}
lies = [picture(width=10**9, height=10**9), picture(offset=2**62), picture(offset=-8), picture(mode="XYZ"),
        picture(width=-4, height=-4), picture(width=0), picture(length=2**40), picture(width=1.5), picture(source=7),
        picture(path="../../etc/passwd"), picture(width=True), picture(mode=["RGB"])]
names = ("status", "stdout", "stderr", "value", "traceback", "notes", "files", "repairs", "timings", "pictures")
for lie in lies + [[lies] * 100, lies * 2000]:
    report = dict.fromkeys(names, "")
    report.update(status="ok", notes=[], files=[], pictures=lie if isinstance(lie, list) else [lie])
    body = json.dumps(report).encode()
    for fd in memory_files():
        try_quietly(os.pwrite, fd, body, 0)
    flood([{"op": "result", "call": n, "length": len(body)} for n in range(1, 6)])
== shrink_the_outbox, may lose its session: shrink the shared memory after the host has learnt its size, so that a
==   mapping faults
import fcntl
for fd in memory_files():
    try_quietly(os.ftruncate, fd, 0)
    try_quietly(os.ftruncate, fd, 2**50)
    try_quietly(fcntl.fcntl, fd, 1033, 0x1F)
    try_quietly(os.ftruncate, fd, 0)
from PIL import Image
Image.new("RGB", (50, 50)).show()
== read_the_wire, may lose its session: read the orders meant for the runtime and answer them
for s in sockets():
    try:
        body, cargo, flags, address = s.recvmsg(65536, 4096)
        print(body[:200], len(cargo))
    except OSError as error:
        print("stopped:", error)
    print(try_quietly(s.getpeername), try_quietly(s.getsockopt, socket.SOL_SOCKET, 17, 12))
""",
    FRAMES,
)
