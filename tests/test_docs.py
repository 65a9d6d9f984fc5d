"""README and docs: runnable blocks run as they stand and print the answers that they hold, links and commands lead
somewhere, excerpts are the code."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from fastapi import Response
from PIL import Image
from tests.models import wire_sandbox
from tests.models.wire_sandbox import bash_result, sandbox_running, use
from tests.models.wire_server import chat, messages
from tools import file_map

from saccade.cli.main import verbs

ROOT = Path(__file__).resolve().parent.parent
FENCE = re.compile(r"^```(\w+)[ ]+runnable([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
PROGRAMS = {"python": [sys.executable, "-W", "error"], "sh": ["bash", "-euo", "pipefail"]}


@dataclass(frozen=True)
class Block:
    language: str
    slow: bool
    name: str
    """Of the file that it is; empty for a program."""
    text: str


def blocks(page: Path) -> list[Block]:
    found = []
    for language, words, text in FENCE.findall(page.read_text(encoding="utf-8")):
        rest = [word for word in words.split() if word != "slow"]
        found.append(Block(language, "slow" in words.split(), " ".join(rest), text))
    return found


ANSWER = re.compile(r"# → (.+)$", re.MULTILINE)


def not_printed(block: str, printed: str) -> list[str]:
    """The answers in a block (`# → 5, 4`; `…` stands for anything) that are no line of what it printed, in order."""
    lines = iter([" ".join(line.split()) for line in printed.splitlines()])
    patterns = {answer: ".*".join(re.escape(part) for part in answer.split("…")) for answer in ANSWER.findall(block)}
    return [answer for answer, pattern in patterns.items() if not any(re.fullmatch(pattern, line) for line in lines)]


def test_an_answer_that_was_not_printed_is_noticed() -> None:
    assert not_printed("ask  # → 5, 4\nsum\n# → a … c", "look\n5, 4\na  b c\n") == []
    assert not_printed("ask  # → 5, 4", "15, 4\n5, 40\n") == ["5, 4"]
    assert not_printed("# → 1\n# → 2", "2\n1\n") == ["2"]


def cases() -> Iterator[object]:
    for page in PAGES:
        found = blocks(page)
        if any(not block.slow and not block.name for block in found):
            yield pytest.param(page, False, id=page.stem)
        if any(block.slow for block in found):
            yield pytest.param(page, True, id=f"{page.stem}-slow", marks=[pytest.mark.slow, pytest.mark.timeout(1800)])


def test_marks_are_understood() -> None:
    count = 0
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        assert len(re.findall(r"^ *```.*runnable", text, re.MULTILINE)) == len(blocks(page)), page
        for block in blocks(page):
            assert block.language in PROGRAMS if block.name == "" else Path(block.name).suffix, (page, block)
            assert not (block.name and ANSWER.search(block.text)), (page, block)
            count += 1
    assert count > 12


@pytest.mark.skipif(sys.platform != "linux", reason="the local sandbox needs Linux")
@pytest.mark.parametrize(("page", "slow"), list(cases()))
@pytest.mark.few(1)
def test_blocks_run_as_they_stand(page: Path, slow: bool, tmp_path: Path) -> None:
    found = [block for block in blocks(page) if slow or not block.slow]
    for block in found:
        if block.name:
            (tmp_path / block.name).write_text(block.text, encoding="utf-8")
    draw(tmp_path)
    with sandbox_running() as server:
        server.will(follows_the_form)
        for number, block in enumerate(block for block in found if not block.name):
            program = tmp_path / f"block_{number}.{block.language}"
            program.write_text(block.text, encoding="utf-8")
            command = [*PROGRAMS[block.language], str(program)]
            done = subprocess.run(
                command,
                cwd=tmp_path,
                env=variables(server.url),
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=600,
                check=False,
            )
            assert done.returncode == 0, f"{page.name}:\n{block.text}\n{done.stdout}"
            missing = not_printed(block.text, done.stdout)
            assert not missing, f"{page.name}: {missing} was not printed\n{block.text}\n{done.stdout}"


def draw(folder: Path) -> None:
    """The photo and the clip that the pages speak of."""
    Image.radial_gradient("L").convert("RGB").resize((320, 240)).save(folder / "photo.jpg")
    writer = cv2.VideoWriter(str(folder / "clip.mp4"), cv2.VideoWriter.fourcc(*"mp4v"), 8, (64, 48))
    for number in range(12):
        writer.write(np.full((48, 64, 3), number * 20, np.uint8))
    writer.release()


def variables(url: str) -> dict[str, str]:
    keys = {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": f"{url}/v1", "ANTHROPIC_API_KEY": "k", "ANTHROPIC_BASE_URL": url}
    return os.environ | keys | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}


async def follows_the_form(body: dict[str, Any]) -> Response:
    """The reply that is asked for; to every other question the answer EXIT. Claude uses its sandbox if it has one."""
    if any(tool.get("type", "").startswith("code_execution") for tool in body.get("tools") or ()):
        said, look = wire_sandbox.text, use("bash_code_execution", {"command": "python -c 'print(1)'"})
        return await wire_sandbox.blocks(said("I look."), look, bash_result("1\n"), said("<answer>EXIT</answer>"))(body)
    if str(body.get("model")).startswith("claude"):
        return await messages(text=_reply(json.dumps(body["messages"])))(body)
    return await chat(_reply(json.dumps(body["messages"])))(body)


def _reply(text: str) -> str:
    if "Write questions about the picture" in text:
        return '[{"question": "What is written there?", "answer": "EXIT"}]'
    if "Write each of them again" in text:
        turns = re.findall(r"Turn (\d+):", text)
        return "\n".join(f'<thought turn="{turn}">I look at the sign.</thought>' for turn in turns)
    if "Your steps were run" in text:
        return "<thought>It was printed.</thought><answer>EXIT</answer>"
    if "Turn the reasoning into steps" in text:
        return "<step><thought>Read it.</thought><code>\nprint('EXIT')\n</code></step>"
    if "reason in words" in text:
        return "<reasoning>The letters are large.</reasoning><answer>EXIT</answer>"
    return "<answer>EXIT</answer>"


README = (ROOT / "README.md").read_text(encoding="utf-8")
MAP = (ROOT / "docs" / "map.md").read_text(encoding="utf-8")


def test_file_map_is_up_to_date() -> None:
    assert file_map.HEAD + file_map.file_map() == MAP, "run `make map`"


def test_links_lead_somewhere() -> None:
    for document in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))):
        for target in re.findall(r"\]\(([^)#]+)", document.read_text(encoding="utf-8")):
            if "://" not in target:
                assert (document.parent / target).exists(), f"{document.name} links to {target}"


def test_commands_are_verbs_and_targets() -> None:
    named = set(
        re.findall(r"\bsaccade ([a-z]+)\b(?= |`|$)", "\n".join(re.findall(r"^saccade .*", README, re.MULTILINE)))
    )
    assert named
    assert named <= verbs().keys()
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    texts = README + (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    targets = re.findall(r"^(?: {4})?make ([a-z-]+)|`make ([a-z-]+)`", texts, re.MULTILINE)
    assert targets
    for target in filter(None, (name for pair in targets for name in pair)):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), f"make {target}"


EXCERPT = re.compile(r"^```py (\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LEFT_OUT = re.compile(r"^ *# …\n", re.MULTILINE)
EXCERPTS = EXCERPT.findall((ROOT / "docs" / "tour.md").read_text(encoding="utf-8"))


def place(part: str, source: str, start: int) -> int:
    """Where `part` ends in `source`, from `start` on; -1 if it is not there, at any depth."""
    wanted = textwrap.dedent(part.strip("\n")).splitlines()
    lines = source.splitlines()
    for at in range(start, len(lines) - len(wanted) + 1):
        if textwrap.dedent("\n".join(lines[at : at + len(wanted)])).splitlines() == wanted:
            return at + len(wanted)
    return -1


@pytest.mark.parametrize(
    ("path", "text"), EXCERPTS, ids=[f"{n}-{Path(path).stem}" for n, (path, _) in enumerate(EXCERPTS)]
)
def test_an_excerpt_is_the_code(path: str, text: str) -> None:
    source, at = (ROOT / path).read_text(encoding="utf-8"), 0
    for part in LEFT_OUT.split(text):
        at = place(part, source, at)
        assert at >= 0, f"docs/tour.md: this is not in {path}, or not in this order:\n{part}"
