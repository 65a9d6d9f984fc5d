"""Attacks on the runtime inside the guest: forged results, hostile values, shadowed modules.

A program may spoil its own session's output (that is its own to write). It must not crash or block the host, pass any
cap, or reach another session.
"""

from __future__ import annotations

from saccade.sandbox.attacks.attack import Attack

RUNTIME = (
    Attack(
        "forge_by_monkeypatch",
        "forging",
        "replace the functions of the guest's own modules so that a failing call reports ok",
        """
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
""",
        may_lose_session=True,
    ),
    Attack(
        "patch_the_runtime_and_hang",
        "forging",
        "replace json, os and socket functions that the runtime needs, then hang",
        """
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
""",
        wall_seconds=1.0,
    ),
    Attack(
        "patch_builtins",
        "forging",
        "replace and delete builtins that the runtime needs",
        """
import builtins
for name in ("len", "open", "isinstance", "print", "dict", "list", "str", "repr", "Exception",
             "BaseException", "compile", "exec"):
    try: delattr(builtins, name)
    except AttributeError: pass
""",
    ),
    Attack(
        "trace_the_runtime",
        "forging",
        "trace, profile and hook the runtime's own frames",
        """
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
""",
    ),
    Attack(
        "objects_of_the_runtime",
        "forging",
        "find the runtime's sockets and settings by the garbage collector and change them",
        """
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
""",
        may_lose_session=True,
    ),
    Attack(
        "finalizers",
        "forging",
        "run code after the call by finalizers and weak references",
        """
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
""",
        wall_seconds=1.0,
    ),
    Attack(
        "hostile_values",
        "forging",
        "results whose repr, str and attributes raise, lie or never end",
        """
class Meta(type):
    def __instancecheck__(cls, other): raise KeyboardInterrupt
    def __getattribute__(cls, name): raise SystemExit(0)
class Value(metaclass=Meta):
    def __getattribute__(self, name): raise MemoryError(name)
    def __repr__(self): return 5
    def __class__(self): raise GeneratorExit
Value()
""",
    ),
    Attack(
        "hostile_exception",
        "forging",
        "an exception that lies while it is formatted",
        """
class Evil(BaseException):
    @property
    def __traceback__(self): os._exit(0)
    @property
    def __cause__(self): return self
    def __str__(self): return "\\x00\\x1b[2J\\ud800" * 1_000_000
    __repr__ = __str__
def deep(n):
    try:
        deep(n - 1) if n else 1 / 0
    except BaseException as error:
        raise Evil() from error
deep(300)
""",
    ),
    Attack(
        "deep_code",
        "forging",
        "code that overflows the compiler's stack",
        'eval("(" * 5000 + ")" * 5000) if False else compile("-" * 200_000 + "1", "x", "eval")\n',
    ),
    Attack(
        "path_imports",
        "forging",
        "modules in the workspace that shadow what the runtime imports",
        """
for name in ("json", "traceback", "ast", "linecache", "PIL", "numpy", "matplotlib", "cell", "outbox", "encodings"):
    with open(name + ".py", "w") as f:
        f.write("import os; os._exit(0)\\n")
with open("sitecustomize.py", "w") as f: f.write("import os; os._exit(0)\\n")
for name in ("traceback", "linecache", "ast"):
    sys.modules.pop(name, None)
sys.path.insert(0, os.getcwd())
raise RuntimeError("format me")
""",
    ),
)
