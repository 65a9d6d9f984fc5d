"""One conformance test of the loop: every face gives the trajectory that the async driver gives for the same model.

A face is a function of a `Scene` and a line in `FACES`. What it gives is compared with the async driver's trajectory of
the same task, times apart: prompt, texts, actions, executions, observations, end, and where it came from.
"""

from __future__ import annotations

import asyncio
import base64
import json
import sys
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import chain, repeat
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("openai")
pytest.importorskip("gymnasium")
from tests.plugins.serve.agents import asking, client, serving
from tests.training.env.support import result
from tests.training.env.test_same_trajectory import PROGRAMS, by_env, replies, timeless, written

from saccade.cli.main import main
from saccade.dialects.base import Dialect, load_dialect
from saccade.episode.drive import run_episode
from saccade.episode.flow import Plan, limits_with
from saccade.media.store import MediaStore
from saccade.record.codec import read_lines
from saccade.record.content import Answer, Code
from saccade.record.task import NamedMedia, Task
from saccade.record.trajectory import EpisodeLimits, Trajectory
from saccade.sandbox.local import LocalSandbox
from saccade.sandbox.scripted import ScriptedSandbox
from saccade.training.env import LookAgainEnv
from saccade.training.env.look_again import MODEL

WALL_SECONDS = 300.0
URL: str = asking()[0]["content"][0]["image_url"]["url"]


@dataclass(frozen=True)
class Scene:
    """A question with one picture, and what a model says to it."""

    name: str
    """Of the dialect."""
    real: bool
    """Whether code runs in the local sandbox, or a function stands for one."""
    folder: Path

    @property
    def dialect(self) -> Dialect:
        return load_dialect(self.name)

    @property
    def store(self) -> MediaStore:
        return MediaStore(self.folder / "media")

    @property
    def picture(self) -> bytes:
        return base64.b64decode(URL.partition(",")[2])

    @property
    def task(self) -> Task:
        part = self.store.put_bytes(self.picture)
        return Task(id="t", question="Which?", media=(NamedMedia(name="photo", part=part),))

    @property
    def limits(self) -> EpisodeLimits:
        return limits_with(self.dialect.limits, wall_seconds=WALL_SECONDS)

    @property
    def texts(self) -> list[str]:
        """What the model writes; the last of them as often as it is asked."""
        said = [written(self.dialect, Code(code=code)) for code in PROGRAMS]
        return [*said, written(self.dialect, Answer(text="red"))]

    def model(self) -> Any:
        *texts, last = self.texts
        return replies(texts, last)

    def box(self) -> Any:
        return LocalSandbox(limits=self.dialect.sandbox) if self.real else ScriptedSandbox(result)


async def by_driver(scene: Scene, task: Task | None = None) -> Trajectory:
    plan = Plan(task or scene.task, scene.dialect, given_limits=scene.limits)
    async with scene.box() as lent:
        return await run_episode(plan, scene.model(), lent, scene.store)


async def by_environment(scene: Scene) -> Trajectory:
    env = LookAgainEnv([scene.task], scene.name, scene.store, sandbox=scene.box, limits=scene.limits)
    try:
        return await asyncio.to_thread(by_env, env, scene.model())
    finally:
        env.close()


def by_server(*, stream: bool) -> Callable[[Scene], Coroutine[Any, Any, Trajectory]]:
    async def face(scene: Scene) -> Trajectory:
        base = {"dialect": scene.name}
        async with scene.box() as lent:
            models = {MODEL: scene.model()}
            async with serving(models, sandbox=lent, base=base, request_seconds=WALL_SECONDS) as address:
                own = await _asked(address, stream=stream)
        for picture in own["media"].values():
            scene.store.put_blob(base64.b64decode(picture.partition(",")[2]))
        return Trajectory.model_validate(own["trajectory"])

    return face


async def _asked(address: str, *, stream: bool) -> dict[str, Any]:
    """The field `saccade` of the answer."""
    body: dict[str, Any] = {"saccade": {"trajectory": True, "media": True}}
    async with client(address) as asked:
        ask = asked.chat.completions.create
        if stream:
            events = await ask(model=MODEL, messages=asking("Which?", URL), stream=True, extra_body=body)
            return [chunk.saccade async for chunk in events if hasattr(chunk, "saccade")][-1]  # type: ignore[no-any-return]
        answer = await ask(model=MODEL, messages=asking("Which?", URL), extra_body=body)
        return answer.saccade  # type: ignore[attr-defined,no-any-return]


def by_ask(scene: Scene) -> Trajectory:
    """`saccade ask`: its model is a file, and its record also holds the settings of the command."""
    (scene.folder / "photo.png").write_bytes(scene.picture)
    (scene.folder / "script.json").write_text(json.dumps(scene.texts), encoding="utf-8")
    command = [str(scene.folder / "photo.png"), "Which?", "--model", f"scripted:{scene.folder / 'script.json'}"]
    command += ["--dialect", scene.name, "--out", str(scene.folder / "run"), "--json"]
    command += ["--set", f"limits.wall_seconds={WALL_SECONDS:g}"]
    assert main(["ask", *command]) == 0
    [found] = read_lines(scene.folder / "run" / "trajectories.jsonl", Trajectory)
    kept = MediaStore(scene.folder / "run" / "media")
    for part in found.media():
        scene.store.put_blob(kept.get_bytes(part.sha256))
    named = {"settings": "", "model": MODEL, "model_revision": MODEL}
    return found.model_copy(update={"provenance": found.provenance.model_copy(update=named)})


async def by_openenv(scene: Scene) -> Trajectory:
    """`saccade openenv` and its client, which sends what the model says."""
    return await asyncio.to_thread(_played_over_openenv, scene)


def _played_over_openenv(scene: Scene) -> Trajectory:
    from tests.plugins.integrations.openenv.support import served

    from saccade.plugins.integrations.openenv.client import SaccadeClient, turn

    (scene.folder / "photo.png").write_bytes(scene.picture)
    row = {"id": "t", "question": "Which?", "image": "photo.png", "answer": "red"}
    (scene.folder / "tasks.jsonl").write_text(json.dumps(row), encoding="utf-8")
    options = [f"limits.wall_seconds={WALL_SECONDS:g}", "send_trajectory=true"]
    command = ["--tasks", str(scene.folder / "tasks.jsonl"), "--dialect", scene.name]
    *texts, last = scene.texts
    said = chain(texts, repeat(last))
    with served(*command, *(word for option in options for word in ("--set", option))) as url:
        with SaccadeClient(base_url=url).sync() as session:
            seen = [session.reset(seed=0).observation]
            while not seen[-1].done:
                seen.append(session.step(turn(next(said))).observation)
    for picture in (picture for observation in seen for picture in observation.pictures):
        scene.store.put_blob(base64.b64decode(picture.data))
    return Trajectory.model_validate(seen[-1].trajectory)


FACES: dict[str, Callable[[Scene], Trajectory | Coroutine[Any, Any, Trajectory]]] = {
    "the environment": by_environment,
    "saccade serve": by_server(stream=False),
    "saccade serve, as a stream": by_server(stream=True),
    "saccade ask": by_ask,
    "OpenEnv": by_openenv,
}
ONLY_REAL = ("saccade ask", "OpenEnv")
"""Faces that cannot be given a function as their sandbox."""
APART = {
    "OpenEnv": (
        pytest.mark.faces,
        pytest.mark.skipif(find_spec("openenv") is None, reason="`make test-faces` installs OpenEnv"),
        # The event loop of its client is closed by the garbage collector, with its sockets.
        pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
    )
}
"""Faces whose library is in an environment of its own, where `make test-faces` runs all lines of this test."""


def cases() -> Iterator[Any]:
    """Each dialect with a scripted sandbox and a real one, through each face that can be given it."""
    for real, dialect, slow in (
        (False, "pyvision", False),
        (False, "codedance:repo", False),
        (True, "pyvision", False),
        (True, "codedance:repo", True),
    ):
        for face in FACES:
            if real or face not in ONLY_REAL:
                marks = (*APART.get(face, ()), *((pytest.mark.slow,) if slow else ()))
                yield pytest.param(dialect, real, face, marks=marks)


@pytest.mark.parametrize(("dialect", "real", "face"), list(cases()))
def test_every_face_gives_the_drivers_trajectory(dialect: str, real: bool, face: str, tmp_path: Path) -> None:
    if real and sys.platform != "linux":
        pytest.skip("the local sandbox is for Linux")
    scene = Scene(dialect, real, tmp_path)
    played = FACES[face](scene)
    found = played if isinstance(played, Trajectory) else asyncio.run(played)
    expected = asyncio.run(by_driver(scene, found.task))
    assert timeless(found) == timeless(expected)
    assert found.answer == "red"
    assert len(found.turns) == len(PROGRAMS) + 1
