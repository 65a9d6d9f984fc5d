"""Where log records of a command go: screen, `-v`, `-vv`, `--log-file`; what must not be in them; bars beside them."""

from __future__ import annotations

import logging
import os
import pickle
import pty
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import typer
from PIL import Image
from tests.models.wire_server import WireServer, chat, running, status

from saccade.cli.main import main, verbs
from saccade.cli.output import MOST, SECONDS, Logged, Logs, Notices, add_log_options, logged

RETRY = logging.getLogger("saccade.core.retry")
DATED = re.compile(r"\d+ \d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} (DEBUG|INFO|WARNING) +saccade\.[\w.]+: \S")
TIMED = re.compile(r"\d\d:\d\d:\d\d\.\d{3} (DEBUG|INFO|WARNING) +saccade\.[\w.]+: \S")


@pytest.fixture
def server() -> Iterator[WireServer]:
    with running() as server:
        yield server


@pytest.fixture
def photo(tmp_path: Path) -> str:
    Image.new("RGB", (40, 30), "red").save(tmp_path / "photo.png")
    return str(tmp_path / "photo.png")


def test_a_burst_is_counted_and_not_dropped_silently(capsys: pytest.CaptureFixture[str]) -> None:
    time = 0.0
    handler = Notices(lambda: time)
    for number in range(MOST + 3):
        handler.handle(logging.makeLogRecord({"msg": "wait %d \x1b[31m", "args": (number,), "levelno": 30}))
    printed = capsys.readouterr().err.splitlines()
    assert printed == [f"wait {number} \u241b[31m" for number in range(MOST)]
    time = SECONDS
    handler.handle(logging.makeLogRecord({"msg": "later", "levelno": 30}))
    assert capsys.readouterr().err.splitlines() == ["(3 more such lines were left out)", "later"]
    handler.close()
    assert capsys.readouterr().err == ""


def test_warnings_are_printed_while_a_command_runs(capsys: pytest.CaptureFixture[str]) -> None:
    with Logs():
        RETRY.info("quiet")
        RETRY.warning("%s Trying again.", "429.")
        assert capsys.readouterr().err == "429. Trying again.\n"
    RETRY.warning("after")
    assert "429" not in capsys.readouterr().err


@pytest.mark.parametrize(("verbosity", "levels"), [(1, ["INFO", "WARNING"]), (2, ["DEBUG", "INFO", "WARNING"])])
def test_more_is_printed_with_times_and_nothing_is_counted_away(
    verbosity: int, levels: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with Logs() as logs:
        logs.print_more(verbosity)
        for level in (logging.DEBUG, logging.INFO, logging.WARNING):
            RETRY.log(level, "said")
        for _ in range(2 * MOST):
            RETRY.warning("burst")
    lines = capsys.readouterr().err.splitlines()
    assert [line.split()[1] for line in lines[: len(levels)]] == levels
    assert all(TIMED.match(line) for line in lines)
    assert len(lines) == len(levels) + 2 * MOST


def test_loggers_are_afterwards_as_before(tmp_path: Path) -> None:
    logger = logging.getLogger("saccade")
    before = logger.level, list(logger.handlers)
    with Logs() as logs:
        logs.print_more(2)
        logs.write_to(tmp_path / "log")
        assert logger.isEnabledFor(logging.DEBUG)
    assert (logger.level, list(logger.handlers)) == before


def test_a_file_has_one_record_a_line_that_nothing_can_forge(tmp_path: Path) -> None:
    file = tmp_path / "log.txt"
    for _ in range(2):
        with Logs() as logs:
            logs.write_to(file)
            RETRY.debug("too fine")
            RETRY.info("one\n1 2026-01-01 00:00:00.000 INFO    saccade.x: forged \x1b[2J")
    first, forged, *rest = file.read_text(encoding="utf-8").splitlines()
    assert DATED.match(first)
    assert not DATED.match(forged)
    assert "\x1b" not in forged
    assert len(rest) == 2


def test_processes_of_their_own_log_as_the_command_does(tmp_path: Path) -> None:
    file = tmp_path / "log.txt"
    assert logged(_speak) is _speak
    with Logs() as logs:
        logs.print_more(1)
        logs.write_to(file)
        program = pickle.loads(pickle.dumps(logged(_speak)))
    assert program == Logged(_speak, 1, file)
    program("from elsewhere")
    assert file.read_text(encoding="utf-8").endswith("INFO    saccade.core.retry: from elsewhere\n")


def _speak(text: str) -> None:
    RETRY.info(text)


def commands(command: Any) -> Iterator[Any]:
    yield command
    for part in getattr(command, "commands", {}).values():
        yield from commands(part)


@pytest.mark.parametrize("verb", verbs())
def test_every_command_takes_the_options(verb: str) -> None:
    module, _, attribute = verbs()[verb].target.partition(":")
    made = add_log_options(typer.main.get_command(getattr(import_module(module), attribute)))
    for command in commands(made):
        names = [name for item in command.params for name in item.opts]
        assert names.count("-v") == names.count("--verbose") == names.count("--log-file") == 1, command.name


def test_options_stand_before_or_behind_the_verb(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (
        ["-v", "--log-file", str(tmp_path / "a"), "list"],
        ["list", "-vv", f"--log-file={tmp_path / 'b'}"],
    ):
        assert main(arguments) == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]
    capsys.readouterr()
    assert main(["list", "--log-file", str(tmp_path / "no" / "where")]) == 2
    assert "cannot be written: No such file or directory. Name another file." in capsys.readouterr().err


@pytest.mark.skipif(sys.platform != "linux", reason="the local sandbox needs Linux")
@pytest.mark.own_sandbox
def test_a_run_logs_what_happens_and_no_secret_prompt_or_answer(
    server: WireServer, photo: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OPENAI_COMPATIBLE_API_KEY", "sk-very-secret")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")
    server.will(
        status(429, "slow down"),
        chat("<code>\n```python\nsecret_program = 1\n```\n</code>"),
        chat("<code>\n```python\nwhile True: pass\n```\n</code>"),
        chat("<answer>\\boxed{crimson-text}</answer>"),
    )
    file = tmp_path / "log.txt"
    options = ["--model", f"compatible:m@{server.url}/v1", "--dialect", "pyvision", "--set", "retry.first_seconds=0.01"]
    options += ["--set", "session.wall_seconds=1", "--json", "--out", str(tmp_path / "run")]
    assert main(["ask", photo, "Which colour-of-mine?", *options, "-v", "--log-file", str(file)]) == 0
    screen, log = capsys.readouterr().err, file.read_text(encoding="utf-8")
    for text in (screen, log):
        assert "saccade.core.retry: compatible:m asks for a pause (429): slow down. Trying again in 0.0 s (2 of" in text
        assert "saccade.core.retry: Answered by try 2." in text
        assert "saccade.sandbox.local: The sandbox has started. Layers: " in text
        assert "saccade.sandbox.local: A call reached a limit: timeout after 1" in text
        assert re.search(r"saccade\.episode\.drive: ask-\w+#0: answered after 3 turns and [\d.]+ s\.", text)
        for kept in ("very-secret", "colour-of-mine", "crimson-text", "secret_program", "while True"):
            assert kept not in text
    assert all(DATED.match(line) for line in log.splitlines())


BAR = """
import logging, time
from saccade.cli.screen import screen
from saccade.cli.output import Logs
from saccade.evals.grades import EvalProgress

log = logging.getLogger("saccade.core.retry")
with Logs() as logs, screen() as show:
    for number in range(3):
        show(EvalProgress(total=3, played=number))
        log.warning("openai:m asks for a pause (429). Trying again in %d s.", number)
        time.sleep(0.15)
"""


def test_bars_and_lines_do_not_garble_each_other() -> None:
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100"}
    with subprocess.Popen([sys.executable, "-c", BAR], stdout=theirs, stderr=theirs, env=environment) as run:
        os.close(theirs)
        seen = b""
        while True:
            try:
                piece = os.read(ours, 65536)
            except OSError:  # Linux says so when the last writer has gone
                break
            if not piece:
                break
            seen += piece
    os.close(ours)
    assert run.returncode == 0, seen
    text = seen.decode()
    assert "\u2501" in text or "\u2578" in text, "no bar was drawn"
    for number in range(3):
        # On a line of its own: after the bar was wiped, and before it is drawn anew.
        line = rf"(^|\n|\r|\x1b\[2K|\x1b\[1A)openai:m asks for a pause \(429\)\. Trying again in {number} s\. *\r?\n"
        assert re.search(line, re.sub(r"\x1b\[[\d;]*m", "", text)), text
