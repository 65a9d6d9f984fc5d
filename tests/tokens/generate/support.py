"""One answer after another straight from a scheduler, and what its forward passes read."""

from __future__ import annotations

from typing import Any

import pytest
from tests.models.helpers import Media

from saccade.models.base import Request
from saccade.models.families.known import FAMILIES
from saccade.models.local_weights import Checkpoint
from saccade.tokens.decoder import PendingAnswer, Scheduler
from saccade.tokens.prompt import build_prompt
from saccade.tokens.turn import SampledTurn

ALIKE = ("qwen3_5_moe", "glm4v", "glm4v_moe")
"""Families that run as another one does."""
NEWER = ("qwen3_5", "glm46v", "gemma4", *ALIKE)


def each_family(*slow: str) -> list[Any]:
    """A parameter for each family; those that are `slow` run with the slow tests."""
    return [pytest.param(family, marks=pytest.mark.slow if family in slow else (), id=family) for family in FAMILIES]


class Asked:
    """An answer that is being written, and what came of it."""

    def __init__(self, scheduler: Scheduler, request: Request, media: Media) -> None:
        self.pieces: list[str] = []
        self.cancelled = False
        self.outcome: SampledTurn | BaseException | None = None
        self.ended = False
        prompt = build_prompt(request, scheduler.checkpoint)
        scheduler.admit(PendingAnswer(request, prompt, media, self.pieces.append, lambda: self.cancelled, self._end))

    def _end(self, outcome: SampledTurn | BaseException | None) -> None:
        assert not self.ended
        self.outcome, self.ended = outcome, True

    @property
    def turn(self) -> SampledTurn:
        if isinstance(self.outcome, BaseException):
            raise self.outcome
        assert self.outcome is not None
        return self.outcome


def answered(scheduler: Scheduler, media: Media, *requests: Request) -> list[SampledTurn]:
    """The answers to `requests`, written side by side."""
    asked = [Asked(scheduler, request, media) for request in requests]
    while not scheduler.is_idle:
        scheduler.step()
    return [one.turn for one in asked]


class Passes:
    """While it is open: the shape (rows, tokens) of what each forward pass reads."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        self.shapes: list[tuple[int, int]] = []
        self._hook = checkpoint.model.model.register_forward_pre_hook(self._hear, with_kwargs=True)

    def _hear(self, module: Any, args: Any, kwargs: dict[str, Any]) -> None:
        rows, tokens = kwargs["input_ids"].shape
        self.shapes.append((rows, tokens))

    def __enter__(self) -> Passes:
        return self

    def __exit__(self, *error: object) -> None:
        self._hook.remove()
