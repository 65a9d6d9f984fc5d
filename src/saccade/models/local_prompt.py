"""Messages as one checkpoint reads them: token ids by its chat template, and the pictures as tensors.

A text cannot forge a turn or a picture: where it spells a reserved or a turn's last token (`<|im_end|>`, say), that
stretch is tokenised as the plain characters it is. Each picture's place is found by its placeholder in the rendered
prompt, and expanded to as many visual tokens as its tensor has features, so the two always agree.

When the last message is the assistant's, the prompt ends inside it, and the model continues it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import jinja2
import torch
from PIL import Image

from saccade.errors import ModelRefusedError
from saccade.models.base import MediaReader, Request
from saccade.models.families.base import ModelFamily
from saccade.models.families.pieces import SpecialToken
from saccade.models.local_weights import Checkpoint
from saccade.models.pictures import PictureRules, decoded_picture
from saccade.record.content import ImagePart, Message, TextPart

_OPEN, _CLOSE = "\ue000", "\ue001"
"""Around a stand-in in a rendered prompt: private-use characters; the first is itself replaced where a text has it."""
_STAND_IN = re.compile(f"{_OPEN}([0-9]+){_CLOSE}")
_END = f"{_OPEN}end{_CLOSE}"


@dataclass(frozen=True, slots=True)
class Prompt:
    """What the model reads."""

    ids: torch.Tensor
    """int64 (1, tokens)."""
    positions: torch.Tensor
    """int64 (1, tokens), or (3, 1, tokens) for a family with three axes."""
    pictures: dict[str, torch.Tensor]
    """Further arguments of the model's forward pass; empty without pictures."""
    visual: int
    """Visual tokens among `ids`."""

    @property
    def next_position(self) -> int:
        """Position of the first token that is sampled; below the number of tokens where pictures take fewer."""
        return int(self.positions.max()) + 1


def build_prompt(request: Request, media: MediaReader, checkpoint: Checkpoint) -> Prompt:
    """The prompt of `request`, on the checkpoint's device.

    Raises:
        ModelRefusedError: the checkpoint cannot take what is asked for.
        MediaError: a picture cannot be read.
    """
    _check(request)
    rendered, plain = _rendered(request.messages, checkpoint)
    ids = _tokens(rendered, plain, checkpoint.tokenizer)
    parts = [part for message in request.messages for part in message.parts if isinstance(part, ImagePart)]
    pictures, counts = _pictures(parts, media, checkpoint)
    expanded = torch.tensor([_expanded(ids, counts, checkpoint)])
    placeholder = checkpoint.tokenizer.convert_tokens_to_ids(checkpoint.family.placeholder)
    visual = (expanded == placeholder).int()
    device = checkpoint.device
    return Prompt(
        ids=expanded.to(device),
        positions=_positions(expanded, visual, pictures, checkpoint).to(device),
        pictures={name: _placed(tensor, checkpoint) for name, tensor in pictures.items()},
        visual=int(visual.sum()),
    )


def _check(request: Request) -> None:
    if request.tools or any(message.calls for message in request.messages):
        raise ModelRefusedError(
            "a model in process has no function calling of its own; use a dialect that writes its calls as text"
        )
    if any(part.kind == "video" for message in request.messages for part in message.parts):
        raise ModelRefusedError("a model in process takes no videos yet; use a dialect that shows frames")


def _rendered(messages: Sequence[Message], checkpoint: Checkpoint) -> tuple[str, list[str]]:
    """The prompt as text with stand-ins, and what each of them stands for."""
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
        {"type": "text", "text": safe(part.text)} if isinstance(part, TextPart) else {"type": "image"}
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


def _pictures(
    parts: Sequence[ImagePart], media: MediaReader, checkpoint: Checkpoint
) -> tuple[dict[str, torch.Tensor], list[int]]:
    """Tensors for the forward pass, and the number of visual tokens of each picture."""
    if not parts:
        return {}, []
    rules = PictureRules(pixels=checkpoint.max_pixels)
    images: list[Image.Image] = [decoded_picture(part, media, rules) for part in parts]
    try:
        made = checkpoint.image_processor(images=images, return_tensors="pt", **dict(checkpoint.family.picture_options))
    except ValueError as error:
        raise ModelRefusedError(
            f"the image processor of {checkpoint.name} refuses a picture: {error}. Show another crop of it."
        ) from error
    config = checkpoint.model.config
    if "image_grid_thw" in made:
        merged = config.vision_config.spatial_merge_size**2
        counts = [int(count) // merged for count in made["image_grid_thw"].prod(-1)]
        return {name: made[name] for name in ("pixel_values", "image_grid_thw")}, counts
    counts = [int(patches) * config.image_seq_length for patches in made["num_patches"]]
    return {"pixel_values": made["pixel_values"]}, counts


def _expanded(ids: Sequence[int], counts: Sequence[int], checkpoint: Checkpoint) -> list[int]:
    ids_of = checkpoint.tokenizer.convert_tokens_to_ids
    placeholder = ids_of(checkpoint.family.placeholder)
    found = ids.count(placeholder)
    if found != len(counts):
        raise ModelRefusedError(
            f"the chat template of {checkpoint.name} wrote {found} of {len(counts)} pictures. "
            "It does not take pictures in every role; use a dialect that shows them as the user's."
        )
    left = iter(counts)
    expanded: list[int] = []
    for token in ids:
        expanded += ids_of(_around(checkpoint.family, next(left))) if token == placeholder else [token]
    return expanded


def _positions(
    ids: torch.Tensor, visual: torch.Tensor, pictures: dict[str, torch.Tensor], checkpoint: Checkpoint
) -> torch.Tensor:
    """Explicit, for the model would otherwise take them from what it remembers of the prompt before."""
    if checkpoint.family.rope_axes == 1:
        return torch.arange(ids.shape[1])[None]
    grid = pictures.get("image_grid_thw")
    positions: torch.Tensor
    positions, _ = checkpoint.model.model.get_rope_index(ids, mm_token_type_ids=visual, image_grid_thw=grid)
    return positions


def _placed(tensor: torch.Tensor, checkpoint: Checkpoint) -> torch.Tensor:
    if tensor.is_floating_point():
        return tensor.to(checkpoint.device, checkpoint.model.dtype)
    return tensor.to(checkpoint.device)


def _around(family: ModelFamily, visual: int) -> list[str]:
    """What stands for the one placeholder that the chat template writes; Qwen's writes the marks as well."""
    tokens = [piece.token for piece in family.picture(visual) if isinstance(piece, SpecialToken)]
    return tokens if family.own_marks else tokens[1:-1]
