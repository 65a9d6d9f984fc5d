"""`hosted`: the provider's own sandbox runs the model's code, within one answer; the arm to compare ours with.

The request asks for the provider's tool (`code_interpreter` of OpenAI's Responses, `code_execution` of Anthropic and
of Gemini). The question and its pictures are shown, and the pictures also are in that sandbox as files. What ran is
recorded in `Turn.hosted`; nothing of it goes through our sandbox, so no limit, repair or state policy of ours holds
there. There is one turn: the model looks as often as it likes before it answers. The answer is read as in `direct`.
Videos are refused: give frames as pictures. This is no published prompt.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar

from saccade.dialects.base import Dialect, Opening, question_parts, system_message
from saccade.dialects.direct import DirectDialect
from saccade.dialects.prompt_texts import SYSTEM, USER, Prompts
from saccade.dialects.pyvision import information
from saccade.dialects.question import pictures_of, question_values
from saccade.errors import SettingsError
from saccade.record.content import Message
from saccade.record.task import Task

OWN = Prompts(
    {
        SYSTEM: "You answer questions about pictures. Look closer with your Python tool where the first look is not "
        "enough: open the picture, cut out and enlarge, rotate, enhance, measure, count.",
        USER: "{query}\n\nThe pictures are also files in the sandbox of your Python tool; list its folders to find "
        "them. When you are sure, write the final answer inside <answer> and </answer>.",
    },
    "the prompt of hosted",
)
_LABEL = "image_"


@dataclass(frozen=True, slots=True)
class HostedDialect(DirectDialect):
    """The dialect; see the module's head."""

    tags_thoughts: bool = True
    stop: tuple[str, ...] = ()
    """None: what the model writes before a call may name the tag."""
    provider_runs: ClassVar[bool] = True

    def open(self, task: Task) -> Opening:
        """Return a system message and one of the user. Raises `VideoNotShownError` for a task with a video."""
        images = [part for _, part in pictures_of(task, self.id)]
        text = self.prompts.fill(USER, {**question_values(task), **information(images)})
        user = Message(role="user", parts=question_parts(text, images, _LABEL))
        return Opening((*system_message(self.prompts), user), bindings={}, files={}, pictures=len(images))


def check_runs_here(dialect: Dialect, what: str) -> None:
    """Raise `SettingsError` if the provider of a model is to run the code, where `what` has no provider."""
    if dialect.provider_runs:
        raise SettingsError(
            f"{dialect.id} lets the provider's own sandbox run the code, and {what} has no provider. Use a dialect "
            "whose code runs here."
        )


PRESETS: Mapping[str, HostedDialect] = MappingProxyType({"": HostedDialect("hosted@1", OWN)})
