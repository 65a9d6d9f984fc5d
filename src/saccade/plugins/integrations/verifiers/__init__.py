"""Tasks, loop and rewards as plugins of Prime Intellect's verifiers. Needs the extra `verifiers`."""

from __future__ import annotations

from importlib import import_module

from saccade.errors import UnavailableError

try:
    import_module("verifiers.v1")
except ModuleNotFoundError as missing:
    raise UnavailableError(
        "Prime Intellect's verifiers are not installed, in their version 0.4 or later. Run: pip install "
        "'saccade-vlm[verifiers]'"
    ) from missing
