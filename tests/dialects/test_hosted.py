"""`hosted`: what is asked for, how the answer is read, and where the dialect has no place."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from saccade.dialects.base import load_dialect
from saccade.episode.drive import run_episode
from saccade.episode.flow import Plan
from saccade.errors import RecordError, SettingsError, TrainingError
from saccade.media.store import MediaStore
from saccade.models.base import Completion, MediaReader, Request
from saccade.models.exchanges import KeptModel
from saccade.models.scripted import ScriptedModel
from saccade.plugins.integrations.atif import SPACE, write_document
from saccade.record.content import Answer, VideoPart
from saccade.record.execution import Execution, ExecutionPicture, HostedCall, Status
from saccade.record.task import NamedMedia, Task
from saccade.record.trajectory import FinishReason, StopReason, Trajectory
from saccade.tokens.batch import token_trajectory
from saccade.training.env import LookAgainEnv
from saccade.training.rl.recipe import load_recipe
from saccade.training.sft.formats.conversation import flatten


@pytest.fixture
def store(tmp_path: Path) -> MediaStore:
    return MediaStore(tmp_path)


class Asked(ScriptedModel):
    """Keeps the request."""

    def __init__(self, *replies: Completion) -> None:
        super().__init__(replies)
        self.requests: list[Request] = []

    async def complete(self, request: Request, media: MediaReader, **rest: Any) -> Completion:
        self.requests.append(request)
        return await super().complete(request, media, **rest)


def task(store: MediaStore) -> Task:
    part = store.put_image(Image.new("RGB", (8, 6), "red"))
    return Task(id="t", question="Which colour?", media=(NamedMedia(name="photo", part=part),))


def played(store: MediaStore) -> tuple[Trajectory, Request]:
    one = task(store)
    shown = ExecutionPicture(image=store.put_image(Image.new("RGB", (2, 2))), source="display")
    ran = Execution(status=Status.OK, stdout="red", pictures=(shown,))
    call = HostedCall(tool="code_execution", code="look()", at=2, execution=ran)
    model = Asked(Completion("Hm<answer>red</answer>", FinishReason.STOP, hosted=(call,)))
    found = asyncio.run(run_episode(Plan(one, load_dialect("hosted")), model, None, store))
    return found, model.requests[0]


def test_the_provider_is_asked_to_run_the_code_and_it_is_recorded(store: MediaStore) -> None:
    found, request = played(store)
    assert request.hosted
    assert request.stop == request.tools == ()
    system, user = request.messages
    assert "Python tool" in system.text
    assert user.text.startswith("image_0: ")
    assert (found.answer, found.stop) == ("red", StopReason.ANSWERED)
    [turn] = found.turns
    assert [call.code for call in turn.hosted] == ["look()"]
    assert found.provenance.state_policy == ""  # nothing of ours ran
    assert turn.executions == (turn.hosted[0].execution,)
    assert turn.hosted[0].execution.pictures[0].image in list(found.media())


def test_other_dialects_do_not_ask_for_it(store: MediaStore) -> None:
    model = Asked(Completion("<answer>red</answer>", FinishReason.STOP))
    plan = Plan(task(store), load_dialect("direct"))
    asyncio.run(run_episode(plan, model, None, store))
    assert not model.requests[0].hosted


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("I looked. <answer>red</answer>", "red"),
        ("<think><answer>no</answer></think><answer>red</answer>", "red"),
        ("It is red.", "It is red."),
    ],
)
def test_how_the_answer_is_read(text: str, answer: str) -> None:
    assert load_dialect("hosted").parse(text, FinishReason.STOP) == Answer(text=answer)


def test_videos_are_refused() -> None:
    clip = VideoPart(sha256="0" * 64, width=4, height=4, frames=3, fps=1.0, seconds=3.0)
    with pytest.raises(SettingsError, match="frames"):
        load_dialect("hosted").open(Task(id="t", question="?", media=(NamedMedia(name="c", part=clip),)))


def test_where_there_is_no_provider_it_is_refused(store: MediaStore, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="the environment has no provider"):
        LookAgainEnv([task(store)], "hosted", store)
    with pytest.raises(SettingsError, match="training has no provider"):
        load_recipe("pyvision-image", overrides=["dialect=hosted"])
    kept = KeptModel(ScriptedModel(["x"]), tmp_path / "kept")
    with pytest.raises(SettingsError, match="are not kept"):
        asyncio.run(kept.complete(Request((), hosted=True), store))


def test_there_is_nothing_to_train_on(store: MediaStore) -> None:
    found, _ = played(store)
    with pytest.raises(TrainingError, match="provider's own sandbox"):
        token_trajectory(found, None)  # type: ignore[arg-type]
    with pytest.raises(RecordError, match="provider's own sandbox"):
        flatten(found)


def test_readers_of_atif_see_the_calls(store: MediaStore) -> None:
    found, _ = played(store)
    document = write_document(found, {part.sha256: f"media/{part.sha256}.png" for part in found.media()})
    step = document["steps"][-1]
    [call] = step["tool_calls"]
    assert (call["function_name"], call["arguments"]) == ("code_execution", {"code": "look()", "language": "python"})
    [result] = step["observation"]["results"]
    assert result["source_call_id"] == call["tool_call_id"]
    assert [item["type"] for item in result["content"]] == ["text", "image"]
    assert step["message"] == "Hm<answer>red</answer>"
    assert "hosted" not in step["extra"][SPACE]
