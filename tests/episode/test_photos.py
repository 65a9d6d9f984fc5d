"""A scripted model crops, rotates, plots, fails and recovers on real photos, in every dialect, in the real sandbox."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from saccade.dialects.base import load_dialect
from saccade.episode.drive import run_episode
from saccade.episode.flow import Plan
from saccade.episode.workbench import equipped
from saccade.media.decode import decode
from saccade.media.store import MediaStore
from saccade.models.base import Completion
from saccade.models.replay import ReplayModel
from saccade.models.scripted import Reply, ScriptedModel
from saccade.record.codec import dumps, loads
from saccade.record.content import Answer, Code, ToolCall
from saccade.record.execution import Status
from saccade.record.trajectory import FinishReason, StopReason, Trajectory
from saccade.sandbox.local import LocalSandbox
from saccade.tasks.media import task_from_files

from .support import photo, timeless

PHOTOS = ("signicade.JPG", "instrument.webp", "blackmug.JPG")
NAMES = {
    "pyvision": "image_clue_0",
    "pyvision:bound": "image_clue_0",
    "pyvision-rl-image": "image_clue_0",
    "pyvision-rl-image-no-hint": "image_hint_0",
    "codedance": "input_image",
    "codev": "img",
    "thyme": "img",
    "native": "image_0",
}
"""The variable that holds the photo."""
OPENS = {"thyme": "img = Image.open(image_path)\n", "codev": "from PIL import Image\nimg = Image.open(image_path)\n"}
"""What the first cell does where the program opens the photo itself."""


def cells(name: str, opens: str, save: bool) -> list[str]:
    """Crop, rotate, plot, fail, recover. Where only saved files are shown, they are saved."""
    show = "{0}.save('{1}.png')\nprint('{1}.png')" if save else "plt.figure()\nplt.imshow({0})\nplt.show()"
    more = "import matplotlib.pyplot as plt\n"
    return [
        f"{more}{opens}w, h = {name}.size\nprint('size', w, h)\ncrop = {name}.crop((w // 4, h // 4, w // 2, h // 2))\n"
        + show.format("crop", "crop"),
        "turned = crop.rotate(90, expand=True)\n" + show.format("turned", "turned"),
        "import numpy as np\nplt.figure()\nplt.hist(np.asarray(crop.reduce(4)).ravel(), bins=16)\n"
        + ("plt.savefig('plot.png')\nprint('plot.png')" if save else "plt.show()"),
        "turned.no_such_method()",
        "print('recovered', crop.size == (turned.height, turned.width))",
    ]


def script(dialect_id: str) -> list[Reply]:
    dialect = load_dialect(dialect_id)
    name = NAMES[dialect_id]
    codes = cells(name, OPENS.get(dialect_id, ""), dialect_id == "thyme")
    if dialect_id == "native":
        calls = [ToolCall(name="python", arguments={"code": code}, call_id=f"c{n}") for n, code in enumerate(codes)]
        said: list[Reply] = [Completion("I look.", FinishReason.TOOL_CALL, tool_calls=(call,)) for call in calls]
        return [*said, "<answer>done</answer>"]
    return [*(dialect.write(Code(code=code), "I look.") for code in codes), dialect.write(Answer(text="done"), "Seen.")]


@pytest.mark.parametrize(
    ("dialect_id", "file"),
    [
        *((name, PHOTOS[0]) for name in ("pyvision", "codedance", "codev", "thyme", "native", "pyvision-rl-image")),
        ("pyvision", PHOTOS[1]),
        *(
            pytest.param(name, file, marks=pytest.mark.slow)
            for name in NAMES
            for file in PHOTOS
            if file != PHOTOS[0] or name in ("pyvision:bound", "pyvision-rl-image-no-hint")
        ),
    ],
)
@pytest.mark.few(1)
async def test_code(dialect_id: str, file: str, tmp_path: Path) -> None:
    path = photo(file)
    store = MediaStore(tmp_path)
    plan = Plan(
        task_from_files("What is there?", [path], store),
        load_dialect(dialect_id),
        given_limits=load_dialect(dialect_id).limits.model_copy(update={"turns": 9}),
    )
    async with LocalSandbox(limits=plan.dialect.sandbox) as box:
        trajectory = await run_episode(plan, ScriptedModel(script(dialect_id)), box, store)
        again = await run_episode(plan, ReplayModel(trajectory), box, store)
    assert (trajectory.stop, trajectory.answer, len(trajectory.turns)) == (StopReason.ANSWERED, "done", 6)
    runs = [turn.execution for turn in trajectory.turns if turn.execution is not None]
    assert [run.status for run in runs] == [Status.OK] * 3 + [Status.ERROR, Status.OK]
    assert "no_such_method" in (runs[3].traceback or "")
    assert "recovered True" in runs[4].stdout
    assert [len(run.pictures) for run in runs] == [1, 1, 1, 0, 0]
    for number, run in enumerate(runs[:3]):
        observation = trajectory.turns[number].observation
        assert observation is not None
        assert [part.sha256 for part in observation.media] == [run.pictures[0].image.sha256]
    image = decode(path.read_bytes())
    assert f"size {image.width} {image.height}" in runs[0].stdout
    _check_record(trajectory, store)
    if dialect_id == "thyme":  # a saved crop comes back pixel by pixel
        box_ = (image.width // 4, image.height // 4, image.width // 2, image.height // 2)
        shown = store.open(runs[0].pictures[0].image).decode()
        assert np.array_equal(np.asarray(shown), np.asarray(image.convert("RGB").crop(box_)))
    assert timeless(again)["turns"] == timeless(trajectory)["turns"]


@pytest.mark.parametrize("dialect_id", ["vista", "vista:repo", "deepeyes"])
async def test_tools(dialect_id: str, tmp_path: Path) -> None:
    path = photo(PHOTOS[0])
    store = MediaStore(tmp_path)
    dialect, tools = equipped(load_dialect(dialect_id))
    task = task_from_files("What is there?", [path], store)
    zoom = ToolCall(name="image_zoom_in_tool", arguments={"bbox_2d": [100, 100, 900, 700], "label": "sign"})
    calls = (
        [zoom, ToolCall(name="image_zoom_in_tool", arguments={"bbox_2d": [1, 2]}), zoom]
        if dialect_id == "deepeyes"
        else [
            ToolCall(name="crop", arguments={"image": "image_0", "box": [100, 100, 900, 700]}),
            ToolCall(name="rotate", arguments={"image": "image_1", "angle": 90}),
            ToolCall(name="crop", arguments={"image": "image_7", "box": [1, 2, 3, 4]}),
            ToolCall(name="edges", arguments={"image": "image_2"}),
        ]
    )
    texts = [*(dialect.write(call, "I look.") for call in calls), dialect.write(Answer(text="done"), "Seen.")]
    plan = Plan(task, dialect, given_limits=dialect.limits.model_copy(update={"turns": 9}))
    trajectory = await run_episode(plan, ScriptedModel(texts), None, store, tools=tools)
    assert trajectory.answer == "done", trajectory.turns
    runs = [turn.execution for turn in trajectory.turns if turn.execution is not None]
    bad = 1 if dialect_id == "deepeyes" else 2
    assert [run.status is Status.OK for run in runs] == [number != bad for number in range(len(runs))]
    assert runs[bad].problem in ("argument_format", "unknown_image")
    assert (runs[0].pictures[0].image.width, runs[0].pictures[0].image.height) == (800, 600)
    if dialect_id != "deepeyes":
        assert runs[0].value is not None
        assert "New image image_1: 800 × 600" in runs[0].value
        assert (runs[1].pictures[0].image.width, runs[1].pictures[0].image.height) == (600, 800)
        observation = trajectory.turns[1].observation
        assert observation is not None
        assert "image_2" in observation.text
    _check_record(trajectory, store)


def _check_record(trajectory: Trajectory, store: MediaStore) -> None:
    assert loads(dumps(trajectory), Trajectory) == trajectory
    assert all(part in store for part in trajectory.media())
