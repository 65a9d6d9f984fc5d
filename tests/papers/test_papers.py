"""The papers' pages: each of their commands, in order, on a few rows, with a tiny model and scripted ones."""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest
from tests.cli.commands import commands
from tests.models.wire_sandbox import sandbox_running
from tests.papers.rows import write_all
from tests.papers.server import WEAK, says
from tests.tiny import tiny_folder

from saccade.cli.arms import read_arms
from saccade.cli.main import main
from saccade.report.sections.results import published_rows
from saccade.tasks.benchmarks.registry import cards_of_group

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted((ROOT / "docs" / "papers").glob("*.md"))
BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)

CHECKS = ("image-informative", "question-quality", "label-check", "box-label")


def asks(*filters: str) -> str:
    """Where the judge of these filters is; a user with another port says so in the same way."""
    return " ".join(f"--set {name}.judge=vllm:judge@URL/v1" for name in filters)


# What is otherwise in the test, in the order in which it is done. Everything else of a command is as the page has it.
INSTEAD = (
    ("Qwen/Qwen2.5-VL-7B-Instruct@http", f"{WEAK}@http"),
    ("Qwen/Qwen2.5-VL-7B-Instruct", "QWEN"),
    ("OpenGVLab/InternVL3-8B-hf", "INTERNVL"),
    ("OpenGVLab/InternVL3-2B-hf", "INTERNVL"),
    ("http://localhost:8000/v1", "URL/v1"),
    ("http://localhost:8001/v1", "URL/v1"),
    ("--processes 8", ""),
    ("--processes 6", ""),
    ("--profile tail-patch", "--profile tiny,tail-patch --set curriculum.lowest=0 --set curriculum.fewest=1"),
    ("--gpu-memory 80", "--gpu-memory 1000"),
    ("--gpu-memory 141", "--gpu-memory 1000"),
    ("--at 300,400,500,600", "--at 1"),
    ("--at 100,200,300", "--at 1"),
    ("--as pyvision-rl", "--as pyvision-rl --k 1"),
    ("--pipeline codedance ", f"--pipeline codedance {asks(*CHECKS, 'cross-check')} "),
    ("--pipeline codedance-tasks", f"--pipeline codedance-tasks {asks(*CHECKS)}"),
    ("--pipeline codev", f"--pipeline codev {asks('outside-knowledge', 'label-check')}"),
)
# Put behind the command: sizes for a machine of two cores.
SMALL_RL = (
    "--set steps=1 --set rounds.tasks=1 --set rounds.groups=1 --set rounds.rounds=1 "
    "--set rollout.group_size=2 --set rollout.sampling.max_tokens=4 --set validation.tasks=1 --set tasks.most=2 "
    "--set machine.model.shard=false --set keep.every=1"
)
BEHIND = {
    "sft": "--set steps=1 --set batch.trajectories=2 --set model.shard=false --set validation.fraction=0",
    "rl": SMALL_RL,
    "eval": "--n 2 --set sampling.max_tokens=8",
    "synth": "--n 4",
}
IN_PART = ("--out runs/codes", "--out runs/crops")
"""Commands that end with 1: some of their jobs are left out by design, such as tasks without a box."""
NOT_RUN = ("hf download", "vllm serve", "export ")
"""The only words that a line of a page may begin with other than `saccade`."""


def lines(page: Path) -> list[str]:
    """The commands of a page, as it has them."""
    blocks = BLOCK.findall(page.read_text(encoding="utf-8"))
    return [line for block in blocks for line in block.replace("\\\n", " ").splitlines() if line.strip()]


def check_options(words: list[str]) -> None:
    """The command is one, and its options are its own; what `arms` hands on is those of `rl` and `eval`."""
    known = commands()
    name = next(name for name in (" ".join(words[:2]), words[0]) if name in known)  # `cards check` has two words
    options = {option for item in known[name].params for option in item.opts}
    for before, word in pairwise(words):
        if name == "arms" and before in ("--train", "--eval"):
            check_options([{"--train": "rl", "--eval": "eval"}[before], *shlex.split(word)])
        elif word.startswith("--"):
            assert word in options, (name, word)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_commands_and_options_exist(page: Path) -> None:
    for line in lines(page):
        if not line.startswith(NOT_RUN):
            name, *words = shlex.split(line)
            assert name == "saccade", line
            check_options(words)


def test_every_arm_of_the_pages_is_one() -> None:
    told = [shlex.split(line) for page in PAGES for line in lines(page) if line.startswith("saccade arms")]
    assert [words[2] for words in told] == ["codedance", "codev", "pyvision-image", "vista-r1", "vista-r1"]
    for words in told:
        listed = words[words.index("--arms") + 1]
        assert len(read_arms(words[2], listed, "tiny", "tiny", shlex.split(BEHIND["rl"]))) == len(listed.split(","))


def test_pages_are_found_and_name_all_sets() -> None:
    text = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
    assert [page.stem for page in PAGES] == ["codedance", "codev", "pyvision-rl", "pyvision", "vista"]
    nav = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    assert all(f"papers/{page.name}" in nav for page in PAGES)
    for old, _ in INSTEAD:
        assert old in text, f"{old} is in no page any more"
    for page in PAGES:
        told = page.read_text(encoding="utf-8")
        assert all(f"\n## {part}\n" in told for part in ("Data", "What differs", "What it costs", "Never run")), page


GROUPS = {
    "pyvision": ["PyVision, table 2"],
    "pyvision-rl": ["PyVision-RL, table 1"],
    "codedance": ["CodeDance, table 1", "CodeDance, table 2", "CodeDance, table 3"],
    "codev": ["CodeV, perception", "CodeV, reasoning"],
    "vista": ["VISTA-Gym, in distribution", "VISTA-Gym, out of distribution"],
}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_published_rows_are_those_that_the_report_prints(page: Path) -> None:
    rows = re.findall(r"^\| (.+) \|$", page.read_text(encoding="utf-8"), re.MULTILINE)
    cells = {row.split(" | ")[0]: row.split(" | ")[1:] for row in rows}
    compared = 0
    for group in GROUPS[page.stem]:
        cards = cards_of_group(group)
        heads = [card.name for card in cards]
        tables = [row.split(" | ")[-len(heads) :] for row in rows if row.startswith("| mean")]
        assert heads in tables, (group, heads, tables)
        for model, scores in published_rows(group, cards).items():
            told = [f"{100 * value:.1f}" for value in (sum(scores) / len(scores), *scores)]
            compared += cells.get(model) == told or told in [row.split(" | ")[1:] for row in rows]
    assert compared >= 2 * len(GROUPS[page.stem])


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("papers") / "data"
    write_all(folder)
    return folder


@pytest.fixture
def place(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A folder with `data`, the scripted models at the address that is yielded."""
    (tmp_path / "data").symlink_to(data)
    monkeypatch.chdir(tmp_path)
    with sandbox_running() as server:
        server.will(says)
        for name in ("OPENAI", "ANTHROPIC"):
            monkeypatch.setenv(f"{name}_API_KEY", "k")
        monkeypatch.setenv("OPENAI_BASE_URL", f"{server.url}/v1")
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
        monkeypatch.setenv("SACCADE_DATA", "data")
        yield server.url


@cache
def roomy(family: str) -> Path:
    """A tiny checkpoint whose context holds the papers' prompts."""
    folder = tiny_folder(family).with_name(f"{family}-roomy")
    shutil.copytree(tiny_folder(family), folder)
    config = folder / "config.json"
    config.write_text(config.read_text().replace('"max_position_embeddings": 2048', '"max_position_embeddings": 16384'))
    return folder


def small(line: str, url: str) -> list[str]:
    """The words of a command at the size of a test."""
    for old, new in INSTEAD:
        line = line.replace(old, new)
    line = line.replace("QWEN", str(roomy("qwen2_5_vl"))).replace("INTERNVL", str(roomy("internvl")))
    words = shlex.split(line.replace("URL", url))
    behind = shlex.split(BEHIND.get(words[1], ""))
    if words[1] == "arms":
        listed = words.index("--arms") + 1
        arms = words[listed].split(",")
        words[listed] = f"{arms[0]},{arms[-1]}"  # all of them are read by a test of their own
        inner = {"--train": BEHIND["rl"], "--eval": f"{BEHIND['eval']} --n 1"}
        words = [f"{word} {inner.get(before, '')}".strip() for before, word in pairwise(["", *words])]
    if words[1] in ("rl", "arms") and "--profile" not in words:
        behind += ["--profile", "tiny"]
    return words[1:] + behind


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_command_runs_in_order_to_the_table(page: Path, place: str, capsys: pytest.CaptureFixture[str]) -> None:
    printed = ""
    for line in lines(page):
        if line.startswith(NOT_RUN):
            continue
        code = main(small(line, place))
        said = capsys.readouterr()
        printed += said.out
        assert code == any(part in line for part in IN_PART), f"{line}\n{said.out}\n{said.err}"
    for group in GROUPS[page.stem]:
        assert f"{group}:" in printed
