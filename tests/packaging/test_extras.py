"""Each extra alone, with the newest of what it asks for: the part that it is for works."""

from __future__ import annotations

import json
import re
import sys
import tomllib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from PIL import Image
from tests.models.wire_server import chat, messages, running
from tests.packaging.environments import PYTHONS, ROOT, Built, Environment, install, pythons

from saccade.dialects.base import load_dialect
from saccade.record.content import Answer, Code

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the local sandbox needs Linux")


def models(made: Environment) -> None:
    Image.new("RGB", (64, 48), "red").save(made.folder / "photo.png")
    for model, behaviour in (("vllm:m@{}/v1", chat("EXIT")), ("anthropic:m@{}", messages(text="EXIT"))):
        with running() as server:
            server.will(behaviour)
            named = model.format(server.url)
            command = ("saccade", "ask", "photo.png", "What is it?", "--model", named, "--dialect", "direct", "--json")
            assert json.loads(made.run(*command, ANTHROPIC_API_KEY="k"))["answer"] == "EXIT"
            assert server.bodies


def env(made: Environment) -> None:
    document = (ROOT / "docs" / "env.md").read_text(encoding="utf-8")
    made.run("python", "-c", document.partition("```python runnable slow\n")[2].partition("```")[0])


def otel(made: Environment) -> None:
    Image.new("RGB", (64, 48), "red").save(made.folder / "photo.png")
    (made.folder / "script.json").write_text('["<answer>red</answer>"]', encoding="utf-8")
    asked = ("photo.png", "Which colour?", "--model", "scripted:script.json", "--dialect", "direct")
    made.run("saccade", "ask", *asked, "--out", "run")
    assert made.run("saccade", "export", "run", "--to", "otel").startswith("2 spans")


def data(made: Environment) -> None:
    made.run(
        "saccade", "eval", "touching-circles", "--n", "2", "--model", "solver", "--dialect", "direct", "--out", "r"
    )
    for suffix in ("parquet", "xlsx"):
        made.run("saccade", "export", "r", "--out", f"table.{suffix}")
        assert (made.folder / f"table.{suffix}").stat().st_size > 500
    made.run("saccade", "convert", "r", "--out", "documents", "--from", "saccade", "--to", "atif")
    assert len(list((made.folder / "documents").glob("*.json"))) == 2
    code = "import pyarrow.parquet as p; print(p.read_table('table.parquet').num_rows)"
    assert made.run("python", "-c", code).strip() == "2"


def video(made: Environment) -> None:
    code = """
import cv2, numpy as np
out = cv2.VideoWriter("clip.mp4", cv2.VideoWriter_fourcc(*"mp4v"), 8, (64, 48))
for number in range(12):
    out.write(np.full((48, 64, 3), number * 20, np.uint8))
out.release()
"""
    made.run("python", "-c", code)
    dialect = load_dialect("pyvision-rl-video")
    look = Code(
        code="print(len(video_clue_0))\nfrom PIL import Image\nImage.fromarray(video_clue_0[3].asnumpy()).show()"
    )
    turns = [dialect.write(look, "I look."), dialect.write(Answer(text="12"), "I see.")]
    (made.folder / "turns.json").write_text(json.dumps(turns))
    options = ("--model", "scripted:turns.json", "--dialect", "pyvision-rl-video", "--out", "run", "--json")
    made.run("saccade", "ask", "clip.mp4", "How many frames?", *options)
    (line,) = (made.folder / "run" / "trajectories.jsonl").read_text().splitlines()
    done = json.loads(line)["turns"][0]["execution"]
    assert (done["status"], done["stdout"], len(done["pictures"])) == ("ok", "12\n", 1), done


def heic(made: Environment) -> None:
    written = "import pillow_heif; pillow_heif.register_heif_opener(); Image.new('RGB', (64, 48), 'red').save('a.heic')"
    made.run("python", "-c", f"from PIL import Image; {written}")
    asked_about(made, "a.heic")


def pdf(made: Environment) -> None:
    Image.new("RGB", (64, 48), "red").save(made.folder / "a.pdf")
    asked_about(made, "a.pdf")


def asked_about(made: Environment, name: str) -> None:
    (made.folder / "script.json").write_text('["<answer>red</answer>"]', encoding="utf-8")
    asked = (name, "Which colour?", "--model", "scripted:script.json", "--dialect", "direct", "--json")
    assert json.loads(made.run("saccade", "ask", *asked))["answer"] == "red"


def ocr(made: Environment) -> None:
    code = """
from PIL import Image, ImageDraw, ImageFont
from saccade.tools.context import ToolContext
from saccade.plugins.vista.ocr import Ocr
image = Image.new("RGB", (500, 160), "white")
ImageDraw.Draw(image).text((40, 40), "HELLO 42", fill="black", font=ImageFont.load_default(44))
print(Ocr().call({}, ToolContext({"page": image})).value["text"])
"""
    assert made.run("python", "-c", code).strip() == "HELLO 42"


def math(made: Environment) -> None:
    code = """
from saccade.grading.registry import load_grader
from saccade.record.task import Task
task = Task(id="t", question="?", answer="\\\\frac{1}{2}")
print(load_grader("math").grade("$0.5$", task).correct, load_grader("math").grade("$0.4$", task).correct)
"""
    assert made.run("python", "-c", code).strip() == "1.0 0.0"


def serve(made: Environment) -> None:
    code = """
import asyncio, re, subprocess, sys
from saccade import RemoteSandbox
command = ["saccade", "sandbox", "serve", "--port", "0", "--no-token"]
server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
try:
    url = re.search(r"http://\\S+", server.stdout.readline())[0]
    async def main():
        async with RemoteSandbox(url) as box:
            session = await box.open({"numbers": [3, 1, 2]})
            print((await session.run("sorted(numbers)")).value)
    asyncio.run(main())
finally:
    server.terminate()
    server.wait()
"""
    path = f"{made.bin}:/usr/bin:/bin"
    assert made.run("python", "-c", code, PATH=path).splitlines()[-1] == "[1, 2, 3]"


def local(made: Environment) -> None:
    assert "saccade-tiny on tasks" in made.run("saccade", "demo", COLUMNS="200")


def train(made: Environment) -> None:
    made.run("saccade", "synth", "touching-circles", "--dialect", "pyvision", "--n", "4", "--out", "expert")
    code = "from saccade.plugins.worlds.random_checkpoint import save_tiny; save_tiny('CHECKPOINT', 'qwen2_5_vl')"
    made.run("python", "-c", code)
    files = ("--data", "expert", "--model", "CHECKPOINT", "--out", "sft")
    assert "step 1/1" in made.run("saccade", "sft", "plain", *files, "--set", "steps=1", OMP_NUM_THREADS="1")
    assert (made.folder / "sft" / "model" / "config.json").is_file()


def mcp(made: Environment) -> None:
    code = """
import asyncio
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
async def main():
    async with stdio_client(StdioServerParameters(command="saccade", args=["mcp"])) as (read, write):
        async with ClientSession(read, write) as session:
            await session.initialize()
            print(*sorted(tool.name for tool in (await session.list_tools()).tools))
asyncio.run(main())
"""
    assert "crop" in made.run("python", "-c", code, PATH=f"{made.bin}:/usr/bin:/bin").split()


def sandbox(made: Environment) -> None:
    code = """
from saccade import LocalSandbox, SyncSandbox
program = "import scipy, skimage, sklearn, pandas, shapely; (scipy.__name__, shapely.Point(1, 2).x)"
with SyncSandbox(LocalSandbox()) as box, box.open({}) as session:
    print(session.run(program).value)
"""
    assert made.run("python", "-c", code).strip() == "('scipy', 1.0)"


LIGHT: tuple[Callable[[Environment], None], ...] = (
    models, env, data, video, heic, pdf, ocr, math, serve, otel, mcp, sandbox,
)  # fmt: skip
ENTRIES = {
    "serve": (
        "saccade.plugins.serve.agent_app",
        "saccade.plugins.serve.sandbox_app",
        "saccade.tools.serving",
        "saccade.training.sft.review_server",
    ),
    "mcp": ("saccade.plugins.serve.mcp_server",),
    "models": ("saccade.models.providers.anthropic", "saccade.models.providers.gemini"),
    "env": ("saccade.training.env",),
    "math": ("saccade.grading.registry",),
    "ocr": ("saccade.plugins.vista.ocr",),
    "video": ("saccade.media.video", "av"),
    "heic": ("pillow_heif",),
    "pdf": ("pypdfium2",),
    "sandbox": ("skimage", "sklearn", "pandas", "shapely"),
    "data": ("saccade.training.sft.formats.base", "openpyxl", "pyarrow", "atif"),
    "otel": ("saccade.plugins.integrations.otel",),
    "bench": ("jupyter_client", "smolagents"),
}
"""Extra without torch -> what needs it, and is imported where it is installed."""
APART = {
    "local": "test_a_heavy_extra",
    "train": "test_a_heavy_extra",
    "openenv": "make test-faces",
    "verifiers": "make test-faces",
    "inspect": "make test-faces",
    "tools-serve": "make test-ray",
    "verl": "make test-verl",
    "parity": "make parity",
    "dev": "make setup",
}
"""Extras that bring torch, or want an environment of their own -> what tries them."""


def test_every_extra_is_tried_somewhere() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    assert ENTRIES.keys() | APART.keys() == extras.keys()
    assert {check.__name__ for check in LIGHT} <= ENTRIES.keys()
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for where in APART.values():
        assert where in globals() or re.search(rf"^{where.removeprefix('make ')}:", makefile, re.MULTILINE), where


@pytest.mark.nightly
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("version", PYTHONS)
def test_the_extras_without_torch_on_each_python(version: str, built: Built, tmp_path: Path) -> None:
    if version not in pythons():
        pytest.skip(f"no Python {version} was found")
    made = install(built, pythons()[version], tmp_path, sorted(ENTRIES))
    assert "All required layers are on" in made.run("saccade", "doctor")
    assert "reading is known: False" in made.run("saccade", "demo", COLUMNS="200")
    imported = "; ".join(f"import {name}" for part in ENTRIES.values() for name in part)
    made.run("python", "-W", "error::SyntaxWarning", "-c", imported)
    for check in LIGHT:
        own = replace(made, folder=tmp_path / check.__name__)  # two of them call their run the same
        own.folder.mkdir()
        check(own)


@pytest.mark.nightly
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("version", PYTHONS)
def test_the_extras_with_torch_on_each_python(version: str, built: Built, tmp_path: Path) -> None:
    if version not in pythons():
        pytest.skip(f"no Python {version} was found")
    made = install(built, pythons()[version], tmp_path, ["local", "train"])
    assert "All required layers are on" in made.run("saccade", "doctor")
    for check in (local, train):
        check(made)


@pytest.mark.slow
@pytest.mark.parametrize("check", LIGHT, ids=lambda check: check.__name__)
def test_an_extra_alone(check: Callable[[Environment], None], built: Built, tmp_path: Path) -> None:
    made = install(built, sys.executable, tmp_path, [check.__name__])
    assert not made.has("IPython")
    assert "All required layers are on" in made.run("saccade", "doctor")
    check(made)


@pytest.mark.nightly
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(("extras", "check"), [(["local"], local), (["train"], train)], ids=["local", "train"])
def test_a_heavy_extra(extras: list[str], check: Callable[[Environment], None], built: Built, tmp_path: Path) -> None:
    check(install(built, sys.executable, tmp_path, extras))
