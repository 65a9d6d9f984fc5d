"""What a checkpoint's chat template writes around messages, held against the frame of its family.

Read once, by rendering small conversations: what is trained is what inference will read, or the template is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import jinja2

from saccade.errors import TrainingError
from saccade.models.families.base import ModelFamily
from saccade.models.families.pieces import Piece, SpecialToken, written

_RULE, _QUESTION, _REPLY = "Be brief.", "How many?", "Two."


@dataclass(frozen=True, slots=True)
class WrittenFrame:
    """What varies between templates of one family."""

    start: tuple[Piece, ...]
    """In front of a conversation that begins with a system message."""
    preamble: tuple[Piece, ...]
    """In front of one that does not."""
    opening: str
    """Between the assistant's head and what the model writes."""
    opening_pieces: tuple[Piece, ...]
    picture_edge: str
    """On both sides of a picture."""


class FrameReader:
    """Renders the template of one checkpoint."""

    def __init__(self, name: str, family: ModelFamily, tokenizer: Any, template: str) -> None:
        self._name = name
        self._family = family
        self._tokenizer = tokenizer
        self._template = template

    def read(self) -> WrittenFrame:
        """The frame.

        Raises:
            TrainingError: the template does not write that of the family.
        """
        family = self._family
        body = self._body("user", _QUESTION)
        rendered = self._rendered({"role": "user", "content": _QUESTION}, generation=True)
        head = written(family.head("assistant"))
        opening = self._ending(rendered, [body + head + opening for opening in family.openings])[len(body + head) :]
        before = rendered.removesuffix(body + head + opening)
        self._check_answers(before + body + head, body, opening)
        start = "".join(family.start)
        edge = ""
        if family.framed:
            asked = body + head + opening
            system = self._rendered(
                {"role": "system", "content": _RULE}, {"role": "user", "content": _QUESTION}, generation=True
            )
            self._require(system == start + self._body("system", _RULE) + asked)
            edge = self._picture_edge(before, head + opening)
        self._require(before.startswith(start))
        tokens = tuple(SpecialToken(token) for token in family.start)
        return WrittenFrame(
            tokens,
            (*tokens, *self._pieces(before.removeprefix(start))),
            opening,
            self._pieces(opening),
            edge,
        )

    def _check_answers(self, before: str, body: str, opening: str) -> None:
        """An answer that was given is written as it is; a framed family's template may put a thought before it."""
        user, reply = {"role": "user", "content": _QUESTION}, {"role": "assistant", "content": _REPLY}
        answered = self._rendered(user, reply, user, generation=False)
        after = _REPLY + written(self._family.tail("assistant")) + body
        self._require(answered.startswith(before) and answered.endswith(after))
        self._require(self._family.framed or answered == before + opening + after)

    def _picture_edge(self, before: str, asked: str) -> str:
        content = [{"type": "image"}, {"type": "text", "text": _QUESTION}]
        rendered = self._rendered({"role": "user", "content": content}, generation=True)
        family = self._family
        picture = family.placeholder if family.own_marks else written(family.picture(1))
        bodies = {
            before + self._body("user", edge + picture + edge + _QUESTION) + asked: edge
            for edge in family.picture_edges
        }
        self._require(rendered in bodies)
        return bodies[rendered]

    def _body(self, role: Any, text: str) -> str:
        return written(self._family.head(role)) + text + written(self._family.tail(role))

    def _ending(self, rendered: str, endings: Iterable[str]) -> str:
        for ending in sorted(endings, key=len, reverse=True):
            if rendered.endswith(ending):
                return ending
        raise self._refusal()

    def _require(self, holds: bool) -> None:
        if not holds:
            raise self._refusal()

    def _refusal(self) -> TrainingError:
        return TrainingError(
            f"the chat template of {self._name} does not write the frame of {self._family.model_type}, so a model "
            "trained here would read other tokens than it learned. Take a checkpoint with the family's template."
        )

    def _pieces(self, text: str) -> tuple[Piece, ...]:
        """The text, with the marks in it that the tokenizer has as tokens."""
        known = self._tokenizer.get_vocab()
        marks = [mark for mark in self._family.marks if mark in known]
        parts = re.split("(" + "|".join(map(re.escape, marks)) + ")", text) if marks else [text]
        return tuple(SpecialToken(part) if part in marks else part for part in parts if part)

    def _rendered(self, *messages: Mapping[str, Any], generation: bool) -> str:
        try:
            text: str = self._tokenizer.apply_chat_template(
                list(messages), chat_template=self._template, tokenize=False, add_generation_prompt=generation
            )
        except jinja2.TemplateError as error:
            raise TrainingError(
                f"the chat template of {self._name} cannot be rendered: {error}. "
                "Take a checkpoint with the family's template."
            ) from error
        return text
