"""Variants beyond those that a test keeps are slow."""

from __future__ import annotations

import pytest
from tests.few import spread

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
