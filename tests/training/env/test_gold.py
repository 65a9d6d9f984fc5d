"""The gold answer is nowhere before the end: not in what the agent sees, not in what its programs can reach."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.training.env.support import EVERY_DIALECT, EXAMPLES, result, tasks, tasks_for, tools_for

from saccade.dialects.registry import load_dialect
from saccade.media.store import MediaStore
from saccade.record.content import Action, Answer, Code, ToolCall
from saccade.record.task import EvidenceBox, Task
from saccade.record.trajectory import EpisodeLimits
from saccade.sandbox.scripted import ScriptedSandbox
from saccade.training.env import LookAgainEnv

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
