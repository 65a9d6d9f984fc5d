"""The own model classes of VLMEvalKit and lmms-eval for OpenAI's protocol, unchanged, ask a server of agents.

ModelScope publishes VLMEvalKit on PyPI as `ms-vlmeval`, which is what is installed here. `VLMEVALKIT=FOLDER` names a
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
VLMEVALKIT = """
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
LMMS_EVAL = """
import sys
from lmms_eval.api.instance import Instance
from lmms_eval.models.chat.openai import OpenAICompatible
from PIL import Image

model = OpenAICompatible(model_version="agent", base_url=sys.argv[1], api_key="none", num_concurrent=2, max_retries=1)
picture = Image.open(sys.argv[2])
content = [{"type": "image", "url": picture}, {"type": "text", "text": "Which colour?"}]
model.task_dict = {"colours": {"test": [0, 1, 2]}}
asked = [
    Instance(
        request_type="generate_until",
        arguments=("", lambda _: [{"role": "user", "content": content}], {"max_new_tokens": 64}, n, "colours", "test"),
        idx=0,
        metadata={"task": "colours", "doc_id": n, "repeats": 1},
    )
    for n in range(3)
]
print("ANSWERS", *(answer.text for answer in model.generate_until(asked)))
"""


def installed(folder: Path, requirements: str) -> str:
    """The folder, into which these packages are installed; skips the test where they cannot be."""
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(folder)]
    done = subprocess.run(
        [*command, "--requirement", str(ROOT / "requirements" / requirements)], capture_output=True, text=True
    )
    if done.returncode:
        pytest.skip(f"{requirements} cannot be installed here: {done.stderr[-300:]}")
    return str(folder)


async def asked(program: str, tmp_path: Path, packages: str, url: str, *more: str) -> str:
    """What the program prints that asks the server about a blue picture."""
    Image.new("RGB", (64, 48), "blue").save(tmp_path / "blue.png")
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", program, url, str(tmp_path / "blue.png"), *more),
        env={**os.environ, "PYTHONPATH": packages, "HF_HUB_OFFLINE": "1", "HOME": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    out = (await process.communicate())[0].decode()
    assert process.returncode == 0, out
    return out


async def test_classes_of_vlmevalkit_get_answers_and_tell_errors(tmp_path: Path) -> None:
    checkout = os.environ.get("VLMEVALKIT")
    found = [
        *([checkout] if checkout else []),
        installed(tmp_path / "kit", "vlmevalkit.txt"),
        str(ROOT / "tools/engines"),
    ]
    async with serving({name: ScriptedModel(two_turns, name=name) for name in ("agent", "gemini-agent")}) as url:
        out = await asked(VLMEVALKIT, tmp_path, os.pathsep.join(found), url, TOKEN)
    answers = [line for line in out.splitlines() if line.startswith("ANSWER ")]
    assert len(answers) >= 3, out
    assert all(line.split()[-1] == "blue" for line in answers), out
    assert "is not served here. There are: agent, gemini-agent." in out
    failed = [line for line in out.splitlines() if line.startswith(("UNKNOWN ", "DENIED "))]
    assert [line.split(" ", 1)[1].strip(". ") for line in failed] == ["Failed to obtain answer via API"] * 2, out


async def test_every_question_of_lmms_eval_is_answered(tmp_path: Path) -> None:
    packages = installed(tmp_path / "packages", "evaluators.txt")
    async with serving({"agent": ScriptedModel(two_turns, name="agent")}, token=None) as url:
        assert "ANSWERS blue blue blue" in await asked(LMMS_EVAL, tmp_path, packages, url)
