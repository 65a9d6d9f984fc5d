"""lmms-eval's own model class for OpenAI's protocol, unchanged, asks a server of agents."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image
from tests.plugins.serve.agents import serving, two_turns

from saccade.models.scripted import ScriptedModel

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.skipif(sys.platform != "linux", reason="the local sandbox is for Linux"),
    pytest.mark.timeout(900),
]
REQUIREMENTS = Path(__file__).parents[3] / "requirements" / "evaluators.txt"
ASKING = """
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


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("evaluators")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(folder)]
    done = subprocess.run([*command, "--requirement", str(REQUIREMENTS)], capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"lmms-eval cannot be installed here: {done.stderr[-300:]}")
    return folder


async def test_every_question_is_answered(packages: Path, tmp_path: Path) -> None:
    Image.new("RGB", (64, 48), "blue").save(tmp_path / "blue.png")
    async with serving({"agent": ScriptedModel(two_turns, name="agent")}, token=None) as url:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", ASKING, url, str(tmp_path / "blue.png")),
            env={**os.environ, "PYTHONPATH": str(packages), "HF_HUB_OFFLINE": "1", "HOME": str(tmp_path)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        out, errors = await process.communicate()
    assert process.returncode == 0, errors.decode()
    assert "ANSWERS blue blue blue" in out.decode()
