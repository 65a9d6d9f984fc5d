"""Define generated worlds, and turn their samples into tasks.

    world = load_world("visual-search")
    task = make_task(world, "train", 17, store)             # the 17th task, the same on every machine
    sample = draw_sample(world, "test", 0, Knobs(...))      # the same before its pictures are stored

A world has an id, a description, knobs and a pure function `draw`: no clock, environment or global random state, and
whole-number coordinates. So the same id, split, index and knobs give the same pixels everywhere (with the same version
of Pillow, which rasterises fonts). A change that moves a pixel needs a new version in the id.

Seeds of splits cannot overlap: their last two bits name the split. A world of very few pictures could still draw one
twice, which its tests check.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from textwrap import wrap
from typing import Any, Final, Generic, Literal, TypeVar, get_args

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont
from pydantic import ValidationError

from saccade.core.registry import Registry, is_a
from saccade.core.seam import misfit, place, seam
from saccade.core.settings import Settings, load_settings
from saccade.errors import OwnCodeError, RegistryError, SettingsError
from saccade.media.store import MediaStore
from saccade.record.content import ImagePart, MediaPart, VideoPart
from saccade.record.task import AnswerType, EvidenceBox, NamedMedia, Task

# Make random choices that are equal on every machine and with every version of NumPy.
#
# NumPy promises a stable raw stream of a bit generator, but not of `Generator`'s methods; the methods here use only raw
# words and whole numbers. Ranges of up to 2**32 values are uniform to within 2**-32. Not for secrets.

T = TypeVar("T")


class Rng:
    """A stream of random choices from a seed; every call moves it on."""

    def __init__(self, seed: int) -> None:
        self._bits = np.random.PCG64(seed)

    def integer(self, low: int, high: int) -> int:
        """Return a whole number with `low <= n <= high`; both ends are possible. ValueError if there is none."""
        if low > high:
            raise ValueError(f"no whole number lies between {low} and {high}")
        return low + int(self._bits.random_raw()) % (high - low + 1)

    def chance(self, percent: int) -> bool:
        """Return True in `percent` of 100 cases."""
        return self.integer(0, 99) < percent

    def choice(self, items: Sequence[T]) -> T:
        """Return one of `items`. ValueError if there is none."""
        return items[self.integer(0, len(items) - 1)]

    def sample(self, items: Sequence[T], count: int) -> list[T]:
        """Return `count` different items in random order. ValueError if there are fewer."""
        if count > len(items):
            raise ValueError(f"cannot take {count} different ones of {len(items)} items")
        rest = list(items)
        for index in range(count):
            other = self.integer(index, len(rest) - 1)
            rest[index], rest[other] = rest[other], rest[index]
        return rest[:count]

    def shuffled(self, items: Sequence[T]) -> list[T]:
        """Return all items in random order."""
        return self.sample(items, len(items))

    def bytes_array(self, *shape: int) -> NDArray[np.uint8]:
        """Return an array of independent uniform bytes (0..255)."""
        count = int(np.prod(shape))
        words: Any = self._bits.random_raw(count // 8 + 1)
        # Little-endian on every machine, so that the bytes come in one order.
        return np.asarray(words, dtype="<u8").view(np.uint8)[:count].reshape(shape)

    def child(self) -> Rng:
        """Return a stream of its own, so that drawing more or less from it leaves this one where it is."""
        return Rng(int(self._bits.random_raw()))


_NOT_STORED: Final = "0" * 64
Split = Literal["train", "validation", "test"]
SPLITS: tuple[Split, ...] = get_args(Split)


class Knobs(Settings):
    """Base of a world's difficulty knobs; the defaults are the world's ordinary difficulty."""


K = TypeVar("K", bound=Knobs)


@dataclass(frozen=True, slots=True)
class Clip:
    """An encoded video and what its record says of it."""

    data: bytes
    width: int
    """Pixels."""
    height: int
    """Pixels."""
    frames: int
    fps: float
    mime: str = "video/mp4"


@dataclass(frozen=True, slots=True)
class WorldSample:
    """A task whose media are still in memory."""

    question: str
    """Complete without the choices: a dialect writes those."""
    media: Mapping[str, Image.Image | Clip]
    """By name, in the order shown: `image_0`, `image_1`, ... for pictures, `video_clue_0` for a video."""
    answer: str
    program: str
    """Python that finds the answer from the pixels and prints it as its last line.

    It finds every medium bound to its name (a picture as a Pillow image, a video as a frame reader), imports what it
    needs (NumPy, OpenCV, Pillow, the standard library), and never holds the answer itself.
    """
    answer_type: AnswerType = AnswerType.TEXT
    choices: tuple[str, ...] = ()
    evidence: tuple[EvidenceBox, ...] = ()
    difficulty: float | None = None
    """0 (easy) to 1 (hard) within the world."""
    tags: tuple[str, ...] = ()
    """The first tag is the kind of question."""
    notes: Mapping[str, str] = field(default_factory=dict)
    """What an expert may say or use next to the program, e.g. `target: a green sign`. Never reaches the task."""


@dataclass(frozen=True, slots=True)
class World(Generic[K]):
    """A generator of tasks."""

    id: str
    """`name@version`."""
    description: str
    """One line: what is asked about what."""
    knobs: type[K]
    draw: Callable[[Rng, K], WorldSample]
    """A pure function of its arguments."""


def seed_of(world_id: str, split: Split, index: int, knobs: Knobs) -> int:
    """Return the seed of one sample: 128 bits of a hash, then two bits that name the split.

    Knobs count only where they differ from their defaults, so that a new knob leaves old samples as they were.
    """
    if split not in SPLITS or index < 0:
        raise SettingsError(f"no sample {index} of split {split!r}: splits are {', '.join(SPLITS)}, indices from 0")
    turned = json.dumps(knobs.model_dump(mode="json", exclude_defaults=True), sort_keys=True)
    digest = sha256(json.dumps([world_id, split, index, turned]).encode()).digest()
    return int.from_bytes(digest[:16], "little") << 2 | SPLITS.index(split)


def draw_sample(world: World[K], split: Split, index: int, knobs: K | None = None) -> WorldSample:
    """Sample number `index` (from 0) of a split; knobs at their defaults if none are given. Raises `SettingsError` if
    there is no such split, or the index is negative.
    """
    chosen = world.knobs() if knobs is None else knobs
    sample = seam(world.draw, WorldSample)(Rng(seed_of(world.id, split, index, chosen)), chosen)
    if not sample.media or any(0 in (medium.width, medium.height) for medium in sample.media.values()):
        raise OwnCodeError(f"{drawn_by(world, split, index)} holds no picture, or one without pixels.")
    parts = {name: _unstored(medium) for name, medium in sample.media.items()}
    try:
        _task(sample, f"{world.id}/{split}/{index}", split, parts)
    except ValidationError as error:
        said = "; ".join(f"{'.'.join(map(str, one['loc']))} {one['msg']}".strip() for one in error.errors())
        raise OwnCodeError(f"{drawn_by(world, split, index)} makes no task: {said}.") from error
    return sample


def drawn_by(world: World[K], split: Split, index: int) -> str:
    """Return where a sample comes from, for a message: file, line and name of what drew it, and which sample it is."""
    return f"{place(world.draw)} drew the sample {world.id}/{split}/{index}, which"


def make_task(world: World[K], split: Split, index: int, store: MediaStore, knobs: K | None = None) -> Task:
    """Return the task of one sample, its media put into `store`; its id is `world/split/index`.

    Tasks of turned knobs have the same ids as those of the defaults: keep them in separate files.
    Raises as `draw_sample`.
    """
    sample = draw_sample(world, split, index, knobs)
    return store_sample(sample, store, task_id=f"{world.id}/{split}/{index}", split=split)


def store_sample(sample: WorldSample, store: MediaStore, *, task_id: str, split: str) -> Task:
    """Return the task of a sample, under an id `source/...`; its media go into `store`."""
    return _task(sample, task_id, split, {name: _stored(medium, store) for name, medium in sample.media.items()})


def _task(sample: WorldSample, task_id: str, split: str, parts: Mapping[str, MediaPart]) -> Task:
    return Task(
        id=task_id,
        question=sample.question,
        media=tuple(NamedMedia(name=name, part=part) for name, part in parts.items()),
        choices=sample.choices,
        answer=sample.answer,
        answer_type=sample.answer_type,
        evidence=sample.evidence,
        program=sample.program,
        source=task_id.partition("/")[0],
        split=split,
        difficulty=sample.difficulty,
        tags=sample.tags,
    )


def _unstored(medium: Image.Image | Clip) -> MediaPart:
    if isinstance(medium, Image.Image):
        return ImagePart(sha256=_NOT_STORED, width=medium.width, height=medium.height)
    return _video(medium, _NOT_STORED)


def _stored(medium: Image.Image | Clip, store: MediaStore) -> MediaPart:
    return store.put_image(medium) if isinstance(medium, Image.Image) else _video(medium, store.put_blob(medium.data))


def _video(medium: Clip, sha256: str) -> VideoPart:
    return VideoPart(
        sha256=sha256,
        width=medium.width,
        height=medium.height,
        frames=medium.frames,
        fps=medium.fps,
        seconds=medium.frames / medium.fps,
        mime=medium.mime,
    )


WORLDS: Final = Registry[World[Any]]("worlds", {}, is_a(World, "a saccade.tasks.worlds.World"))


def load_world(name: str) -> World[Any]:
    """Load a world by its id, or from the user's own code (`file.py:NAME`, `module:NAME`).

    Raises `RegistryError`: nothing has that id (suggests the nearest), it cannot be imported, it is no world, or a
    world of the user's own has an id that is taken; `UnavailableError`: it is in a plug-in that is not installed.
    """
    world = WORLDS.load(name)
    if WORLDS.code(name) is not None and WORLDS.has(world.id):
        raise RegistryError(f"{name} has the id {world.id}, which is another world's. Give it one of its own.")
    if lack := misfit(world.draw, _draw, "draw"):
        raise WORLDS.wrong(name, lack)
    return world


def _draw(rng: Rng, knobs: Knobs) -> None:
    """Stand for `World.draw`: how it is called."""


def chosen_knobs(worlds: Iterable[World[Any]], by_world: Mapping[str, Mapping[str, Any]]) -> dict[str, Knobs]:
    """Return the knobs of every world, by its id; those that `by_world` does not give are at their defaults. Raises
    `SettingsError` if a knob is unknown or wrong, or belongs to a world that is not drawn.
    """
    by_id = {world.id: world for world in worlds}
    names = {name.partition("@")[0] for name in by_id}
    strange = sorted(by_world.keys() - names)
    if strange:
        worlds_named = f"the worlds are {', '.join(sorted(names))}" if names else "no world is drawn"
        raise SettingsError(f"knobs are given for {', '.join(strange)}, but {worlds_named}")
    return {
        name: load_settings(world.knobs, overrides=_overrides(by_world.get(name.partition("@")[0], {})))
        for name, world in by_id.items()
    }


def _overrides(knobs: Mapping[str, object]) -> list[str]:
    # JSON's numbers, texts and lists are TOML's too.
    return [f"{name}={json.dumps(value)}" for name, value in knobs.items()]


TILE = (420, 340)
_MARGIN = 14
_LINES = 5
_LINE = 17
_COLUMNS = 4
_GOLD = (255, 40, 200)


def contact_sheet(samples: Sequence[WorldSample]) -> Image.Image:
    """Return all samples on one sheet, four in a row."""
    columns = min(_COLUMNS, max(1, len(samples)))
    rows = -(-len(samples) // columns)
    step_x, step_y = TILE[0] + _MARGIN, TILE[1] + _LINES * _LINE + 2 * _MARGIN
    sheet = Image.new("RGB", (columns * step_x + _MARGIN, rows * step_y + _MARGIN), (226, 226, 222))
    pen, font = ImageDraw.Draw(sheet), _font(13)
    for index, sample in enumerate(samples):
        x, y = _MARGIN + index % columns * step_x, _MARGIN + index // columns * step_y
        sheet.paste(tile(sample), (x, y))
        for line, text in enumerate(_caption(sample)):
            pen.text((x, y + TILE[1] + 4 + line * _LINE), text, fill=(20, 20, 20), font=font)
    return sheet


def tile(sample: WorldSample) -> Image.Image:
    """Return the media of a sample side by side, pictures with their gold boxes; `TILE` pixels."""
    page = Image.new("RGB", TILE, (250, 250, 250))
    width = TILE[0] // max(1, len(sample.media))
    for number, (name, medium) in enumerate(sample.media.items()):
        most = (width - 4, TILE[1])
        shown = _four_frames(medium, most) if isinstance(medium, Clip) else _with_evidence(sample, name, medium, most)
        page.paste(shown, (number * width + (width - shown.width) // 2, (TILE[1] - shown.height) // 2))
    return page


def _with_evidence(sample: WorldSample, name: str, picture: Image.Image, most: tuple[int, int]) -> Image.Image:
    """Return the picture scaled down to `most` pixels, and the evidence boxes that are in it, of one line's width."""
    shown = picture.convert("RGB")
    shown.thumbnail(most, Image.Resampling.LANCZOS)
    pen = ImageDraw.Draw(shown)
    scale = shown.width / picture.width
    for box in sample.evidence:
        if box.image == name:
            x0, y0, x1, y1 = (int(value * scale) for value in box.xyxy)
            # Outside the box, so that it hides nothing.
            pen.rectangle((x0 - 3, y0 - 3, x1 + 2, y1 + 2), outline=_GOLD, width=2)
    return shown


def _four_frames(clip: Clip, most: tuple[int, int]) -> Image.Image:
    from saccade.media.video import Uniform, sample_frames

    page = Image.new("RGB", most, (250, 250, 250))
    for number, frame in enumerate(sample_frames(clip.data, Uniform(4))):
        shown = frame.image.convert("RGB")
        shown.thumbnail((most[0] // 2 - 2, most[1] // 2 - 2), Image.Resampling.LANCZOS)
        page.paste(shown, (number % 2 * most[0] // 2, number // 2 * most[1] // 2))
    return page


def _font(size: int) -> ImageFont.FreeTypeFont:
    import matplotlib

    return ImageFont.truetype(str(Path(matplotlib.get_data_path()) / "fonts/ttf/DejaVuSans.ttf"), size)


def _caption(sample: WorldSample) -> list[str]:
    question = wrap(f"[{sample.tags[0] if sample.tags else ''}] {sample.question}", 62)[: _LINES - 2]
    choices = " | ".join(sample.choices)
    return [*question, *wrap(choices, 62)[:1], f"= {sample.answer}"]
