"""Every sandbox that is attacked has processes of its own."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def kept_processes() -> None:
    """Nothing is kept."""
