"""Hold a trajectory as tokens, in segments of three kinds with their ids and pictures, and encode texts as ids.

What enters a loss is a property of the kind: what was sampled does, what was shown does not. A segment is kept or
dropped as a whole, so placeholders and pictures cannot disagree. Nothing here imports torch.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from itertools import accumulate
from typing import Any, Literal, Protocol, Self

import jinja2
import numpy as np
from numpy.typing import NDArray

from saccade.errors import ModelRefusedError, TrainingError
from saccade.models.families.base import (
    ModelFamily,
    PicturePlaceholder,
    Piece,
    SpecialToken,
    VideoClip,
    VideoRules,
    joined,
    written,
)
from saccade.models.families.known import FAMILIES
from saccade.models.pictures import NO_RULES, PictureRules, fitting_size
from saccade.record.content import ImagePart, Role, VideoPart

SampledIds = Literal["recorded", "text"]
"""Where the ids of a turn come from: the record where it has them, or always the turn's text (another tokenizer's
trajectories)."""


class SegmentKind(StrEnum):
    """Author of a segment."""

    PROMPT = "prompt"
    """All that was read before the first turn; always the first segment, never dropped."""
    SAMPLED = "sampled"
    """Text of the model in one turn, with its end-of-turn token where it wrote one."""
    OBSERVATION = "observation"
    """Text and pictures shown between two turns, with every header and mark around it."""


@dataclass(frozen=True, slots=True)
class PromptPicture:
    """A picture or a video, and the number of its placeholders, which is that of its features."""

    part: ImagePart | VideoPart
    tokens: int
    clip: VideoClip | None = None
    """Of a video: what is seen of it."""


def image_parts(pictures: Sequence[PromptPicture], reader: str) -> list[ImagePart]:
    """Return the pictures, for a `reader` that cannot be given the frames of a video. Raises `ModelRefusedError` if one
    of `pictures` is a video.
    """
    parts = [picture.part for picture in pictures if isinstance(picture.part, ImagePart)]
    if len(parts) < len(pictures):
        raise ModelRefusedError(
            f"{reader} cannot be given the frames of a video, and would choose others than training sees. Sample in "
            "this process (leave out --engine), or take a dialect that shows frames as pictures."
        )
    return parts


@dataclass(frozen=True, slots=True)
class TokenSegment:
    """A stretch of tokens of one kind."""

    kind: SegmentKind
    ids: tuple[int, ...]
    pictures: tuple[PromptPicture, ...] = ()
    """In the order of their placeholders."""
    turn: int | None = None
    """Of a sampled segment: the number of its turn in the trajectory."""
    logprobs: tuple[float, ...] | None = None
    """Of a sampled segment, where the record has them: natural log-probability of each id."""

    def __post_init__(self) -> None:
        """Raises ValueError for a segment that contradicts itself."""
        if self.logprobs is not None and len(self.logprobs) != len(self.ids):
            raise ValueError(f"{len(self.logprobs)} log-probabilities for {len(self.ids)} ids; one each is needed")
        if (self.kind is SegmentKind.SAMPLED) != (self.turn is not None):
            raise ValueError("a sampled segment, and no other, belongs to a turn")
        if self.kind is SegmentKind.SAMPLED and self.pictures:
            raise ValueError("a model does not write pictures: a sampled segment holds none")

    @property
    def visual(self) -> int:
        return sum(picture.tokens for picture in self.pictures)


@dataclass(frozen=True, slots=True)
class TokenTrajectory:
    """The segments of one trajectory, in order. Every array has one entry for each token."""

    id: str
    segments: tuple[TokenSegment, ...]

    def __post_init__(self) -> None:
        """Raises ValueError unless there is one prompt, at the beginning."""
        kinds = [segment.kind for segment in self.segments]
        if kinds[:1] != [SegmentKind.PROMPT] or SegmentKind.PROMPT in kinds[1:]:
            raise ValueError(f"a trajectory begins with its one prompt; {self.id} has {[kind.value for kind in kinds]}")

    def __len__(self) -> int:
        return sum(len(segment.ids) for segment in self.segments)

    @property
    def pictures(self) -> tuple[PromptPicture, ...]:
        """Every picture that is shown, in the order of the placeholders; one shown twice comes twice."""
        return tuple(picture for segment in self.segments for picture in segment.pictures)

    def ids(self) -> NDArray[np.int64]:
        return np.fromiter((token for segment in self.segments for token in segment.ids), np.int64, len(self))

    def turns(self) -> NDArray[np.int64]:
        """Return the turn in which each token was sampled, -1 where it was not, (tokens,)."""
        numbers = [-1 if segment.turn is None else segment.turn for segment in self.segments]
        return np.repeat(np.array(numbers, np.int64), [len(segment.ids) for segment in self.segments])

    def loss_mask(self) -> NDArray[np.bool_]:
        """Return whether each token was sampled, (tokens,)."""
        mask: NDArray[np.bool_] = self.turns() >= 0
        return mask

    def logprobs(self) -> NDArray[np.float32]:
        """Return the log-probability of each token where it was sampled and recorded, else NaN, (tokens,)."""
        values = [segment.logprobs or (float("nan"),) * len(segment.ids) for segment in self.segments]
        return np.fromiter((value for part in values for value in part), np.float32, len(self))


def truncate(trajectory: TokenTrajectory, most: int) -> TokenTrajectory:
    """Return the longest beginning of `trajectory` with at most `most` tokens that ends in a sampled segment. Raises
    `TrainingError` if not even the prompt and the first turn fit.
    """
    ends = accumulate(len(segment.ids) for segment in trajectory.segments)
    kept = [
        index + 1
        for index, (segment, end) in enumerate(zip(trajectory.segments, ends, strict=True))
        if segment.kind is SegmentKind.SAMPLED and end <= most
    ]
    if not kept:
        first = sum(len(segment.ids) for segment in trajectory.segments[:2])
        raise TrainingError(
            f"the prompt and first turn of {trajectory.id} take {first} tokens, over the limit of {most}. "
            "Raise the limit, show smaller pictures, or leave the trajectory out."
        )
    return TokenTrajectory(trajectory.id, trajectory.segments[: kept[-1]])


# Pieces of prompts as ids for one checkpoint. The family's frame is checked against the checkpoint's chat template, so
# training sees what inference will read. Text that spells a special token is encoded as plain characters.


_RULE, _QUESTION, _REPLY = "Be brief.", "How many?", "Two."


@dataclass(frozen=True, slots=True)
class WrittenFrame:
    """The parts that vary between templates of one family."""

    start: tuple[Piece, ...]
    """Before a conversation that begins with a system message."""
    preamble: tuple[Piece, ...]
    """Before one that does not."""
    opening: str
    """Between the assistant's head and the model's text."""
    opening_pieces: tuple[Piece, ...]
    picture_edge: str
    """On both sides of a picture."""


class FrameReader:
    """Compares the chat template of a checkpoint with its family's frame, by rendering small conversations."""

    def __init__(self, name: str, family: ModelFamily, tokenizer: Any, template: str) -> None:
        self._name = name
        self._family = family
        self._tokenizer = tokenizer
        self._template = template

    def read(self) -> WrittenFrame:
        """Read the frame. Raises `TrainingError` if the template does not write the family's frame."""
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
        """Check that an earlier answer is written verbatim; a framed family's template may put a thought before it."""
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
        """Split the text at marks that are tokens of the tokenizer."""
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


_CACHED_TEXTS = 4096


class TokenSource(Protocol):
    """A checkpoint, with weights or without."""

    @property
    def name(self) -> str:
        """For messages."""

    @property
    def tokenizer(self) -> Any:
        """A fast one of transformers."""

    @property
    def image_processor(self) -> Any:
        """The checkpoint's."""

    @property
    def config(self) -> Any:
        """The checkpoint's configuration."""

    @property
    def chat_template(self) -> str:
        """As Jinja text."""

    @property
    def video(self) -> VideoRules | None:
        """Settings of its video processor."""


class Encoder:
    """Encodes pieces with a checkpoint's tokenizer and image processor."""

    def __init__(
        self,
        name: str,
        tokenizer: Any,
        image_processor: Any,
        config: Any,
        chat_template: str,
        rules: PictureRules = NO_RULES,
    ) -> None:
        """Load nothing.

        Args:
            name: of the checkpoint, for messages.
            tokenizer: a fast tokenizer of transformers; left as it is.
            image_processor: the checkpoint's.
            config: the checkpoint's configuration; its `model_type` names the family.
            chat_template: the checkpoint's, as Jinja text.
            rules: how pictures are scaled down before the image processor sees them.

        Raises `TrainingError`: the family is not supported, or the template does not write its frame.
        """
        self.name = name
        if config.model_type not in FAMILIES:
            raise TrainingError(
                f"{name} is of the family {config.model_type!r}, which has no token form here "
                f"(known: {', '.join(FAMILIES)}). Take a checkpoint of one of these."
            )
        self.family: ModelFamily = FAMILIES[config.model_type]
        self.image_processor = image_processor
        self.config = config
        self.context_tokens = int(config.get_text_config().max_position_embeddings)
        self._tokenizer = tokenizer
        self._vocabulary: dict[str, int] = tokenizer.get_vocab()
        self._plain = _without_special_tokens(tokenizer)
        self._special = frozenset(tokenizer.all_special_ids) | {
            token_id for token_id, token in tokenizer.added_tokens_decoder.items() if token.special
        }
        self._rules = rules
        self._video: VideoRules | None = None
        self.end_id = self._id(SpecialToken(self.family.ends[0]))
        ends = {self._vocabulary[token] for token in self.family.ends if token in self._vocabulary}
        self.end_ids = frozenset(ends | {tokenizer.eos_token_id} - {None})
        self.pad_id: int = self.end_id if tokenizer.pad_token_id is None else tokenizer.pad_token_id
        self.placeholder_id = self._id(SpecialToken(self.family.placeholder))
        video_token = None if self.family.video is None else self.family.video.placeholder
        self.placeholders = frozenset({self.placeholder_id, self._vocabulary.get(video_token or "")} - {None})
        """Ids that stand for features of pictures and videos."""
        self.reserved_ids = frozenset(self._vocabulary[t] for t in self.family.reserved if t in self._vocabulary)
        self._never = self._special | self.reserved_ids | ends
        names = [tokenizer.convert_ids_to_tokens(token_id) for token_id in self._never]
        self._spelled = re.compile("|".join(re.escape(name) for name in sorted(names, key=len, reverse=True)))
        self._text = lru_cache(_CACHED_TEXTS)(self._encode_text)
        self._count = lru_cache(_CACHED_TEXTS)(self._visual_tokens)
        self.frame = FrameReader(name, self.family, tokenizer, chat_template).read()

    @classmethod
    def of(cls, checkpoint: TokenSource, rules: PictureRules = NO_RULES) -> Self:
        """Make the encoder of a checkpoint, with its rules for videos. Raises as the constructor."""
        made = cls(
            checkpoint.name,
            checkpoint.tokenizer,
            checkpoint.image_processor,
            checkpoint.config,
            checkpoint.chat_template,
            rules,
        )
        made._video = checkpoint.video
        return made

    def text(self, text: str) -> tuple[int, ...]:
        """Encode plain text; no id is a special token, whatever it spells."""
        return self._text(text)

    def encode(self, pieces: Iterable[Piece]) -> tuple[tuple[int, ...], tuple[PromptPicture, ...]]:
        """Encode `pieces`; also return the pictures of the placeholders in them. Raises `TrainingError` if the image
        processor refuses a picture's shape.
        """
        pictures: list[PromptPicture] = []
        framed: list[Piece] = []
        for piece in pieces:
            if isinstance(piece, PicturePlaceholder):
                pictures.append(self.shown(piece.part))
                framed += self._media_pieces(pictures[-1])
            else:
                framed.append(piece)
        ids: list[int] = []
        for piece in joined(framed):
            if isinstance(piece, SpecialToken):
                ids.append(self._id(piece))
            elif isinstance(piece, str):
                ids += self._text(piece)
        return tuple(ids), tuple(pictures)

    def shown(self, part: ImagePart | VideoPart) -> PromptPicture:
        """Count the features of a picture or a video from its record. Raises `TrainingError` if the processor refuses
        it, or the family reads no videos.
        """
        if isinstance(part, ImagePart):
            return PromptPicture(part, self.count(part))
        try:
            clip = self.family.clip(part, self._video)
        except ValueError as error:
            raise TrainingError(
                f"{self.name} cannot be shown a video of {part.width}x{part.height} pixels and {part.frames} frames: "
                f"{str(error).rstrip('.')}. Take a dialect that shows frames as pictures (frames.fps=1), or drop it."
            ) from error
        return PromptPicture(part, clip.tokens, clip)

    def count(self, part: ImagePart) -> int:
        """Count the features of a picture from its size. Raises `TrainingError` if the image processor refuses its
        shape.
        """
        return self._count(part.width, part.height)

    def _media_pieces(self, picture: PromptPicture) -> tuple[Piece, ...]:
        if picture.clip is not None and self.family.video is not None:
            return self.family.video.pieces(picture.clip)
        edge = self.frame.picture_edge
        return (edge, *self.family.picture(picture.tokens), edge)

    def end_after(self, follows: Role | None) -> int:
        """Return the token that ends a turn before a message of that role; None: before nothing."""
        after = (*self.family.tail("assistant"), *self.family.head(follows or "user"))[0]
        return self._id(after) if isinstance(after, SpecialToken) else self.end_id

    def decode(self, ids: Iterable[int]) -> str:
        """Decode `ids`, special tokens as their names; invalid UTF-8 becomes U+FFFD."""
        text: str = self._tokenizer.decode(list(ids), skip_special_tokens=False, clean_up_tokenization_spaces=False)
        return text

    def _id(self, mark: SpecialToken) -> int:
        if mark.token not in self._vocabulary:
            raise TrainingError(
                f"the tokenizer of {self.name} lacks {mark.token}, which its family needs. Get it again."
            )
        return self._vocabulary[mark.token]

    def _encode_text(self, text: str) -> tuple[int, ...]:
        ids = tuple(self._plain.encode(text, add_special_tokens=False).ids)
        if self._never.isdisjoint(ids):
            return ids
        # Reserved tokens that the tokenizer does not call special are split after the first character.
        apart: list[int] = []
        at = 0
        for match in self._spelled.finditer(text):
            for part in (text[at : match.start()], match[0][:1], match[0][1:]):
                apart += self._plain.encode(part, add_special_tokens=False).ids
            at = match.end()
        return (*apart, *self._plain.encode(text[at:], add_special_tokens=False).ids)

    def _visual_tokens(self, width: int, height: int) -> int:
        try:
            width, height = fitting_size((width, height), self._rules)
            return self.family.visual_tokens(width, height, self.image_processor, self.config)
        except ValueError as error:
            raise TrainingError(
                f"the image processor of {self.name} refuses a picture of {width}x{height} pixels: {error}. "
                "Leave the trajectory out."
            ) from error


def _without_special_tokens(tokenizer: Any) -> Any:
    """Copy the tokenizer's backend so that it reads names of special tokens as plain characters."""
    from tokenizers import Tokenizer

    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        raise TrainingError("this tokenizer has no fast backend; training needs a tokenizer.json beside the checkpoint")
    copy = Tokenizer.from_str(backend.to_str())
    copy.encode_special_tokens = True
    copy.no_truncation()
    copy.no_padding()
    return copy
