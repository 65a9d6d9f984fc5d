"""Tasks, loop and graders as parts of inspect_ai. Needs the extra `inspect`."""

from __future__ import annotations

from importlib import import_module

from saccade.core.registry import install
from saccade.errors import UnavailableError

try:
    import_module("inspect_ai")
except ModuleNotFoundError as missing:
    raise UnavailableError(f"inspect_ai is not installed. Run: {install('inspect')}") from missing
