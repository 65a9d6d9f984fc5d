"""VLMEvalKit's own model classes for OpenAI's protocol, unchanged, ask a server of agents.

ModelScope publishes the kit on PyPI as `ms-vlmeval`, which is what is installed here. `VLMEVALKIT=FOLDER` names a
checkout of the kit itself, which then is asked instead; it needs `rouge-score` and `absl-py` beside these packages.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image
from tests.plugins.serve.agents import TOKEN, serving, two_turns

from saccade.models.scripted import ScriptedModel

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.skipif(sys.platform != "linux", reason="the local sandbox is for Linux"),
    pytest.mark.timeout(1800),
]
ROOT = Path(__file__).parents[3]
ASKING = """
import inspect
import sys

import torchvision_schemas
from vlmeval.api.gpt import GPT4V, OpenAIWrapper

address, picture, key = sys.argv[1:]
given = {"api_base": address + "/chat/completions", "key": key, "timeout": 600, "retry": 1}
ways = [{}, {"stream": True}] if "stream" in inspect.signature(OpenAIWrapper).parameters else [{}]


def ask(kind, name, **more):
    question = [{"type": "image", "value": picture}, {"type": "text", "value": "Which colour?"}]
    return kind(name, **{**given, **more}).generate(question)


for kind in (OpenAIWrapper, GPT4V):
    for way in ways:
        print("ANSWER", kind.__name__, ask(kind, "agent", **way))
print("ANSWER gemini", ask(OpenAIWrapper, "gemini-agent"))  # for which it also sends reasoning_effort
print("UNKNOWN", ask(OpenAIWrapper, "nobody", verbose=True))
print("DENIED", ask(OpenAIWrapper, "agent", key="wrong"))
"""


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Where the kit and what it imports are found."""
    folder = tmp_path_factory.mktemp("vlmevalkit")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(folder)]
    done = subprocess.run(
        [*command, "--requirement", str(ROOT / "requirements" / "vlmevalkit.txt")], capture_output=True, text=True
    )
    if done.returncode:
        pytest.skip(f"VLMEvalKit cannot be installed here: {done.stderr[-300:]}")
    checkout = os.environ.get("VLMEVALKIT")
    return os.pathsep.join([*([checkout] if checkout else []), str(folder), str(ROOT / "tools" / "engines")])


async def test_its_classes_get_answers_and_tell_errors(packages: str, tmp_path: Path) -> None:
    Image.new("RGB", (64, 48), "blue").save(tmp_path / "blue.png")
    names = ("agent", "gemini-agent")
    async with serving({name: ScriptedModel(two_turns, name=name) for name in names}) as url:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", ASKING, url, str(tmp_path / "blue.png"), TOKEN),
            env={**os.environ, "PYTHONPATH": packages, "HF_HUB_OFFLINE": "1", "HOME": str(tmp_path)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        out = (await process.communicate())[0].decode()
    assert process.returncode == 0, out
    answers = [line for line in out.splitlines() if line.startswith("ANSWER ")]
    assert len(answers) >= 3, out
    assert all(line.split()[-1] == "blue" for line in answers), out
    assert "is not served here. There are: agent, gemini-agent." in out
    failed = [line for line in out.splitlines() if line.startswith(("UNKNOWN ", "DENIED "))]
    assert [line.split(" ", 1)[1].strip(". ") for line in failed] == ["Failed to obtain answer via API"] * 2, out
