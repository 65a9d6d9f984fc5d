"""The prompts of `prompts.toml`, checked when they are first read."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Literal, get_args

AnswerForm = Literal["table", "statements", "answer", "text"]


@dataclass(frozen=True, slots=True)
class VlmPrompt:
    """What is asked, and how the answer is read."""

    form: AnswerForm
    prompt: str

    def filled(self, question: str) -> str:
        """The prompt with the caller's question in its place."""
        return self.prompt.replace("{question}", question)

    @property
    def asks(self) -> bool:
        """Whether it has a place for a question."""
        return "{question}" in self.prompt


@cache
def prompts_of(tool: str) -> dict[str, VlmPrompt]:
    """Task -> prompt of a tool."""
    tables = tomllib.loads((files(__package__) / "prompts.toml").read_text("utf-8"))
    prompts = {task: VlmPrompt(**entry) for task, entry in tables[tool].items()}
    assert all(prompt.form in get_args(AnswerForm) for prompt in prompts.values()), "the file is our own"
    return prompts
