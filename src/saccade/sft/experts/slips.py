"""Make mistakes that really fail, or really show the wrong place, in the dialect.

A slip is chosen among those that the dialect's sandbox cannot repair; what it led to is read from the observation.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from saccade.record.action import Action, Code, ToolCall
from saccade.sft.experts.hand import rename
from saccade.sft.experts.plays import (
    ExpertPart,
    Move,
    Script,
    Window,
    can_compute,
    can_crop,
    compute,
    crop,
    program_cells,
    unseen,
    windows,
)
from saccade.sft.experts.scene import Box
from saccade.sft.experts.windows import around, elsewhere, zoom
from saccade.sft.synth.experts import ExpertStopped

_WRONG_NAMES = ("img", "picture", "photo", "im", "source_image")
_WRONG_PATHS = ("input.png", "picture.png", "data/0.png", "media.mp4")
_OPENED = re.compile(r"\b(Image\.open|VideoReader)\([^)]*\)")
_IMPORT = re.compile(r"^import (?:[\w.]+ as )?(\w+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Slip:
    """A wrong move."""

    action: Action
    thought: str
    fails: bool
    """Whether it fails; else it shows a wrong place."""
    window: Window | None = None
    """What it should have shown; None for a program."""


def mistake(part: ExpertPart, left: int) -> Script:
    """Slip, notice, repair, and continue as one of the other styles."""
    slips = possible_slips(part, left)
    if not slips:
        raise ExpertStopped(f"no mistake fits {part.scene.task.id} in {part.scene.dialect.id}")
    slip = part.scene.rng.choice(slips)
    seen = yield Move(slip.action, slip.thought)
    if slip.fails != (seen.error is not None) or (not slip.fails and seen.pictures == 0):
        raise ExpertStopped(
            f"a slip on {part.scene.task.id} did not go wrong as meant in {part.scene.dialect.id}: "
            f"{seen.error or seen.text!r}"
        )
    window = slip.window
    place = {"box": window.target, "name": window.name, "label": window.label} if window is not None else {}
    if seen.error is not None:
        thought = part.thoughts.say("repair", error=_shortened(seen.error), **place)  # type: ignore[arg-type]
    else:
        thought = part.thoughts.say("missed", **place)  # type: ignore[arg-type]
    yield from (compute if window is None else crop)(part, left - 1, thought)


def possible_slips(part: ExpertPart, left: int) -> list[Slip]:
    """Every kind of slip that leaves turns enough to repair it, once each."""
    scene = part.scene
    may_fail = scene.dialect.limits.failed_calls is None or scene.dialect.limits.failed_calls > 0
    places = windows(part, left - 2) if can_crop(part, left - 1) and not unseen(part) else []
    slips: list[Slip] = []
    if places:
        slips += _wrong_place(part, places[0])
        if may_fail:
            slips += _wrong_crops(part, places[0])
    if may_fail and can_compute(part, left - 1):
        slips += _wrong_programs(part)
    return slips


def _wrong_place(part: ExpertPart, window: Window) -> list[Slip]:
    picture = part.scene.pictures[window.name]
    size = (picture.width, picture.height)
    target = around(part.scene.rng, window.target, size)
    box = elsewhere(part.scene.rng, target, size)
    if box is None:
        return []
    thought = part.thoughts.say("look", box=box, name=window.name, label=window.label)
    return [Slip(part.actions.look(window.name, box), thought, fails=False, window=window)]


def _wrong_crops(part: ExpertPart, window: Window) -> list[Slip]:
    scene = part.scene
    picture = scene.pictures[window.name]
    size = (picture.width, picture.height)
    box = around(scene.rng, window.target, size)
    thought = part.thoughts.say("look", box=box, name=window.name, label=window.label)
    swapped = (box[2], box[1], box[0], box[3])
    outside = (size[0] + box[0], box[1], size[0] + box[2], box[3])
    actions: list[Action] = []
    if not part.actions.codes:
        actions += [_call(part, window.name, wrong) for wrong in (swapped, outside)]
    else:
        factor = zoom(box, scene.settings.crop_side)
        right = part.actions.crop_code(window.name, box, factor)
        if "clamp_crop" not in scene.dialect.session.repairs:
            actions.append(Code(code=part.actions.crop_code(window.name, swapped, 1)))
        actions.append(Code(code=right.replace(".crop(", scene.rng.choice((".cut(", ".corp(", ".subimage(")), 1)))
        variable, opening, _ = part.actions.opened(window.name)
        if not opening:
            actions.append(Code(code=rename(right, {variable: _wrong_name(part)})))
    return [Slip(action, thought, fails=True, window=window) for action in actions]


def _wrong_programs(part: ExpertPart) -> list[Slip]:
    """The program over a wrong name, or without one of its imports where nothing brings that back.

    None where the program reads no picture and imports nothing: changed so, it would still be right.
    """
    session = part.scene.dialect.session
    program = program_cells(part, 1)[0]
    thought = part.thoughts.say("compute")
    variable, opening, _ = part.actions.opened(part.scene.task.media[0].name)
    programs = []
    if not opening:
        programs.append(rename(program, {variable: _wrong_name(part)}))
    else:
        programs.append(_OPENED.sub(rf'\1("{part.scene.rng.choice(_WRONG_PATHS)}")', program, count=1))
    if "missing_import" not in session.repairs:
        lost = [m for m in _IMPORT.finditer(program) if m[1] not in session.preload and f"{m[1]}." in program]
        if lost:
            gone = part.scene.rng.choice(lost)
            programs.append(program[: gone.start()] + program[gone.end() :].lstrip("\n"))
    return [Slip(Code(code=text), thought, fails=True) for text in programs if text != program]


def _call(part: ExpertPart, name: str, box: Box) -> ToolCall:
    action = part.actions.look(name, (0, 0, 1, 1))
    assert isinstance(action, ToolCall)
    key = "bbox_2d" if "bbox_2d" in action.arguments else "box"
    kept = {key: value for key, value in action.arguments.items() if key != "scale"}
    return action.model_copy(update={"arguments": {**kept, key: list(box)}})


def _wrong_name(part: ExpertPart) -> str:
    bound = part.scene.opening.bindings
    return part.scene.rng.choice([name for name in _WRONG_NAMES if name not in bound])


def _shortened(error: str) -> str:
    """The error as it is quoted: short, and without anything that a dialect could read as a tag."""
    text = re.sub(r"[<>`]", "", error).rstrip(" .")
    return text if len(text) <= 90 else text[:90].rpartition(" ")[0].rstrip(" ,.;:×")
