"""One cell: status, value, traceback, and a report whatever the program does."""

from __future__ import annotations

import pytest
from tests.guest.cells import Guest, Start


def test_state_stays_and_the_value_is_reported(guest: Guest) -> None:
    assert guest.run("x = 41").report["value"] is None
    result = guest.run("x += 1\nprint('seen')\nx")
    assert (result.status, result.value, result.stdout) == ("ok", "42", "seen\n")


@pytest.mark.parametrize(
    ("code", "value"),
    [("5;", None), ("5 ; # not shown", None), ("None", None), ("'a;b'", "'a;b'"), ("'é' 'x' # ;", "'éx'")],
)
def test_a_semicolon_silences_the_value(guest: Guest, code: str, value: str | None) -> None:
    assert guest.run(code).value == value


def test_last_expression_can_be_off(start: Start) -> None:
    result = start(last_expression=False).run("print(1)\n5")
    assert (result.value, result.stdout) == (None, "1\n")


@pytest.mark.parametrize("code", ["", "  \n\n", "# nothing", "x = 1\r\ny = 2\r\n", "'''only a docstring'''"])
def test_hardly_any_code(guest: Guest, code: str) -> None:
    assert guest.run(code).status == "ok"


def test_the_module_is_main(guest: Guest) -> None:
    code = """
import pickle, sys, dataclasses
@dataclasses.dataclass
class P:
    x: int
if __name__ == "__main__":
    print(pickle.loads(pickle.dumps(P(3))), sys.argv, sys.modules["__main__"].P is P)
"""
    assert guest.run(code).stdout == "P(x=3) ['cell'] True\n"
    guest.run("class A:\n    'two'\n    class In:\n        b = 2\n")
    asked = guest.run("import inspect\nfor k in (P, A, A.In):\n    print(inspect.getsource(k), end='')")
    assert asked.stdout == (
        "@dataclasses.dataclass\nclass P:\n    x: int\n"
        "class A:\n    'two'\n    class In:\n        b = 2\n    class In:\n        b = 2\n"
    )
    for what in ("int", "type('B', (), {})"):  # neither has a source
        assert guest.run(f"inspect.getsource({what})").status == "error"


INNER = 'File "<cell 1>", line 2, in inner'
CAUSE = "try:\n    {}['k']\nexcept KeyError as e:\n    raise ValueError('worse') from e"
TRACEBACKS: dict[str, tuple[str, tuple[str, ...], tuple[str, ...]]] = {
    "the user's frames only": (
        "a = 1\nb = inner(0)",
        ('File "<cell 2>", line 2, in <module>', INNER, "return 1 / v", "ZeroDivisionError: division by zero"),
        ("saccade", "cell.py"),
    ),
    "no frames of libraries": (
        "import json\njson.loads('{')",
        ("json.loads('{')", "JSONDecodeError: Expecting property name"),
        ("decoder.py",),
    ),
    "causes": (CAUSE, ("KeyError: 'k'", "direct cause", "ValueError: worse"), ()),
    "a module in the workspace": (
        "import sys\nsys.path.insert(0, here)\nimport mine\nmine.f()",
        ("mine.py", "RuntimeError: 1"),
        (),
    ),
    "a cleared cache of lines": ("import linecache\nlinecache.clearcache()\n1 / 0", ("1 / 0", "ZeroDivisionError"), ()),
    "the place in the source": (
        "x = 1\ny = = 2",
        ('  File "<cell 2>", line 2', "y = = 2", "SyntaxError: invalid syntax"),
        ("Traceback",),
    ),
    "the end of a long one": (
        "\n".join(f"def f{i}(): f{i + 1}()" for i in range(300)) + "\ndef f300(): raise ValueError('end')\nf0()",
        ("left out", "ValueError: end"),
        (),
    ),
}


@pytest.mark.parametrize("name", TRACEBACKS)
def test_what_a_traceback_shows(guest: Guest, name: str) -> None:
    code, words, absent = TRACEBACKS[name]
    guest.run(
        "def inner(v):\n    return 1 / v\nimport os\nhere = os.getcwd()\n"
        "open('mine.py', 'w').write('def f():\\n    raise RuntimeError(1)\\n')"
    )
    result = guest.run(code)
    assert result.status == "error"
    assert [word for word in words if word not in result.traceback] == []
    assert [word for word in absent if word in result.traceback] == []
    assert len(result.traceback) <= 8000
    assert words[-1] in result.traceback.splitlines()[-1]


@pytest.mark.parametrize("code", ["if True print(1)", "x = 'a\0b'", "return 5", "x = '\ud800'", "(" * 300 + ")" * 300])
def test_code_that_does_not_compile(guest: Guest, code: str) -> None:
    result = guest.run("ran = 1\n" + code)
    assert result.status == "error"
    assert "Error" in result.traceback
    assert guest.run("'ran' in dir()").value == "False"


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("import sys; sys.exit(0)", "not for cells"),
        ("raise SystemExit", "not for cells"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt"),
        ("raise GeneratorExit('x')", "GeneratorExit"),
        ("def f(): f()\nf()", "RecursionError"),
        ("raise ExceptionGroup('many', [ValueError(1), KeyError(2)])", "KeyError: 2"),
        ("input('name? ')", "nobody is typing"),
        ("import sys\nif not sys.stdin.readline(): raise EOFError('empty')", "empty"),
    ],
)
def test_exceptions_of_all_kinds(guest: Guest, code: str, words: str) -> None:
    result = guest.run(code)
    assert result.status == "error"
    assert words in result.traceback
    assert len(result.traceback) <= 8000
    assert guest.run("1").status == "ok"


@pytest.mark.parametrize(
    "body",
    [
        "def __str__(self): raise RuntimeError('no text')",
        "def __str__(self): return 5",
        "def __str__(self): return 'y' * 10_000_000",
        "def __str__(self): return 'line\\n' * 100_000",
        "def __str__(self): raise SystemExit",
        "__module__ = property(lambda self: 1 / 0)",
        "__qualname__ = 'x' * 100_000",
        "pass\nclass Bad(Bad, metaclass=Meta): pass",
    ],
)
def test_exceptions_that_bite(guest: Guest, body: str) -> None:
    meta = "class Meta(type):\n    @property\n    def __name__(cls): raise SystemExit\n    __module__ = __name__\n"
    result = guest.run(f"{meta}class Bad(Exception):\n    {body}\nraise Bad()")
    assert result.status == "error"
    assert result.traceback
    assert len(result.traceback) <= 8000


@pytest.mark.parametrize(
    "code",
    [
        "raise MemoryError('no more')",
        "import numpy as np\nnp.zeros((1 << 50,))",
        "class V:\n    def __repr__(self): raise MemoryError\nV()",
    ],
)
def test_memory_error_is_its_own_status(guest: Guest, code: str) -> None:
    assert guest.run(code).status == "out_of_memory"


def test_value_is_capped(guest: Guest) -> None:
    result = guest.run("'x' * 100_000")
    assert len(result.value) == 16_000
    assert any("100002" in note for note in result.notes)


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("@property\n    def __class__(self): raise SystemExit\n    def __repr__(self): raise SystemExit", ""),
        ("def __repr__(self): raise KeyError('k')", "KeyError"),
        ("def __repr__(self): raise KeyboardInterrupt", ""),
        ("def __repr__(self): import sys; sys.exit(1)", ""),
        ("pass\nfrom PIL import Image\nclass Bad(Image.Image): size = property(lambda self: exit(1))", ": SystemExit"),
    ],
)
def test_value_that_wants_out(guest: Guest, body: str, says: str) -> None:
    result = guest.run(f"class Bad:\n    {body}\nBad()")
    assert (result.status, result.value, result.pictures) == ("ok", None, [])
    assert any("the value" in note and says in note for note in result.notes)


HOSTILE = {
    "builtins": "import builtins\nlive = vars(builtins)\nfor n in set(live) - {'__import__'}: live[n] = None",
    "builtins that lie": "import builtins\nbuiltins.len = lambda x: 10 ** 9\nbuiltins.isinstance = lambda *a: True",
    "exceptions": "import builtins\nbuiltins.BaseException = builtins.Exception = builtins.OSError = 5",
    "print and open": "import builtins\nbuiltins.print = builtins.open = builtins.repr = 5",
    "stdout": "import sys\nsys.stdout = sys.stderr = sys.stdin = None",
    "closed stdout": "import sys\nsys.stdout.close(); sys.stdout.buffer.close()",
    "json": "import json\njson.dumps = json.JSONEncoder.encode = json.encoder.encode_basestring_ascii = None",
    "os": "import os\nfor n in ('pwrite', 'open', 'scandir', 'getpid', 'write', 'fstat'): setattr(os, n, 5)",
    "time": "import time\ntime.perf_counter = time.process_time = time.monotonic = time.sleep = None",
    "traceback": "import traceback, linecache\ntraceback.TracebackException = linecache.cache = None",
    "modules": "import sys\nfor n in set(sys.modules) - {'sys', 'builtins', '__main__'}: del sys.modules[n]",
    "Pillow": "from PIL import Image\nImage.open = Image.Image.convert = Image.Image.tobytes = None",
    "trace function": "import sys\ndef trace(*a): raise ValueError('traced')\nsys.settrace(trace)",
    "warnings": "import warnings\nwarnings.simplefilter('error')",
    "namespace": "globals().clear()",
}


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.few(5)
def test_hostile_programs_are_reported(guest: Guest, name: str) -> None:
    result = guest.run(f"open('new.txt', 'w').close()\nprint('before')\n{HOSTILE[name]}")
    assert result.status in ("ok", "error")
    assert result.stdout == "before\n"
    after = guest.run("print('after', len([1, 2]))\n7")
    assert (after.status, after.stdout, after.value) == ("ok", "after 2\n", "7")


def test_hostile_and_failing(guest: Guest) -> None:
    result = guest.run(HOSTILE["builtins"] + "\n1 / 0")
    assert result.status == "error"
    assert "ZeroDivisionError" in result.traceback


def test_builtins_that_a_program_adds_stay(guest: Guest) -> None:
    guest.run("import builtins\nbuiltins.mine = 5\nbuiltins.max = min")
    assert guest.run("mine, max(1, 2)").value == "(5, 2)"


SLEEPS = "import threading, time\nthreading.Thread(target=time.sleep, args=(1,), daemon=True).start()"


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (SLEEPS, "join()"),
        (f"{SLEEPS}\n1 / 0", "ZeroDivisionError"),
        ("import os, time\nif os.fork() == 0:\n    time.sleep(2)\n    os._exit(0)", "wait()"),
    ],
)
def test_what_still_works_is_refused(guest: Guest, code: str, words: str) -> None:
    result = guest.run(code)
    assert (result.status, words in result.traceback) == ("refused", True)


def test_threads_that_end_are_fine(guest: Guest) -> None:
    code = "import threading, time\nt = threading.Thread(target=time.sleep, args=(0.05,))\nt.start()"
    assert guest.run(code).status == "ok"
    guest.run("from concurrent.futures import ThreadPoolExecutor")
    code = "with ThreadPoolExecutor(2) as pool: print(list(pool.map(abs, [-1])))"
    assert guest.run(code).stdout == "[1]\n"


def test_a_forked_child_does_not_report(guest: Guest) -> None:
    result = guest.run("import os\nchild = os.fork()\nif child:\n    os.waitpid(child, 0)\nprint(child > 0)\nchild > 0")
    assert (result.status, result.value) == ("ok", "True")
    assert sorted(result.stdout.split()) == ["False", "True"]
    failing = guest.run("if os.fork() == 0: 1 / 0\nos.wait()[1] >> 8")
    assert failing.value == "1"
    assert "ZeroDivisionError" in failing.stderr


def test_pool_of_processes(guest: Guest) -> None:
    code = """
import multiprocessing
def square(x): return x * x
with multiprocessing.get_context("fork").Pool(2) as pool:
    print(pool.map(square, [1, 2, 3]))
    pool.close(); pool.join()
"""
    result = guest.run(code)
    assert (result.status, result.stdout) == ("ok", "[1, 4, 9]\n")


def test_timers_and_signal_handlers_are_reset(guest: Guest) -> None:
    guest.run("import signal, time, faulthandler\nbefore = [signal.getsignal(s) for s in signal.valid_signals()]")
    guest.run(
        "signal.signal(signal.SIGALRM, lambda *a: 1 / 0)\nsignal.setitimer(0, 0.05)\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\nfaulthandler.dump_traceback_later(0.05, exit=True)"
    )
    code = "time.sleep(0.15)\nbefore == [signal.getsignal(s) for s in signal.valid_signals()], signal.getitimer(0)[0]"
    assert guest.run(code).value == "(True, 0.0)"


def test_workspace_that_is_too_large_is_refused(start: Start) -> None:
    guest = start(workspace_files=10, workspace_bytes=1000)
    result = guest.run("for i in range(11): open(str(i), 'w').close()\nprint('done')")
    assert (result.status, result.stdout) == ("refused", "done\n")
    assert "10 files" in result.traceback
    guest.ask("restore")
    assert guest.run("open('a', 'w').write('x' * 1001)").status == "ok"
    assert "1000 bytes" in guest.ask("commit")


def test_what_came_before_a_failure_is_reported(guest: Guest) -> None:
    code = """
from PIL import Image
print("text")
Image.new("RGB", (3, 2), "red").show()
Image.new("RGB", (4, 2), "blue").save("a.png")
1 / 0
"""
    result = guest.run(code)
    assert (result.status, result.stdout, result.sources) == ("error", "text\n", ["show", "file"])


def test_times(guest: Guest) -> None:
    result = guest.run("import time\ntime.sleep(0.05)")
    assert result.run >= 0.05
    assert result.cpu < result.run
    assert result.capture >= 0
