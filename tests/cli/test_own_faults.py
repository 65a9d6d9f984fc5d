"""Every way in which a part of a user's own can be wrong: exit code 2, its file and line, and no traceback."""

from __future__ import annotations

import json
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
from tests.test_extending import FILES

from saccade.cli.main import main, verbs
from saccade.cli.output import MOST, SECONDS, Logged, Logs, Notices, add_log_options, logged
from saccade.errors import SaccadeError
from saccade.training.rl.settings import load_rl_settings
from saccade.training.rl.tasks import open_checked

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


PARTS = {
    "world": ("red_patch.py", "WORLD"),
    "grader": ("first_letter.py", "FIRST_LETTER"),
    "model": ("my_model.py", "Parrot"),
    "dialect": ("shout.py", "SHOUT"),
    "tool": ("flip.py", "Flip"),
    "filter": ("short_answers.py", "ShortAnswers"),
    "reward": ("my_rl.py", "REWARD"),
}
BODY = {
    "world": ("def draw(rng: Rng, knobs: PatchKnobs) -> WorldSample:\n", "    "),
    "grader": ("    def grade(self, answer: str | None, task: Task) -> Verdict:\n", "        "),
    "model": (
        "    async def complete(self, request: Request, media: MediaReader, *, on_text=None) -> Completion:\n",
        " " * 8,
    ),
    "tool": (
        "    def run(self, arguments: FlipArguments, context: ToolContext) -> ToolOutcome[FlipResult]:\n",
        " " * 8,
    ),
    "filter": ("    def decide(self, trajectory: Trajectory) -> FilterOutcome:\n", "        "),
    "reward": ("    def __call__(self, group: RewardGroup) -> tuple[Reward, ...]:\n", "        "),
}
PARSE = "    def parse(self, text: str, finish: FinishReason) -> Action:\n"
OBSERVE = "    def observe(self, execution: Execution, pictures: int) -> Observation:\n"
OPEN = "    def open(self, task: Task) -> Opening:\n"
BODY["dialect"] = (PARSE, "        ")
GIVES = {"None": "gave None", "'text'": "type str", "float('nan')": "type float", "[1, 2]": "gave", "object": "gave"}
GENERAL = [
    *((f"return {value}", said) for value, said in GIVES.items()),
    ("raise OSError('no such thing')", "OSError: no such thing"),
    ("return {}['key']", "KeyError: 'key'"),
    ("return no_such_name", "NameError"),
    ("assert 1 == 2, 'never'", "AssertionError: never"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    root = tmp_path_factory.mktemp("faults")
    for name, text in FILES.items():
        (root / name).write_text(text, encoding="utf-8")
    (root / "pipeline.toml").write_text('[[filter]]\nname = "mine.py:ShortAnswers"\n')
    Image.new("RGB", (64, 32), "red").save(root / "photo.png")
    calls = [
        '<think>a</think><tool_call>{"name": "flip", "arguments": {}}</tool_call>',
        "<think>a</think><answer>a</answer>",
    ]
    (root / "calls.json").write_text(json.dumps(calls))
    before = list(sys.path)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        played = ["red_patch.py:WORLD", "--n", "1", "--model", "my_model.py:Parrot@left", "--dialect", "direct"]
        assert main(["eval", *played, "--out", "played"]) == 0
        yield root
    sys.path[:] = before


_number = iter(range(10_000))


def used(folder: Path, kind: str, source: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    """Use a part of that source as its kind is used: exit code, and what is said."""
    name = f"mine{next(_number)}"  # code is loaded once in a process
    (folder / f"{name}.py").write_text(source)
    part, out = f"{name}.py:{PARTS[kind][1]}", f"out-{name}"
    played = ["--n", "1", "--model", "my_model.py:Parrot@left", "--dialect", "direct", "--out", out]
    capsys.readouterr()
    if kind == "reward":
        try:
            change = [
                f"reward.preset={part}",
                "reward.parameters={}",
                "reward.judge=none",
                "tasks.source=red_patch.py:WORLD",
            ]
            if "turns_to_judge" in source:
                change[2] = "reward.judge=my_rl.py:AnyPicture"
            open_checked(load_rl_settings("my_recipe.toml", overrides=change))
        except SaccadeError as error:
            return 2, str(error)
        return 0, ""
    command = {
        "world": ["eval", part, *played],
        "grader": ["eval", "red_patch.py:WORLD", "--grader", part, *played],
        "model": ["ask", "photo.png", "?", "--model", part, "--dialect", "direct"],
        "dialect": ["ask", "photo.png", "?", "--model", "shouter.py:SHOUTER", "--dialect", part],
        "tool": [
            "ask",
            "photo.png",
            "?",
            "--model",
            "scripted:calls.json",
            "--dialect",
            "vista",
            "--set",
            f'tools=["{part}"]',
        ],
        "filter": ["curate", "played", "--pipeline", "pipeline.toml", "--out", out],
    }[kind]
    (folder / "pipeline.toml").write_text(f'[[filter]]\nname = "{part}"\n')
    code = main(command)
    return code, capsys.readouterr().err


def check(folder: Path, kind: str, source: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert source != FILES[PARTS[kind][0]]
    code, printed = used(folder, kind, source, capsys)
    assert code == 2, printed
    assert "mine" in printed, printed
    assert "line " in printed, printed
    assert said in printed
    assert "Traceback" not in printed
    assert "site-packages" not in printed


@pytest.mark.few(4, of=lambda params: params["kind"])
@pytest.mark.parametrize("kind", PARTS)
@pytest.mark.parametrize(("body", "said"), GENERAL)
def test_a_part_that_gives_something_else_or_raises(
    folder: Path, capsys: pytest.CaptureFixture[str], kind: str, body: str, said: str
) -> None:
    if kind == "tool" and not said.startswith(("gave", "type")):
        pytest.skip("a tool that raises ends its call, not the command")
    head, indent = BODY[kind]
    check(folder, kind, FILES[PARTS[kind][0]].replace(head, f"{head}{indent}{body}\n"), said, capsys)


@pytest.mark.few(4, of=lambda params: params["kind"])
@pytest.mark.parametrize("kind", PARTS)
@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("async", "async"),
        ("yields", "yields, and must return"),
        ("signature", "cannot be called"),
        ("import", "No module named 'no_such_module'"),
        ("syntax", "SyntaxError"),
        ("missing", ""),
        ("number", ""),
    ],
)
def test_a_part_that_is_written_otherwise(
    folder: Path, capsys: pytest.CaptureFixture[str], kind: str, change: str, said: str
) -> None:
    source, (head, indent) = FILES[PARTS[kind][0]], BODY[kind]
    name = head.partition("def ")[2].partition("(")[0]
    own = head[: len(head) - len(head.lstrip())]
    if change == "async":
        new = head.replace("async def", "def") if "async" in head else head.replace("def ", "async def ", 1)
    elif change == "yields":
        new, said = f"{head.replace('async def', 'def')}{indent}yield\n", "async" if "async" in head else said
    elif change == "signature":
        new = f"{own}{'async ' * ('async' in head)}def {name}({'self' if own else ''}):\n"
    elif change == "missing":
        new = head.replace(name, "other", 1) if own else head.replace("def draw", "draw = None\ndef other")
    elif change == "number":
        new = f"{own}{name} = 3\n{head.replace(name, 'other', 1)}"
    else:
        new = head
        source = {"import": "import no_such_module\n", "syntax": "def broken(:\n"}[change] + source
    code, printed = used(folder, kind, source.replace(head, new), capsys)
    assert code == 2, printed
    assert "mine" in printed, printed
    assert said in printed
    assert "Traceback" not in printed
    if change not in ("missing", "number"):
        assert "line " in printed, printed


TOLD = [
    ("world", "answer=answer,", 'answer="up",', "the gold answer 'up' is none of the choices"),
    ("world", 'media={"image_0": picture},', "media={},", "holds no picture"),
    ("world", 'media={"image_0": picture},', 'media={"image_0": "photo.png"},', "media"),
    ("world", 'question="On which side is the red patch?",', "question=None,", "question is None"),
    ("world", 'tags=("side",),', 'tags=["side"],', "tags is ['side']"),
    ("world", "box = (x, 100, x + knobs.side", "box = (x, 100, x + 2000", "reaches beyond"),
    ("world", 'image="image_0", xyxy', 'image="image_7", xyxy', "names the picture 'image_7'"),
    ("world", 'tags=("side",),', "difficulty=float('nan'),", "difficulty"),
    ("world", 'Image.new("RGB", (1000, 300), (40, 40, 40))', 'Image.new("RGB", (0, 0))', "without pixels"),
    ("grader", 'right("same", said)', "Verdict(7.0, 'x')", "correct is 7.0, not from 0 to 1"),
    ("grader", "return judged(", "return Verdict(1.0, None) or judged(", "reason is None"),
    ("model", "text=text, finish", "text=None, finish", "text is None"),
    ("model", "finish=FinishReason.STOP", "finish='stop'", "finish is 'stop'"),
    ("model", "finish=FinishReason.STOP", "finish=FinishReason.STOP, tool_calls=[{}]", "tool_calls is [{}]"),
    ("model", "async def close", "def close", "close() is awaited"),
    ("model", 'answer: str = "7") -> None:\n', 'answer: str = "7") -> None:\n        1 / 0\n', "ZeroDivisionError"),
    ("dialect", OBSERVE, f"{OBSERVE}        return None\n", "gave None, and must give Observation"),
    ("dialect", OBSERVE, f"{OBSERVE}        return Observation('text', {{}}, 0)\n", "message is 'text'"),
    ("dialect", OBSERVE, OBSERVE.replace(", pictures: int", ""), "cannot be called"),
    ("dialect", OPEN, f"{OPEN}        return None\n", "gave None, and must give Opening"),
    ("dialect", OPEN, f"{OPEN}        return 1 / 0\n", "ZeroDivisionError"),
    ("tool", "image=source.name), (", "image=source.name), 3 or (", "pictures is 3"),
    ("filter", 'Drop("long answer"', "Drop(None", "reason is None"),
    ("reward", "return reward_each(group, one)", "return reward_each(group, one)[:1]", "gave 1 of the 2"),
    ("reward", "return reward_each(group, one)", "return (1.0, 2.0)", "must give Reward each"),
    ("reward", "value=accuracy(trajectory)", "value=float('nan')", "finite number"),
]


@pytest.mark.parametrize(("kind", "old", "new", "said"), TOLD)
def test_a_field_that_is_wrong(
    folder: Path, capsys: pytest.CaptureFixture[str], kind: str, old: str, new: str, said: str
) -> None:
    source = FILES[PARTS[kind][0]].replace(old, new)
    if kind == "filter":
        source = source.replace("most: int = 20", "most: int = 1")
    check(folder, kind, source, said, capsys)


def test_a_run_that_came_to_nothing_may_be_begun_again(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A part that is corrected is another file; nothing was played with the one before."""
    played = ["--n", "1", "--model", "again.py:Parrot@left", "--dialect", "direct", "--out", "again"]
    head, indent = BODY["model"]
    (folder / "again.py").write_text(FILES["my_model.py"].replace(head, f"{head}{indent}return None\n"))
    assert main(["eval", "red_patch.py:WORLD", *played]) == 2
    (folder / "again2.py").write_text(FILES["my_model.py"])
    played[3] = "again2.py:Parrot@left"
    capsys.readouterr()
    assert main(["eval", "red_patch.py:WORLD", *played]) == 0, capsys.readouterr().err
