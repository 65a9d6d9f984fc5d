"""The guards of conftest.py hold, variants beyond those that a test keeps are slow, and missing plug-ins are known."""

from __future__ import annotations

import os
import random
import socket

import numpy as np
import pytest
from tests.conftest import needs_plugin, reasons
from tests.few import spread

from saccade.errors import MissingPluginError, RegistryError


def test_network_beyond_this_machine_is_refused() -> None:
    with socket.socket() as sock, pytest.raises(RuntimeError, match="loopback"):
        sock.connect(("192.0.2.1", 9))
    with pytest.raises(RuntimeError, match="loopback"):
        socket.getaddrinfo("example.invalid", 80)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock, pytest.raises(RuntimeError, match="loopback"):
        sock.sendto(b"x", ("192.0.2.1", 9))


def test_loopback_works() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as client:
        peer, _ = server.accept()
        with peer:
            client.sendall(b"look")
            assert peer.recv(4) == b"look"


def test_no_secret_is_in_the_environment() -> None:
    assert not [name for name in os.environ if name.upper().endswith(("_API_KEY", "_TOKEN", "_PROXY"))]


def test_random_numbers_are_the_same_in_each_run() -> None:
    assert random.random() == random.Random(0).random()
    assert np.random.rand() == np.random.RandomState(0).rand()


@pytest.mark.parametrize(
    ("error", "needs"),
    [
        (ModuleNotFoundError("no", name="saccade.plugins.serve"), True),
        (ModuleNotFoundError("no", name="numpy"), False),
        (MissingPluginError("no"), True),
        (RegistryError("no"), False),
    ],
)
def test_a_test_that_needs_a_plugin_is_known_by_what_it_raises(error: Exception, needs: bool) -> None:
    later = ValueError("then")
    later.__cause__ = error
    assert any(map(needs_plugin, reasons(later))) is needs


pytest_plugins = ["pytester"]
HOOK = """
import pytest
from tests import few

@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    few.mark_the_rest_slow(items)
"""
FAMILY = """
import pytest

@pytest.mark.few(2)
@pytest.mark.parametrize("n", [pytest.param(0, marks=pytest.mark.slow), 1, 2, 3, 4])
def test_spread(n): ...

@pytest.mark.few(1, of=lambda params: params["word"][0])
@pytest.mark.parametrize("word", ["apple", "ant", "bee", "bear", "cat"])
@pytest.mark.parametrize("side", ["left", "right"])
def test_of_each(word, side): ...

def test_alone(): ...
"""


@pytest.mark.parametrize(
    ("length", "count", "kept"),
    [(5, 2, {0, 4}), (5, 3, {0, 2, 4}), (5, 1, {0}), (3, 3, {0, 1, 2}), (2, 8, {0, 1}), (0, 3, set())],
)
def test_spread(length: int, count: int, kept: set[int]) -> None:
    assert spread(length, count) == kept


def test_the_rest_is_slow_and_every_kind_is_kept(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(HOOK)
    pytester.makepyfile(test_family=FAMILY)
    pytester.makeini("[pytest]\nmarkers =\n    slow\n    few\nasyncio_default_fixture_loop_scope = function\n")

    def run(*words: str) -> list[str]:
        passed, _, _ = pytester.inline_run("-p", "no:cacheprovider", "-m", *words).listoutcomes()
        return [report.nodeid.partition("::")[2] for report in passed]

    of_each = [f"test_of_each[left-{word}]" for word in ("apple", "bee", "cat")]
    assert run("not slow") == ["test_spread[1]", "test_spread[4]", *of_each, "test_alone"]
    assert len(run("slow")) == 3 + 7
    asked_for = "test_family.py::test_of_each[right-bear]"
    assert run("not slow", asked_for) == ["test_of_each[right-bear]"], "one that is asked for by its name is run"
