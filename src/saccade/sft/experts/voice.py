"""The thoughts of an expert: the templates of its verbosity, filled with what the scene knows."""

from __future__ import annotations

from saccade.sft.experts.phrases import LONG, NOUNS, SHORT
from saccade.sft.experts.scene import Box, ExpertScene
from saccade.sft.experts.speech import say

_ROWS = ("at the top", "in the middle", "at the bottom")
_COLUMNS = ("on the left", "", "on the right")


class Voice:
    """Says something in one scene."""

    def __init__(self, scene: ExpertScene) -> None:
        self._scene = scene
        self._voice = LONG if scene.long else SHORT

    def say(self, occasion: str, *, box: Box | None = None, name: str = "", label: str = "", **slots: str) -> str:
        """A thought for `occasion`, a key of the templates; `box` in the picture `name` is where the expert looks."""
        scene = self._scene
        subject = scene.named(label) if label else scene.subject
        filled = {
            "subject": subject,
            "noun": NOUNS.get(scene.kind, "answer"),
            "box": str(box) if box is not None else "that part",
            "place": self._place(name, box),
            **slots,
        }
        return say(scene.rng, self._voice[occasion], **filled)

    def _place(self, name: str, box: Box | None) -> str:
        part = self._scene.pictures.get(name)
        if box is None or part is None:
            return "somewhere in the picture"
        column = min(2, 3 * (box[0] + box[2]) // (2 * part.width))
        row = min(2, 3 * (box[1] + box[3]) // (2 * part.height))
        return f"{_ROWS[row]} {_COLUMNS[column]}".strip()
