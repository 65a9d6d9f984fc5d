"""Settings of a run on verl, and every setting that there is."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from pydantic import BaseModel

from saccade.training.rl.settings import RlSettings

RECIPE: dict[str, Any] = {
    "dialect": "tiny:look",
    "steps": 3,
    "rollout": {
        "group_size": 4,
        "sampling": {"temperature": 1.3, "max_tokens": 400},
        "limits": {"turns": 3, "context_tokens": 2048},
    },
    "reward": {"preset": "pyvision-rl@1:paper"},
    "rounds": {"tasks": 2, "groups": 2, "rounds": 1},
}


def verl_settings(recipe: dict[str, Any] | None = None, **more: Any) -> RlSettings:
    plain: dict[str, Any] = {
        "recipe": {**RECIPE, **(recipe or {})},
        "model": {"source": "checkpoint", **more.pop("model", {})},
        "tasks": {"source": "touching-circles"},
        "trainer": {"name": "verl", **more.pop("trainer", {})},
    }
    return RlSettings.model_validate(plain | more)


def names(settings: BaseModel, before: str = "") -> Iterator[str]:
    """Every setting by its dotted name; a table counts as what is in it."""
    for name in type(settings).model_fields:
        value = getattr(settings, name)
        if isinstance(value, BaseModel) and type(value).model_fields:
            yield from names(value, f"{before}{name}.")
        else:
            yield f"{before}{name}"


@contextmanager
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Somebody listens where RAY_ADDRESS says that Ray is, so that none is started."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        monkeypatch.setenv("RAY_ADDRESS", f"127.0.0.1:{listener.getsockname()[1]}")
        yield
