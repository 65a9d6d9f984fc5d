"""Run folders to rows: which trajectories are learned from, which of their turns, which are held out.

Nothing is left out silently: every trajectory that is not used is counted under its reason.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from saccade.core.disk import write_atomic
from saccade.dialects.base import recorded_dialect
from saccade.episode.run_folder import MEDIA, trajectories_of
from saccade.episode.settings import PromptSettings
from saccade.episode.shown import messages_as_shown, scaled
from saccade.errors import MissingMediaError, SaccadeError, TrainingError
from saccade.media.store import MediaStore
from saccade.record.codec import read_lines
from saccade.record.content import ImagePart, Message, ParseError, Part
from saccade.record.execution import Status
from saccade.record.trajectory import Trajectory
from saccade.tasks.sources.settings import LEFT_OUT, too_many
from saccade.tokens.segments import Encoder, truncate
from saccade.training.settings import TrainingCallback, check_folder
from saccade.training.sft.settings import DataSettings, SftLossSettings, SftSettings

if TYPE_CHECKING:
    from saccade.tokens.batch import BatchRow

# Trajectories with the prompts of a user's file, to train a checkpoint in the words that it will be asked in.
#
# Only the first messages change: what was written and observed stays as it was. A trajectory whose pictures would not
# be shown as they were (frames of a video, a picture shown smaller) is refused.

Reprompt = Callable[[Trajectory], Trajectory]


def reprompting(words: PromptSettings) -> Reprompt:
    """Give a trajectory the prompt of `words` in its own dialect; as it is, where they say nothing."""
    if not words.model_dump(include=set(PromptSettings.model_fields), exclude_defaults=True):
        return lambda trajectory: trajectory

    def reprompted(trajectory: Trajectory) -> Trajectory:
        name = trajectory.provenance.dialect
        if not name:
            raise TrainingError(f"{trajectory.id} names no dialect, so data.* cannot give it a prompt.")
        try:
            dialect, _ = words.equipped(recorded_dialect(name))
            messages = dialect.open(trajectory.task).messages
        except SaccadeError as error:
            raise TrainingError(f"data.prompt_file cannot give {trajectory.id} a prompt: {error}") from error
        if _pictures(messages) != _pictures(trajectory.prompt):
            raise TrainingError(
                f"{trajectory.id} showed its pictures otherwise than its dialect does, so data.prompt_file cannot "
                "give it a prompt. Make it anew with prompt_file, or leave that out."
            )
        return trajectory.model_copy(update={"prompt": messages})

    return reprompted


def _shrunk(trajectory: Trajectory, most: int, media: ManyStores, small: MediaStore | None) -> Trajectory:
    """Return the trajectory with pictures of its prompt above `most` pixels scaled down, with a word about it."""
    pictures = [part for message in trajectory.prompt for part in message.media if isinstance(part, ImagePart)]
    large = {part.sha256: part for part in pictures if part.width * part.height > most and part.sha256 in media}
    if not large or small is None:
        return trajectory
    name = trajectory.provenance.dialect
    dialect = recorded_dialect(name) if name else None
    shown = {
        sha256: scaled(part, small.put_smaller(part, most, media.get_bytes(sha256)), dialect)
        for sha256, part in large.items()
    }
    return trajectory.model_copy(update={"prompt": messages_as_shown(trajectory.prompt, shown)})


def _pictures(messages: tuple[Message, ...]) -> list[str]:
    return sorted(part.sha256 for message in messages for part in message.media)


_NO_TOKENS = "without a token form"
_NO_MEDIA = "whose pictures or videos are in no media folder"
_DAMAGED = "with a damaged picture"


@dataclass(frozen=True, slots=True)
class TrainingExamples:
    """Examples that a run learns from, and those that it is validated on."""

    train: tuple[BatchRow, ...]
    validation: tuple[BatchRow, ...]
    left_out: dict[str, int]
    """How many trajectories were not used, by reason."""
    refusal: str = ""
    """Why the first of those without a token form has none."""
    dialects: dict[str, int] = field(default_factory=dict)
    """Dialect -> how many training rows are in it."""

    @property
    def fingerprint(self) -> str:
        """Changes with any token, mask or picture of the training rows, and with their order."""
        digest = hashlib.sha256()
        for row in self.train:
            digest.update(row.id.encode() + row.ids.tobytes() + row.trained.tobytes())
            digest.update("".join(picture.part.sha256 for picture in row.pictures).encode())
        return digest.hexdigest()


class ManyStores:
    """The media of several run folders as one; a `MediaReader`."""

    def __init__(self, runs: Iterable[str]) -> None:
        self._stores = [MediaStore(Path(run) / MEDIA) for run in dict.fromkeys(runs)]

        self._whole: dict[str, bool] = {}

    def __contains__(self, sha256: str) -> bool:
        return any(sha256 in store for store in self._stores)

    def damaged(self, part: Part) -> bool:
        """Tell whether a stored picture's bytes have changed, as in a copy that broke off; reads it once."""
        if not isinstance(part, ImagePart):
            return False
        if part.sha256 not in self._whole:
            self._whole[part.sha256] = hashlib.sha256(self.get_bytes(part.sha256)).hexdigest() == part.sha256
        return not self._whole[part.sha256]

    def get_bytes(self, sha256: str) -> bytes:
        """Return the stored bytes. Raises `MissingMediaError` if no folder has them."""
        for store in self._stores:
            if sha256 in store:
                return store.get_bytes(sha256)
        raise MissingMediaError(f"none of the run folders holds the picture {sha256}; was its media folder copied too?")


_LONGER = (
    "The learning rate follows the schedule of all steps from here on, so that a run begun with them would differ."
)


def check_run(settings: SftSettings, out: Path, resume: bool) -> None:
    """Raise `SettingsError` for a folder that may not be written to or the first that is no run to learn from,
    `TrainingError` for an empty one.
    """
    check_folder(settings, out, resume, may_grow={"steps": _LONGER})
    for run in settings.data.runs:
        _lines(run)


def _lines(run: str) -> Path:
    lines = trajectories_of(Path(run))
    if not lines.stat().st_size:
        raise TrainingError(f"{lines} is empty, so there is nothing to learn from. Play the run again.")
    return lines


def read_examples(
    settings: SftSettings,
    encoder: Encoder,
    tell: Callable[[int], None] = lambda _: None,
    out: Path | None = None,
) -> TrainingExamples:
    """Return the rows of `settings.data.runs`, in the order of the files.

    Args:
        settings: of the run.
        encoder: the checkpoint's.
        tell: hears the number of trajectories read so far.
        out: folder of the run, which gets the pictures of prompts above `media.shown_pixels`, scaled down, and a list
            of trajectories whose media are gone or damaged; None: the former stay as they are, and nothing is listed.

    Raises `RecordError`: a run folder cannot be read; `TrainingError`: nothing is left to learn from.
    """
    train: list[BatchRow] = []
    held: list[BatchRow] = []
    left_out: Counter[str] = Counter()
    dialects: Counter[str] = Counter()
    refusal = ""
    broken: dict[str, str] = {}
    for number, read in enumerate(_all_read(settings, encoder, out), 1):
        if read.broken:
            broken[read.id] = read.reason
        refusal = refusal or read.refusal
        if read.row is None:
            left_out[read.reason] += 1
        elif not _held_out(read.task, settings.validation.fraction):
            train.append(read.row)
            dialects[read.dialect] += 1
        elif len(held) < settings.validation.most:
            held.append(read.row)
        else:
            left_out["held out beyond validation.most"] += 1
        tell(number)
    total = sum(left_out.values()) + len(train) + len(held)
    if broken and out is not None:
        out.mkdir(parents=True, exist_ok=True)
        lines = (json.dumps({"id": name, "reason": why}, ensure_ascii=False) + "\n" for name, why in broken.items())
        write_atomic(out / LEFT_OUT, "".join(lines))
    if too_many(len(broken), total, settings.data.most_broken):
        raise _too_many_broken(len(broken), total, settings, next(iter(broken.items())))
    if not train:
        reasons = "; ".join(f"{count} {reason}" for reason, count in left_out.most_common()) or "the folders are empty"
        raise TrainingError(f"there is no trajectory to learn from: {reasons}. {refusal}".rstrip())
    return TrainingExamples(
        tuple(train), tuple(held), dict(left_out), refusal, {name: dialects[name] for name in dialects if name}
    )


def _too_many_broken(broken: int, total: int, settings: SftSettings, first: tuple[str, str]) -> TrainingError:
    """Return the error for too many trajectories whose pictures are gone or damaged."""
    return TrainingError(
        f"{broken:,} of {total:,} trajectories have pictures or videos that are in no media folder, or damaged, more "
        f"than the share that is left out (data.most_broken = {settings.data.most_broken:g}). The first is {first[0]}, "
        f"{first[1]}. Copy the media folders along with the runs."
    )


def learned_turns(trajectory: Trajectory, settings: SftLossSettings) -> list[int]:
    """Return the numbers of the turns that enter the loss."""
    observations = [number for number, turn in enumerate(trajectory.turns) if turn.observation is not None]
    last = observations[-2] if settings.earlier_rounds == "skip" and len(observations) >= 2 else -1
    return [
        number
        for number, turn in enumerate(trajectory.turns)
        if number > last and not (settings.error_turns == "skip" and _failed(trajectory, number))
    ]


@dataclass(frozen=True, slots=True)
class _Read:
    """A trajectory as it is used."""

    task: str
    """Its task's id."""
    row: BatchRow | None
    reason: str = ""
    """Why there is no row."""
    refusal: str = ""
    """The error, where there is no token form."""
    dialect: str = ""
    id: str = ""
    """Of the trajectory, where its media are broken."""

    @property
    def broken(self) -> bool:
        """Whether its pictures or videos are gone or damaged."""
        return bool(self.id)


def _all_read(settings: SftSettings, encoder: Encoder, out: Path | None) -> Iterator[_Read]:
    """Yield every trajectory of every run folder. A folder that is named several times is read once."""
    if not settings.data.runs:
        raise TrainingError("no run folder is named: give at least one with --data, or as data.runs")
    reprompt = reprompting(settings.data)
    media = ManyStores(settings.data.runs)
    often = Counter(settings.data.runs)
    most = settings.media.shown_pixels
    small = None if out is None else MediaStore(out / MEDIA, limits=settings.media.limits)

    def changed(trajectory: Trajectory) -> Trajectory:
        return _shrunk(reprompt(trajectory), most, media, small)

    known: dict[str, list[_Read]] = {}
    for run in settings.data.runs:
        if run in known:
            yield from known[run]
            continue
        kept: list[_Read] = []
        for trajectory in _trajectories(run):
            parts = tuple(trajectory.media())
            why = "" if all(part.sha256 in media for part in parts) else _NO_MEDIA
            why = why or (_DAMAGED if any(map(media.damaged, parts)) else "")
            read = _read(trajectory, settings, encoder, changed if not why else reprompt)
            if read.row is not None and why:
                read = _Read(trajectory.task.id, None, why, id=trajectory.id)
            kept.append(read)
            yield kept[-1]
        if often[run] > 1:
            known[run] = kept


def _trajectories(run: str) -> Iterator[Trajectory]:
    return read_lines(_lines(run), Trajectory)


def _read(trajectory: Trajectory, settings: SftSettings, encoder: Encoder, changed: Reprompt) -> _Read:
    task = trajectory.task.id
    try:
        row = _row(changed(trajectory), settings, encoder)
    except TrainingError as error:
        return _Read(task, None, _NO_TOKENS, str(error))
    return _Read(task, None, row) if isinstance(row, str) else _Read(task, row, dialect=trajectory.provenance.dialect)


def _row(trajectory: Trajectory, settings: SftSettings, encoder: Encoder) -> BatchRow | str:
    data: DataSettings = settings.data
    if trajectory.lost or any(_status(trajectory, turn) is Status.LOST for turn in range(len(trajectory.turns))):
        return "ended by an outage of ours"
    learned = learned_turns(trajectory, settings.loss)
    if not learned:
        return "with no turn that is learned"
    from saccade.tokens.batch import token_row, token_trajectory  # imports torch

    tokens = token_trajectory(trajectory, encoder, data.sampled_ids)
    most = min(data.most_tokens, encoder.context_tokens)
    if len(tokens.segments[0].ids) + len(tokens.segments[1].ids) > most:
        return f"whose first turn does not fit {most} tokens"
    row = token_row(truncate(tokens, most), learned)
    return row if np.any(row.trained) else f"with no learned turn within {most} tokens"


def _failed(trajectory: Trajectory, turn: int) -> bool:
    status = _status(trajectory, turn)
    return isinstance(trajectory.turns[turn].action, ParseError) or status not in (None, Status.OK)


def _status(trajectory: Trajectory, turn: int) -> Status | None:
    execution = trajectory.turns[turn].execution
    return None if execution is None else execution.status


def _held_out(task_id: str, fraction: float) -> bool:
    """Choose by the task, so that no task is on both sides, whichever other tasks there are."""
    number = int.from_bytes(hashlib.sha256(b"validation:" + task_id.encode()).digest()[:8])
    return number < fraction * 2**64


# How a caller follows a supervised run: callbacks that decide nothing.


class SftCallback(TrainingCallback):
    """Hooks of a supervised run beyond those of every run; each method does nothing until it is overridden."""

    def reading(self, trajectories: int) -> None:
        """Hear that so many trajectories were made into tokens."""

    def learns_from(self, examples: TrainingExamples) -> None:
        """Hear what was read, before training begins."""
