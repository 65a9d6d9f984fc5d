"""The commands of the docs, as they stand there: the small model in the place of the large one, fewer steps."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.plugins.verl.real.begun import QUIET, begun, until

ROOT = Path(__file__).resolve().parents[4]
PATH = ROOT / "docs" / "howto" / "eight-gpus.md"
ENGINES = ROOT / "docs" / "engines.md"
OWN = Path(sys.executable).with_name("saccade")
SMALL = (
    "dialect=tiny:look", "rollout.limits.context_tokens=2048", "rollout.group_size=4", "rounds.tasks=2",
    "rounds.groups=1", "selection.groups=2", "steps=2", "validation.every=0", "keep.every=1",
)  # fmt: skip
ON_VERL = ("trainer.device=cpu", "trainer.workers=1", "trainer.step_seconds=1200")
SUPERVISED = ("steps=2", "batch.trajectories=4", "validation.every=0", "validation.fraction=0")

pytestmark = pytest.mark.timeout(3600)


def section(page: Path, title: str) -> str:
    """The text below a heading, up to the next one of its rank."""
    rank, text = title.partition(" ")[0], "\n" + page.read_text(encoding="utf-8")
    start = text.index(f"\n{title}\n") + len(title) + 2
    end = re.search(rf"^{rank} ", text[start:], re.MULTILINE)
    return text[start : None if end is None else start + end.start()]


def commands(page: Path, title: str) -> list[list[str]]:
    """Its shell blocks, as words."""
    blocks = re.findall(r"^```sh\n(.*?)^```$", section(page, title), re.MULTILINE | re.DOTALL)
    lines = "".join(blocks).replace("\\\n", " ").splitlines()
    return [words for line in lines if (words := shlex.split(line, comments=True))]


def settings(*values: str) -> Iterator[str]:
    for value in values:
        yield from ("--set", value)


def shrunk(words: list[str], program: Path) -> list[str]:
    """The command for two processes and the small model; what loads nothing stays as it is."""
    names = {"verl/bin/saccade": str(program), ".venv-verl/bin/saccade": str(program), "saccade": str(OWN)}
    words = [names[words[0]], *words[1:]]
    if "--plan" in words:
        return words
    if words[1] == "eval":
        return [*words, "--n", "2"]
    if "Qwen/Qwen2.5-VL-7B-Instruct" not in words:
        return words
    words = ["tiny" if word.startswith("Qwen/") else "2" if word == "8" else word for word in words]
    if words[1] == "sft":
        return [*words, *settings(*SUPERVISED)]
    return [*words, "--profile", "tiny", *settings(*SMALL, *(ON_VERL if "--on" in words else ()))]


def run(words: list[str], folder: Path) -> str:
    done = subprocess.run(
        words, cwd=folder, env={**os.environ, **QUIET}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    assert done.returncode == 0, f"{shlex.join(words)}\n{done.stdout[-6000:]}"
    return done.stdout


def stopped_after_a_step(words: list[str], folder: Path, runs: list[subprocess.Popen[str]]) -> None:
    """Begin a run on verl, and press Ctrl-C when it has its first checkpoint."""
    log, latest = folder / "log", folder / "runs/a/checkpoints/latest_checkpointed_iteration.txt"
    runs.append(begun(words, log, folder))
    until(lambda: latest.exists(), runs[-1], log)
    runs[-1].send_signal(signal.SIGINT)
    assert runs[-1].wait(300) in (130, 0), log.read_text()  # 0: it was done before that


def test_what_is_installed_exists() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    installed = [words for words in commands(PATH, "# Eight GPUs and a folder of questions") if words[1] == "install"]
    assert len(installed) == 2
    for words in installed:
        assert words[-1].removeprefix("saccade-vlm[").removesuffix("]") in extras


@pytest.mark.verl
def test_from_a_folder_of_questions_to_a_trained_checkpoint(
    program: Path, tmp_path: Path, started: list[subprocess.Popen[str]]
) -> None:
    run([str(OWN), "worlds", "sample", "touching-circles", "--n", "8", "--out", "questions"], tmp_path)
    taught = ["eval", "touching-circles", "--n", "8", "--model", "tiny", "--out", "runs/kept"]
    run([str(OWN), *taught], tmp_path)
    done, stopped = [], False
    for words in commands(PATH, "# Eight GPUs and a folder of questions"):
        if "venv" in words or words[1] == "install":
            continue
        command = shrunk(words, program)
        if "--on" in words and "--out" in words and not stopped:
            stopped = True
            stopped_after_a_step(command, tmp_path, started)
        else:
            said = run(command, tmp_path)
            assert "--plan" not in words or "It fits." in said or "trainer.n_gpus_per_node = 8" in said
        done.append(words[1])
    assert done == ["tasks", "rl", "rl", "rl", "report", "show", "eval", "rl", "rl", "sft", "sft"]
    for trained in ("a", "c", "sft"):
        assert (tmp_path / "runs" / trained / "model" / "config.json").exists()
    assert (tmp_path / "runs/a/report.html").stat().st_size > 0
    assert len((tmp_path / "runs/b/trajectories.jsonl").read_text().splitlines()) == 2


@pytest.mark.verl
def test_the_same_on_a_cpu(program: Path, tmp_path: Path) -> None:
    every = commands(ENGINES, "## verl on Ray")
    begin = next(at for at, words in enumerate(every) if words[1] == "worlds")
    block = every[begin : begin + 4]
    assert [words[1] for words in block] == ["worlds", "rl", "report", "eval"]
    for words in block:
        run(shrunk(words, program), tmp_path)
    assert (tmp_path / "runs/a/model/config.json").exists()


@pytest.mark.verl
def test_one_recipe_on_both_trainers(program: Path, tmp_path: Path) -> None:
    title = "### One recipe on both trainers"
    tutorial = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
    (recipe,) = re.findall(r"^```toml runnable rise.toml\n(.*?)^```$", tutorial, re.MULTILINE | re.DOTALL)
    (tmp_path / "rise.toml").write_text(recipe)
    block = commands(ENGINES, title)
    assert [words[1] for words in block] == ["rl", "rl", "report"]
    for words in block:
        more = settings("steps=2") if words[1] == "rl" else ()
        run([*shrunk(words, program), *more], tmp_path)
    assert (tmp_path / "curves.html").stat().st_size > 0
