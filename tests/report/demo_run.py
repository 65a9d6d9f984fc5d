"""A run to look at: the demo's street, played by the real loop and sandbox with a scripted model.

    python -m tests.report.demo_run runs/street && saccade show runs/street

The picture docs/images/episode.png is the top of that page.
"""

from __future__ import annotations

import sys
from pathlib import Path

from saccade.dialects.base import load_dialect
from saccade.episode.drive_sync import SyncPlayer
from saccade.episode.flow import Plan
from saccade.media.store import MediaStore
from saccade.models.scripted import ScriptedModel
from saccade.plugins.worlds.cli import draw_street
from saccade.record.codec import write_lines
from saccade.record.task import NamedMedia, Task
from saccade.record.trajectory import Score
from saccade.sandbox.local import LocalSandbox


def turn(thought: str, code: str) -> str:
    return f"{thought}\n\n<code>\n```python\n{code}\n```\n</code>"


STREET = [
    turn(
        "The whole street is 3200 pixels wide, and a sign hangs from the lamp post on the right. "
        "At this size its letters are only a few pixels high, so I crop the area around it first.",
        "post = image_clue_0.crop((2020, 1040, 2520, 1360))\n"
        "print('picture:', image_clue_0.size, 'crop:', post.size)\n"
        "post.show()",
    ),
    turn(
        "There is the blue sign, to the right of the post. I zoom in on it.",
        "# The sign in pixels of the first crop, enlarged to read its letters.\n"
        "sign = post.crop((136, 160, 396, 288))\n"
        "zoom = sign.resize((sign.width * 4, sign.height * 4), Image.LANCZOS)\n"
        "plt.figure(figsize=(7, 3.5))\nplt.imshow(zoom)\nplt.title('sign, enlarged four times')\nplt.axis('off')\n"
        "plt.show()",
    ),
    turn("Let me also check the colour of the plate.", "print(zoom.getpixel((4000, 20)))"),
    turn(
        "That pixel was outside. I compare the plate with the doors of the houses instead.",
        "for name, box in {'sign': (2224, 1240, 2344, 1288), 'car': (620, 1810, 1140, 2104)}.items():\n"
        "    part = image_clue_0.crop(box)\n"
        "    print(name, part.reduce(8).getpixel((2, 2)))\n"
        "    part.show()",
    ),
    "The upper line reads MARKET LANE and the lower one gives the opening hours.\n\n"
    "<answer>\n\\boxed{MARKET LANE}\n</answer>",
]


def make(folder: Path) -> Path:
    store = MediaStore(folder / "media")
    part = store.put_image(draw_street().picture)
    task = Task(
        id="street-sign",
        question="What is written in the first line of the sign on the lamp post?",
        media=(NamedMedia(name="street", part=part),),
        answer="MARKET LANE",
        evidence=(),
        source="demo",
    )
    plan = Plan(task, load_dialect("pyvision"))
    with SyncPlayer(ScriptedModel(STREET), LocalSandbox(), store) as player:
        played = player.play(plan)
    scored = played.with_scores([Score(name="correct", value=1.0, detail="equal to the gold answer")])
    write_lines(folder / "trajectories.jsonl", [scored])
    return folder


if __name__ == "__main__":
    make(Path(sys.argv[1]))
