"""Threads that are left waiting, and what a sandbox lacks: what everyday programs do about both, and read of it."""

from __future__ import annotations

import hashlib
import importlib.util
from collections.abc import AsyncIterator
from typing import Any

import numpy as np
import pytest
import pytest_asyncio
from PIL import Image
from tests.sandbox.providers import linux_only

from saccade.record.execution import Status
from saccade.sandbox.base import Session
from saccade.sandbox.local import LocalSandbox
from saccade.sandbox.remote_codec import pack_result, unpack_result

pytestmark = [linux_only, pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(120)]


@pytest_asyncio.fixture(loop_scope="session")
async def session(box: LocalSandbox) -> AsyncIterator[Session]:
    opened = await box.open({"picture": Image.new("RGB", (64, 48), "red")})
    yield opened
    await opened.close()


class Lazy:
    """A red picture of the host."""

    mode, width, height = "RGB", 6, 4
    sha256 = hashlib.sha256(b"red").hexdigest()

    def decode(self) -> Image.Image:
        return Image.new("RGB", (6, 4), "red")


async def test_equal_pictures_are_one_request_whatever_looks_at_them(box: LocalSandbox) -> None:
    names = [f"p{number}" for number in range(9)]
    opened = await box.open(dict.fromkeys(names, Lazy()))
    looked = await opened.run(
        "a, b = p0.getpixel((0, 0)), p1.getpixel((0, 0))\np1.putpixel((0, 0), (1, 2, 3))\nprint(a == b)"
    )
    assert (looked.status, looked.stdout) == (Status.OK, "True\n"), looked.traceback
    failed = await opened.run("p2.load(); p3.load(); 1 / 0")
    assert failed.status is Status.ERROR
    opened.bind({"p9": Lazy()})
    again = await opened.run("del p0\nprint({p.getpixel((5, 3)) for p in (p1, p2, p3, p9)}, p9.getpixel((0, 0)))")
    assert (again.status, again.stdout) == (Status.OK, "{(255, 0, 0)} (255, 0, 0)\n"), again.traceback
    [branch] = await opened.branch(1)
    code = (
        "from concurrent.futures import ThreadPoolExecutor\n"
        "print(sum(ThreadPoolExecutor(8).map(lambda p: p.width, [p4, p5, p6] * 9)))"
    )
    for one in (opened, branch):
        threads = await one.run(code)
        assert (threads.status, threads.stdout) == (Status.OK, "162\n"), threads.traceback


WAITING = {
    "tqdm": "from tqdm import tqdm\nfor i in tqdm([1, 2]): pass",
    "tqdm.auto": "from tqdm.auto import tqdm, trange\nfor i in trange(3): pass",
    "tqdm.notebook": "from tqdm.notebook import tqdm, trange\nfor i in tqdm(range(3), desc='x'): pass",
    "tqdm, nested, left open": "from tqdm import tqdm\nbar = tqdm(total=9)\nfor i in tqdm([1]):\n    bar.update(1)",
    "tqdm of pandas": (
        "import pandas as pd\nfrom tqdm import tqdm\ntqdm.pandas()\npd.Series([1, 2]).progress_apply(abs)"
    ),
    "tqdm with threads": "from tqdm.contrib.concurrent import thread_map\nassert thread_map(abs, [-1, -2]) == [1, 2]",
    "ThreadPool": (
        "from multiprocessing.pool import ThreadPool\np = ThreadPool(3)\nassert p.map(abs, [-1, -2]) == [1, 2]"
    ),
    "ThreadPool in a block": (
        "from multiprocessing.pool import ThreadPool\nwith ThreadPool() as p: assert list(p.imap(abs, [-1])) == [1]"
    ),
    "ThreadPool, closed": "from multiprocessing.pool import ThreadPool\np = ThreadPool(2); p.map(abs, [1]); p.close()",
    "ThreadPool of dummy": (
        "from multiprocessing.dummy import Pool\np = Pool(2)\nassert p.starmap(pow, [(2, 3)]) == [8]"
    ),
    "executor": (
        "from concurrent.futures import ThreadPoolExecutor\ne = ThreadPoolExecutor(4)\n"
        "assert list(e.map(abs, [-1])) == [1]"
    ),
    "executor, shut down": (
        "from concurrent.futures import ThreadPoolExecutor\ne = ThreadPoolExecutor(4)\n"
        "e.submit(abs, 1)\ne.shutdown(wait=False)"
    ),
    "executor of a failed task": (
        "from concurrent.futures import ThreadPoolExecutor, wait\ne = ThreadPoolExecutor(1)\nwait([e.submit(int, 'x')])"
    ),
    "executor of asyncio": (
        "import asyncio\nloop = asyncio.new_event_loop()\nloop.run_until_complete(loop.run_in_executor(None, abs, -3))"
    ),
    "joblib": "import joblib\nassert joblib.Parallel(n_jobs=4)(joblib.delayed(abs)(x) for x in [-1, -2]) == [1, 2]",
    "joblib in threads": (
        "import joblib\nwith joblib.parallel_backend('threading'):\n"
        "    joblib.Parallel(n_jobs=4)(joblib.delayed(abs)(x) for x in [-1])"
    ),
    "OpenCV": (
        "import cv2, numpy as np\ncv2.setNumThreads(4)\ncv2.GaussianBlur(np.zeros((900, 900), 'f4'), (31, 31), 5)"
    ),
    "a thread that ends soon": "import threading, time\nthreading.Thread(target=lambda: time.sleep(0.05)).start()",
    "a joined thread": "import threading\nt = threading.Thread(target=abs, args=(1,)); t.start(); t.join()",
}
"""Nothing is lost by what they leave waiting."""


@pytest.mark.parametrize("name", WAITING)
async def test_threads_of_pools_and_libraries_cost_nothing(session: Session, name: str) -> None:
    package = name.partition(" ")[0].partition(",")[0].partition(".")[0].lower().replace("opencv", "cv2")
    if package in ("tqdm", "joblib", "cv2") and importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed here")
    for code in (WAITING[name], "x = 5"):
        result = await session.run(code)
        assert (result.status, result.committed) == (Status.OK, True), result.traceback
        assert not any("hread" in note for note in result.notes if "setNumThreads" not in note), result.notes
    assert (await session.run("print(x)")).stdout == "5\n"


async def test_pools_work_again_in_the_next_call(session: Session) -> None:
    begin = (
        "from concurrent.futures import ThreadPoolExecutor\n"
        "from multiprocessing.pool import ThreadPool\nimport os\n"
        "e, p = ThreadPoolExecutor(3), ThreadPool(3)\n"
    )
    use = "print(e.submit(abs, -1).result(), list(e.map(abs, [-2])), p.map(abs, [-3]), p.apply(abs, [-5]))"
    for code in (begin + use, use, use):
        result = await session.run(code)
        assert (result.status, result.stdout, result.notes) == (Status.OK, "1 [2] [3] 5\n", ()), result.traceback
    assert (await session.run("p.close(); p.join(); e.shutdown()")).status is Status.OK
    assert "Pool not running" in ((await session.run("p.map(abs, [1])")).traceback or "")
    assert "after shutdown" in ((await session.run("e.submit(abs, 1)")).traceback or "")


async def test_a_failed_call_leaves_a_pool_as_it_was(session: Session) -> None:
    await session.run(
        "from concurrent.futures import ThreadPoolExecutor\ne = ThreadPoolExecutor(2)\ne.submit(abs, 1).result()"
    )
    assert (await session.run("e.shutdown(); 1 / 0")).status is Status.ERROR
    assert (await session.run("print(e.submit(abs, -2).result())")).stdout == "2\n"


ENDED = {
    "Thread-1 (Timer)": "import threading\nthreading.Timer(60, print, ['late']).start()",
    "(work), at line 4 of <cell 1>": """import threading, queue
q = queue.Queue()
def work():
    while (item := q.get()) is not None:
        print(item)
        q.task_done()
for _ in range(2): threading.Thread(target=work, daemon=True).start()
for i in range(3): q.put(i)
q.join()""",
    "the watcher": (
        "import threading\nstop = threading.Event()\ndef f():\n"
        "    while not stop.wait(0.3): pass\n"
        "threading.Thread(target=f, name='the watcher').start()"
    ),
    "barrier": "import threading\nb = threading.Barrier(2)\nthreading.Thread(target=b.wait, name='barrier').start()",
}


@pytest.mark.parametrize("words", ENDED)
async def test_threads_of_ones_own_that_wait_are_ended_and_named(session: Session, words: str) -> None:
    result = await session.run(ENDED[words])
    assert (result.status, result.stderr) == (Status.OK, ""), result.traceback
    [note] = [note for note in result.notes if "were ended" in note]
    assert words.replace("Thread-1 ", "") in note
    assert (await session.run("print(threading.active_count())")).stdout == "1\n"


WORKING = {
    "the slow one, at line 3 of <cell 1>": (
        "import threading, time\ndef f():\n    time.sleep(9)\nthreading.Thread(target=f, name='the slow one').start()"
    ),
    "(f), at line 3": (
        "import threading\ndef f():\n    while True: pass\nthreading.Thread(target=f, daemon=True).start()"
    ),
    "_0": "import time\nfrom concurrent.futures import ThreadPoolExecutor\nThreadPoolExecutor(2).submit(time.sleep, 9)",
    "(worker)": (
        "import time\nfrom multiprocessing.pool import ThreadPool\np = ThreadPool(2); p.apply_async(time.sleep, (9,))"
    ),
    "takes all": """import threading
def f():
    while True:
        try: threading.Event().wait()
        except BaseException: pass
threading.Thread(target=f, name='takes all').start()""",
}


@pytest.mark.parametrize("words", WORKING)
async def test_a_thread_that_still_works_is_named_and_the_call_undone(session: Session, words: str) -> None:
    result = await session.run("kept = 1\n" + WORKING[words].replace("line 3", "line 4"))
    assert result.status is Status.REFUSED
    assert words.replace("line 3", "line 4") in (result.traceback or "")
    assert "join() them" in (result.traceback or "")
    assert (await session.run("print('kept' in dir())")).stdout == "False\n"


PROGRAMS, PROCESSES, NETWORK = "starts no programs", "starts no processes", "has no network"
ABSENT = [
    ("import subprocess\nsubprocess.run(['tesseract', 'a.png', 'out'])", f"{PROGRAMS} (tesseract a.png out)"),
    ("import subprocess\nsubprocess.check_output('ls | wc', shell=True, text=True)", f"{PROGRAMS} (ls | wc)"),
    ("import subprocess\nsubprocess.Popen(('ls',), stdout=subprocess.PIPE)", f"{PROGRAMS} (ls)"),
    (
        "import subprocess, sys\nsubprocess.check_call([sys.executable, '-m', 'pip', 'install', 'x'])",
        "installs no packages",
    ),
    ("import os\nos.popen('ls -l').read()", f"{PROGRAMS} (ls -l)"),
    ("import os\nos.execvp('ls', ['ls'])", PROGRAMS),
    ("import os\nos.fork()", PROCESSES),
    ("import multiprocessing as mp\nmp.Process(target=print).start()", PROCESSES),
    ("import multiprocessing as mp\nmp.get_context('spawn').Process(target=print).start()", PROCESSES),
    ("import multiprocessing as mp\nmp.Pool(2)", PROCESSES),
    ("from multiprocessing import Pool\nwith Pool() as p: p.map(abs, [1])", PROCESSES),
    ("import multiprocessing as mp\nmp.Queue()", PROCESSES),
    ("import multiprocessing as mp\nmp.Manager()", PROCESSES),
    ("import multiprocessing as mp\nmp.Value('i', 0)", PROCESSES),
    ("import multiprocessing as mp\nmp.Array('d', [1.0])", PROCESSES),
    ("from multiprocessing.shared_memory import SharedMemory\nSharedMemory(create=True, size=9)", PROCESSES),
    ("from concurrent.futures import ProcessPoolExecutor\nlist(ProcessPoolExecutor(2).map(abs, [1]))", PROCESSES),
    ("import asyncio\nasyncio.run(asyncio.create_subprocess_exec('ls'))", PROGRAMS),
    ("import urllib.request\nurllib.request.urlopen('http://example.org')", NETWORK),
    ("import urllib.request\nurllib.request.urlretrieve('http://93.184.216.34/a.png', 'a.png')", NETWORK),
    ("import socket\nsocket.create_connection(('example.org', 80), timeout=3)", NETWORK),
    ("import socket\nsocket.socket(socket.AF_INET, socket.SOCK_DGRAM)", NETWORK),
    ("import socket\nsocket.gethostbyname('example.org')", NETWORK),
    ("import http.client\nhttp.client.HTTPSConnection('example.org', timeout=3).request('GET', '/')", NETWORK),
    ("import asyncio\nasyncio.run(asyncio.open_connection('example.org', 80))", NETWORK),
    ("import requests\nrequests.get('https://example.org/a.png', timeout=3)", NETWORK),
    ("import pandas as pd\npd.read_csv('https://example.org/a.csv')", NETWORK),
    ("import pytesseract", "pytesseract needs the program tesseract"),
]


@pytest.mark.parametrize(("code", "words"), ABSENT)
async def test_what_is_not_there_says_so_in_its_own_exception(session: Session, code: str, words: str) -> None:
    module = code.split()[1].partition(".")[0].rstrip(",")
    if module in ("requests", "pandas") and importlib.util.find_spec(module) is None:
        pytest.skip(f"{module} is not installed here")
    result = await session.run(code)
    assert result.status is Status.ERROR
    assert words in (result.traceback or ""), result.traceback
    assert not [note for note in result.notes if "pipe" in note], result.notes
    caught = await session.run(
        "try:\n    " + code.replace("\n", "\n    ") + "\nexcept Exception as error:\n    print(error)"
    )
    assert words in caught.stdout


async def test_a_shell_that_is_not_there_is_a_line_and_a_status(session: Session) -> None:
    result = await session.run("import os\nprint(os.system('pip install x'))")
    assert (result.status, result.stdout) == (Status.OK, "32512\n")
    assert "installs no packages (pip install x) and starts no programs. There are numpy, PIL, cv2" in result.stderr


@pytest.mark.parametrize(
    "code",
    [
        "import platform\nprint(platform.platform(), platform.processor())",
        "import ctypes.util\nctypes.util.find_library('m')",
        "import uuid\nuuid.uuid1()",
        "import socket\na, b = socket.socketpair()\na.send(b'x')\nassert b.recv(1) == b'x'\na.close(); b.close()",
        "import asyncio\nasyncio.run(asyncio.sleep(0))",
        (
            "import multiprocessing as mp\nassert mp.cpu_count() > 0\na, b = mp.Pipe()\n"
            "a.send(1)\nassert b.recv() == 1\na.close(); b.close()"
        ),
    ],
)
async def test_libraries_that_try_and_go_another_way_still_do(session: Session, code: str) -> None:
    result = await session.run(code)
    assert (result.status, result.stderr, result.notes) == (Status.OK, "", ()), result.traceback


@pytest.mark.slow
@pytest.mark.parametrize("call", ["set_num_threads", "set_num_interop_threads"])
async def test_torch_takes_the_number_that_is_allowed(call: str) -> None:
    pytest.importorskip("torch")
    async with LocalSandbox() as box:
        opened: Any = await box.open()
        await opened.run("import torch")
        result = await opened.run(
            f"torch.{call}(4)\nprint(torch.get_num_threads(), (torch.rand(500, 500) @ torch.rand(500, 500)).shape)"
        )
        assert (result.status, result.stdout) == (Status.OK, "1 torch.Size([500, 500])\n"), result.traceback
        assert result.notes == (f"torch.{call}(4) was taken as 1: a session computes in one thread",)


DATA: list[tuple[str, Any]] = [
    ("5", 5),
    ("[1, (2.5, None), {'a': [True, '\\u4e2d']}]", [1, [2.5, None], {"a": [True, "\u4e2d"]}]),
    ("import numpy as np\nnp.float32(2.5), np.int64(3), np.True_", [2.5, 3, True]),
    ("{'huge': 10**1000, 'inf': float('inf')}", {"huge": 10**1000, "inf": float("inf")}),
    *((code, None) for code in ("None", "x = 5", "5;", "{1: 2}", "set()", "b'x'", "object()", "10**5000", "'\\ud800'")),
    ("x = []\nx.append(x)\nx", None),
    *((code, None) for code in ("'x' * 10**6", "list(range(10**5))", "[[[]]] * 3000", "type('A', (int,), {})(3)")),
    ("import numpy as np\nnp.zeros((0, 10**9))", None),
    ("import numpy as np\nnp.zeros((9, 2**20), 'u1')", None),
    ("import numpy as np\nnp.array(['a'])", None),
]


@pytest.mark.parametrize(("code", "expected"), DATA)
async def test_the_value_itself_where_it_is_plain_data(session: Session, code: str, expected: Any) -> None:
    result = await session.run(code)
    again = unpack_result(pack_result(result))
    assert (result.status, result.data, type(result.data)) == (Status.OK, expected, type(expected)), result.traceback
    assert (again.data, again.value) == (expected, result.value)


@pytest.mark.parametrize("kind", ["bool", "uint8", "int64", "float16", "float64", "complex128"])
async def test_an_array_is_given_as_a_copy(session: Session, kind: str) -> None:
    code = f"import numpy as np\na = np.asfortranarray(np.arange(24).reshape(2, 3, 4)).astype('{kind}')\na[:, ::2]"
    expected = np.arange(24).reshape(2, 3, 4).astype(kind)[:, ::2]
    result = await session.run(code)
    for one in (result, unpack_result(pack_result(result))):
        assert one.data.dtype == expected.dtype
        assert np.array_equal(one.data, expected)
        one.data[0] = 0  # nobody else's
    assert (await session.run("print(a[0, 2, 3] == np.asarray(11).astype(a.dtype))")).stdout == "True\n"


async def test_a_picture_as_the_value_is_a_picture(session: Session) -> None:
    result = await session.run("picture.crop((0, 0, 3, 2))")
    assert (result.value, result.data.size, result.data.getpixel((0, 0))) == (None, (3, 2), (255, 0, 0))


async def test_a_report_that_is_shortened_has_no_half_value(box: LocalSandbox) -> None:
    opened = await box.open()
    code = "for n in range(900): open(f'{n:03}' + '\\u4e2d' * 80, 'w').close()\n['\\u4e2d' * 9000]"
    result = await opened.run(code)
    assert (result.status, result.data) == (Status.OK, None), result.traceback
    assert any("shortened" in note for note in result.notes)
