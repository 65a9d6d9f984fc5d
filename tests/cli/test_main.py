"""What all commands share: help, names of options, exit codes, three lines for a mistake, JSON."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import sys
import types
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import typer
from PIL import Image
from tests.cli.commands import arguments, commands, options

from saccade.cli import main as cli
from saccade.cli.main import main
from saccade.cli.output import plain_console, print_json
from saccade.errors import (
    ModelLostError,
    ModelRefusedError,
    SaccadeError,
    SandboxFullError,
    SandboxLostError,
    SettingsError,
    ToolLostError,
)
from saccade.record.trajectory import Score


@pytest.fixture
def verb(monkeypatch: pytest.MonkeyPatch) -> typer.Typer:
    """A verb named `probe` whose body the test defines."""
    app = typer.Typer(add_completion=False)
    module = types.ModuleType("probe_of_the_tests")
    module.app = app  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "probe_of_the_tests", module)
    monkeypatch.setattr(cli, "VERBS", {"probe": cli.Verb("probe_of_the_tests:app", "A probe.")})
    return app


def test_help_lists_every_verb(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--help"]) == 0
    out = capsys.readouterr().out
    for name, verb in cli.verbs().items():
        assert name in out
        assert verb.help in out


@pytest.mark.parametrize("verb", sorted(cli.verbs()))
@pytest.mark.few(3)
def test_every_verb_knows_both_spellings_of_help(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([verb, "--help"]) == 0
    long = capsys.readouterr().out
    assert cli.main([verb, "-h"]) == 0
    assert capsys.readouterr().out == long
    assert "-h, --help" in long


def test_help_of_a_command_below_a_verb(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["-h"]) == 0
    assert cli.main(["sandbox", "serve", "-h"]) == 0
    assert "--settings" in capsys.readouterr().out


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("saccade 0.")


def test_unknown_verb_suggests(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["docter"]) == 2
    assert "doctor" in capsys.readouterr().err


def test_arguments_reach_the_verb_untouched(verb: typer.Typer, capsys: pytest.CaptureFixture[str]) -> None:
    @verb.command()
    def probe(name: str, number: int = 1) -> None:
        print(name, number)

    assert cli.main(["probe", "eye", "--number", "4"]) == 0
    assert capsys.readouterr().out == "eye 4\n"
    assert cli.main(["probe", "--help"]) == 0
    assert "--number" in capsys.readouterr().out
    assert cli.main(["probe", "eye", "--numbr", "4"]) == 2
    assert "--numbr" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (typer.Exit(7), 7),
        (KeyboardInterrupt(), 130),
        (ModelLostError("gone"), 3),
        (SandboxLostError("gone"), 3),
        (SandboxFullError("gone"), 3),
        (ToolLostError("gone"), 3),
        (SettingsError("gone"), 2),
        (ModelRefusedError("gone"), 2),
        (SaccadeError("gone"), 2),
    ],
)
def test_an_outage_is_told_from_a_mistake_and_neither_has_a_traceback(
    error: BaseException, code: int, verb: typer.Typer, capsys: pytest.CaptureFixture[str]
) -> None:
    @verb.command()
    def probe() -> None:
        raise error

    assert cli.main(["probe"]) == code
    assert capsys.readouterr().err == ("saccade: gone\n" if isinstance(error, SaccadeError) else "")


def test_fault_of_ours_keeps_its_traceback(verb: typer.Typer) -> None:
    @verb.command()
    def probe() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        cli.main(["probe"])


def test_missing_module_harms_only_its_verb(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cli, "VERBS", {**cli.VERBS, "ghost": cli.Verb("saccade.cli.no_such_verb:app", "Not there.")})
    assert cli.main(["ghost"]) == 2
    assert "no_such_verb" in capsys.readouterr().err
    assert cli.main(["--help"]) == 0


@pytest.mark.parametrize("before", [signal.default_int_handler, signal.SIG_IGN])
def test_a_sigterm_ends_a_command_also_where_ctrl_c_is_ignored(before: Callable[..., object] | signal.Handlers) -> None:
    app = typer.Typer()
    app.command()(lambda: os.kill(os.getpid(), signal.SIGTERM))
    kept = signal.signal(signal.SIGINT, before)
    try:
        assert cli.run(app, [], "saccade") == 130
    finally:
        signal.signal(signal.SIGINT, kept)


def test_the_shell_completes_verbs_commands_and_options(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for line, offered in (
        ("saccade regr", "regrade"),
        ("saccade worlds s", "sample sheet"),
        ("saccade regrade --grad", "--grader"),
    ):
        words = line.split(" ")
        shell = {"_SACCADE_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}
        for name, value in shell.items():
            monkeypatch.setenv(name, value)
        assert cli.main([]) == 0
        out, err = capsys.readouterr()
        assert (out.split(), err) == (offered.split(), "")


PAGE = (Path(__file__).resolve().parents[2] / "docs" / "command-line.md").read_text(encoding="utf-8")


OTHERWISE = {
    ("--data", "sft"): "run folders to learn from, several of them",
    ("--image", "demo"): "one picture in place of the drawn one",
    ("--model", "serve"): "several models side by side",
}
"""Where an option takes another form than elsewhere, and what it is there."""


WRONG = {"ask": ["no-such-file.png"], "list": ["no-such-kind"]}
"""Arguments that are wrong where `no-such-thing` is not."""


BESIDE = {"eval": ["--model", "solver"], "synth": ["--dialect", "codev"], "tasks sample": ["--out", "sheet.png"]}
"""What is said beside them, so that nothing else is wrong."""


def form(item: object) -> tuple[bool, bool]:
    return bool(getattr(item, "is_flag", False)), bool(getattr(item, "multiple", False))


def test_an_option_has_one_form_in_all_commands() -> None:
    forms: dict[str, dict[tuple[bool, bool], list[str]]] = defaultdict(lambda: defaultdict(list))
    for name, command in commands().items():
        for option, item in options(command).items():
            if (option, name) not in OTHERWISE:
                forms[option][form(item)].append(name)
    assert {option: dict(found) for option, found in forms.items() if len(found) > 1} == {}
    for option, name in OTHERWISE:
        assert option in options(commands()[name])
        assert form(options(commands()[name])[option]) not in forms[option] or name == "demo", (option, name)


def test_names_that_mean_the_same_are_the_same() -> None:
    """What is written goes to --out, settings are --set NAME=VALUE, typed tools --tools, a number of tasks --n."""
    strange = {
        "--output",
        "--output-dir",
        "--file",
        "--tool",
        "--source",
        "--sources",
        "--count",
        "--number",
    }
    for name, command in commands().items():
        own = options(command)
        assert strange & own.keys() == set(), name
        assert getattr(own.get("--set"), "metavar", "NAME=VALUE") == "NAME=VALUE", name
        assert [item.name for item in arguments(command) if item.name in ("target", "out", "output")] == [], name
        for option in ("--model", "--tasks", "--out", "--set", "--n", "--tools"):
            assert option not in own or own[option].help, (name, option)


def test_the_page_has_the_names_that_are_shared() -> None:
    listed = set(re.findall(r"^\| `(--[\w-]+)", PAGE, re.MULTILINE))
    shared = {
        option
        for option in {option for command in commands().values() for option in options(command)}
        if sum(option in options(command) for command in commands().values()) >= 5
    }
    assert shared - {"--verbose", "--log-file"} == listed


def test_the_page_has_every_exit_code() -> None:
    codes = {int(code) for code in re.findall(r"^\| `(\d+)` \|", PAGE, re.MULTILINE)}
    assert codes == {0, 1, 2, 3, 130}
    said = {int(code) for code in re.findall(r"\b(\d+) \w", cli.FIRST_STEPS.partition("Exit codes:")[2])}
    assert said == codes
    for name, command in commands().items():
        _, marked, rest = (command.epilog or "").partition("Exit codes:")
        assert {int(code) for code in re.findall(r"\b(0|1|2|3|130) (?=[a-z])", rest)} <= codes, name
        assert not marked or "0 " in rest


@pytest.mark.parametrize("name", sorted(commands()))
@pytest.mark.few(12)
def test_a_mistake_is_said_in_three_lines(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "1000")
    assert cli.main([*name.split(), "--no-such-option"]) == 2
    few(capsys, "--no-such-option")
    required = [item for item in arguments(commands()[name]) if item.required]
    if not required:
        return
    given = WRONG.get(name, ["no-such-thing"] * len(required))
    needed = [option for option, item in options(commands()[name]).items() if item.required]
    more = [*(word for option in needed for word in (option, "saccade")), *BESIDE.get(name, [])]
    assert cli.main([*name.split(), *given, *more]) == 2
    few(capsys, given[0])
    assert list(tmp_path.iterdir()) == []


def few(capsys: pytest.CaptureFixture[str], word: str) -> None:
    """At most three lines, and one names what is wrong."""
    said = capsys.readouterr().err
    lines = [line for line in said.splitlines() if line.strip()]
    assert 0 < len(lines) <= 3, said
    assert word in said
    assert "Traceback" not in said


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


ELSEWHERE = {"arms": "tests/cli/test_arms.py", "doctor": "tests/cli/test_doctor.py"}
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


def test_a_split_is_no_picture_for_the_terminal() -> None:
    screen = io.StringIO()
    plain_console(file=screen).print("from spacer:train: 2 tasks [x]")
    assert screen.getvalue() == "from spacer:train: 2 tasks [x]\n"
