"""Play one task as an expert: a model made for one task, seed and dialect, which the loop asks as any other.

    expert = Expert.of(Plan(task, dialect), notes=sample.notes, settings=ExpertSettings(), seed=7)
    trajectory = await run_episode(plan, expert, sandbox, store)

It knows the gold answer, the evidence and the program of its task, and plays its part over real observations: it reads
what came back before each move, and stops (`ExpertStopped`) where it did not get what it needs. The same plan and seed
give the same texts. It counts no tokens.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Self

from saccade.episode.flow import Plan
from saccade.models.base import Completion, MediaReader, Request
from saccade.plugins.worlds.experts.plays import (
    ExpertPart,
    Move,
    Script,
    Seen,
    Window,
    can_compute,
    can_crop,
    compute,
    crop,
    direct,
    observed,
    program_cells,
    read,
    unseen,
    windows,
)
from saccade.plugins.worlds.experts.scene import (
    STYLES,
    Box,
    ExpertScene,
    ExpertSettings,
    Style,
    around,
    elsewhere,
    rename,
    weighted_index,
    zoom,
)
from saccade.plugins.worlds.experts.ways import consult, strategies_for
from saccade.record.content import Action, Code, Message, ToolCall
from saccade.tasks.worlds import Rng
from saccade.training.sft.synth.settings import ExpertFactory, ExpertStopped, UnfitSampleError, completion

# Make mistakes that really fail, or really show the wrong place, in the dialect.
#
# A slip is chosen among those that the dialect's sandbox cannot repair; what it led to is read from the observation.

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
    """Evidence that it should have shown; None for a program."""


def mistake(part: ExpertPart, left: int) -> Script:
    """Let a style slip, notice, repair, and continue as one of the other styles."""
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
    """Return every kind of slip that leaves turns enough to repair it, once each."""
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
    """Return the program over a wrong name, or without one of its imports where nothing brings that back.

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
    """Return the error as it is quoted: short, and without anything that a dialect could read as a tag."""
    text = re.sub(r"[<>`]", "", error).rstrip(" .")
    return text if len(text) <= 90 else text[:90].rpartition(" ")[0].rstrip(" ,.;:×")


# Which styles fit a sample in a dialect, and which one an expert takes.


_SHRUNK = frozenset({"visual-search"})
"""Worlds whose details are lost when a model's input is shrunk."""


def fitting(part: ExpertPart) -> dict[Style, float]:
    """Return the styles that fit, with their weights.

    Raises `UnfitSampleError`: none does; names what the dialect lacks.
    """
    scene, weights = part.scene, part.scene.settings.styles
    left = scene.turns
    fits: dict[Style, float] = {}
    if can_crop(part, left):
        fits["crop"] = weights.crop
    if can_compute(part, left):
        fits["compute"] = weights.compute
    if strategies_for(part, left):
        fits["consult"] = weights.consult
    if possible_slips(part, left):
        fits["mistake"] = weights.mistake
    if _plain(part):
        fits["direct"] = weights.direct
    fits = {style: weight for style, weight in fits.items() if weight > 0}
    if not fits:
        raise UnfitSampleError(
            f"no expert can answer {scene.task.id} in dialect {scene.dialect.id}: it "
            + (
                "runs no code, and the evidence cannot be cropped."
                if not part.actions.codes
                else "has no fitting style."
            )
            + " Leave the world out, or change the dialect or the styles' weights."
        )
    return fits


def choose(part: ExpertPart) -> Style:
    """Return one of the fitting styles, as often as its weight says. Raises as `fitting`."""
    fits = fitting(part)
    weights = tuple(fits.get(style, 0.0) for style in STYLES)
    return STYLES[weighted_index(part.scene, weights)]


def _plain(part: ExpertPart) -> bool:
    scene = part.scene
    pixels = sum(picture.width * picture.height for picture in scene.pictures.values())
    difficulty = scene.task.difficulty
    easy = difficulty is not None and difficulty <= scene.settings.direct_difficulty
    shown = scene.opening.pictures > 0 and scene.world not in _SHRUNK
    return easy and shown and pixels <= scene.settings.direct_pixels


_STYLES: Mapping[Style, Callable[[ExpertPart, int], Script]] = {
    "crop": crop,
    "compute": compute,
    "consult": consult,
    "mistake": mistake,
    "direct": direct,
}


class Expert:
    """Plays one style through one episode."""

    def __init__(self, part: ExpertPart, style: Style) -> None:
        self.name = f"expert:{style}@1"
        self.style = style
        self._dialect = part.scene.dialect
        self._script = _STYLES[style](part, part.scene.turns)
        self._shown = part.scene.opening.pictures
        self._begun = False

    @classmethod
    def of(
        cls,
        plan: Plan,
        *,
        notes: Mapping[str, str] | None = None,
        settings: ExpertSettings | None = None,
        seed: int = 0,
        style: Style | None = None,
    ) -> Self:
        """Return the expert for a plan; its style is drawn among those that fit, unless it is given.

        Raises `SettingsError`: the dialect cannot show the task; `UnfitSampleError`: it can, but no style fits.
        """
        chosen, turns = settings or ExpertSettings(), plan.limits.turns
        scene = ExpertScene(plan.task, plan.dialect, plan.opening, Rng(seed), chosen, notes or {}, turns)
        part = ExpertPart.of(scene)
        return cls(part, choose(part) if style is None else style)

    async def complete(
        self, request: Request, media: MediaReader, *, on_text: Callable[[str], None] | None = None
    ) -> Completion:
        """Return the next turn. Raises `ExpertStopped` if the last one did not bring what was needed."""
        move = self._script.send(self._seen(request.messages)) if self._begun else next(self._script)
        turn = completion(self._dialect, move.action, move.thought, first=not self._begun, model=self.name)
        self._begun = True
        if on_text is not None and turn.text:
            on_text(turn.text)
        return turn

    async def close(self) -> None:
        """Do nothing: nothing is held that needs closing."""

    def _seen(self, messages: tuple[Message, ...]) -> Seen:
        shown = sum(len(message.media) for message in messages)
        seen = read(self._dialect, observed(self._dialect, messages).text, shown - self._shown, self._shown)
        self._shown = shown
        return seen


GENERAL = ExpertFactory(
    description="Crops the evidence, runs the task's program or calls typed tools, in any dialect.",
    settings=ExpertSettings,
    make=lambda plan, notes, settings, seed: Expert.of(plan, notes=notes, settings=settings, seed=seed),
)
