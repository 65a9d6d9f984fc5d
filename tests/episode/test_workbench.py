"""Which typed tools an episode offers: those that lack nothing here, and what is said of the others."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.episode.support import photo, plan, stored_task, timeless
from tests.tools.tricky import HERE as TRICKY

from saccade.dialects.base import Dialect, load_dialect
from saccade.dialects.prompt_texts import SYSTEM, Prompts
from saccade.episode.drive import run_episode
from saccade.episode.flow import Plan, Run
from saccade.episode.workbench import Workbench, equipped, missing_words
from saccade.errors import SandboxLostError, SettingsError
from saccade.media.decode import decode
from saccade.media.store import MediaStore
from saccade.models.base import Completion
from saccade.models.replay import ReplayModel
from saccade.models.scripted import Reply, ScriptedModel
from saccade.record.codec import dumps, loads
from saccade.record.content import Answer, Code, ToolCall
from saccade.record.execution import Status
from saccade.record.task import Task
from saccade.record.trajectory import FinishReason, StopReason, Trajectory
from saccade.sandbox.local import LocalSandbox
from saccade.sandbox.result import RunResult
from saccade.sandbox.scripted import ScriptedSandbox, ScriptedSession
from saccade.tasks.media import task_from_files
from saccade.tools.context import ProblemKind, ToolContext
from saccade.tools.setup import VARIABLE, ToolCallSettings
from saccade.tools.workers import close_shared_pools

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


def test_what_is_not_set_up_is_not_offered_and_no_mistake_of_the_model() -> None:
    dialect, tools = equipped(load_dialect("vista"))
    assert tools is not None
    offered = {tool.name for tool in dialect.tools}
    assert {"crop", "opencv", "inter_gps"} <= offered
    assert not offered & {"sam", "grounding_dino", "chartmoe", "multimath"}
    assert "sam" in missing_words(tools)
    for name in ("sam", "sam2", "chartmoe.answer"):
        result = tools.call(name, {"whatever": 1}, ToolContext({}))
        assert result.problem is not None
        assert result.problem.kind is ProblemKind.UNAVAILABLE
        assert result.problem.kind.vista is None
        assert VARIABLE in result.problem.detail


def test_a_setup_puts_a_tool_on_offer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "setup.toml").write_text('[gllava]\nmodel = "compatible:x@http://localhost:1/v1"\n')
    monkeypatch.setenv(VARIABLE, str(tmp_path / "setup.toml"))
    dialect, tools = equipped(load_dialect("vista"))
    assert "gllava" in {tool.name for tool in dialect.tools}
    assert "gllava" not in missing_words(tools)


def test_a_tool_that_is_named_must_be_there() -> None:
    with pytest.raises(SettingsError, match=r"not available here.*sam \(.*\[sam\] weights = "):
        equipped(load_dialect("vista"), ("crop", "sam"))


def test_an_own_system_message_must_list_the_tools_that_are_named() -> None:
    vista = load_dialect("vista")
    silent, listing = (vista.with_prompts(Prompts({SYSTEM: text}, "mine.txt")) for text in ("Look.", "Use {tools}."))
    with pytest.raises(SettingsError, match=r"the system message of mine\.txt has no \{tools\}"):
        equipped(silent, ("crop",))
    equipped(silent)  # nobody named any
    dialect, _ = equipped(listing, ("crop",))
    assert "Use - crop(" in dialect.open(Task(id="t", question="?")).messages[0].text
    native = load_dialect("native")  # it hands its tools over beside the prompt
    equipped(native.with_prompts(Prompts({SYSTEM: "Look."}, "mine.txt")), ("crop",))


def test_of_a_choice_of_tools_nothing_is_said() -> None:
    _, tools = equipped(load_dialect("vista"), ("crop",))
    assert missing_words(tools) == ""
    assert missing_words(None) == ""


CODE = Run("print(1)")


def calling(dialect: Dialect, **arguments: object) -> str:
    return dialect.write(ToolCall(name="tricky", arguments=arguments), "I look.")


async def test_a_tool_that_hangs_does_not_hold_up_the_end_of_an_episode(tmp_path: Path) -> None:
    store = MediaStore(tmp_path)
    dialect, tools = equipped(load_dialect("vista"), [TRICKY])
    limits = dialect.limits.model_copy(update={"wall_seconds": 0.5})
    hung = ScriptedModel([calling(dialect, do="sleep", seconds=60)])
    start = time.monotonic()
    played = await run_episode(Plan(stored_task(store), dialect, given_limits=limits), hung, None, store, tools=tools)
    assert played.stop is StopReason.WALL_LIMIT
    assert time.monotonic() - start < 20
    close_shared_pools()


async def test_a_lost_tool_ends_the_episode_as_an_outage(tmp_path: Path) -> None:
    store = MediaStore(tmp_path)
    dialect, tools = equipped(load_dialect("vista"), [TRICKY], ToolCallSettings(seconds=0.5))
    texts = [calling(dialect, do="sleep", seconds=60), calling(dialect, do="die"), "unreached"]
    played = await run_episode(Plan(stored_task(store), dialect), ScriptedModel(texts), None, store, tools=tools)
    first, second = (turn.execution for turn in played.turns)
    assert first is not None
    assert (first.status, first.problem, second) == (Status.TIMEOUT, "tool_failure", None)
    assert (played.stop, played.lost) == (StopReason.TOOL_LOST, True)
    assert "SIGKILL" in played.stop_detail
    assert len(played.turns) == 2


class Watched(ScriptedSandbox):
    """The first `failures` openings fail."""

    def __init__(self, failures: int = 0) -> None:
        super().__init__(lambda code: RunResult(status=Status.OK, stdout="1\n", committed=True), keep=True)
        self.failures = failures

    async def open(self, *given: Any, **named: Any) -> ScriptedSession:
        await asyncio.sleep(0)
        self.failures -= 1
        if self.failures >= 0:
            raise SandboxLostError("gone")
        return await super().open(*given, **named)


def bench(tmp_path: Path, sandbox: Watched, dialect: str = "pyvision") -> Workbench:
    store = MediaStore(tmp_path)
    return Workbench(plan(dialect, stored_task(store)), sandbox, store)


async def test_a_prepared_session_is_the_one_that_runs(tmp_path: Path) -> None:
    sandbox = Watched()
    workbench = bench(tmp_path, sandbox)
    workbench.prepare()
    await asyncio.sleep(0.01)
    assert len(sandbox.opened) == 1
    assert (await workbench.run(CODE)).stdout == "1\n"
    await workbench.run(CODE)
    assert len(sandbox.opened) == 1
    await workbench.close()


async def test_nothing_is_prepared_where_code_would_find_nothing(tmp_path: Path) -> None:
    sandbox = Watched()
    workbench = bench(tmp_path, sandbox, "direct")
    workbench.prepare()
    await asyncio.sleep(0.01)
    assert not sandbox.opened
    await workbench.close()


@pytest.mark.parametrize("failures", [0, 1])
async def test_a_prepared_session_that_nobody_used_is_ended_at_once(tmp_path: Path, failures: int) -> None:
    sandbox = Watched(failures)
    workbench = bench(tmp_path, sandbox)
    workbench.prepare()
    await workbench.close()
    await workbench.close()
    assert len(sandbox.opened) == 1 - failures
    assert sandbox.live == 0


async def test_a_session_that_opened_in_the_moment_its_call_was_cancelled_is_ended(tmp_path: Path) -> None:
    sandbox = Watched()
    workbench = bench(tmp_path, sandbox)
    call = asyncio.ensure_future(workbench.run(CODE))
    while not sandbox.opened:
        await asyncio.sleep(0)
    assert call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert sandbox.live == 1
    await workbench.close()
    assert sandbox.live == 0


async def test_a_failure_to_open_is_told_by_the_call_and_the_next_opens_anew(tmp_path: Path) -> None:
    sandbox = Watched(1)
    workbench = bench(tmp_path, sandbox)
    workbench.prepare()
    with pytest.raises(SandboxLostError):
        await workbench.run(CODE)
    assert (await workbench.run(CODE)).stdout == "1\n"
    await workbench.close()
