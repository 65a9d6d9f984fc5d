"""`--json` of every command that prints what may be piped: values on standard output, and nothing else there.

Also not the bar that a command shows on a terminal while it works, which these find on standard error.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from tests.cli.commands import commands, options

from saccade.cli.main import main
from saccade.cli.output import print_json
from saccade.record.trajectory import Score

WITHOUT = {
    "demo": "plays a scene for a person",
    "mcp": "a server",
    "openenv": "a server",
    "review": "a server; with --out the folder has report.json",
    "rl": "OUT/metrics.jsonl has a line for each step; `saccade list recipes --json` has the recipes",
    "sandbox serve": "a server",
    "serve": "a server",
    "sft": "OUT/metrics.jsonl has a line for each step; `saccade list recipes --json` has the recipes",
    "tasks sample": "draws a picture, and prints its path alone",
    "tools serve": "a server",
    "view": "a server",
    "worlds sheet": "draws a picture, and prints its path alone",
}
RUN = ("eval", "touching-circles", "--model", "solver", "--dialect", "codedance")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run, the two shards of another, and a folder of tasks of which one is broken."""
    here = tmp_path_factory.mktemp("json")
    assert main([*RUN, "--n", "2", "--out", str(here / "run")]) == 0
    for shard in ("1", "2"):
        assert main([*RUN, "--n", "2", "--shard", f"{shard}/2", "--out", str(here / f"part{shard}")]) == 0
    (here / "own").mkdir()
    Image.new("RGB", (40, 30), "red").save(here / "own" / "a.png")
    rows = [{"image": name, "question": "Which colour?", "answer": "red"} for name in ("a.png", "gone.png")]
    (here / "own" / "questions.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (here / "vista-ai2d" / "images").mkdir(parents=True)
    Image.new("RGB", (40, 30), "red").save(here / "vista-ai2d" / "images" / "1.png")
    of_card = {"id": "0", "question": "Which?", "answer": "x", "choices": ["x", "y"], "task": "t"}
    two = [{**of_card, "id": name, "image_path": name} for name in ("1.png", "gone.png")]
    (here / "vista-ai2d" / "ai2d_test_vlmgym.json").write_text(json.dumps(two))
    (here / "said.json").write_text(json.dumps(["<answer>red</answer>"]))
    return here


@dataclass(frozen=True)
class Case:
    line: str
    holds: Callable[[Any], object]
    """Of the list of values that were printed."""
    code: int = 0
    lines: int = 1


BARS = {
    "cards check": "Reading vista-ai2d",
    "compare": "Reading runs",
    "convert": "Converting",
    "curate": "Curating",
    "eval": "right",
    "export": "Writing samples",
    "merge": "Copying samples and media",
    "protocols": "run",
    "regrade": "0/?",
    "report": "Episodes",
    "runs": "Reading runs",
    "show": "Episodes",
    "synth": "right",
    "tasks check": "Opening media",
    "tasks show": "Opening sources",
    "tasks write": "Writing tasks",
    "worlds sample": "Drawing nested-squares",
}
"""Command -> what its bar says. The others take no time, or show what they do as they do it."""


CASES = {
    "ask": Case("ask own/a.png Which? --model scripted:said.json --dialect direct", lambda v: v["answer"] == "red"),
    "cards check": Case("cards check vista-ai2d", lambda v: (v["tasks"], len(v["broken"])) == (1, 1), 1),
    "cards list": Case("cards list", lambda v: "vstar" in {item["id"].partition("@")[0] for item in v}),
    "cards show": Case("cards show vstar", lambda v: v["id"].startswith("vstar") and v["loader"]),
    "compare": Case("compare run run", lambda v: v["difference"] == 0),
    "convert": Case("convert run --out documents --from saccade --to sharegpt", lambda v: v["written"] == 2),
    "curate": Case("curate run --pipeline keep.toml --out kept", lambda v: v["kept"] == 2 and v["out"] == "kept"),
    "eval": Case(f"{' '.join(RUN)} --n 2 --out again", lambda v: v["summary"]["total"]["tasks"] == v["played"] == 2),
    "export": Case("export run --out table.csv", lambda v: v == {"samples": 2, "out": "table.csv"}),
    "list": Case("list worlds", lambda v: all(item["source"] for item in v)),
    "merge": Case("merge part1 part2 --out whole", lambda v: v["summary"]["total"]["tasks"] == 2 and not v["missing"]),
    "protocols": Case("protocols run", lambda v: v["run"] == "run" and v["findings"]["about"]["samples"] == 2, 0, 5),
    "regrade": Case("regrade run", lambda v: v["samples"] == 2 and v["changes"] == []),
    "report": Case("report run", lambda v: v["episodes"] == 2 and v["page"] == "run/report.html"),
    "runs": Case("runs .", lambda v: "run" in {Path(item["path"]).name for item in v}),
    "show": Case("show run", lambda v: v["episodes"] == 2 and v["page"] == "run/index.html"),
    "synth": Case("synth nested-squares --n 2 --dialect codev --out made", lambda v: v["trajectories"] == 2),
    "tasks check": Case("tasks check own", lambda v: v["sources"][0]["answers"] and len(v["broken"]) == 1, 1),
    "tasks show": Case("tasks show nested-squares --n 2", lambda v: v["question"], 0, 2),
    "tasks write": Case("tasks write own --out written", lambda v: v["tasks"] == 1 and len(v["left_out"]) == 1),
    "tools list": Case("tools list", lambda v: "crop" in {item["tool"] for item in v}),
    "worlds list": Case("worlds list", lambda v: any(item["knobs"] for item in v)),
    "worlds sample": Case("worlds sample nested-squares --n 2 --out drawn", lambda v: Path(v["file"]).is_file()),
}
ELSEWHERE = {"doctor": "tests/cli/test_doctor.py"}
"""Commands whose JSON is tested there."""


def test_every_command_has_it_or_a_reason() -> None:
    has = {name for name, command in commands().items() if "--json" in options(command)}
    assert has | WITHOUT.keys() == commands().keys()
    assert has & WITHOUT.keys() == set()
    assert {name for name in has if name.split()[0] not in ELSEWHERE} == CASES.keys()


def test_it_is_a_flag_everywhere() -> None:
    assert [
        name for name, command in commands().items() if not getattr(options(command).get("--json"), "is_flag", True)
    ] == []


@pytest.mark.parametrize("name", CASES)
def test_it_is_alone_on_standard_output(
    name: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)
    Path("keep.toml").write_text('[[filter]]\nname = "score"\nscore = "correct"\nat_least = 0\n')
    case = CASES[name]
    monkeypatch.setenv("FORCE_COLOR", "1")  # to rich this is a terminal
    capsys.readouterr()
    assert main([*case.line.split(), "--json"]) == case.code
    printed = capsys.readouterr()
    values = [json.loads(line) for line in printed.out.splitlines()]
    assert len(values) == case.lines
    assert all(case.holds(value) for value in values), values
    assert BARS.get(name, "") in printed.err


def test_what_json_has_no_word_for(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"path": Path("a/b"), "record": Score(name="correct", value=1.0), "case": CASES["ask"].code, "é": "é"})
    said = capsys.readouterr().out
    assert said.count("\n") == 1
    assert "é" in said
    assert json.loads(said)["path"] == "a/b"
    assert json.loads(said)["record"]["value"] == 1.0
