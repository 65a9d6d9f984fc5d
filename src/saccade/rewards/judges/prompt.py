"""The texts that judges are asked with, a user's own file in their place, and how the scores in replies are read.

A file is plain text. `{name}` stands for one of the fields that the judge has. Other braces stand for themselves; in a
file that reads as a template of `str.format`, a brace that is written twice is one. Nothing is filled in twice, so
material that holds `{question}` changes nothing.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from string import Formatter
from types import MappingProxyType
from typing import Final, Literal

from pydantic import FiniteFloat

from saccade.core.registry import did_you_mean
from saccade.core.settings import Settings
from saccade.errors import PromptFileError
from saccade.models.base import MediaReader
from saccade.record.content import ImagePart, Message, Record, TextPart, clean_text
from saccade.rewards.judges.client import AskRules, JudgeClient, NoReply, strict_verdict
from saccade.rewards.reward import JudgeVerdict

Replies = Literal["json", "number"] | dict[str, FiniteFloat]


class PromptChoice(Settings):
    """A prompt of the user's own for one judge of several."""

    prompt_file: str = ""
    replies: Replies = "json"


class ScoreRules(AskRules):
    """How a model that gives scores is asked."""

    replies: Replies = "json"
    """How a prompt file asks for the score: `json`: not at all, a line that asks for `{"score": x}` is added; `number`:
    as a number on the last line; or the words of the last line -> the score that each means."""

    def asked_with(self, prompt: PromptChoice) -> ScoreRules:
        return self.model_copy(update={"prompt_file": prompt.prompt_file, "replies": prompt.replies})


_FIELD = re.compile(r"\{([A-Za-z_][A-Za-z0-9_ ]{0,40})\}")
OTHER_NAMES: Final[Mapping[str, str]] = MappingProxyType(
    {
        **dict.fromkeys(("query", "Question", "problem", "prompt"), "question"),
        **dict.fromkeys(("gt", "ground_truth", "groundtruth", "reference", "target", "label", "gold_answer"), "gold"),
        **dict.fromkeys(("prediction", "pred", "response", "model_answer", "model_response", "extraction"), "answer"),
    }
)
"""Fields of published templates -> their names here, for judges that have these and not those."""


@dataclass(frozen=True, slots=True)
class JudgePrompt:
    """A text with fields."""

    pieces: tuple[tuple[str, str], ...]
    """Literal texts, each with the name of the field that follows it; empty after the last."""
    own: bool = False
    """Whether it is a user's file."""

    def fill(self, values: Mapping[str, str]) -> str:
        return "".join(text + (values[name] if name else "") for text, name in self.pieces)


def judge_prompt(file: str, text: str, needed: Collection[str], optional: Collection[str] = ()) -> JudgePrompt:
    """Return the prompt in `file`, or Saccade's own `text` where none is named. Raises `PromptFileError` if the file
    cannot be read, has a field that this judge has not, or lacks one that is `needed`.
    """
    if not file:
        return JudgePrompt(_cut(text, _FIELD))
    written = _read(file).rstrip()
    fields = (*needed, *optional)
    known = {name: name for name in fields}
    known |= {name: own for name, own in OTHER_NAMES.items() if own in fields and name not in fields}
    pieces = _formatted(written, known) or _cut(written, _FIELD)
    has = f"It may have {', '.join(f'{{{name}}}' for name in fields) or 'no field'}."
    for _, name in pieces:
        if name and name not in known:
            raise PromptFileError(
                f"the prompt file {file} has {{{name}}}, which cannot be filled in there. "
                f"{did_you_mean(name, fields)} {has}"
            )
    named = tuple((literal, known.get(name, "")) for literal, name in pieces)
    lost = ", ".join(f"{{{name}}}" for name in needed if name not in {name for _, name in named})
    if lost:
        raise PromptFileError(f"the prompt file {file} lacks {lost}, so it would judge blindly. {has}")
    return JudgePrompt(named, own=True)


def prompt_mark(rules: ScoreRules) -> str:
    """Return the prompt file's name and the beginning of a sha256: another text, or other replies, are another judge.
    Raises `PromptFileError` if it cannot be read.
    """
    if not rules.prompt_file:
        return ""
    digest = sha256(f"{_read(rules.prompt_file)}\0{rules.replies}".encode()).hexdigest()
    return f" ({Path(rules.prompt_file).name} {digest[:8]})"


def _read(file: str) -> str:
    try:
        return clean_text(Path(file).read_text(encoding="utf-8-sig"))
    except (OSError, UnicodeDecodeError) as error:
        raise PromptFileError(f"the prompt file {file} cannot be read: {error}. Check the path.") from error


def _formatted(text: str, known: Collection[str]) -> tuple[tuple[str, str], ...]:
    """Return the pieces of a template of `str.format` that has only known fields; none for any other text."""
    try:
        pieces = [*Formatter().parse(text)]
    except ValueError:
        return ()
    if any(name is not None and (name not in known or spec or conversion) for _, name, spec, conversion in pieces):
        return ()
    return tuple((literal, name or "") for literal, name, _, _ in pieces)


def _cut(text: str, fields: re.Pattern[str]) -> tuple[tuple[str, str], ...]:
    cut = [*fields.split(text), ""]
    return tuple(zip(cut[::2], cut[1::2], strict=True))


@dataclass(frozen=True, slots=True)
class Scale:
    """The scores that a judge may give."""

    levels: tuple[float, ...]
    between: bool = False
    """Whether every number between the lowest and the highest level is one too."""

    def has(self, score: float) -> bool:
        return min(self.levels) <= score <= max(self.levels) if self.between else score in self.levels

    def __str__(self) -> str:
        numbers = [f"{level:g}" for level in sorted(self.levels)]
        return f"a number from {numbers[0]} to {numbers[-1]}" if self.between else ", ".join(numbers)


class _Reply(Record):
    score: FiniteFloat


@dataclass(frozen=True)
class ScoreQuestion:
    """A question whose reply is a score: the prompt that is filled in for each case, and how replies are read."""

    rules: ScoreRules
    own: str
    """Saccade's own text."""
    scale: Scale
    needed: tuple[str, ...]
    """Fields that a user's file must have."""
    optional: tuple[str, ...] = ()
    _prompt: JudgePrompt = field(init=False, repr=False)
    _words: Mapping[str, float] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Read the prompt file of the rules. Raises `PromptFileError` if it cannot be used, or `replies` is for a
        prompt file and there is none, or gives a word a score that this judge has not.
        """
        replies, prompt = self.rules.replies, judge_prompt(self.rules.prompt_file, self.own, self.needed, self.optional)
        if replies != "json" and not prompt.own:
            raise PromptFileError("`replies` is about a prompt file, and none is named: name it in `prompt_file`.")
        words = {_plain(word): score for word, score in replies.items()} if isinstance(replies, Mapping) else {}
        wrong = [f"{word} = {score:g}" for word, score in words.items() if not self.scale.has(score)]
        if wrong or (isinstance(replies, Mapping) and len(set(words.values())) < 2):
            raise PromptFileError(
                f"`replies` must name words for two scores of this judge or more ({self.scale}); it has "
                f"{', '.join(wrong) or 'fewer'}."
            )
        object.__setattr__(self, "_prompt", prompt)
        object.__setattr__(self, "_words", words)

    def text(self, values: Mapping[str, str]) -> str:
        """Return the prompt with `values` filled in; the form of the reply is added where the prompt has none."""
        if self.rules.replies != "json":
            return self._prompt.fill(values)
        forms = " or ".join(f'{{"score": {level:g}}}' for level in self.scale.levels)
        form = f'{{"score": <{self.scale}>}}' if self.scale.between else forms
        return f"{self._prompt.fill(values)}\n\nReply with JSON and nothing else: {form}"

    def read(self, reply: str) -> float | None:
        """Return the score of a reply; None if it does not have the asked form, or is no score of this judge."""
        if self.rules.replies == "json":
            read = strict_verdict(reply, _Reply)
            score = None if read is None else read.score
        else:
            last = _last_line(reply)
            score = self._words.get(last) if self._words else _number(last)
        return score if score is not None and self.scale.has(score) else None

    async def ask(
        self, client: JudgeClient, values: Mapping[str, str], media: MediaReader, pictures: Sequence[ImagePart] = ()
    ) -> JudgeVerdict:
        """Ask about one case; return its score, or why there is none.

        Raises `ModelDeniedError`: any request would be refused.
        """
        message = Message(role="user", parts=(*pictures, TextPart(text=self.text(values))))
        said = await client.ask(message, self.read, media)
        if isinstance(said, NoReply):
            return JudgeVerdict(invalid=said.reason, detail=said.detail)
        return JudgeVerdict(score=said)


_LABEL = re.compile(r"\A(?!.*\b(?:not|never|no)\b)[\W_]*\w{1,20}(?:\s\w{1,20}){0,2}\W{0,3}[:：]\s*(?=\S)", re.I)


def _last_line(reply: str) -> str:
    """Return the last line of a reply without a label ("Judgement: 1"), marks and full stop."""
    lines = [line for line in reply.splitlines() if _plain(line)]
    return _plain(_LABEL.sub("", lines[-1].strip())) if lines else ""


def _plain(text: str) -> str:
    return " ".join(text.strip(" \t`*_#.[]()\"'").casefold().split())


def _number(text: str) -> float | None:
    return float(text) if re.fullmatch(r"[0-9]{1,3}(\.[0-9]{1,9})?", text) else None
