"""`direct`: the question and its pictures, no tools; what a model can do without looking again.

Presets: `reason` (the model thinks in words and then answers in `<answer>`, the default), `short` (it answers at
once), `think` (it thinks inside `<think>`, as VISTA's reward asks: the arm "w/o tools" of its ablation) and `video` (as
`reason`, each video as one item; which frames of it are seen, the settings say or the model's own processor; pictures
and videos come in the order of the task, or where `<image>` and `<video>` stand in the question). A text
without the tag is an answer as a whole, unless it was cut off or withheld: what a grader makes of it is its own. There
is one turn, and no second try. But for `video`, videos are refused: a baseline must say which frames it saw, so give
frames as pictures. This is no published prompt; a file of your own replaces it (`--prompt-file`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import ClassVar

from saccade.dialects.base import Dialect, Observation, Opening, question_parts, system_message
from saccade.dialects.left_calls import left_call
from saccade.dialects.prompt_texts import SYSTEM, USER, Prompts
from saccade.dialects.pyvision import information
from saccade.dialects.question import pictures_of, question_values
from saccade.dialects.text import answers_in, checked, outside_thoughts
from saccade.errors import SettingsError
from saccade.record.content import Action, Answer, ImagePart, Message, ParseError, clean_text
from saccade.record.execution import Execution
from saccade.record.task import Task
from saccade.record.trajectory import EpisodeLimits, FinishReason
from saccade.sandbox.base import Limits, SessionOptions

REASON = Prompts(
    {
        SYSTEM: "",
        USER: "{query}\n\nThink about it step by step, then write the final answer inside <answer> and </answer>.",
    },
    "the prompt of direct:reason",
)
THINK = Prompts(
    {
        SYSTEM: "",
        USER: "{query}\n\nThink about it step by step inside <think> and </think>, then write the final answer inside "
        "<answer> and </answer>. Write nothing else.",
    },
    "the prompt of direct:think",
)
SHORT = Prompts(
    {SYSTEM: "", USER: "{query}\n\nWrite nothing but the answer, inside <answer> and </answer>."},
    "that of direct:short",
)


@dataclass(frozen=True, slots=True)
class DirectDialect(Dialect):
    """The dialect; see the module's head."""

    id: str
    prompts: Prompts
    tags_thoughts: bool = False
    """Whether thoughts stand in `<think>`; an answer inside them is none."""
    thinks: bool = True
    """Whether anything is asked for before the answer; without, `write` leaves thoughts out."""
    shows_videos: bool = False
    """Whether a video of the task is shown as such."""
    stop: tuple[str, ...] = ("</answer>",)
    session: SessionOptions = field(default_factory=SessionOptions)
    sandbox: Limits = field(default_factory=Limits)
    limits: EpisodeLimits = field(default_factory=lambda: EpisodeLimits(turns=1))

    def open(self, task: Task) -> Opening:
        """Return one user message. Raises `VideoNotShownError` for a task with a video, unless it shows them."""
        if not self.shows_videos:
            pictures_of(task, self.id)
        media = [item.part for item in task.media]
        images = [part for part in media if isinstance(part, ImagePart)]
        text = self.prompts.fill(USER, {**question_values(task), **information(images)})
        messages = (*system_message(self.prompts), Message(role="user", parts=question_parts(text, media)))
        return Opening(messages, bindings={}, files={}, pictures=len(images))

    def parse(self, text: str, finish: FinishReason) -> Action:
        """Return the last answer in tags, or the whole text."""
        text = clean_text(text)
        if finish is FinishReason.FILTERED:
            return ParseError(reason="The provider withheld the text.")
        read = outside_thoughts(text) if self.tags_thoughts else text
        answers = answers_in(read)
        if answers:
            return Answer(text=answers[-1])
        if finish is FinishReason.LENGTH:
            return ParseError(reason="The text was cut off by the token limit before there was an answer.")
        if left_call(text) is not None:
            return ParseError(reason="The text calls a function, and there is none here.")
        return Answer(text=text.strip()) if text.strip() else ParseError(reason="The text is empty.")

    def write(self, action: Action, thought: str = "") -> str:
        """Return the thought and the answer in tags. Raises ValueError for anything but an answer."""
        if not isinstance(action, Answer):
            raise ValueError(f"{self.id} cannot say an action of kind {action.kind!r}; it knows answers alone")
        plain = f"{thought}\n" if thought and self.thinks else ""
        before = f"<think>{thought}</think>\n" if self.tags_thoughts else plain
        return checked(self, f"{before}<answer>{action.text}</answer>", action)

    def observe(self, execution: Execution, pictures: int) -> Observation:
        """Raises ValueError: there is nothing that could be executed."""
        raise ValueError(f"{self.id} has no tools, so there is no execution to show")


PRESETS: Mapping[str, DirectDialect] = MappingProxyType(
    {
        "reason": DirectDialect("direct@1:reason", REASON),
        "short": DirectDialect("direct@1:short", SHORT, thinks=False),
        "think": DirectDialect("direct@1:think", THINK, tags_thoughts=True),
        "video": DirectDialect("direct@1:video", REASON, shows_videos=True),
    }
)

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
    """`hosted`: the provider's own sandbox runs the model's code, within one answer; the arm to compare ours with.

    The request asks for the provider's tool (`code_interpreter` of OpenAI's Responses, `code_execution` of Anthropic
    and of Gemini). The question and its pictures are shown, and the pictures also are in that sandbox as files. What
    ran is recorded in `Turn.hosted`; no limit, repair or state policy of ours holds there. There is one turn, in which
    the model looks as often as it likes. Videos are refused: give frames as pictures. This is no published prompt.
    """

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


HOSTED_PRESETS: Mapping[str, HostedDialect] = MappingProxyType({"": HostedDialect("hosted@1", OWN)})
