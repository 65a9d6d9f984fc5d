"""Write the thoughts of an expert: the templates of its verbosity, filled with what the scene knows.

    say(rng, "[I see|There is] {what}[ here|][.|!]", what="a sign")

Of the alternatives in brackets a seeded stream chooses. They may be nested; an empty one leaves the piece out. Slots in
braces are filled last, so that what fills them is never read as a template.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from saccade.sft.experts.phrases import LONG, NOUNS, SHORT
from saccade.sft.experts.scene import Box, ExpertScene
from saccade.tasks.worlds.rng import Rng

_INNERMOST = re.compile(r"\[([^\[\]]*)\]")
_START = re.compile(r"(?:^|(?<=[.!?] ))[a-z]")
_SLOT = re.compile(r"\{(\w+)\}")
_ROWS = ("at the top", "in the middle", "at the bottom")
_COLUMNS = ("on the left", "", "on the right")


class ThoughtWriter:
    """Writes the thoughts of one scene."""

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


def say(rng: Rng, templates: str | Sequence[str], **slots: object) -> str:
    """One of the sentences that the templates allow, with capitals where sentences begin.

    Raises:
        KeyError: a template has a slot that is not given.
    """
    text = templates if isinstance(templates, str) else rng.choice(templates)
    while match := _INNERMOST.search(text):
        text = text[: match.start()] + rng.choice(match[1].split("|")) + text[match.end() :]
    text = _SLOT.sub(lambda slot: str(slots[slot[1]]), " ".join(text.split()))
    return _START.sub(lambda start: start[0].upper(), text)
