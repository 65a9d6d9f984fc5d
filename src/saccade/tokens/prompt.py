"""Build the prompt of a checkpoint: token ids by its chat template, and the places of pictures in them.

Families whose templates change earlier turns (by dropping thoughts) are written in the frame of training instead, so an
episode's tokens only grow. A text cannot forge a turn or a picture: a reserved token or an end of turn that it spells
(`<|im_end|>`) is tokenised as plain characters. Each picture's placeholder is expanded to as many visual tokens as it
has features, counted from its size; a video's mark is replaced by all that its family writes for it. When the last
message is the assistant's, the prompt ends inside it and the model continues it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence, Set
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any

import jinja2

from saccade.errors import ModelRefusedError, TrainingError
from saccade.models.base import Request
from saccade.models.families.base import ModelFamily, SpecialToken, written
from saccade.models.local_weights import Checkpoint
from saccade.models.pictures import PictureRules, fitting_size
from saccade.record.content import ImagePart, Message, TextPart, VideoPart
from saccade.tokens.batch import ChatFormatter
from saccade.tokens.encoder import Encoder
from saccade.tokens.segments import PromptPicture

_OPEN, _CLOSE = "\ue000", "\ue001"
"""Around a stand-in in a rendered prompt: private-use characters; the first is itself replaced where a text has it."""
_STAND_IN = re.compile(f"{_OPEN}([0-9]+){_CLOSE}")
_END = f"{_OPEN}end{_CLOSE}"


@dataclass(frozen=True, slots=True)
class Prompt:
    """The tokens that the model reads."""

    ids: tuple[int, ...]
    pictures: tuple[PromptPicture, ...] = ()
    """In the order of their placeholders in `ids`; videos are among them."""
    places: tuple[int, ...] = ()
    """Index of the first placeholder of each."""
    ends: tuple[int, ...] = ()
    """Index behind the last placeholder of each; between those of a video there may be text."""

    @property
    def visual(self) -> int:
        return sum(picture.tokens for picture in self.pictures)


def placed(ids: Sequence[int], pictures: Sequence[PromptPicture], placeholders: Set[int]) -> Prompt:
    """Make a prompt of `ids`, with those of `pictures` whose first placeholder is in them."""
    at = [place for place, token in enumerate(ids) if token in placeholders]
    firsts = [0, *accumulate(picture.tokens for picture in pictures)]
    spans = [(first, end - 1) for first, end in pairwise(firsts) if first < len(at)]
    return Prompt(
        tuple(ids),
        tuple(pictures[: len(spans)]),
        tuple(at[first] for first, _ in spans),
        tuple(at[last] + 1 for _, last in spans),
    )


def frame_encoder(checkpoint: Checkpoint) -> Encoder | None:
    """Return the encoder that writes prompts of a `framed` family; None for the others. Raises `ModelRefusedError` if
    the checkpoint's template does not write the family's frame.
    """
    if not checkpoint.family.framed:
        return None
    try:
        return Encoder.of(checkpoint, PictureRules(pixels=checkpoint.max_pixels))
    except TrainingError as error:
        raise ModelRefusedError(str(error)) from error


def build_prompt(request: Request, checkpoint: Checkpoint, encoder: Encoder | None = None) -> Prompt:
    """Build the prompt of `request`; `encoder` is the checkpoint's `frame_encoder`, made here by default. Raises
    `ModelRefusedError` if the checkpoint cannot take what is asked for.
    """
    _check(request)
    if checkpoint.family.framed:
        return _framed(request.messages, checkpoint, encoder or frame_encoder(checkpoint))
    rendered, plain = _rendered(request.messages, checkpoint)
    pictures = [_shown(part, checkpoint) for message in request.messages for part in message.media]
    ids = _tokens(_with_videos(rendered, pictures, checkpoint), plain, checkpoint.tokenizer)
    return _expanded(ids, pictures, checkpoint)


def _check(request: Request) -> None:
    if request.tools or any(message.calls for message in request.messages):
        raise ModelRefusedError(
            "a model in process has no function calling of its own; use a dialect that writes its calls as text"
        )


def _framed(messages: Sequence[Message], checkpoint: Checkpoint, encoder: Encoder | None) -> Prompt:
    if encoder is None:
        raise ValueError(f"{checkpoint.name} has no frame of its own")
    try:
        ids, pictures = encoder.encode(ChatFormatter(encoder, "this prompt").prompt_pieces(messages, first=True))
    except TrainingError as error:
        raise ModelRefusedError(str(error)) from error
    return placed(ids, pictures, checkpoint.placeholders)


def _rendered(messages: Sequence[Message], checkpoint: Checkpoint) -> tuple[str, list[str]]:
    """Render the prompt with stand-ins; also return the text of each."""
    ends = checkpoint.tokenizer.convert_ids_to_tokens(sorted(checkpoint.end_ids))
    forged = re.compile("|".join(map(re.escape, [_OPEN, *ends, *checkpoint.family.reserved])))
    plain: list[str] = []

    def stand_in(match: re.Match[str]) -> str:
        plain.append(match[0])
        return f"{_OPEN}{len(plain) - 1}{_CLOSE}"

    chat = [_templated(message, lambda text: forged.sub(stand_in, text)) for message in messages]
    continues = bool(messages) and messages[-1].role == "assistant"
    if continues:
        chat[-1]["content"] = _with_end(chat[-1]["content"])
    try:
        text: str = checkpoint.tokenizer.apply_chat_template(
            chat, chat_template=checkpoint.chat_template, tokenize=False, add_generation_prompt=not continues
        )
    except jinja2.TemplateError as error:
        raise ModelRefusedError(
            f"the chat template of {checkpoint.name} refuses these messages: {error}. Use a dialect with other roles."
        ) from error
    if continues and _END not in text:
        raise ModelRefusedError(f"the chat template of {checkpoint.name} does not let an answer be continued")
    return text.partition(_END)[0], plain


def _templated(message: Message, safe: Callable[[str], str]) -> dict[str, Any]:
    if not message.media:
        return {"role": message.role, "content": safe(message.text)}
    content = [
        {"type": "text", "text": safe(part.text)} if isinstance(part, TextPart) else {"type": part.kind}
        for part in message.parts
    ]
    return {"role": message.role, "content": content}


def _with_end(content: Any) -> Any:
    return content + _END if isinstance(content, str) else [*content, {"type": "text", "text": _END}]


def _tokens(rendered: str, plain: Sequence[str], tokenizer: Any) -> list[int]:
    return [token for piece in _pieces(rendered, plain, tokenizer) for token in piece]


def _pieces(rendered: str, plain: Sequence[str], tokenizer: Any) -> Iterator[list[int]]:
    at = 0
    for match in _STAND_IN.finditer(rendered):
        yield tokenizer.encode(rendered[at : match.start()], add_special_tokens=False)
        spelled = plain[int(match[1])]
        yield tokenizer.encode(spelled[:1], add_special_tokens=False)  # in two pieces, so that it is no token
        yield tokenizer.encode(spelled[1:], add_special_tokens=False)
        at = match.end()
    yield tokenizer.encode(rendered[at:], add_special_tokens=False)


def _shown(part: ImagePart | VideoPart, checkpoint: Checkpoint) -> PromptPicture:
    family = checkpoint.family
    try:
        if isinstance(part, VideoPart):
            clip = family.clip(part, checkpoint.video)
            return PromptPicture(part, clip.tokens, clip)
        width, height = fitting_size((part.width, part.height), PictureRules(pixels=checkpoint.max_pixels))
        count = family.visual_tokens(width, height, checkpoint.image_processor, checkpoint.config)
        return PromptPicture(part, count)
    except ValueError as error:
        what, reason = "a picture" if isinstance(part, ImagePart) else "a video", str(error).rstrip(".")
        other = "another crop of it" if isinstance(part, ImagePart) else "frames as pictures (frames.fps=1)"
        raise ModelRefusedError(f"{checkpoint.name} cannot be shown {what}: {reason}. Show {other}.") from error


def _with_videos(rendered: str, pictures: Sequence[PromptPicture], checkpoint: Checkpoint) -> str:
    """Replace what the chat template writes for each video by the family's tokens."""
    form = checkpoint.family.video
    clips = [picture.clip for picture in pictures if picture.clip is not None]
    if form is None or not clips:
        return rendered
    texts = rendered.split(form.written)
    if len(texts) != len(clips) + 1:
        raise ModelRefusedError(
            f"the chat template of {checkpoint.name} wrote {len(texts) - 1} of {len(clips)} videos as the family does. "
            "Show frames as pictures (frames.fps=1)."
        )
    shown = [written(form.pieces(clip)) for clip in clips]
    return texts[0] + "".join(one + text for one, text in zip(shown, texts[1:], strict=True))


def _expanded(ids: Sequence[int], pictures: Sequence[PromptPicture], checkpoint: Checkpoint) -> Prompt:
    placeholder = checkpoint.placeholder_id
    images = [picture for picture in pictures if picture.clip is None]
    found = ids.count(placeholder)
    if found != len(images):
        raise ModelRefusedError(
            f"the chat template of {checkpoint.name} wrote {found} of {len(images)} pictures. "
            "It does not take pictures in every role; use a dialect that shows them as the user's."
        )
    left = iter(images)
    expanded: list[int] = []
    for token in ids:
        if token == placeholder:
            expanded += checkpoint.tokenizer.convert_tokens_to_ids(_around(checkpoint.family, next(left).tokens))
        else:
            expanded.append(token)
    return placed(expanded, pictures, checkpoint.placeholders)


def _around(family: ModelFamily, visual: int) -> list[str]:
    """Return the tokens that replace the template's one placeholder; Qwen's template writes the marks as well."""
    tokens = [piece.token for piece in family.picture(visual) if isinstance(piece, SpecialToken)]
    return tokens if family.own_marks else tokens[1:-1]
