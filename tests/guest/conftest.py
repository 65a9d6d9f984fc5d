"""Guests that run cells in a child of the test process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.guest.cells import Guest, Start


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Makes guests with given settings (see `GuestConfig`), each with an empty workspace."""
    guests: list[Guest] = []

    def make(**settings: Any) -> Guest:
        folder = tmp_path / f"workspace{len(guests)}"
        folder.mkdir()
        guests.append(Guest(folder, **settings))
        return guests[-1]

    yield make
    for guest in guests:
        guest.close()


@pytest.fixture
def guest(start: Start) -> Guest:
    """A guest with the usual settings."""
    return start()
