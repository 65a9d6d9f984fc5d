"""Gymnasium's ids of the environment, and spaces for what a model reads and writes: any text, pictures of any size.

Gymnasium's own `Text` knows a fixed set of characters and a greatest length, and `Box` one shape; neither holds what a
model writes. Vector environments batch these spaces as tuples. They have no fixed size, so they cannot live in shared
memory: `AsyncVectorEnv` needs `shared_memory=False`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from itertools import groupby
from types import MappingProxyType
from typing import Any, Final, TypedDict, TypeVar

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.envs.registration import EnvSpec
from gymnasium.spaces.utils import is_space_dtype_shape_equiv
from gymnasium.vector.utils import batch_differing_spaces, batch_space, create_empty_array
from numpy.typing import NDArray

from saccade.media.modes import to_rgb
from saccade.media.store import MediaStore
from saccade.record.content import ImagePart, Message, Role, TextPart, VideoPart, escape_places

PictureArray = NDArray[np.uint8]
"""Height × width × 3, RGB, 0..255."""
Pictures = tuple[PictureArray, ...]
T = TypeVar("T")

# Pieces of a random text: words, code, tags and what breaks careless parsers.
_PIECES = (
    *("a", "The", " ", " ", "\n", "42", ".", "red", "x = 1\n", "print(x)", "'", '"', "\\", "{", "}"),
    *("```python\n", "\n```", "<code>", "</code>", "<answer>", "</answer>", "<think>", "</think>"),
    *("<tool_call>", "</tool_call>", "\\boxed{", "<|im_end|>", "é", "中文", "🙂", "\u202e", "\x00", "\t"),
)
_PHRASE_SHARE = 0.75
"""Part of the samples that are one of the `phrases`, if there are any."""
_MOST_PIECES = 24
_SAMPLE_SIDE = 32
"""Longest side of a sampled picture, in pixels."""
_SAMPLE_COUNT = 2


class TextSpace(spaces.Space[str]):
    """Every Python string: the empty one, code, any script, and control characters too.

    Two text spaces are equal, whatever their `phrases`: those only say which texts `sample` draws often.
    """

    def __init__(self, phrases: Iterable[str] = (), *, seed: int | np.random.Generator | None = None) -> None:
        self.phrases = tuple(phrases)
        super().__init__(seed=seed)

    @property
    def is_np_flattenable(self) -> bool:
        """Never: a text has no fixed length."""
        return False

    def sample(self, mask: None = None, probability: None = None) -> str:
        """Return one of the phrases, or words, code and tags in a random order; masks have no meaning here."""
        _refuse_masks(mask, probability)
        rng = self.np_random
        if self.phrases and rng.random() < _PHRASE_SHARE:
            return self.phrases[int(rng.integers(len(self.phrases)))]
        count = int(rng.integers(_MOST_PIECES + 1))
        return "".join(_PIECES[index] for index in rng.integers(len(_PIECES), size=count))

    def contains(self, x: Any) -> bool:
        return isinstance(x, str)

    def to_jsonable(self, sample_n: Iterable[str]) -> list[str]:
        """Return the texts; JSON escapes what UTF-8 cannot hold."""
        return [str(text) for text in sample_n]

    def from_jsonable(self, sample_n: list[Any]) -> list[str]:
        """Return the texts again."""
        return [str(text) for text in sample_n]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TextSpace)

    def __hash__(self) -> int:
        return hash(TextSpace)

    def __repr__(self) -> str:
        return "TextSpace()"


class PicturesSpace(spaces.Space[Pictures]):
    """Tuples of RGB pictures: any number, each a uint8 array of height × width × 3 with at most `pixels` pixels."""

    def __init__(self, pixels: int | None = None, *, seed: int | np.random.Generator | None = None) -> None:
        """Take pictures of at most `pixels` (width times height) each; None: of any size."""
        if pixels is not None and pixels < 1:
            raise ValueError(f"pixels is {pixels}, and no picture is that small; give at least 1, or None")
        self.pixels = pixels
        super().__init__(seed=seed)

    @property
    def is_np_flattenable(self) -> bool:
        """Never: the pictures differ in number and size."""
        return False

    def sample(self, mask: None = None, probability: None = None) -> Pictures:
        """Return a few small pictures of noise; masks have no meaning here."""
        _refuse_masks(mask, probability)
        rng = self.np_random
        side = min(_SAMPLE_SIDE, int((self.pixels or _SAMPLE_SIDE**2) ** 0.5))
        sizes = rng.integers(1, side, size=(int(rng.integers(_SAMPLE_COUNT + 1)), 2), endpoint=True)
        return tuple(rng.integers(256, size=(height, width, 3), dtype=np.uint8) for height, width in sizes)

    def contains(self, x: Any) -> bool:
        return isinstance(x, tuple) and all(self._is_picture(item) for item in x)

    def to_jsonable(self, sample_n: Iterable[Pictures]) -> list[list[Any]]:
        return [[picture.tolist() for picture in pictures] for pictures in sample_n]

    def from_jsonable(self, sample_n: list[Any]) -> list[Pictures]:
        """Return the pictures again."""
        return [tuple(np.array(picture, dtype=np.uint8) for picture in pictures) for pictures in sample_n]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PicturesSpace) and self.pixels == other.pixels

    def __hash__(self) -> int:
        return hash((PicturesSpace, self.pixels))

    def __repr__(self) -> str:
        return f"PicturesSpace(pixels={self.pixels})"

    def _is_picture(self, item: object) -> bool:
        if not isinstance(item, np.ndarray) or item.dtype != np.uint8 or item.ndim != 3:
            return False
        height, width, channels = item.shape
        return bool(channels == 3 and 0 < height * width <= (self.pixels or height * width))


def _refuse_masks(mask: object, probability: object) -> None:
    if mask is not None or probability is not None:
        raise ValueError("a space of texts or pictures cannot be masked: leave `mask` and `probability` out")


@batch_space.register(TextSpace)
@batch_space.register(PicturesSpace)
def _batched(space: TextSpace | PicturesSpace, n: int = 1) -> spaces.Tuple[Any]:
    rng = deepcopy(space.np_random)
    batch = spaces.Tuple([deepcopy(space) for _ in range(n)], seed=deepcopy(space.np_random))
    batch.seed([int(seed) for seed in rng.integers(2**31, size=n)])
    return batch


def _batched_differing(several: Sequence[TextSpace | PicturesSpace]) -> spaces.Tuple[Any]:
    return spaces.Tuple([deepcopy(space) for space in several], seed=deepcopy(several[0].np_random))


batch_differing_spaces.register(TextSpace, _batched_differing)
batch_differing_spaces.register(PicturesSpace, _batched_differing)


@is_space_dtype_shape_equiv.register(TextSpace)
@is_space_dtype_shape_equiv.register(PicturesSpace)
def _can_share_a_vector(one: TextSpace | PicturesSpace, other: spaces.Space[Any]) -> bool:
    return type(one) is type(other)


@create_empty_array.register(TextSpace)
def _empty_texts(space: TextSpace, n: int = 1, fn: Callable[..., Any] = np.zeros) -> tuple[str, ...]:
    return ("",) * n


@create_empty_array.register(PicturesSpace)
def _empty_pictures(space: PicturesSpace, n: int = 1, fn: Callable[..., Any] = np.zeros) -> tuple[Pictures, ...]:
    return ((),) * n


RolePart = tuple[Role, TextPart | ImagePart | VideoPart]
"""A part and its role. A conversation only grows when it is written as these."""


class EnvObservation(TypedDict):
    r"""What is new in the conversation since the last observation; all of it at the start.

    The text marks roles and places of media for a reader: `[user]` on a line, `<image>`, `<video>`. Where a text holds
    such a place itself, it has a backslash (`<image\>`). A program may print roles; the messages in `info` are exact.
    """

    text: str
    pictures: Pictures
    """Those that `<image>` stands for in `text`, in order; transparency on white."""


def flat(messages: Iterable[Message]) -> tuple[RolePart, ...]:
    """Return the parts of `messages` in order."""
    return tuple((message.role, part) for message in messages for part in message.parts)


def as_text(parts: Iterable[RolePart]) -> str:
    """Join `parts` to one text, a mark before each role."""
    groups = groupby(parts, key=lambda part: part[0])
    return "\n\n".join(f"[{role}]\n{''.join(_written(part) for _, part in group)}" for role, group in groups)


def observation(parts: Iterable[RolePart], store: MediaStore) -> EnvObservation:
    """Make the observation of `parts`, with new arrays. Raises `MediaError` for a picture that `store` lacks."""
    parts = tuple(parts)
    pictures = (to_rgb(store.open(part).decode()) for _, part in parts if isinstance(part, ImagePart))
    return EnvObservation(
        text=as_text(parts), pictures=tuple(np.array(picture, dtype=np.uint8) for picture in pictures)
    )


def _written(part: TextPart | ImagePart | VideoPart) -> str:
    return escape_places(part.text) if isinstance(part, TextPart) else f"<{part.kind}>"


ENTRY_POINT: Final = "saccade.training.env.look_again:LookAgainEnv"
DIALECT_OF: Final = MappingProxyType(
    {
        "saccade/LookAgain-v0": "pyvision@1",
        "saccade/PyVision-v0": "pyvision@1",
        "saccade/PyVisionRL-v0": "pyvision-rl-image@1",
        "saccade/PyVisionRLVideo-v0": "pyvision-rl-video@1",
        "saccade/CodeDance-v0": "codedance@1",
        "saccade/CodeV-v0": "codev@1",
        "saccade/Vista-v0": "vista@1",
        "saccade/Thyme-v0": "thyme@1",
        "saccade/DeepEyes-v0": "deepeyes@1",
        "saccade/Native-v0": "native@1",
    }
)
"""Id in Gymnasium's registry -> the dialect that is spoken unless `make` is given another."""


def spec_of(arguments: Mapping[str, Any]) -> EnvSpec:
    """Return the spec of an environment made by hand: nondeterministic, as programs may read the clock."""
    return EnvSpec("saccade/LookAgain-v0", ENTRY_POINT, nondeterministic=True, kwargs=dict(arguments))


def register_envs() -> None:
    """Register every id that is not there yet."""
    for name, dialect in DIALECT_OF.items():
        if name not in gymnasium.registry:
            gymnasium.register(name, ENTRY_POINT, nondeterministic=True, kwargs={"dialect": dialect})
