"""ATIF by the models of its package: ours out and back whole, and documents of other agents in."""

from __future__ import annotations

import json
import logging
import sys
from pathlib import Path
from typing import Any

import atif
import pytest
from hypothesis import HealthCheck, assume, given, settings
from tests.media import clips
from tests.record.test_codec import trajectories
from tests.training.sft.formats.cases import ALL, Scene, picture, read

from saccade.errors import UnavailableError
from saccade.plugins.integrations import atif as atif_format
from saccade.plugins.integrations.atif import RUN_PYTHON
from saccade.record.content import Answer, Code, Message, ParseError, TextPart, ToolCall, VideoPart
from saccade.record.execution import Status
from saccade.record.task import NamedMedia
from saccade.record.trajectory import FinishReason, Score, StopReason, TokenCounts, Trajectory, Turn
from saccade.training.sft.formats.files import ConversionOptions, load_format


def documents(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(file.read_text(encoding="utf-8")) for file in sorted(folder.glob("*.json"))]


def through(scene: Scene, *written: Trajectory) -> tuple[list[dict[str, Any]], list[Trajectory]]:
    """The documents, and what is read of them."""
    middle, out = scene.convert(scene.write(*written), "saccade", "atif")
    assert out.refused == ()
    back, home = scene.convert(middle, "atif", "saccade")
    assert home.refused == ()
    return documents(middle), read(back)


def counted(scene: Scene) -> Trajectory:
    """An episode with everything that ATIF has a place for, and a last request."""
    written = scene.two_looks("codedance@1")
    first = written.turns[0].model_copy(
        update={
            "token_ids": (1, 2),
            "logprobs": (-0.5, -0.25),
            "tokens": TokenCounts(context=90, context_visual=64, context_cached=8, sampled=2),
            "dollars": 0.25,
            "finish_reason": FinishReason.STOP,
            "request": Message(role="user", parts=(TextPart(text="Answer now."),)),
        }
    )
    scores = (Score(name="correct", value=1.0), Score(name="format", value=None, weight=0.5, detail="not asked"))
    return written.model_copy(update={"turns": (first, *written.turns[1:]), "scores": scores})


@pytest.fixture(scope="module")
def one_path() -> dict[str, str]:
    class AnyPath(dict[str, str]):
        def __missing__(self, sha256: str) -> str:
            return f"media/{sha256}"

    return AnyPath()


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(trajectories())
def test_any_trajectory_comes_back_whole(one_path: dict[str, str], written: Trajectory) -> None:
    parts = set(written._mentions())
    assume(len(parts) == len({part.sha256 for part in parts}))  # one file is one part
    row = json.loads(json.dumps(atif_format.write_document(written, one_path)))
    document = atif.Trajectory.model_validate(row)
    assert document.to_json_dict() == row
    media = {one_path[part.sha256]: part for part in written.media()}
    assert atif_format.read_own(document, media) == written


def test_every_dialect_in_one_folder(scene: Scene) -> None:
    written = [scene.two_looks(dialect, id=f"t/{number}") for number, dialect in enumerate(ALL)]
    found, back = through(scene, *written)
    assert back == written
    for document, episode in zip(found, written, strict=True):
        parsed = atif.Trajectory.model_validate(document)
        assert (parsed.schema_version, parsed.agent.name, parsed.agent.model_name) == ("ATIF-v1.8", "saccade", "m")
        calls = [(call.function_name, call.arguments) for step in parsed.steps for call in step.tool_calls or ()]
        assert calls == [
            (RUN_PYTHON, {"code": turn.action.code})
            if isinstance(turn.action, Code)
            else (turn.action.name, turn.action.arguments)
            for turn in episode.turns
            if isinstance(turn.action, Code | ToolCall)
        ]
        assert len(calls) == 2


def test_what_other_readers_see(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    written = counted(scene)
    with caplog.at_level(logging.WARNING):
        (document,), (back,) = through(scene, written)
    assert (back, caplog.text) == (written, "")
    agent = [step for step in document["steps"] if step["source"] == "agent"]
    assert agent[0]["metrics"] == {
        "prompt_tokens": 90,
        "completion_tokens": 2,
        "cached_tokens": 8,
        "cost_usd": 0.25,
        "completion_token_ids": [1, 2],
        "logprobs": [-0.5, -0.25],
    }
    (result,) = agent[0]["observation"]["results"]
    assert result["source_call_id"] == agent[0]["tool_calls"][0]["tool_call_id"]
    images = [item["source"] for item in result["content"] if item["type"] == "image"]
    assert [(image["media_type"], Path(image["path"]).parts[0]) for image in images] == [("image/png", "media")]
    request = next(step for step in document["steps"] if step["message"] == "Answer now.")
    assert request["source"] == "user"
    # Only one turn says what it cost, so no sum is claimed.
    assert document["final_metrics"] == {"total_steps": len(document["steps"])}
    assert document["extra"]["saccade"]["scores"][1]["detail"] == "not asked"


def test_a_video_and_a_picture_that_atif_cannot_name(scene: Scene) -> None:
    clip = scene.store.put_video(clips.h264())
    named = scene.put(0).model_copy(update={"mime": "image/tiff"})
    media = (NamedMedia(name="clip", part=clip),)
    prompt = (Message(role="user", parts=(TextPart(text="See "), clip)),)
    written = scene.two_looks("codedance@1").model_copy(update={"prompt": prompt})
    written = written.model_copy(update={"task": written.task.model_copy(update={"media": media})})
    (document,), (back,) = through(scene, written)
    assert back == written
    assert isinstance(back.prompt[0].parts[1], VideoPart)
    assert document["steps"][0]["message"][1]["text"].startswith("[media: media/")
    content = atif_format.to_content((named,), {named.sha256: "a.tiff"})
    assert content == [{"type": "text", "text": "[media: a.tiff]"}]


def test_a_text_that_reads_as_a_picture_is_refused(scene: Scene) -> None:
    written = scene.two_looks("codedance@1")
    path = f"media/{written.task.media[0].part.sha256[:32]}.png"
    prompt = (Message(role="user", parts=(TextPart(text=f"[media: {path}]"), TextPart(text="x"))),)
    _, done = scene.convert(scene.write(written.model_copy(update={"prompt": prompt})), "saccade", "atif")
    assert [item.reason for item in done.refused] == ["reading the document would not give it back"]


def edited(scene: Scene, change: Any) -> tuple[list[Trajectory], str]:
    """What is read of a document of ours after `change`, and the reason why not."""
    middle, _ = scene.convert(scene.write(counted(scene)), "saccade", "atif")
    (file,) = middle.glob("*.json")
    document = json.loads(file.read_text())
    change(document, middle)
    file.write_text(json.dumps(document))
    back, done = scene.convert(middle, "atif", "saccade")
    return read(back), done.refused[0].reason if done.refused else ""


def test_an_edit_of_a_document_of_ours_is_read(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    def change(document: dict[str, Any], _: Path) -> None:
        document["steps"][-1]["message"] = "Edited."
        document["steps"][-1]["timestamp"] = "2026-01-01T00:00:00Z"
        document["notes"] = "by hand"

    with caplog.at_level(logging.WARNING):
        (found,), _ = edited(scene, change)
    assert found.turns[-1].text == "Edited."
    last = len(found.prompt) + len(found.turns) + 1
    assert f"no place for document.notes, step {last}.timestamp" in caplog.text


def _other_picture(document: dict[str, Any], folder: Path) -> None:
    path = folder / document["extra"]["saccade"]["media"][0]["path"]
    path.unlink()  # a hard link: the run's own file stays as it is
    picture(99).save(path)


def _twice_asked(document: dict[str, Any], _: Path) -> None:
    steps = document["steps"]
    at = next(number for number, item in enumerate(steps) if item["message"] == "Answer now.")
    steps.insert(at, json.loads(json.dumps(steps[at])))
    for number, item in enumerate(steps, 1):
        item["step_id"] = number


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (_other_picture, "is not the file that was written"),
        (lambda d, _: d["steps"][1].pop("extra"), "step 2 does not say what it was"),
        (_twice_asked, "does not say what it was"),
        (lambda d, _: d["extra"]["saccade"].update(mood="good"), "mood: unknown field"),
        (lambda d, _: d["extra"]["saccade"].update(schema_version=99), "schema version 99"),
        (lambda d, _: next(s for s in d["steps"] if "tool_calls" in s).pop("tool_calls"), "has 0 calls"),
    ],
)
def test_documents_of_ours_that_were_broken(scene: Scene, change: Any, reason: str) -> None:
    found, said = edited(scene, change)
    assert found == []
    assert reason in said


FOREIGN: dict[str, Any] = {
    "schema_version": "ATIF-v1.6",
    "session_id": "s-1",
    "agent": {"name": "looker", "version": "2", "model_name": "big", "extra": {"mode": "fast"}},
    "steps": [
        {"step_id": 1, "source": "system", "message": "Be exact."},
        {
            "step_id": 2,
            "source": "user",
            "timestamp": "2026-02-03T04:05:06Z",
            "message": [
                {"type": "text", "text": "How many?"},
                {"type": "image", "source": {"media_type": "image/png", "path": "images/a.png"}},
            ],
        },
        {
            "step_id": 3,
            "source": "agent",
            "message": "Look.",
            "reasoning_content": "Hm.",
            "tool_calls": [{"tool_call_id": "c1", "function_name": "run_python", "arguments": {"code": "show(a)"}}],
            "observation": {
                "results": [
                    {
                        "source_call_id": "c1",
                        "content": [
                            {"type": "image", "source": {"media_type": "image/png", "path": "images/b.png"}},
                            {"type": "text", "text": "done"},
                        ],
                    }
                ]
            },
            "metrics": {"prompt_tokens": 50, "completion_tokens": 5, "cost_usd": 0.5},
        },
        {
            "step_id": 4,
            "source": "agent",
            "message": "",
            "tool_calls": [{"tool_call_id": "c2", "function_name": "zoom", "arguments": {"box": [1, None]}}],
            "observation": {"results": [{"source_call_id": "c2", "content": "no such box"}]},
        },
        {"step_id": 5, "source": "agent", "message": "Shall I go on?"},
        {"step_id": 6, "source": "user", "message": "Yes."},
        {"step_id": 7, "source": "agent", "message": "Five."},
    ],
}


class Foreign:
    """Documents that another agent wrote, in Harbor's folders."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.trial = scene.root / "job" / "trial" / "agent"
        (self.trial / "images").mkdir(parents=True)
        for seed, name in enumerate(("a.png", "b.png")):
            picture(seed).save(self.trial / "images" / name)
            scene.store.put_bytes((self.trial / "images" / name).read_bytes())

    def ours(self, document: Any) -> tuple[list[Trajectory], str]:
        (self.trial / "trajectory.json").write_text(json.dumps(document))
        back, done = self.scene.convert(self.scene.root / "job", "atif", "saccade")
        return read(back), done.refused[0].reason if done.refused else ""


@pytest.fixture
def foreign(scene: Scene) -> Foreign:
    return Foreign(scene)


def test_a_document_of_another_agent(foreign: Foreign, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        (found,), _ = foreign.ours(FOREIGN)
    assert (found.id, found.provenance.model, found.stop) == ("s-1", "big", StopReason.ANSWERED)
    assert [message.role for message in found.prompt] == ["system", "user"]
    assert (found.task.question, [item.name for item in found.task.media]) == ("How many?", ["image_0"])
    look, zoom, asked, answer = found.turns
    assert (look.text, look.action) == ("<think>Hm.</think>Look.", Code(code="show(a)"))
    assert look.observation is not None
    assert [part.kind for part in look.observation.parts] == ["image", "text"]
    assert (look.tokens, look.dollars) == (TokenCounts(context=50, sampled=5), 0.5)
    assert zoom.action == ToolCall(name="zoom", arguments={"box": [1, None]}, call_id="c2")
    assert isinstance(asked.action, ParseError)
    assert asked.observation == Message(role="user", parts=(TextPart(text="Yes."),))
    assert answer == Turn(text="Five.", action=Answer(text="Five."))
    left = "agent.name, agent.version, agent.extra, steps.timestamp"
    assert found.provenance.notes == (f"Read from ATIF, which also had {left}: left out.",)
    assert left in caplog.text
    assert through(foreign.scene, found)[1] == [found]


def changed(**fields: Any) -> dict[str, Any]:
    return {**json.loads(json.dumps(FOREIGN)), **fields}


def step(number: int, **fields: Any) -> dict[str, Any]:
    document = changed()
    document["steps"][number - 1].update(fields)
    return document


CALL = {"tool_call_id": "c2", "function_name": "zoom", "arguments": {}}
SOUND = [{"type": "audio", "source": {"media_type": "audio/wav", "path": "a.wav"}}]
GONE = [{"type": "image", "source": {"media_type": "image/png", "path": "images/z.png"}}]
SUB = [{"source_call_id": "c2", "subagent_trajectory_ref": [{"trajectory_id": "x"}]}]


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        (changed(schema_version="ATIF-v2.0"), "schema_version is 'ATIF-v2.0'"),
        (changed(mood="good"), "mood: Extra inputs are not permitted"),
        (changed(continued_trajectory_ref="b.json"), "it is continued in b.json"),
        (changed(subagent_trajectories=[changed(trajectory_id="x")]), "it embeds 1 trajectories of subagents"),
        (changed(steps=FOREIGN["steps"][:2]), "no step is the agent's"),
        (step(4, tool_calls=[CALL, {**CALL, "tool_call_id": "c3"}]), "step 4 has 2 calls (tool_calls)"),
        (step(4, observation={"results": SUB}), "step 4 was delegated to a subagent"),
        (step(4, llm_call_count=0), "step 4 was not written by a model"),
        (step(3, is_copied_context=True), "step 3 was copied from another trajectory"),
        (step(2, message=SOUND), "step 2 holds audio"),
        (step(2, message=GONE), "there is no file images/z.png"),
        (step(7, message=GONE), "there is no file images/z.png"),
        (step(7, source="user"), "step 7 is the second message of the user after one turn"),
        (step(5, step_id=9), "not sequential"),
        ("no object", "it is no ATIF document"),
    ],
)
def test_what_cannot_be_read_is_refused_by_name(foreign: Foreign, document: Any, reason: str) -> None:
    found, said = foreign.ours(document)
    assert found == []
    assert reason in said


def test_without_the_package(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "atif", None)
    with pytest.raises(UnavailableError, match=r"pip install 'saccade-vlm\[data\]'"):
        load_format("atif").write([], scene.store, scene.root, ConversionOptions())


def test_an_execution_that_the_model_did_not_see_is_kept(scene: Scene) -> None:
    written = scene.two_looks("pyvision@1:repo")
    cut = written.turns[0].model_copy(update={"observation": None})
    written = written.model_copy(update={"turns": (cut,), "stop": StopReason.TURN_LIMIT})
    (document,), (back,) = through(scene, written)
    assert back == written
    assert back.turns[0].execution is not None
    assert back.turns[0].execution.status is Status.OK
    assert "observation" not in document["steps"][-1]


def test_the_format_has_its_name() -> None:
    assert load_format("atif") is atif_format.FORMAT
