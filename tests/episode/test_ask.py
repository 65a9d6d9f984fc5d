"""`saccade.ask` from Python: every option of the command line, large pictures, videos, and no picture at all."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tests.media import clips

from saccade.dialects.base import load_dialect
from saccade.episode.ask import ask
from saccade.episode.flow import Event, Notice
from saccade.errors import PromptFileError, SettingsError
from saccade.media.store import MediaStore
from saccade.models.scripted import ScriptedModel
from saccade.record.codec import read_lines
from saccade.record.content import ImagePart, TextPart
from saccade.record.execution import Status
from saccade.record.trajectory import EpisodeLimits, Sampling, Trajectory

from .support import ANSWER

PHOTO = np.full((4, 6, 3), 200, np.uint8)
DIRECT = "<answer>cat</answer>"
LIMITED = {"limits": {"turns": 3}, "sampling": {"temperature": 0.5}, "session": {"wall_seconds": 50}}


def code(text: str) -> str:
    return f"<code>\n```python\n{text}\n```\n</code>"


def pictures(trajectory: Trajectory) -> list[ImagePart]:
    return [part for message in trajectory.prompt for part in message.parts if isinstance(part, ImagePart)]


def words(trajectory: Trajectory) -> str:
    return "".join(p.text for message in trajectory.prompt for p in message.parts if isinstance(p, TextPart))


def test_what_the_command_line_can_say_python_can_say(tmp_path: Path) -> None:
    prompt = tmp_path / "mine.txt"
    prompt.write_text("Mine: {query}")
    file = tmp_path / "ask.toml"
    file.write_text('model = "scripted:nowhere"\ndialect = "codedance"\n[limits]\nturns = 9\nimages = 7\n')
    options: dict[str, Any] = {**LIMITED, "prompt_file": prompt, "choices": ["cat", "dog"], "settings": file}
    made = ask([PHOTO, PHOTO], "Which?", model=ScriptedModel([DIRECT]), dialect="direct", out=tmp_path / "r", **options)
    assert made.answer == "cat"
    assert words(made).endswith("Mine: Which?\nA. cat\nB. dog")
    assert (made.provenance.limits.turns, made.provenance.limits.images) == (3, 7)
    assert (made.provenance.sampling.temperature, made.provenance.model) == (0.5, "scripted")
    assert made.provenance.dialect.startswith("direct@1")
    (stored,) = read_lines(tmp_path / "r/trajectories.jsonl", Trajectory)
    assert stored.provenance.settings == (tmp_path / "r/settings.toml").read_text()
    assert "wall_seconds = 50" in stored.provenance.settings


def test_objects_in_place_of_names_and_tools(monkeypatch: pytest.MonkeyPatch) -> None:
    closed = []

    async def close() -> None:
        closed.append(1)

    model, dialect = ScriptedModel([DIRECT]), load_dialect("direct:short")
    monkeypatch.setattr(model, "close", close)
    tables: dict[str, Any] = {"limits": EpisodeLimits(turns=3), "sampling": Sampling(temperature=0.5)}
    made = ask(PHOTO, "Which?", model=model, dialect=dialect, **tables)
    assert (made.provenance.limits.turns, made.provenance.sampling.temperature) == (3, 0.5)
    assert (made.provenance.dialect, made.rollout, closed) == ("direct@1:short", 0, [1])
    call = '<think>Look.</think><tool_call>{"name": "crop", "arguments": {"box": [0, 0, 3, 2]}}</tool_call>'
    made = ask(PHOTO, "Which?", model=ScriptedModel([call, DIRECT]), dialect="vista", tools=("crop",))
    assert "crop" in words(made)
    assert "ocr" not in words(made)


@pytest.mark.parametrize(
    ("pictures", "options", "says"),
    [
        ({"a": 1}, {}, "a builtins.dict is no picture here"),
        (PHOTO, {"model": 7}, "a builtins.int is neither a model nor a dialect"),
        (PHOTO, {"limits": {"turn": 1}}, "Did you mean 'turns'"),
        (PHOTO, {"temperature": 1}, "temperature: no such setting"),
        (PHOTO, {"tools": ["crop"]}, "offers no typed tools"),
        (PHOTO, {"model": "tiny", "dialect": "native"}, "speaks through an API's function calls"),
        (PHOTO, {"sandbox": "http://127.0.0.1:9", "session": {"file_bytes": 5}}, "its limits are its server's"),
        ("http://127.0.0.1:9/a.png", {}, "--allow-urls"),
        ("http://127.0.0.1:9/a.png", {"allow_urls": True}, "cannot be had"),
    ],
)
def test_mistakes_are_named(pictures: Any, options: dict[str, Any], says: str) -> None:
    from saccade import SaccadeError

    with pytest.raises(SaccadeError, match=says):
        ask(pictures, "Which?", **{"model": ScriptedModel([ANSWER]), **options})


@pytest.mark.parametrize(
    "dialect", ["pyvision", "direct", "native", "codedance", "codev", "thyme", "deepeyes", "vista"]
)
def test_a_question_without_a_picture(dialect: str) -> None:
    made = ask([], "What is 2 + 2?", model=ScriptedModel(["<answer>4</answer>"]), dialect=dialect)
    assert (made.answer, pictures(made)) == ("4", [])
    assert "What is 2 + 2?" in words(made)


def test_a_prompt_file_without_a_text_for_no_picture_says_so(tmp_path: Path) -> None:
    prompts = tmp_path / "prompts.json"
    prompts.write_text('{"vistool_with_img_info_v2": "{query}", "vistool_with_img_info_multi_image": "{query}"}')
    with pytest.raises(PromptFileError, match="retool"):
        ask([], "What is 2 + 2?", model=ScriptedModel([ANSWER]), prompt_file=prompts)


@pytest.mark.parametrize("side", [1_100, pytest.param(11_000, marks=pytest.mark.slow)])
def test_a_large_picture_is_shown_small_and_cut_at_its_full_size(side: int, tmp_path: Path) -> None:
    large = Image.new("L", (side, side), 40)
    large.paste(200, (side - 30, side - 20, side, side))
    large.save(tmp_path / "scan.png", compress_level=1)
    look = code(
        "w, h = image_clue_0.size; print(w, h)\ncut = image_clue_0.crop((w - 40, h - 30, w, h))\n"
        "print(cut.getpixel((9, 9)), cut.getpixel((39, 29)))\nplt.imshow(cut); plt.show()"
    )
    heard: list[Event] = []
    model = ScriptedModel([look, ANSWER])
    made = ask(tmp_path / "scan.png", "Which?", model=model, media={"shown_pixels": 10_000}, watch=heard.append)
    assert made.turns[0].execution is not None
    assert made.turns[0].execution.stdout == f"{side} {side}\n40 200\n"
    assert [(part.width, part.height, part.mime) for part in pictures(made)] == [(100, 100, "image/jpeg")]
    note = f"this picture has {side}x{side} pixels and is shown scaled down to 100x100, 1 pixel for {side / 100:.2f}"
    assert f"<image_clue_0>[{note}]</image_clue_0>" in words(made)
    assert f"Image Width: {side}" in words(made)
    memory = (
        f"a call may use {2.147 + 8e-9 * side**2:.1f} GB of memory, for the large picture (session.memory_bytes)",
    )
    assert made.provenance.notes == (f"scan.png: {note}", *(memory if side > 10_000 else ()))
    assert [event.text for event in heard if isinstance(event, Notice)] == list(made.provenance.notes)
    assert isinstance(made.task.media[0].part, ImagePart)
    assert made.task.media[0].part.width == side


@pytest.mark.slow
def test_half_a_gigapixel_within_the_stated_memory(tmp_path: Path) -> None:
    program = f"""
from PIL import Image

Image.new("RGB", (25_000, 20_000), "red").save({str(tmp_path / "a.jpg")!r})
"""
    subprocess.run([sys.executable, "-c", program], check=True)
    # Not `ru_maxrss`, which knows the peak of the process that started this one: the whole suite's.
    program = f"""
from pathlib import Path
from saccade.media.store import MediaStore
from saccade.sandbox.bindings import decode_to_memfd

def peak():
    return int(Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0]) * 1024

store = MediaStore({str(tmp_path / "media")!r})
part = store.put_file({str(tmp_path / "a.jpg")!r})
small = store.put_smaller(part, 1_000_000)
before = peak()
decode_to_memfd(store.open(part))
print(before, peak())
"""
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    stored, decoded = map(int, done.stdout.split())
    # The memfd is not the process's own: 4 bytes a pixel beside it.
    assert stored < 4.5 * 500_000_000
    assert decoded < 4.5 * 500_000_000


def test_frames_where_a_dialect_shows_no_video(tmp_path: Path) -> None:
    pytest.importorskip("av", reason="the extra `video` is not installed")
    path = tmp_path / "clip.mp4"
    path.write_bytes(clips.h264(60))  # 25 frames per second
    for dialect, reply in (("pyvision", ANSWER), ("direct", DIRECT)):
        made = ask(path, "Which?", model=ScriptedModel([reply]), dialect=dialect, out=tmp_path / dialect)
        frames = [item.frame for item in made.task.media]
        assert [(frame.index, frame.second) for frame in frames if frame] == [(0, 0.0), (25, 1.0), (50, 2.0)]
        assert len(pictures(made)) == 3
        assert "[clip.mp4, frame at 1.00 s]" in words(made)
        (note,) = made.provenance.notes
        assert note.startswith("clip.mp4 is shown as 3 frames (1 fps, at most 16; 0.00 s to 2.00 s), since dialect")
        assert frames[0] is not None
        assert frames[0].sha256 in MediaStore(tmp_path / dialect / "media")  # the video lies beside its frames
    made = ask(path, "Which?", model=ScriptedModel([DIRECT]), dialect="direct", frames={"count": 2})
    assert made.provenance.notes[0].startswith("clip.mp4 is shown as 2 frames (evenly; 0.00 s to 2.36 s);")


def test_frames_on_demand_where_code_has_the_video(tmp_path: Path) -> None:
    pytest.importorskip("av", reason="the extra `video` is not installed")
    path = tmp_path / "clip.mp4"
    path.write_bytes(clips.h264(60))
    look = code(f"{clips.READ}\nprint(number_of(video_clue_0[17].asnumpy()))")
    made = ask(path, "Which?", model=ScriptedModel([look, ANSWER]), dialect="pyvision-rl-video")
    assert made.turns[0].execution is not None
    assert made.turns[0].execution.stdout == "17\n"
    assert made.provenance.notes == ()
    few = {"file_bytes": 100}
    with pytest.raises(SettingsError, match=r"clip\.mp4 has .* may have 100\. Allow more with session\.file_bytes="):
        ask(path, "Which?", model=ScriptedModel([ANSWER]), dialect="pyvision-rl-video", session=few)


def test_the_time_of_a_call_is_a_setting() -> None:
    slow = code("import time; time.sleep(60)")
    short = ask(PHOTO, "Which?", model=ScriptedModel([slow, ANSWER]), session={"wall_seconds": 0.3})
    assert short.turns[0].execution is not None
    assert short.turns[0].execution.status is Status.TIMEOUT


def test_the_size_of_pictures_that_come_back_is_a_setting() -> None:
    show = code("from PIL import Image\ndisplay(Image.new('RGB', (300, 100)))\ndisplay(Image.new('RGB', (50, 50)))")
    made = ask(PHOTO, "Which?", model=ScriptedModel([show, ANSWER]), session={"picture_pixels": 7_500})
    assert made.turns[0].execution is not None
    back = [picture.image for picture in made.turns[0].execution.pictures]
    assert [(part.width, part.height) for part in back] == [(150, 50), (50, 50)]


def test_limits_of_sessions_fit_together() -> None:
    from saccade.episode.settings import SessionLimits

    usual = load_dialect("pyvision-rl-video").sandbox
    longer = SessionLimits(wall_seconds=90.5).over(usual)
    assert (longer.wall_seconds, longer.cpu_seconds) == (90.5, 91)
    larger = SessionLimits(file_bytes=3 << 30).over(usual)
    assert larger.workspace_bytes == (3 << 30) + (128 << 20)
    assert SessionLimits().over(usual) == usual


def test_the_dialect_that_was_chosen_is_said(caplog: pytest.LogCaptureFixture) -> None:
    made = ask(PHOTO, "Which?", model=ScriptedModel([ANSWER]))
    assert made.provenance.dialect.startswith("pyvision@")
    assert [(record.name, "in the dialect pyvision" in record.getMessage()) for record in caplog.records] == [
        ("saccade.episode.ask", True)
    ]
    caplog.clear()
    ask(PHOTO, "Which?", model=ScriptedModel([DIRECT]), dialect="direct")
    assert not caplog.records
