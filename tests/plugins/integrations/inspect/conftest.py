"""Streams that inspect_ai leaves open are no fault of a test."""

from __future__ import annotations

import gc
import warnings
from collections.abc import Iterator

import pytest


@pytest.fixture(scope="session", autouse=True)
def _streams_of_inspect() -> Iterator[None]:
    """Collect what evaluations left behind before pytest does, which would fail for it at the very end."""
    yield
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Unclosed <MemoryObject", ResourceWarning)
        gc.collect()
