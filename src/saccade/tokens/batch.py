"""Turn trajectories into tokens, and batch them for a forward pass: padded rows, or packed end to end in one.

Either way a trajectory sees only itself, at the positions it has alone. Padding is on the right under causal attention,
so no mask is needed. Packed, positions begin again with each trajectory, from which transformers makes block-diagonal
attention (sdpa, eager), or the lengths of a flash kernel.
Also here: copies of weights for sampling. Imports torch; import this module late.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray

from saccade.errors import SettingsError, TrainingError
from saccade.models.families.base import PicturePlaceholder, Piece
from saccade.record.content import Message, Role, TextPart, clean_text
from saccade.record.trajectory import FinishReason, Trajectory, Turn
from saccade.tokens.pictures import PictureTensors
from saccade.tokens.segments import Encoder, PromptPicture, SampledIds, SegmentKind, TokenSegment, TokenTrajectory


class GridReader:
    """Iterates over the grids of a forward pass, picture by picture and video by video."""

    def __init__(self, tensors: Mapping[str, torch.Tensor]) -> None:
        """`tensors` are those that `PictureTensors` gave for all sequences of the pass."""
        self._images = iter(tensors.get("image_grid_thw", ()))
        self._videos = iter(tensors.get("video_grid_thw", ()))

    def next(self, pictures: Sequence[PromptPicture]) -> dict[str, Any]:
        """Return arguments of `get_rope_index` for the next `pictures`."""
        clips = [picture.clip for picture in pictures if picture.clip is not None]
        images = [next(self._images) for _ in range(len(pictures) - len(clips))]
        videos = [next(self._videos) for _ in clips]
        return {
            "image_grid_thw": torch.stack(images) if images else None,
            "video_grid_thw": torch.stack(videos) if videos else None,
            "second_per_grid_ts": [clip.interval for clip in clips] or None,
        }


def rope_positions(
    model: Any,
    ids: torch.Tensor,
    placeholders: Iterable[int],
    pictures: Sequence[PromptPicture],
    grids: GridReader,
) -> torch.Tensor:
    """Compute positions on the axes of time, height and width, int64 (3, tokens), from 0.

    Text after a video begins after its last moment, as when Qwen2.5-VL was released, and as in vLLM. `get_rope_index`
    of transformers 5 begins it after the rows and columns only: after a video longer than wide positions would repeat.

    Args:
        model: the inner transformers model, which has `get_rope_index`.
        ids: int64 (tokens,).
        placeholders: ids that stand for features.
        pictures: pictures and videos, in the order of their placeholders in `ids`.
        grids: at the first of these pictures and videos.
    """
    places = torch.isin(ids, torch.tensor(sorted(placeholders))).nonzero()[:, 0]
    counts = torch.tensor([picture.tokens for picture in pictures])
    kinds = torch.zeros(len(ids), dtype=torch.int32)
    kinds[places] = (
        torch.tensor([1 if picture.clip is None else 2 for picture in pictures]).int().repeat_interleave(counts)
    )
    ends = (places[counts.cumsum(0) - 1] + 1).tolist()
    parts: list[torch.Tensor] = []
    own: list[PromptPicture] = []
    start = follows = 0
    for picture, end in zip((*pictures, None), (*ends, len(ids)), strict=True):
        own += [] if picture is None else [picture]
        if start < end and (picture is None or picture.clip is not None):
            here = slice(start, end)
            rope, _ = model.get_rope_index(ids[None, here], mm_token_type_ids=kinds[None, here], **grids.next(own))
            parts.append(follows + rope[:, 0])
            start, follows, own = end, int(parts[-1].max()) + 1, []
    return torch.cat(parts, dim=1)


_LENGTH = 3000
"""Tokens of a row at which attention costs as much as all else: an estimate for a small model."""

_PASS = 200
"""Tokens that cost as much as the overhead of a pass: an estimate."""


@dataclass(frozen=True, slots=True)
class BatchRow:
    """One trajectory, ready to be placed in a batch."""

    id: str
    ids: NDArray[np.int64]
    trained: NDArray[np.bool_]
    """Which tokens enter the loss, (tokens,)."""
    pictures: tuple[PromptPicture, ...]

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True, slots=True)
class Batch:
    """Arguments of one forward pass, and the place of each trajectory."""

    ids: torch.Tensor
    """int64 (rows, tokens)."""
    positions: torch.Tensor
    """int64 (rows, tokens); with M-RoPE (3, rows, tokens), or (4, rows, tokens) if packed: text positions first."""
    pictures: dict[str, torch.Tensor]
    spans: tuple[tuple[int, int, int], ...]
    """Of each trajectory: row, first token, number of tokens."""

    @property
    def packed(self) -> bool:
        return len(self.spans) > len(self.ids)

    def lay_out(self, values: Sequence[NDArray[Any]], fill: float | bool) -> torch.Tensor:
        """Lay out one array of per-token values for each trajectory like `ids`; `fill` elsewhere."""
        tensor = torch.full(self.ids.shape, fill, dtype=torch.from_numpy(values[0]).dtype)
        for value, (row, start, length) in zip(values, self.spans, strict=True):
            tensor[row, start : start + length] = torch.from_numpy(value)
        return tensor


class Collator:
    """Makes batches for one model."""

    def __init__(self, encoder: Encoder, pictures: PictureTensors, model: Any, *, packed: bool) -> None:
        """`model` is the transformers model whose `get_rope_index` gives M-RoPE positions. Raises `SettingsError` if
        the model cannot tell apart what is packed.
        """
        self._encoder = encoder
        self._pictures = pictures
        self._model = model
        self._packed = packed
        if packed and encoder.family.attention != "full":
            raise SettingsError(
                f"{encoder.name} is of the family {encoder.family.model_type}, whose layers would see from one packed "
                "trajectory into the next. Set batch.layout=padded."
            )

    def __call__(self, rows: Sequence[BatchRow]) -> Batch:
        """Put all `rows` into one batch. Raises as `PictureTensors`."""
        pictures = self._pictures([picture for row in rows for picture in row.pictures])
        lengths = [len(row) for row in rows]
        if self._packed:
            starts = np.cumsum([0, *lengths])
            spans = tuple((0, int(start), length) for start, length in zip(starts, lengths, strict=False))
            shape = (1, sum(lengths))
        else:
            spans = tuple((number, 0, length) for number, length in enumerate(lengths))
            shape = (len(rows), max(lengths))
        ids = torch.full(shape, self._encoder.pad_id)
        for row, (line, start, length) in zip(rows, spans, strict=True):
            ids[line, start : start + length] = torch.from_numpy(row.ids)
        positions = self._positions(rows, spans, shape, pictures)
        if pictures and self._encoder.family.type_ids:
            pictures["mm_token_type_ids"] = (ids == self._encoder.placeholder_id).long()
        return Batch(ids, positions, pictures, spans)

    def _positions(
        self,
        rows: Sequence[BatchRow],
        spans: Sequence[tuple[int, int, int]],
        shape: tuple[int, int],
        pictures: dict[str, torch.Tensor],
    ) -> torch.Tensor:
        text = torch.arange(shape[1]).repeat(shape[0], 1)  # padding keeps counting
        if self._packed:
            for _, start, length in spans:
                text[0, start : start + length] = torch.arange(length)
        if self._encoder.family.rope_axes == 1:
            return text
        positions = text.repeat(3, 1, 1)
        grids = GridReader(pictures)
        for row, (line, start, length) in zip(rows, spans, strict=True):
            if row.pictures:
                positions[:, line, start : start + length] = rope_positions(
                    self._model.model, torch.from_numpy(row.ids), self._encoder.placeholders, row.pictures, grids
                )
        return torch.cat([text[None], positions]) if self._packed else positions


def token_row(trajectory: TokenTrajectory, trained_turns: Sequence[int] | None = None) -> BatchRow:
    """Make the row of a trajectory, with the loss on tokens sampled in `trained_turns`; None: in every turn."""
    turns = trajectory.turns()
    trained = turns >= 0 if trained_turns is None else np.isin(turns, list(trained_turns))
    return BatchRow(trajectory.id, trajectory.ids(), trained, trajectory.pictures)


def forward_passes(lengths: Sequence[int], most_tokens: int, *, packed: bool) -> list[list[int]]:
    """Group rows, as indices into `lengths`, for one forward pass each.

    By length, longest first, so that little is padded. A group has at most `most_tokens` tokens, padding included; a
    longer row is a group by itself.
    """
    order = sorted(range(len(lengths)), key=lambda index: (-lengths[index], index))
    groups: list[list[int]] = []
    taken = 0
    for index in order:
        size = lengths[index] if packed else (lengths[groups[-1][0]] if groups else lengths[index])
        if groups and taken + size <= most_tokens:
            groups[-1].append(index)
            taken += size
        else:
            groups.append([index])
            taken = lengths[index]
    return groups


def work(lengths: Sequence[int], passes: Sequence[Sequence[int]]) -> list[float]:
    """Estimate the cost of each of `passes` in tokens: more in a long row, plus overhead."""
    return [_PASS + sum(lengths[at] * (1 + lengths[at] / _LENGTH) for at in rows) for rows in passes]


@dataclass(frozen=True, slots=True)
class LanguageNumbers:
    """How many numbers of a language model's matrices its tokens are multiplied by; embeddings are only copied."""

    dense: int
    experts: int
    """Of all experts."""
    chosen: float
    """Share of the experts that one token chooses."""
    head: int

    @classmethod
    def of(cls, model: Any, *, trained: bool = False) -> Self:
        """Count those of a transformers model; `trained`: only weights that are trained."""
        text = model.config.get_text_config()
        chosen = getattr(text, "num_experts_per_tok", None) or getattr(text, "top_k_experts", None) or 0
        copied_rows = {id(module.weight) for module in model.modules() if isinstance(module, torch.nn.Embedding)}
        dense = experts = 0
        share = 1.0
        for name, weight in model.model.language_model.named_parameters():
            if weight.ndim == 3 and ".experts." in name:  # (experts, out, in)
                experts += weight.numel() if weight.requires_grad or not trained else 0
                share = chosen / len(weight)
            elif weight.ndim > 1 and id(weight) not in copied_rows and (weight.requires_grad or not trained):
                dense += weight.numel()
        head = model.get_output_embeddings().weight
        return cls(dense, experts, share, head.numel() if head.requires_grad or not trained else 0)

    def of_a_token(self) -> float:
        """Return the numbers that one token is multiplied by, without the head's."""
        return self.dense + self.experts * self.chosen

    def read(self, rows: int) -> float:
        """Return the numbers that a pass over one token of each row reads: at most all experts, and the head."""
        return self.dense + self.experts * min(1.0, rows * self.chosen) + self.head


def copied(model: Any) -> list[torch.nn.Linear]:
    """Return the layers whose weights autocast would cast at every pass."""
    return [
        module
        for module in model.modules()
        if isinstance(module, torch.nn.Linear) and module.weight.dtype == torch.float32
    ]


def copied_bytes(model: Any) -> int:
    """Return the bytes of the copies that `in_low_precision` makes."""
    return sum(2 * module.weight.numel() for module in copied(model))


@contextmanager
def in_low_precision(model: Any, *, low: bool) -> Iterator[None]:
    """Give the layers of `model` copies of their weights in bfloat16, where passes are `low`; for sampling alone.

    Autocast would cast the same weights to the same numbers at every pass: of 4 bytes that it reads, 2 that it writes
    and 2 that the product reads, the last are left. Embeddings and norms keep their precision, as with autocast. The
    weights that are trained are not touched, and are back in their places when the block is left.
    """
    layers = copied(model) if low else []
    kept = [module.weight for module in layers]
    try:
        for module, weight in zip(layers, kept, strict=True):
            copy = torch.nn.Parameter(weight.detach().to(torch.bfloat16), requires_grad=False)
            module._parameters["weight"] = copy
        yield
    finally:
        for module, weight in zip(layers, kept, strict=True):
            module._parameters["weight"] = weight


# The only place where a trajectory becomes ids. Sampled turns keep theirs; a turn without recorded ids is tokenised by
# itself, never with its surroundings. Messages after the last turn are left out, as nothing reads them. An empty turn
# stays, as an end of turn.


def token_trajectory(trajectory: Trajectory, encoder: Encoder, ids: SampledIds = "recorded") -> TokenTrajectory:
    """Tokenise `trajectory`.

    Raises `TrainingError`: it has no turn, shows a video that the model does not read, holds calls of an API's own
    function calling or of a provider's sandbox, or its recorded ids are not of this tokenizer.
    """
    if not trajectory.turns:
        raise TrainingError(f"{trajectory.id} has no turn, so there is nothing to learn from it; leave it out")
    if any(turn.hosted for turn in trajectory.turns):
        raise TrainingError(
            f"{trajectory.id} holds calls of a provider's own sandbox, which stand in no text; leave it out"
        )
    segments: list[TokenSegment] = []
    framing = ChatFormatter(encoder, trajectory.id)
    unread: Iterable[Message] = trajectory.prompt
    kind = SegmentKind.PROMPT
    for number, turn in enumerate(trajectory.turns):
        pieces = framing.prompt_pieces(unread, first=number == 0)
        if pieces:
            prompt_ids, pictures = encoder.encode(pieces)
            segments.append(TokenSegment(kind, prompt_ids, pictures))
        follows = [message for message in (turn.observation, turn.request) if message is not None]
        last = number == len(trajectory.turns) - 1
        next_role: Role | None = None if last else follows[0].role if follows else "assistant"
        segments.append(framing.sampled_segment(number, turn, follows=next_role, ids=ids))
        unread, kind = follows, SegmentKind.OBSERVATION
    return TokenTrajectory(trajectory.id, tuple(segments))


class ChatFormatter:
    """Writes the frame around a growing conversation's texts.

    Tracks whether the assistant's message is still open, and whether its end was sampled.
    """

    def __init__(self, encoder: Encoder, name: str) -> None:
        self._encoder = encoder
        self._family = encoder.family
        self._name = name
        self._open = False
        self._last: int | None = None
        """The token that was sampled last, if it is read."""

    def prompt_pieces(self, messages: Iterable[Message], *, first: bool) -> list[Piece]:
        """Return the pieces read before the next turn; an open message of the assistant is continued."""
        pieces: list[Piece] = []
        frame = self._encoder.frame
        for number, message in enumerate(messages):
            if first and number == 0:
                pieces += frame.start if message.role == "system" else frame.preamble
            if not (self._open and message.role == "assistant"):
                pieces += self._between(message.role)
            content = self._content(message)
            if message.role == "assistant":
                pieces += content
                self._last = None
            else:
                pieces += self._family.shown(content)
                pieces += self._family.tail(message.role, media=bool(message.media))
        if not self._open:
            pieces += self._between("assistant")
        return pieces

    def sampled_segment(self, number: int, turn: Turn, *, follows: Role | None, ids: SampledIds) -> TokenSegment:
        """Return the tokens of a turn; `follows` is the next role, the assistant where its message is continued."""
        recorded = turn.token_ids if ids == "recorded" else None
        if recorded is None:
            text_ids = self._encoder.text(self._family.answer(turn.text, self._encoder.frame.opening))
            ends = follows != "assistant" and turn.finish_reason is not FinishReason.LENGTH
            end = self._encoder.end_after(follows) if ends else None
            self._last = end
            return TokenSegment(SegmentKind.SAMPLED, text_ids if end is None else (*text_ids, end), turn=number)
        self._check(number, turn, recorded)
        kept = self.kept_length(recorded, follows=follows)
        logprobs = None if turn.logprobs is None else turn.logprobs[:kept]
        return TokenSegment(SegmentKind.SAMPLED, recorded[:kept], turn=number, logprobs=logprobs)

    def kept_length(self, ids: Sequence[int], *, follows: Role | None) -> int:
        """Return how many of the sampled `ids` the next turn reads.

        The end is dropped where the message is continued, and where it announces another role than `follows`.
        """
        kept = len(ids)
        if follows == "assistant":
            while kept and ids[kept - 1] in self._encoder.end_ids:
                kept -= 1
        elif follows is not None and kept and not self._family.tail("assistant"):
            other = ids[kept - 1] in self._encoder.end_ids and ids[kept - 1] != self._encoder.end_after(follows)
            kept -= other
        self._last = ids[kept - 1] if kept else None
        return kept

    def _between(self, role: Role) -> tuple[Piece, ...]:
        """Return the end of an open message and the beginning of the next, without what the model sampled of it."""
        pieces = (*(self._family.tail("assistant") if self._open else ()), *self._family.head(role))
        if self._open and self._last is not None and self._last == self._encoder.end_after(role):
            pieces = pieces[1:]
        self._open, self._last = role == "assistant", None
        return (*pieces, *self._encoder.frame.opening_pieces) if self._open else pieces

    def _content(self, message: Message) -> list[Piece]:
        if message.calls:
            raise TrainingError(
                f"{self._name} holds calls of an API's own function calling, which have no token form here. "
                "Write it in a dialect that says its calls as text."
            )
        pieces: list[Piece] = []
        for part in message.parts:
            if isinstance(part, TextPart):
                pieces.append(part.text)
            else:
                pieces.append(PicturePlaceholder(part))
        return pieces

    def _check(self, number: int, turn: Turn, ids: tuple[int, ...]) -> None:
        where = f"turn {number} of {self._name}"
        reserved = sorted(self._encoder.reserved_ids.intersection(ids))
        if reserved:
            raise TrainingError(
                f"in {where} the model sampled {self._encoder.decode(reserved[:1])}, which only a prompt may hold: "
                "it would claim a picture or a turn that is not there. Ban it when sampling; leave the trajectory out."
            )
        text = self._encoder.decode(token for token in ids if token not in self._encoder.end_ids)
        if not text.startswith(turn.text):
            raise TrainingError(
                f"the recorded ids of {where} are not those of its text in the tokenizer of {self._encoder.name}. "
                'If another model wrote it, take the ids from the text (sampled_ids = "text").'
            )


@dataclass(frozen=True, slots=True)
class PromptDelta:
    """Tokens to be read before the next turn."""

    ids: tuple[int, ...]
    pictures: tuple[PromptPicture, ...] = ()
    """In the order of their placeholders in `ids`."""
    dropped: int = 0
    """How many of the last sampled tokens are not read, as the message continues without them."""


class TokenStream:
    """The tokens of an episode while it is played, turn by turn; to the token those of `token_trajectory` at its end.

    delta = stream.prompt_delta(request.messages)      # the prompt, later the observation with all marks around it
    stream.add_sampled(ids, text)                      # the turn
    """

    def __init__(self, encoder: Encoder, name: str) -> None:
        self._encoder = encoder
        self._framing = ChatFormatter(encoder, name)
        self._messages: tuple[Message, ...] = ()
        self._ids: tuple[int, ...] = ()
        self._text = ""

    def prompt_delta(self, messages: Sequence[Message]) -> PromptDelta:
        """Return what is new in the whole conversation `messages`. Raises `TrainingError` if a message has no token
        form (calls of an API's own function calling, or a video that the family does not read).
        """
        first = not self._messages
        new = list(messages) if first else _new_messages(self._messages, bool(clean_text(self._text)), messages)
        dropped = 0
        if not first:
            follows = new[0].role if new else "assistant"
            dropped = len(self._ids) - self._framing.kept_length(self._ids, follows=follows)
        ids, pictures = self._encoder.encode(self._framing.prompt_pieces(new, first=first))
        self._messages = tuple(messages)
        return PromptDelta(ids, pictures, dropped)

    def add_sampled(self, ids: tuple[int, ...], text: str) -> None:
        self._ids, self._text = ids, text


def _new_messages(before: Sequence[Message], wrote: bool, now: Sequence[Message]) -> list[Message]:
    """Return the messages of `now` after those `before` and the sampled text; the first may be a continuation."""
    continued = before[-1].role == "assistant"
    if not (continued or wrote):
        return list(now[len(before) :])
    skipped = (len(before[-1].parts) if continued else 0) + wrote
    at = len(before) - continued
    rest = now[at].parts[skipped:]
    tail = list(now[at + 1 :])
    return [Message(role="assistant", parts=rest), *tail] if rest else tail
