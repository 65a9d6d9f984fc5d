"""Which of the suite's checks over HTTP wait for limits to be reached, and so belong to the slow ones."""

from __future__ import annotations

import pytest


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The local provider is checked for the same in the default suite."""
    for item in items:
        if "[remote-limits." in item.name or "[remote-concurrency." in item.name:
            item.add_marker(pytest.mark.slow)
