"""Adapt the standard library and packages to what a session lacks: programs, processes, the network, more threads.

What cannot work says so in its own exception, with what to do instead, so that a program that catches and prints it
tells its author, too. Packages are adapted, or hidden, when they are imported.
"""

from __future__ import annotations

import errno
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any, NoReturn

from .shown import current

NO_NETWORK = "the sandbox has no network: nothing can be fetched, so work with the pictures and files that are given"
NO_PROCESSES = (
    "the sandbox starts no processes: use threads (ThreadPoolExecutor, multiprocessing.pool.ThreadPool) or a plain loop"
)
HIDDEN: Mapping[str, str] = {
    "pyarrow": "pyarrow starts threads that never end, so a session does not have it",
    "pytesseract": "pytesseract needs the program tesseract, and the sandbox starts no programs: crop and enlarge the "
    "text and read it from the picture",
}
"""Packages that cannot be imported -> why."""
_NAMED = (
    *("numpy", "PIL", "cv2", "matplotlib", "scipy", "skimage", "sklearn", "pandas", "sympy", "shapely", "networkx"),
    *("decord", "av", "torch", "torchvision", "seaborn", "plotly", "imageio", "statsmodels", "numba"),
)
"""What a program that wants to install something may use instead, as far as it is there."""


def no_program(command: object = "") -> str:
    """Say that a program (or what a shell would do) cannot be run, and what to do instead."""
    words = command.split() if isinstance(command, str) else [os.fsdecode(os.fspath(word)) for word in _listed(command)]
    name = f" ({' '.join(words)[:80]})" if words else ""
    if {"pip", "pip3", "conda", "apt", "apt-get", "uv"} & {os.path.basename(word) for word in words}:
        return f"the sandbox installs no packages{name} and starts no programs. There are {', '.join(packages())}"
    return f"the sandbox starts no programs{name}: do it in Python, with {', '.join(packages())}"


def packages() -> list[str]:
    """Return those of the packages that programs ask for most which can be imported."""
    return [name for name in _NAMED if name in sys.modules or PathFinder.find_spec(name) is not None]


def _listed(command: Any) -> list[Any]:
    return list(command) if isinstance(command, list | tuple) else [command] if command else []


def _refuse_program(command: object = "", *_args: object, **_options: object) -> NoReturn:
    raise PermissionError(errno.EPERM, no_program(command))


def _refuse_process(*_args: object, **_options: object) -> NoReturn:
    raise PermissionError(errno.EPERM, NO_PROCESSES)


def _system(command: object) -> int:
    """Act as a shell that cannot find the program: a line on stderr, and the status 127."""
    sys.stderr.write(no_program(command) + "\n")
    return 127 << 8


def _execute_child(_popen: object, command: object, executable: object, *_args: object) -> NoReturn:
    _refuse_program(command or executable)


def _without_network(original: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function, whose errors say that there is no network."""

    def function(*args: Any, **options: Any) -> Any:
        try:
            return original(*args, **options)
        except (PermissionError, socket.gaierror) as error:
            raise type(error)(error.errno, NO_NETWORK) from None

    return function


def _held(name: str) -> Callable[[int], None]:
    def hold(number: int) -> None:
        shown = current()
        if number not in (0, 1) and shown is not None:
            shown.note(f"{name}({number}) was taken as 1: a session computes in one thread")

    return hold


def _adapt_torch(module: ModuleType) -> None:
    for name in ("set_num_threads", "set_num_interop_threads"):
        setattr(module, name, _held(f"torch.{name}"))


def _adapt_opencv(module: ModuleType) -> None:
    module.__dict__["setNumThreads"] = _held("cv2.setNumThreads")


def _adapt_threadpoolctl(module: ModuleType) -> None:
    """Let threadpoolctl, which scikit-learn asks for libraries with threads, find none, so that none grows."""
    kind: Any = getattr(module, "ThreadpoolController", None)
    if hasattr(kind, "_load_libraries"):
        kind._load_libraries = lambda self: None


def _adapt_tqdm(module: ModuleType) -> None:
    module.__dict__["tqdm"].monitor_interval = 0  # no thread that watches the bars


def _adapt_tqdm_notebook(module: ModuleType) -> None:
    bar, bars = (getattr(sys.modules["tqdm.std"], name) for name in ("tqdm", "trange"))
    module.__dict__.update(tqdm=bar, tqdm_notebook=bar, trange=bars, tnrange=bars)


def _adapt_shared(module: ModuleType) -> None:
    """Refuse locks and memory that processes would share."""
    for name in ("SemLock", "Arena", "SharedMemory"):
        if name in module.__dict__:
            module.__dict__[name].__init__ = _refuse_process


def _adapt_pools(module: ModuleType) -> None:
    """Have a `ThreadPool` do with locks of this process, and start again if it was ended between two calls."""
    from multiprocessing.context import BaseContext

    pool, threads = module.__dict__["Pool"], module.__dict__["ThreadPool"]
    check, terminate = pool._check_running, pool._terminate_pool.__func__

    class OneProcess(BaseContext):
        Lock = staticmethod(threading.Lock)  # type: ignore[assignment]

    def begin(self: Any, processes: Any = None, initializer: Any = None, initargs: Any = ()) -> None:
        pool.__init__(self, processes, initializer, initargs, context=OneProcess())

    def check_running(self: Any) -> None:
        if self.__dict__.pop("_saccade_ended", False) and self._state == "RUN":
            begin(self, self._processes, self._initializer, self._initargs)
        check(self)

    def end(kind: Any, tasks: Any, put: Any, got: Any, workers: Any, notifier: Any, *others: Any) -> None:
        terminate(kind, tasks, put, got, workers, notifier, *others)
        notifier.close()  # a pipe, which could not be kept

    threads.__init__, threads._check_running, threads._terminate_pool = begin, check_running, classmethod(end)


ADAPTED: Mapping[str, Callable[[ModuleType], None]] = {
    "cv2": _adapt_opencv,
    "multiprocessing.pool": _adapt_pools,
    **dict.fromkeys((f"multiprocessing.{name}" for name in ("heap", "shared_memory", "synchronize")), _adapt_shared),
    "threadpoolctl": _adapt_threadpoolctl,
    "torch": _adapt_torch,
    "tqdm.notebook": _adapt_tqdm_notebook,
    "tqdm.std": _adapt_tqdm,
}


class _Adapting(Loader):
    """A loader that adapts what it has loaded."""

    def __init__(self, loader: Loader) -> None:
        self._loader = loader

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        ADAPTED[module.__name__](module)


class _Finder(MetaPathFinder):
    def find_spec(self, name: str, path: Any, target: ModuleType | None = None) -> ModuleSpec | None:
        top = name.partition(".")[0]
        if top in HIDDEN:
            raise ModuleNotFoundError(HIDDEN[top], name=name)
        if name not in ADAPTED:
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _Adapting(spec.loader)
        return spec


def install() -> None:
    """Adapt what is loaded now and what will be; once for all sessions of a process."""
    if any(isinstance(finder, _Finder) for finder in sys.meta_path):
        return
    sys.meta_path.insert(0, _Finder())
    for name, adapt in ADAPTED.items():
        if name in sys.modules:
            adapt(sys.modules[name])
    from multiprocessing.process import BaseProcess

    patches: tuple[tuple[Any, Callable[..., Any], str], ...] = (
        (os, _refuse_process, "fork forkpty"),
        (os, _refuse_program, "execv execve posix_spawn posix_spawnp"),
        (os, _system, "system"),
        (subprocess.Popen, _execute_child, "_execute_child"),
        (BaseProcess, _refuse_process, "start"),
    )
    for owner, function, names in patches:
        for name in names.split():
            setattr(owner, name, function)
    for owner, name in ((socket.socket, "__init__"), *((socket, f"get{what}") for what in ("addrinfo", "nameinfo"))):
        setattr(owner, name, _without_network(getattr(owner, name)))
    for name in ("gethostbyname", "gethostbyname_ex", "gethostbyaddr"):
        setattr(socket, name, _without_network(getattr(socket, name)))
