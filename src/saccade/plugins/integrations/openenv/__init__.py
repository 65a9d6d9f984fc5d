"""The environment behind OpenEnv's protocol: models of its wire, a server and a client. Needs the extra `openenv`."""

from __future__ import annotations

from importlib import import_module

from saccade.core.registry import install
from saccade.errors import UnavailableError

try:
    import_module("openenv.core")
except ModuleNotFoundError as missing:
    raise UnavailableError(f"OpenEnv's protocol needs the package `openenv`. Run: {install('openenv')}") from missing
