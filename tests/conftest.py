"""For every test: an environment without secrets, no network beyond this machine, fixed seeds."""

from __future__ import annotations

import gc
import ipaddress
import os
import random
import re
import socket
import ssl
import traceback
from collections.abc import Callable, Generator, Iterator
from functools import cache
from importlib.util import find_spec
from os import getpid  # tests replace that of the module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

# Before numpy is imported: workers fill the cores, and threads that wait for one another would spin on them.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pytest
from tests import few, shared_sandbox
from tests.tiny import tiny_folder

from saccade.errors import MissingPluginError

if TYPE_CHECKING:
    from tests.models.wire_server import WireServer

if find_spec("hypothesis"):  # some environments of `make faces` have none
    from hypothesis import settings

    settings.register_profile("short", max_examples=16, deadline=None)
    settings.register_profile("full", max_examples=200, deadline=None)
    settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "short"))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if not os.environ.get("ALL_VARIANTS"):
        few.mark_the_rest_slow(items)


def pytest_sessionstart() -> None:
    """Collecting makes much and drops little: looking for garbage meanwhile finds none."""
    gc.disable()


def pytest_collection_finish() -> None:
    """What collecting has made stays to the end: no collector needs to look through it again.

    It runs more rarely than by default: torch and pydantic hold much that it would look through.
    """
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)
    gc.enable()


CORE_ONLY = find_spec("saccade.plugins") is None
"""Whether the plug-ins are missing, as in tests/packaging/test_core.py."""
_refused: list[MissingPluginError] = []
"""Every error that said, since the running test began, that a plug-in is missing: commands print theirs."""
_known: list[BaseException] = []
"""Failures for which tests were skipped."""
_skipped: set[str] = set()
"""Files of tests that were skipped: what others import of them is not there."""


def _note(error: MissingPluginError, *args: object) -> None:
    super(MissingPluginError, error).__init__(*args)
    _refused.append(error)


if CORE_ONLY:
    MissingPluginError.__init__ = _note  # type: ignore[method-assign,assignment]


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    return skipped_without_plugin(report, report.call.excinfo, collector.path)  # type: ignore[attr-defined]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, Any]:
    if getpid() != _PROCESS:
        end_child(item, call.excinfo)
    return skipped_without_plugin((yield), call.excinfo, item.path)


_PROCESS = getpid()


def end_child(item: pytest.Item, raised: pytest.ExceptionInfo[BaseException] | None) -> NoReturn:
    """End a child that a test has forked and that has left the test's function, by an error or by its end.

    It would report the test a second time and run the tests that follow, beside its parent.
    """
    text = "" if raised is None else "".join(traceback.format_exception(raised.value))
    message = f"\na process forked in {item.nodeid} has left the test:\n{text}"
    try:
        os.write(2, message.encode())
    finally:
        os._exit(70)


def skipped_without_plugin(report: Any, raised: pytest.ExceptionInfo[BaseException] | None, path: Path) -> Any:
    """Turn a failure into a skip where plug-ins are missing and the test was told that it needs one.

    A test that needs a plug-in and is not told so still fails: users would not be told either.
    """
    if CORE_ONLY and report.failed and raised is not None:
        told = [*_refused, *(error for error in reasons(raised.value) if needs_plugin(error))]
        if told or any(error is raised.value for error in _known):
            _known.append(raised.value)  # of a fixture it is raised again for each of its tests
            _skipped.add(str(path))
            report.outcome, report.longrepr = "skipped", (str(path), 0, f"Skipped: {[*told, raised.value][0]}")
    return report


def needs_plugin(error: BaseException) -> bool:
    """Return whether it is an error of a plug-in, or of its tests, that is not there."""
    if isinstance(error, ModuleNotFoundError):
        return (error.name or "").startswith(("saccade.plugins", "tests.plugins"))
    return isinstance(error, MissingPluginError) or (isinstance(error, ImportError) and error.path in _skipped)


def reasons(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error and those that led to it."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


ABOUT_SANDBOXES = {"sandbox", "hostile", "guest", "benchmarks", "packaging"}
"""Folders whose tests start sandboxes of their own."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    own = item.path.parent.name in ABOUT_SANDBOXES or item.get_closest_marker("own_sandbox") is not None
    with shared_sandbox.lending(not own):
        return (yield)


def pytest_sessionfinish() -> None:
    shared_sandbox.end()


_SCRUBBED = re.compile(
    r"(.*_(API_KEY|ACCESS_KEY(_ID)?|KEY|TOKEN|SECRET|PASSWORD))|(.*_PROXY)|(HF|HUGGING_?FACE|TRANSFORMERS)_.*"
    r"|(OPENAI|ANTHROPIC|GEMINI|GOOGLE|AZURE|AWS|WANDB|SACCADE)_.*",
    re.IGNORECASE,
)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    _refused.clear()
    random.seed(0)
    np.random.seed(0)


@pytest.fixture(scope="session", autouse=True)
def _guards() -> Iterator[None]:
    """Set once and not for each test: of eleven thousand, most take less time than setting them would."""
    with pytest.MonkeyPatch.context() as patch:
        _scrub_environment(patch)
        _keep_to_loopback(patch)
        # Every client would read the certificates, and none here reaches anybody who has one.
        patch.setattr(ssl, "create_default_context", cache(ssl.create_default_context))
        # No test outlives the machine; those of a disk that fails put a failing `fsync` of their own in its place.
        patch.setattr(os, "fsync", lambda _descriptor: None)
        yield


def _scrub_environment(patch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if _SCRUBBED.fullmatch(name):
            patch.delenv(name)
    patch.setenv("MPLBACKEND", "Agg")
    patch.setenv("HF_HUB_OFFLINE", "1")
    if Path("/dev/nvidiactl").exists():  # what is expected to the last digit is float32's on a CPU
        patch.setenv("CUDA_VISIBLE_DEVICES", "")


def _keep_to_loopback(patch: pytest.MonkeyPatch) -> None:
    """Sockets of this process reach this machine alone; a child process is not held by this."""
    for name in ("connect", "connect_ex"):
        patch.setattr(socket.socket, name, _guarded(getattr(socket.socket, name), 0))
    patch.setattr(socket.socket, "sendto", _guarded(socket.socket.sendto, -1))
    patch.setattr(socket, "getaddrinfo", _guarded_lookup(socket.getaddrinfo))


@pytest.fixture(scope="session")
def tiny() -> Path:
    """A tiny Qwen2.5-VL with random weights, which no test changes."""
    return tiny_folder()


@pytest.fixture(scope="session")
def _wire_server() -> Iterator[WireServer]:
    from tests.models.wire_server import running

    with running() as server:
        yield server


@pytest.fixture
def server(_wire_server: WireServer) -> WireServer:
    """The server that speaks the protocols of models; it has heard nothing yet."""
    return _wire_server.will()


def _guarded(method: Callable[..., Any], position: int) -> Callable[..., Any]:
    def call(sock: socket.socket, *args: Any) -> Any:
        if sock.family in (socket.AF_INET, socket.AF_INET6) and args:
            _require_loopback(args[position][0])
        return method(sock, *args)

    return call


def _guarded_lookup(lookup: Callable[..., Any]) -> Callable[..., Any]:
    def call(host: Any, *args: Any, **kwargs: Any) -> Any:
        if host is not None:
            _require_loopback(host)
        return lookup(host, *args, **kwargs)

    return call


def _require_loopback(host: str | bytes) -> None:
    name = host.decode() if isinstance(host, bytes) else host
    try:
        local = name in ("", "localhost", socket.gethostname()) or ipaddress.ip_address(name).is_loopback
    except ValueError:
        local = False
    if not local:
        raise RuntimeError(f"a test tried to reach {name}: tests use the loopback interface only")
