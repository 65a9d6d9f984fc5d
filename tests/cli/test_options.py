"""The command line as a whole: an option means one thing in all commands, mistakes are said in three lines."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

import pytest
from tests.cli.commands import arguments, commands, options

from saccade.cli import main as cli
from saccade.errors import (
    ModelLostError,
    ModelRefusedError,
    SaccadeError,
    SandboxFullError,
    SandboxLostError,
    SettingsError,
    ToolLostError,
)

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "command-line.md").read_text(encoding="utf-8")
OTHERWISE = {
    ("--data", "sft"): "run folders to learn from, several of them",
    ("--image", "demo"): "one picture in place of the drawn one",
    ("--model", "serve"): "several models side by side",
}
"""Where an option takes another form than elsewhere, and what it is there."""
WRONG = {"ask": ["no-such-file.png"], "list": ["no-such-kind"]}
"""Arguments that are wrong where `no-such-thing` is not."""
BESIDE = {
    "eval": ["--model", "solver"],
    "synth": ["--dialect", "codev"],
    "tasks sample": ["--out", "sheet.png"],
}
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


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ModelLostError, 3),
        (SandboxLostError, 3),
        (SandboxFullError, 3),
        (ToolLostError, 3),
        (SettingsError, 2),
        (ModelRefusedError, 2),
        (SaccadeError, 2),
    ],
)
def test_an_outage_is_told_from_a_mistake(
    error: type[SaccadeError], code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(name: str, verb: cli.Verb) -> object:
        raise error("gone")

    monkeypatch.setattr(cli, "load", fails)
    assert cli.main(["runs"]) == code
    assert capsys.readouterr().err == "saccade: gone\n"


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
