"""World `video-events`: short clips, H.264 or VP9, of coloured things that appear, move and leave.

The raw frames are the same on every machine; the encoded bytes depend on the codec libraries that PyAV brings.
"""

from __future__ import annotations

from pydantic import Field

from saccade.errors import SettingsError
from saccade.tasks.worlds import reading, video_reading
from saccade.tasks.worlds.base import Knobs, World, WorldSample
from saccade.tasks.worlds.program import compose
from saccade.tasks.worlds.rng import Rng
from saccade.tasks.worlds.video_encode import VideoCodec, encode_clip
from saccade.tasks.worlds.video_questions import KINDS, Length, VideoKind, VideoQuestion, video_question
from saccade.tasks.worlds.video_scene import VideoScene, random_background

_RATES = (10, 12, 20, 24, 30)


class VideoKnobs(Knobs):
    """How long a clip is, how much happens in it, and how it is encoded."""

    least_frames: int = Field(60, ge=60, le=900)
    most_frames: int = Field(900, ge=120, le=900)
    things: int = Field(5, ge=3, le=5)
    """Most things; three more where things are counted."""
    kinds: tuple[VideoKind, ...] = KINDS
    codecs: tuple[VideoCodec, ...] = ("h264", "vp9")


def plan(rng: Rng, knobs: VideoKnobs) -> tuple[VideoKind, VideoScene, VideoQuestion]:
    """Kind of question, raw scene and question of a clip: all of it but the encoding.

    Raises:
        SettingsError: the knobs allow no length.
    """
    lengths = [
        Length(fps, halves)
        for fps in _RATES
        for halves in range(10, 61)
        if knobs.least_frames <= fps // 2 * halves <= knobs.most_frames
    ]
    if not lengths:
        raise SettingsError(
            f"no clip of 5 to 30 seconds has {knobs.least_frames} to {knobs.most_frames} frames; widen the range"
        )
    length = rng.choice(lengths)
    kind = rng.choice(knobs.kinds)
    asked = video_question(rng, kind, length, knobs.things)
    scene = VideoScene(length.halves * length.half, length.fps, random_background(rng), asked.things)
    return kind, scene, asked


def draw(rng: Rng, knobs: VideoKnobs) -> WorldSample:
    """One clip and a question about it. Raises as `plan` and `encode_clip`."""
    kind, scene, asked = plan(rng, knobs)
    codec = rng.choice(knobs.codecs)
    notes = {}
    if asked.target:
        notes = {
            "target": asked.target.name,
            "first frame": str(asked.target.first),
            "end frame": str(asked.target.end),
        }
    return WorldSample(
        question=asked.question,
        media={"video_clue_0": encode_clip(scene.draw(), scene.fps, codec)},
        answer=asked.answer,
        answer_type=asked.answer_type,
        choices=asked.choices,
        program=compose(reading, video_reading, last="video = video_clue_0\n" + asked.lines),
        difficulty=(scene.frames / 900 + len(scene.things) / 8) / 2,
        tags=(kind, codec),
        notes=notes,
    )


WORLD = World("video-events@3", "When, where, how long, how many: things that come and go in a clip.", VideoKnobs, draw)
