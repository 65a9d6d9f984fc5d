"""What a minute of video is to a checkpoint that reads videos: frames, visual tokens, seconds that an episode holds.

A plan counts passes whose tokens are all features, whether of pictures or of videos: two frames are one step of a
video, and the vision tower takes a picture as a step of two equal frames, so a feature of either holds as many bytes.
What a plan cannot know is how long the videos are; this says what fits.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from saccade.errors import SettingsError
from saccade.models.families.base import ModelFamily
from saccade.models.families.video import VideoClip
from saccade.models.local_video import RULE_FILES, load_video_rules
from saccade.record.content import VideoPart

_SECONDS: Final = 60
_FPS: Final = 30
_SIZE: Final = (1280, 720)


def minute_of_video(source: str, family: ModelFamily) -> VideoClip | None:
    """A minute of 1280x720 video as the checkpoint in the folder `source` sees it where nobody chose frames.

    None: the folder has no file that says how large frames are.

    Raises:
        ModelRefusedError: frames would be scaled in another way than here.
        ValueError: the family reads no videos; says why.
    """
    rules = None
    if family.video is not None:
        if not any((Path(source) / name).is_file() for name in RULE_FILES):
            return None
        rules = load_video_rules(source, {}, family)
    width, height = _SIZE
    frames = _SECONDS * _FPS
    part = VideoPart(sha256="0" * 64, width=width, height=height, frames=frames, fps=_FPS, seconds=_SECONDS)
    return family.clip(part, rules)


def video_note(source: str, family: ModelFamily, context: int) -> str:
    """For a person: what a minute of video takes of an episode of `context` tokens.

    Raises:
        SettingsError: the checkpoint reads no videos.
    """
    try:
        minute = minute_of_video(source, family)
    except ValueError as error:
        raise SettingsError(f"the dialect shows videos as such, and {error}") from error
    width, height = _SIZE
    if minute is None:
        return (
            f"How many visual tokens a video takes follows from {RULE_FILES[1]} (or {RULE_FILES[2]}) of the "
            f"checkpoint, which is not here: put it beside config.json for a line about it."
        )
    fits = int(_SECONDS * context / minute.tokens)
    return (
        f"A minute of {width}x{height} video is {len(minute.frames)} frames and {minute.tokens} visual tokens; an "
        f"episode of {context} tokens holds {fits} seconds of it at this rate and size."
    )
