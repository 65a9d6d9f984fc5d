"""The environment itself: what reset and step give, how episodes end, what is refused."""

from __future__ import annotations

import gc
import json
import pickle
import time
from pathlib import Path
from typing import Any
from uuid import UUID

import gymnasium
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.tasks.sources.files import jsonl, picture
from tests.training.env.support import (
    ANSWER,
    CODE,
    EVERY_DIALECT,
    EXAMPLES,
    environment,
    result,
    tasks,
    tasks_for,
    tools_for,
    video_task,
)

from saccade.dialects.base import load_dialect
from saccade.episode.settings import SessionLimits
from saccade.errors import IsolationError, RegistryError, SandboxLostError, SettingsError
from saccade.media.decode import MediaSettings
from saccade.media.store import MediaStore
from saccade.record.content import Action, Answer, Code, ToolCall
from saccade.record.execution import Status
from saccade.record.task import EvidenceBox, Task
from saccade.record.trajectory import EpisodeLimits, Score, StopReason, Trajectory
from saccade.sandbox.base import MIB
from saccade.sandbox.result import RunResult
from saccade.sandbox.scripted import ScriptedSandbox
from saccade.training.env import ExactMatch, LookAgainEnv

SHOW = CODE.replace("print(1)", "show()")


@pytest.fixture
def store(tmp_path: Path) -> MediaStore:
    return MediaStore(tmp_path / "media")


def test_an_episode(store: MediaStore) -> None:
    with environment(store) as env:
        seen, info = env.reset(seed=0, options={"task": 1})
        assert seen in env.observation_space
        assert "Which colour?" in seen["text"]
        assert seen["text"].count("<image>") == len(seen["pictures"]) == 1
        assert seen["pictures"][0].shape == (40, 61, 3)
        assert tuple(seen["pictures"][0][0, 0]) == (1, 0, 0)
        assert (info["task"], info["turns"]) == ("task-1", 0)
        assert set(info) == {"task", "turns", "messages", "new_parts"}
        assert [part for _, part in info["new_parts"]] == [
            part for message in info["messages"] for part in message.parts
        ]

        seen, reward, terminated, truncated, info = env.step(SHOW + " and more")
        assert (reward, terminated, truncated) == (0.0, False, False)
        assert (info["turns"], info["action"], info["status"]) == (1, "code", Status.OK)
        assert [picture.shape for picture in seen["pictures"]] == [(6, 8, 3), (3, 3, 3)]
        assert "Which colour?" not in seen["text"]
        assert "show()" not in seen["text"]
        assert info["messages"][-2].text == SHOW
        assert info["new_parts"] == tuple((info["messages"][-1].role, part) for part in info["messages"][-1].parts)
        assert "trajectory" not in info

        seen, reward, terminated, truncated, info = env.step("Let me think.")
        assert (reward, terminated, info["action"], info["status"]) == (0.0, False, "parse_error", None)
        assert seen["text"]
        assert seen["pictures"] == ()

        seen, reward, terminated, truncated, info = env.step(ANSWER)
        assert (reward, terminated, truncated) == (1.0, True, False)
        assert seen == {"text": "", "pictures": ()}
        assert (info["action"], info["stop"], info["answer"]) == ("answer", StopReason.ANSWERED, "red")
        assert info["lost"] is False
        assert info["scores"] == {"correct": 1.0}
        trajectory = info["trajectory"]
        assert [turn.text for turn in trajectory.turns] == [SHOW, "Let me think.", ANSWER]
        assert [(score.name, score.value) for score in trajectory.scores] == [("correct", 1.0)]
        with pytest.raises(gymnasium.error.ResetNeeded):
            env.step(ANSWER)


def test_observations_and_actions_make_the_conversation(store: MediaStore) -> None:
    with environment(store, render_mode="ansi", limits=EpisodeLimits(turns=3)) as env:
        seen, _ = env.reset(seed=0)
        transcript = seen["text"]
        for text in (CODE, "Hm.", CODE):
            seen, *_ = env.step(text)
            transcript += f"\n\n[assistant]\n{text}" + f"\n\n{seen['text']}" * bool(seen["text"])
        assert env.render() == transcript
        assert "[user]\n" in transcript


def test_seeds_name_tasks(store: MediaStore) -> None:
    with environment(store) as env:
        first = [env.reset(seed=4)[1]["task"], *(env.reset()[1]["task"] for _ in range(9))]
        again = [env.reset(seed=4)[1]["task"], *(env.reset()[1]["task"] for _ in range(9))]
        assert first == again
        assert set(first) == {"task-0", "task-1", "task-2"}


def test_options_name_tasks(store: MediaStore) -> None:
    with environment(store) as env:
        assert env.reset(options={"task": "task-2"})[1]["task"] == "task-2"
        assert env.reset(options={})[1]["task"].startswith("task-")
        for wrong, message in (("task-9", "Did you mean 'task-"), (3, "there are 3"), (-1, "there are 3")):
            with pytest.raises(SettingsError, match=message):
                env.reset(options={"task": wrong})
        with pytest.raises(SettingsError, match="Did you mean 'task'"):
            env.reset(options={"tasks": 1})
        with pytest.raises(gymnasium.error.ResetNeeded):
            env.step(CODE)


def test_worlds_give_tasks(tmp_path: Path) -> None:
    env = LookAgainEnv("nested-squares", "codev", tmp_path, sandbox=ScriptedSandbox(result))
    seen, info = env.reset(seed=1)
    name = info["task"]
    assert name.startswith("nested-squares@1/train/")
    assert env.reset(seed=2)[1]["task"] != name
    assert np.array_equal(env.reset(options={"task": name})[0]["pictures"][0], seen["pictures"][0])
    for wrong in ("nested-squares@1/test/1", "nested-squares@1/train/x", "task-1"):
        with pytest.raises(SettingsError, match="those of this world"):
            env.reset(options={"task": wrong})
    env.close()
    with pytest.raises(SettingsError, match="nested-squares"):
        LookAgainEnv("nested-square")


@pytest.mark.parametrize(
    ("limits", "texts", "stop"),
    [
        ({"turns": 2}, [CODE, CODE], StopReason.TURN_LIMIT),
        ({"images": 2}, [SHOW], StopReason.IMAGE_LIMIT),
        ({"pixels": 250}, [SHOW], StopReason.PIXEL_LIMIT),
        ({"context_tokens": 5}, [CODE], StopReason.CONTEXT_LIMIT),
        ({"failed_calls": 0}, [CODE.replace("print(1)", "raise")], StopReason.FAILED_CALL_LIMIT),
        ({"wall_seconds": 0.0}, [CODE], StopReason.WALL_LIMIT),
    ],
)
def test_limits_truncate(store: MediaStore, limits: dict[str, Any], texts: list[str], stop: StopReason) -> None:
    with environment(store, "pyvision-rl-image", limits=EpisodeLimits(**limits)) as env:
        env.reset(seed=0, options={"task": 0})
        *_, (_, reward, terminated, truncated, info) = [env.step(text) for text in texts]
        assert info["stop"] is stop
        assert (reward, terminated, truncated) == (0.0, False, True)
        assert info["scores"] == {"correct": 0.0}
        assert info["turns"] == len(texts) - (stop is StopReason.WALL_LIMIT)


def test_no_action_terminates(store: MediaStore) -> None:
    with environment(store, "pyvision-rl-image:repo") as env:
        env.reset(seed=0)
        _, reward, terminated, truncated, info = env.step("Hm.")
        assert info["stop"] is StopReason.NO_ACTION
        assert (reward, terminated, truncated, info["action"]) == (0.0, True, False, "parse_error")


def test_typed_tools(store: MediaStore) -> None:
    with environment(store, "vista", tools=["crop"]) as env:
        assert "crop" in env.reset(seed=0)[0]["text"]
        call = '<think>Look.</think><tool_call>{"tool": "%s", "box": [0, 0, 8, 6]}</tool_call>'
        seen, _, _, _, info = env.step(call % "crop")
        assert (info["action"], info["status"]) == ("tool_call", Status.OK)
        assert [picture.shape for picture in seen["pictures"]] == [(6, 8, 3)]
        _, _, _, _, info = env.step(call % "rotate")
        assert (info["action"], info["status"]) == ("tool_call", Status.ERROR)
    with environment(store, "vista", tools=None, rubric=None) as env:
        assert env._tools is not None
        assert env._tools.resolve("rotate") == "rotate"
    with environment(store, "deepeyes") as env:
        env.reset(seed=0)
        zoom = {"name": "image_zoom_in_tool", "arguments": {"bbox_2d": [0, 0, 40, 40]}}
        seen, _, _, _, info = env.step(f"<think>Look.</think><tool_call>{json.dumps(zoom)}</tool_call>")
        assert info["status"] is Status.OK
        assert len(seen["pictures"]) == 1


def test_the_agents_time_counts(store: MediaStore) -> None:
    with environment(store, limits=EpisodeLimits(wall_seconds=0.3)) as env:
        env.reset(seed=0)
        assert not env.step(CODE)[3]
        time.sleep(0.3)
        _, _, _, truncated, info = env.step(ANSWER)
        assert truncated
        assert info["stop"] is StopReason.WALL_LIMIT
        assert info["answer"] is None
        assert info["action"] is None
        assert len(info["trajectory"].turns) == info["turns"] == 1


class Lost(ScriptedSandbox):
    error: Exception = SandboxLostError("gone")

    async def open(self, *args: Any, **more: Any) -> Any:
        raise self.error


def never(trajectory: Trajectory) -> tuple[Score, ...]:
    raise AssertionError("an outage was scored")


@pytest.mark.parametrize("sandbox", [Lost(result), ScriptedSandbox(lambda code: RunResult(Status.LOST))])
def test_an_outage_is_truncated_and_unscored(store: MediaStore, sandbox: ScriptedSandbox) -> None:
    with environment(store, sandbox=sandbox, rubric=never) as env:
        env.reset(seed=0)
        _, reward, terminated, truncated, info = env.step(CODE)
        assert (reward, terminated, truncated, info["lost"]) == (0.0, False, True, True)
        assert (info["scores"], info["status"], info["stop"]) == ({}, Status.LOST, StopReason.SANDBOX_LOST)
        env.reset()


def test_what_fails_always_raises(store: MediaStore) -> None:
    class Unsafe(Lost):
        error = IsolationError("no namespaces")

    with environment(store, sandbox=Unsafe(result)) as env:
        env.reset(seed=0)
        with pytest.raises(IsolationError):
            env.step(CODE)
        with pytest.raises(gymnasium.error.ResetNeeded):
            env.step(CODE)
        env.reset()


def test_rubrics(store: MediaStore) -> None:
    def rubric(trajectory: Trajectory) -> tuple[Score, ...]:
        return (
            *ExactMatch(weight=0.5)(trajectory),
            Score(name="turns", value=float(len(trajectory.turns)), weight=0.1),
        )

    with environment(store, rubric=rubric) as env:
        env.reset(seed=0)
        env.step(CODE)
        _, reward, _, _, info = env.step(ANSWER)
        assert reward == pytest.approx(0.7)
        assert info["scores"] == {"correct": 1.0, "turns": 2.0}


def test_without_gold_there_is_no_score(store: MediaStore) -> None:
    bare = [task.model_copy(update={"answer": None}) for task in tasks(store)]
    env = LookAgainEnv(bare, store=store, sandbox=lambda: ScriptedSandbox(result))
    env.reset(seed=0)
    _, reward, _, _, info = env.step(ANSWER)
    assert (reward, info["scores"]) == (0.0, {"correct": None})
    env.close()


@pytest.mark.parametrize(
    ("dialect", "says"), [("pyvision", "1 of 4 tasks holds a video .task-v."), ("pyvision-rl-video", "3 of 4 tasks")]
)
def test_tasks_that_the_dialect_cannot_show_are_refused_at_once(store: MediaStore, dialect: str, says: str) -> None:
    mixed = [*tasks(store), video_task(store).model_copy(update={"id": "task-v"})]
    with pytest.raises(SettingsError, match=says):
        LookAgainEnv(mixed, dialect, store)
    with pytest.raises(SettingsError, match="is for videos"):
        LookAgainEnv("visual-search", "pyvision-rl-video")


def test_what_is_refused(store: MediaStore) -> None:
    listed = tasks(store)
    for wrong, message in (
        ({"tasks": []}, "empty"),
        ({"tasks": [listed[0], listed[0]]}, "share an id"),
        ({"render_mode": "human"}, "render mode"),
        ({"tools": ["crop"]}, "no typed tools"),
    ):
        with pytest.raises(SettingsError, match=message):
            LookAgainEnv(**{"tasks": listed, "store": store} | wrong)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="max_turns"):
        LookAgainEnv(listed, store=store, max_turns=3)  # type: ignore[call-arg]
    with pytest.raises(RegistryError, match="Did you mean 'pyvision'"):
        LookAgainEnv(listed, "pyvison", store)
    with environment(store) as env:
        with pytest.raises(gymnasium.error.ResetNeeded):
            env.step(CODE)
        env.reset()
        with pytest.raises(gymnasium.error.InvalidAction, match="bytes"):
            env.step(b"x")  # type: ignore[arg-type]
        assert env.render() is None


def test_closing_is_idempotent_and_ends_the_session(store: MediaStore) -> None:
    sandbox = ScriptedSandbox(result)
    with environment(store, sandbox=sandbox) as env:
        env.reset(seed=0)
        env.step(CODE)
        assert sandbox.live == 1
        env.reset()
        assert sandbox.live == 0
        env.step(CODE)
        env.close()
        assert sandbox.live == 0
        env.close()
        with pytest.raises(gymnasium.error.ClosedEnvironmentError):
            env.reset()
        with pytest.raises(gymnasium.error.ResetNeeded):
            env.step(CODE)


def test_a_dropped_environment_closes_its_sandbox_and_deletes_its_store() -> None:
    class Counting(ScriptedSandbox):
        closed = 0

        async def close(self) -> None:
            Counting.closed += 1

    env = LookAgainEnv("nested-squares", sandbox=Counting(result))
    env.reset(seed=0)
    env.step(CODE)
    folder = env._stage.store.root
    assert folder.is_dir()
    del env
    gc.collect()
    assert Counting.closed == 1
    assert not folder.exists()


def test_any_sources_give_tasks_and_weights_say_how_often(tmp_path: Path) -> None:
    picture(tmp_path / "photos" / "a.png")
    rows = [{"image": "a.png", "question": f"{number}?", "answer": "x"} for number in range(3)]
    jsonl(tmp_path / "photos" / "questions.jsonl", rows)
    named = [f"{tmp_path}/photos=0.9", "nested-squares=0.1"]
    env = LookAgainEnv(named, "codev", tmp_path / "store", sandbox=ScriptedSandbox(result))
    drawn = [env.reset(seed=seed)[1]["task"].partition("/")[0] for seed in range(40)]
    assert 28 < drawn.count("photos") < 40
    assert env.reset(options={"task": "photos/questions-1"})[1]["task"] == "photos/questions-1"
    with pytest.raises(SettingsError, match="Did you mean 'photos/questions-1'"):
        env.reset(options={"task": "photos/question-1"})
    env.close()
    with pytest.raises(SettingsError, match="stand in one list"):
        LookAgainEnv([*named, Task(id="a", question="?")], "codev")  # type: ignore[list-item]


def test_prompts_tools_and_limits_are_those_of_the_options(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("System prompt:\nMine. {tools}\nUser prompt:\n{query}")
    limits = SessionLimits(wall_seconds=77.0, memory_bytes=900 * MIB)
    env = LookAgainEnv(
        "maze",
        "vista",
        prompt_file=tmp_path / "mine.txt",
        tools=("crop",),
        tool_list="schema",
        session=limits,
        media=MediaSettings(shown_pixels=5_000),
    )
    try:
        observation, _ = env.reset(seed=0)
        (shown,) = observation["pictures"]
        assert shown.shape[0] * shown.shape[1] <= 5_000
        assert "is shown scaled down to" in observation["text"]
        assert "Mine. - crop: Cut a box" in observation["text"]
        assert '"additionalProperties"' in observation["text"]
        assert (env.dialect.sandbox.wall_seconds, env.dialect.sandbox.memory_bytes) == (77.0, 900 * MIB)
    finally:
        env.close()


def test_tools_that_a_prompt_does_not_list_are_refused(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("No list here.")
    with pytest.raises(SettingsError, match=r"has no \{tools\}"):
        LookAgainEnv("maze", "vista", prompt_file=tmp_path / "mine.txt", tools=("crop",))


HOSTILE: tuple[Action, ...] = (
    Code(code="print(globals())"),
    Code(code="show(); print(task.answer)"),
    Code(code="raise RuntimeError(globals())"),
    ToolCall(name="crop", arguments={"image": "answer"}),
    ToolCall(name="no_such_tool", arguments={"gold": "?"}),
)

RAW = st.sampled_from(
    ["", "What is the answer?", "<code>", "<answer></answer>", "{{task.answer}}", "%(answer)s", "{answer}"]
)


def secret_tasks(dialect: str, store: MediaStore, secret: str) -> list[Task]:
    """Tasks with the secret wherever a task may hold one."""
    found = tasks_for(dialect, store, answer=secret)
    return [
        task.model_copy(
            update={
                "program": f"print({secret!r})",
                "tags": (secret,),
                "evidence": ()
                if "video" in dialect
                else (EvidenceBox(image="photo", xyxy=(0, 0, 5, 5), label=secret),),
            }
        )
        for task in found
    ]


def all_shown(*things: Any) -> bytes:
    return pickle.dumps(things) + repr(things).encode("utf-8", "replace")


@pytest.fixture(scope="module")
def media(tmp_path_factory: pytest.TempPathFactory) -> MediaStore:
    return MediaStore(tmp_path_factory.mktemp("media"))


@pytest.mark.parametrize("dialect", EVERY_DIALECT)
@settings(max_examples=EXAMPLES, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(token=st.uuids(), script=st.lists(st.sampled_from(HOSTILE) | RAW, max_size=4))
@pytest.mark.few(3)
def test_gold_shows_at_the_end_alone(media: MediaStore, dialect: str, token: UUID, script: list[Action | str]) -> None:
    secret, box, ready = token.hex, ScriptedSandbox(result, keep=True), load_dialect(dialect)
    env = LookAgainEnv(
        secret_tasks(dialect, media, secret),
        dialect,
        media,
        sandbox=box,
        limits=EpisodeLimits(turns=6),
        tools=tools_for(dialect),
        render_mode="ansi",
    )
    try:
        seen, info = env.reset()
        ended = False
        for said in (*script, Answer(text="another")):
            assert secret.encode() not in all_shown(seen, info, env.render(), env.action_space, repr(env))
            if ended:
                return
            text = said if isinstance(said, str) else said_in(ready, said)
            seen, reward, terminated, truncated, info = env.step(text)
            if terminated or truncated:
                assert secret.encode() in all_shown(info["trajectory"])
                assert secret.encode() not in all_shown(seen, env.render())
                assert reward == 0.0
                break
        handed_over = [(session.bindings, session.files, session.options) for session in box.opened]
        assert secret not in repr((handed_over, box.runs))
    finally:
        env.close()


def said_in(dialect: Any, action: Action) -> str:
    try:
        return str(dialect.write(action))
    except ValueError:
        return "nothing of the sort"


SEARCH = """
import gc, os, sys
found = [repr(globals()), repr(os.environ), repr(sys.argv)]
for thing in gc.get_objects():
    if isinstance(thing, (dict, list, tuple)) and len(thing) < 50:
        found += [text for text in (thing.values() if isinstance(thing, dict) else thing) if isinstance(text, str)]
for folder, _, names in os.walk("."):
    for name in names:
        with open(os.path.join(folder, name), "rb") as file:
            found.append(file.read().decode("latin-1"))
needle = "".join(reversed("1174-terc3s"))
print("found:", [word for word in ("image_clue_0", needle) if any(word in text for text in found)])
del needle
print(globals())
"""


def test_a_real_program_finds_nothing(tmp_path: Path) -> None:
    store = MediaStore(tmp_path)
    env = LookAgainEnv(tasks(store, answer="s3cret-4711"), "pyvision", store)
    try:
        env.reset(seed=0)
        seen, _, _, _, info = env.step(f"<code>\n```python\n{SEARCH}\n```\n</code>")
        assert info["status"] == "ok"
        assert "found: ['image_clue_0']" in seen["text"]
        assert b"s3cret" not in all_shown(seen)
    finally:
        env.close()
