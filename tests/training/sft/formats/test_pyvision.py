"""PyVision's dumps of messages: ours to theirs and back, and theirs as its code writes them."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from tests.media.clips import h264
from tests.training.sft.formats.cases import ALL, Scene, picture, read

from saccade.dialects.registry import load_dialect
from saccade.errors import RecordError
from saccade.record.content import Answer, Code, ImagePart
from saccade.record.task import NamedMedia, Task
from saccade.training.sft.formats.conversation import held


def lists(folder: Path) -> list[Any]:
    return [json.loads(file.read_text()) for file in sorted(folder.glob("*.json"))]


@pytest.mark.parametrize("dialect", ALL)
def test_prompt_and_turns_of_every_dialect_come_back(scene: Scene, dialect: str) -> None:
    written = scene.two_looks(dialect)
    middle, out = scene.convert(scene.write(written), "saccade", "pyvision")
    assert out.refused == ()
    back, home = scene.convert(middle, "pyvision", "saccade", dialect=dialect)
    assert home.refused == ()
    (one,), kept = read(back), held(written)
    assert (one.prompt, one.turns, one.stop) == (kept.prompt, kept.turns, kept.stop)


def test_the_form_is_theirs(scene: Scene) -> None:
    folder, _ = scene.convert(scene.write(scene.two_looks("pyvision@1:repo")), "saccade", "pyvision")
    (messages,) = lists(folder)
    assert [message["role"] for message in messages] == ["user", "assistant", "user", "assistant", "user", "assistant"]
    first = messages[0]["content"]
    assert first[0] == {"type": "text", "text": "<image_clue_0>"}
    assert first[2]["text"].startswith("</image_clue_0>\n\n")
    url = first[1]["image_url"]["url"]
    assert url.startswith("data:image/png;base64,")
    assert base64.b64decode(url.partition(",")[2])[:4] == b"\x89PNG"
    assert [part["type"] for part in messages[1]["content"]] == ["text"]
    assert messages[1]["content"][0]["text"].endswith("\n</code>\n")
    assert messages[2]["content"][0]["text"].startswith("<interpreter>\nText Result:\n")
    assert not messages[-1]["content"][0]["text"].endswith("\n")


def theirs(close: str = "</code>\n") -> list[dict[str, Any]]:
    """As its code appends one message after the other."""
    data = base64.b64encode(_jpeg()).decode()
    image = {"type": "image_url", "image_url": {"url": f"data:image/jpeg;base64,{data}"}}

    def text(said: str) -> dict[str, Any]:
        return {"type": "text", "text": said}

    return [
        {"role": "user", "content": [text("<image_clue_0>"), image, text("</image_clue_0>\n\n"), text("How many?")]},
        {"role": "assistant", "content": [text(f"I look.\n<code>\n```python\nprint(5)\n```\n{close}")]},
        {
            "role": "user",
            "content": [
                text("<interpreter>\nText Result:\n5\nImage Result:\n"),
                *(text("<image_clue_1>"), image, text("</image_clue_1>")),
                text("</interpreter>\n"),
            ],
        },
        {"role": "assistant", "content": [text("<answer>\n\\boxed{5}\n</answer>")]},
    ]


def _jpeg() -> bytes:
    from io import BytesIO

    buffer = BytesIO()
    picture(3).save(buffer, "JPEG")
    return buffer.getvalue()


@pytest.mark.parametrize("close", ["</code>\n", "</code></code>\n", "</code>\n</code>\n"])
def test_theirs_are_read(scene: Scene, close: str) -> None:
    file = scene.root / "test_messages.json"
    file.write_text(json.dumps(theirs(close), indent=4))
    back, done = scene.convert(file, "pyvision", "saccade")
    assert done.refused == ()
    (one,) = read(back)
    assert [type(turn.action) for turn in one.turns] == [Code, Answer]
    assert one.turns[0].text.endswith("```\n</code>")
    assert one.answer == "5"
    assert one.provenance.dialect == load_dialect("pyvision").id
    assert [type(part) for part in one.media()] == [ImagePart]
    observation = one.turns[0].observation
    assert observation is not None
    assert len(observation.media) == 1


WRONG: dict[str, tuple[Any, str]] = {
    "no list": ({"role": "user"}, "no list of messages"),
    "empty": ([], "no list of messages"),
    "no object": (["hello"], "message 0 is no object with the role"),
    "role": ([{"role": "boss", "content": "x"}], "message 0 is no object with the role"),
    "role a list": ([{"role": [], "content": "x"}], "message 0 is no object with the role"),
    "content": ([{"role": "user", "content": 3}], "message 0 holds what is neither"),
    "part": ([{"role": "user", "content": ["x", None]}], "message 0 holds what is neither"),
    "video": ([{"role": "user", "content": [{"type": "video_url"}]}], "message 0 holds what is neither"),
    "no text": ([{"role": "user", "content": [{"type": "text"}]}], "message 0 holds what is neither"),
    "address": ([{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "http://h/a"}}]}], "fetched"),
    "no url": ([{"role": "user", "content": [{"type": "image_url"}]}], "nothing is fetched"),
    "no picture": (
        [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}]}],
        "",
    ),
    "no action": ([{"role": "user", "content": "q"}, {"role": "assistant", "content": "Hm."}], "turn 0 holds no act"),
}


@pytest.mark.parametrize("case", WRONG)
def test_others_are_refused_with_a_reason(scene: Scene, case: str) -> None:
    said, why = WRONG[case]
    folder = scene.root / "lists"
    folder.mkdir()
    (folder / "a.json").write_text(json.dumps(said))
    (folder / "b.json").write_text(json.dumps(theirs()))
    (folder / "c.json").write_text("[" * 100_000)
    back, done = scene.convert(folder, "pyvision", "saccade")
    assert [(item.row, item.id) for item in done.refused] == [(0, "a"), (2, "c")]
    assert why in done.refused[0].reason
    assert [one.id for one in read(back)] == ["b"]


def test_nothing_there_is_said_and_a_video_has_no_form(scene: Scene) -> None:
    (scene.root / "nothing").mkdir()
    with pytest.raises(RecordError, match="neither a list of messages nor a folder"):
        scene.convert(scene.root / "nothing", "pyvision", "saccade")
    clip = scene.store.put_video(h264(6))
    task = Task(id="v", question="What?", media=(NamedMedia(name="video", part=clip),))
    written = scene.two_looks("pyvision@1:repo")
    opening = load_dialect("direct:video").open(task)
    _, out = scene.convert(scene.write(written.model_copy(update={"prompt": opening.messages})), "saccade", "pyvision")
    assert [item.reason.partition("for which")[0] for item in out.refused] == ["it shows a video as such, "]
