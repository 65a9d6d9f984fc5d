"""Mistakes that people make: each command says what to do, ends with the right code and leaves nothing behind."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from PIL import Image
from tests.models.wire_server import WireServer, chat, raw, status

from saccade.cli.main import main
from saccade.record.codec import append_lines, read_lines
from saccade.record.task import Task

ANSWER = "<answer>\n\\boxed{red}\n</answer>"


CODE = "<code>\n```python\nprint(1)\n```\n</code>"


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "400")
    Image.new("RGB", (8, 4), "red").save("photo.png")
    Path("said.json").write_text(json.dumps([ANSWER]))
    Path("codes.json").write_text(json.dumps([CODE, CODE]))
    Path("notes.txt").write_text("hello")
    Path("mine.py").write_text("")
    Path("empty").mkdir()
    Path("loop").symlink_to("loop")


def output(capsys: pytest.CaptureFixture[str], code: int, *argv: str) -> str:
    """Everything that the command prints, which ends with that code and without a traceback."""
    capsys.readouterr()
    assert main(list(argv)) == code
    out, err = capsys.readouterr()
    assert "Traceback" not in err
    return out + err


def asked(capsys: pytest.CaptureFixture[str], code: int, *more: str, model: str = "scripted:said.json") -> str:
    return output(capsys, code, "ask", "photo.png", "Which colour?", "--model", model, *more)


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (("ask", "ftp://host/a.jpg", "q?"), "ftp://host/a.jpg cannot be had: only http:// and https:// are downloaded"),
        (("ask", "photo.png", "q?", "--prompt-file", "no.txt"), "no.txt cannot be read: No such file or directory."),
        (("ask", "photo.png", "q?", "--prompt-file", "photo.png"), "photo.png cannot be read: it is no UTF-8 text."),
        (("ask", "photo.png", "q?", "--settings", "notes.txt"), "notes.txt is not valid TOML"),
        (("ask", "photo.png", "q?", "--set", "tools=ocr"), """tools: is a list, and got 'ocr'. Write ["ocr"]"""),
        (("ask", "photo.png", "q?", "--dialect", "vista", "--set", 'tools=["zzz"]'), "tools has no 'zzz'."),
        (("ask", "photo.png", "q?", "--model", "local:/no/folder"), "there is no folder /no/folder. Give"),
        (("ask", "photo.png", "q?", "--model", "local:./empty"), "the folder ./empty holds no checkpoint"),
        (("eval", "maze", "--out", "x", "--shard", "1of3"), "shard 1of3: write I/N, from 1/N to N/N, as in 1/4"),
        (("eval", "maze", "--out", "x", "--headline", "judge"), "there is no judge: name one with --judge"),
        (("eval", "--out", "x"), "Where the tasks come from: a world"),
        (("ask", "photo.png", "  "), "the question is empty"),
        (("ask", "notes.txt", "q?"), "notes.txt is neither a picture of a known format"),
        (("ask", "loop", "q?"), "loop cannot be read: it is a link that leads back to itself"),
        (("ask", "photo.png", "q?", "--choice", "a", "--choice", "a"), "the choice 'a' is given twice"),
        (("report", "notes.txt"), "notes.txt holds no episode that can be shown."),
        (("convert", ".", "--out", "x", "--from", "sharegp", "--to", "swift"), "'sharegpt'"),
        (("convert", ".", "--out", "x", "--from", "swift", "--to", "thyme", "--dialect", "pyvisio"), "'pyvision'"),
        (("curate", "empty"), "--pipeline"),
        (("synth", "video-events", "--dialect", "vista", "--out", "x", "--n", "1"), "shows pictures only"),
        (("synth", "circled-leter", "--dialect", "vista", "--out", "x", "--n", "1"), "'circled-letter'"),
        (("synth", "maze", "--dialect", "vista", "--out", "x", "--set", "expert.verbosty=short"), "'verbosity'"),
        (("cards", "show", "vstra"), "'vstar'"),
        (("cards", "check", "empty"), "--card"),
        (("doctor", "--require", "moat"), "seccomp"),
        (("worlds", "sheet", "nested-squars"), "'nested-squares'"),
        (("worlds", "sheet", "nested-squares", "--split", "dev"), "train, validation, test"),
        (("worlds", "sheet", "nested-squares", "--set", "moist=3"), "'most'"),
        (("demo", "--image", "no.jpg", "--out", "x"), "Check the path"),
        (("sft", "plain", "--model", "tiny", "--data", "empty", "--out", "x"), "empty is no run folder"),
        (("rl", "vista-r1", "--model", "tiny", "--tasks", "mase", "--out", "x"), "'maze'"),
        (("sft", "plain", "--model", "tiny", "--data", "gone", "--out", "x"), "gone is no run folder: it is not there"),
        (("eval", "mine.py", "--out", "x"), "Of code, name what is in it: mine.py:NAME."),
        (
            ("ask", "photo.png", "q?", "--model", "vllm:m@host"),
            "'host' is no address, and vllm needs an address: vllm:m@",
        ),
        (("review", "empty", "--rate", "a\nb"), "a name has letters that can be printed"),
        (("protocols", "gone/run"), "gone/run is no run folder: it is not there"),
        (("tasks", "check", "loop"), "loop is a link that leads back to itself"),
        (("tasks", "show", "echo", "--tag", "none"), "has the wanted tags"),
    ],
)
def test_it_is_refused_in_words(argv: tuple[str, ...], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    model = ("--model", "scripted:said.json") if argv[0] in ("ask", "eval") and "--model" not in argv else ()
    assert words in output(capsys, 2, *argv, *model)
    assert not Path("x").exists()
    assert not Path("report.html").exists()


def test_a_mistake_in_an_option_is_not_blamed_on_the_file_alone(capsys: pytest.CaptureFixture[str]) -> None:
    Path("some.toml").write_text("[limits]\nturns = 3\n")
    assert "some.toml or what was set over it" in asked(capsys, 2, "--settings", "some.toml", "--set", "limits.turn=3")


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("sampling.temperature=0.3", "scripted does not sample: sampling.temperature changes nothing."),
        ("frames.fps=2", "frames.fps=2.0 changes nothing: there is no video"),
    ],
)
def test_a_setting_that_changes_nothing_is_named(setting: str, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert words in asked(capsys, 0, "--set", setting)
    out = ("eval", "nested-squares", "--n", "1", "--model", "solver", "--dialect", "direct", "--out", "run")
    found = output(capsys, 0, *out, "--set", setting)
    assert words.replace("scripted", "solver") in found or "frames.fps=2.0 changed nothing." in found


def test_a_question_without_a_picture_is_asked_with_a_word(capsys: pytest.CaptureFixture[str]) -> None:
    assert "no picture is given" in output(capsys, 0, "ask", "Which colour?", "--model", "scripted:said.json")
    assert "no picture is given" not in asked(capsys, 0)


def test_the_limit_that_ended_it_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    found = asked(capsys, 1, "--set", "limits.turns=1", "--dialect", "codedance", model="scripted:codes.json")
    assert "limits.turns is 1; allow more with --set limits.turns=N." in found


def test_a_server_that_is_no_model_is_told_from_a_broken_answer(
    server: WireServer, capsys: pytest.CaptureFixture[str]
) -> None:
    server.will(raw("<html>log in</html>", "text/html"))
    found = asked(capsys, 3, "--set", "retry.tries=1", model=f"compatible:m@{server.url}/v1")
    assert "sent neither an answer nor an error. Is its address right" in found


def test_a_full_context_says_what_helps(server: WireServer, capsys: pytest.CaptureFixture[str]) -> None:
    server.will(status(400, "This model's maximum context length is 8 tokens"))
    model = f"compatible:m@{server.url}/v1"
    assert "show smaller or fewer pictures (media.shown_pixels)" in asked(capsys, 1, model=model)
    found = output(capsys, 0, "eval", "nested-squares", "--n", "2", "--model", model, "--out", "run")
    assert "No sample had a turn: question and pictures alone do not fit." in found


def test_a_folder_of_another_command_is_named_so(capsys: pytest.CaptureFixture[str]) -> None:
    asked(capsys, 0, "--out", "kept")
    words = "kept holds the run of another command: its settings.toml does not say sources. Name another folder."
    assert words in output(capsys, 2, "eval", "maze", "--model", "scripted:said.json", "--out", "kept")
    assert words in output(capsys, 2, "regrade", "kept")
    assert "kept holds the run of another command" in output(
        capsys, 2, "synth", "maze", "--dialect", "codev", "--out", "kept"
    )


def test_a_refused_model_or_judge_leaves_no_run_behind(capsys: pytest.CaptureFixture[str]) -> None:
    run = ("eval", "nested-squares", "--n", "1", "--dialect", "direct", "--out", "run")
    assert "no provider of models 'foo'" in output(capsys, 2, *run, "--model", "foo")
    assert "no provider of models 'foo'" in output(capsys, 2, *run, "--model", "solver", "--judge", "foo")
    assert not Path("run").exists()
    output(capsys, 0, *run, "--model", "solver")
    before = Path("run/settings.toml").read_text()
    assert "no provider of models 'foo'" in output(capsys, 2, *run, "--model", "solver", "--judge", "foo")
    assert "no provider of models 'foo'" in output(capsys, 2, "regrade", "run", "--judge", "foo")
    assert Path("run/settings.toml").read_text() == before


def test_the_headline_of_a_judge_that_the_run_has(capsys: pytest.CaptureFixture[str]) -> None:
    run = ("eval", "nested-squares", "--n", "1", "--dialect", "direct", "--model", "solver", "--out", "run")
    output(capsys, 0, *run)
    assert "there is no judge: name one with --judge" in output(capsys, 2, "regrade", "run", "--headline", "judge")
    Path("judge.json").write_text(json.dumps(['{"score": 1}']))
    output(capsys, 0, *run, "--judge", "scripted:judge.json")
    assert "the headline is by the judge" in output(capsys, 0, *run, "--headline", "judge")
    assert "the headline is by the rule" in output(capsys, 0, "regrade", "run", "--headline", "rule")


def test_a_judge_that_refuses_is_heard(server: WireServer, capsys: pytest.CaptureFixture[str]) -> None:
    output(capsys, 0, "eval", "nested-squares", "--n", "2", "--dialect", "direct", "--model", "solver", "--out", "run")
    server.will(status(404, "The model does not exist"))
    found = output(capsys, 0, "regrade", "run", "--judge", f"compatible:m@{server.url}/v1")
    assert found.count("the judge gave no verdict (refused)") == 1
    assert "The model does not exist" in found


def test_a_source_twice_and_a_shard_without_tasks_are_said(capsys: pytest.CaptureFixture[str]) -> None:
    run = ("eval", "nested-squares", "nested-squares", "--n", "1", "--dialect", "direct", "--model", "solver")
    found = output(capsys, 0, *run, "--shard", "2/2", "--out", "run")
    assert "nested-squares is named more than once, and is played once." in found
    assert "No task is in this run: there are fewer tasks than the parts of --shard 2/2." in found


def test_sampling_without_a_teacher_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    run = ("synth", "nested-squares", "--n", "1", "--dialect", "codev", "--out", "run")
    found = output(capsys, 0, *run, "--set", "teacher.sampling.temperature=0.4")
    assert "no teacher is named, so teacher.sampling.temperature changes nothing." in found


def test_a_solver_that_writes_no_program_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    run = ("eval", "nested-squares", "--n", "1", "--model", "solver")
    words = "The solver wrote no program and answered `unknown`"
    assert words in output(capsys, 0, *run, "--dialect", "vista", "--out", "vista")
    assert words not in output(capsys, 0, *run, "--dialect", "codedance", "--out", "codedance")


def test_turns_that_were_cut_off_are_told_from_prose(server: WireServer, capsys: pytest.CaptureFixture[str]) -> None:
    model = f"compatible:m@{server.url}/v1"
    server.will(chat("I think about", finish="length"))
    assert "Each of these was cut off at its limit of tokens" in asked(capsys, 1, model=model)
    server.will(chat("I think it is red."))
    found = asked(capsys, 1, model=model)
    assert "it does not follow the dialect" in found
    assert "cut off" not in found


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=512k", "none", str(folder)], capture_output=True)
    if mounted.returncode:
        pytest.skip("this user may not mount a tmpfs")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(disk: Path) -> Path:
    """Leaves no byte."""
    file = disk / "filler"
    with suppress(OSError), file.open("ab", buffering=0) as filler:
        while filler.write(b"x" * 512):
            pass
    return file


def read_only(disk: Path) -> None:
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)


def refused(capsys: pytest.CaptureFixture[str], *command: str, code: int = 3) -> tuple[str, str]:
    """What the command prints, which ends with that code and with a message of at most three lines."""
    capsys.readouterr()
    assert main(list(command)) == code
    out, err = capsys.readouterr()
    message = err[err.index("saccade: ") :]
    assert "Traceback" not in err
    assert message.count("\n") <= 3
    return out, message


def ask(tmp_path: Path, disk: Path) -> list[str]:
    Image.new("RGB", (8, 4), "red").save(tmp_path / "photo.png")
    (tmp_path / "script.json").write_text(json.dumps([ANSWER]))
    named = ["--model", f"scripted:{tmp_path / 'script.json'}", "--out", str(disk / "run")]
    return ["ask", str(tmp_path / "photo.png"), "Which colour?", *named]


def evaluate(out: Path, *more: str) -> list[str]:
    return ["eval", "nested-squares", "--n", "4", "--model", "solver", "--dialect", "direct", "--out", str(out), *more]


FILLING = """
from contextlib import suppress
from saccade.models.scripted import ScriptedModel

class Filling(ScriptedModel):
    def __init__(self):
        super().__init__([{answer!r}], name="filling")

    async def complete(self, request, media, *, on_text=None):
        with suppress(OSError), open({filler!r}, "ab", buffering=0) as file:
            while file.write(b"x" * 512):
                pass
        return await super().complete(request, media, on_text=on_text)
"""
"""A model of the user's own, while which is asked the disk fills."""


def test_a_paid_answer_is_printed_though_it_cannot_be_kept(
    tmp_path: Path, disk: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ask(tmp_path, disk)
    assert main(command) == 0
    complete, filler = (disk / "run" / "trajectories.jsonl").read_bytes(), disk / "filler"
    (tmp_path / "filling.py").write_text(FILLING.format(answer=ANSWER, filler=str(filler)))
    filling = [*command, "--model", f"{tmp_path / 'filling.py'}:Filling"]
    out, message = refused(capsys, *filling)
    assert "red" in out
    assert "Kept in" not in out
    assert "trajectories.jsonl cannot be used: the disk is full." in message
    filler.unlink()
    out, _ = refused(capsys, *filling, "--json")
    assert json.loads(out)["answer"] == "red"
    assert (disk / "run" / "trajectories.jsonl").read_bytes() == complete
    filler.unlink()
    assert main(command) == 0


def test_a_disk_without_room_for_the_picture_is_refused_before_anything_is_asked(
    tmp_path: Path, disk: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ask(tmp_path, disk)
    fill(disk)
    out, message = refused(capsys, *command)
    assert out == ""
    assert "the disk is full" in message


def test_a_run_folder_that_may_not_be_written_is_refused_before_anything_is_asked(
    tmp_path: Path, disk: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ask(tmp_path, disk)
    read_only(disk)
    out, message = refused(capsys, *command)
    assert message.startswith(f"saccade: {disk}")  # and no picture is blamed
    assert "read-only" in message
    assert "photo.png" not in message
    assert out == ""


def test_an_evaluation_continues_when_there_is_space_again(
    tmp_path: Path, disk: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(evaluate(disk / "run", "--n", "2")) == 0
    complete = (disk / "run" / "trajectories.jsonl").read_bytes()
    filler = fill(disk)
    _, message = refused(capsys, *evaluate(disk / "run"))
    assert "the disk is full" in message
    assert (disk / "run" / "trajectories.jsonl").read_bytes() == complete
    filler.unlink()
    assert main(evaluate(disk / "run")) == 0
    assert main(evaluate(tmp_path / "run")) == 0
    results = [(folder / "run" / "results.jsonl").read_bytes() for folder in (disk, tmp_path)]
    assert results[0] == results[1]


def test_what_reads_a_run_says_that_it_cannot_write(
    tmp_path: Path, disk: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = disk / "run"
    assert main(evaluate(run)) == 0
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    commands = (
        ["show", str(run), "--no-open"],
        ["report", str(run)],
        ["regrade", str(run), "--grader", "text"],
        ["protocols", str(run), "--only", "tool_use"],
        ["merge", str(run), "--out", str(disk / "merged")],
        ["export", str(run), "--format", "csv"],
    )
    filler = fill(disk)
    for command in commands:
        assert "the disk is full" in refused(capsys, *command)[1]
    filler.unlink()
    read_only(disk)
    for command in commands:
        assert "read-only" in refused(capsys, *command)[1]
    assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file()} == before


def test_a_path_that_no_folder_can_have(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "/proc/" in refused(capsys, *evaluate(Path("/proc/no-such/run")))[1]


def test_a_full_disk_leaves_no_half_line(disk: Path) -> None:
    file = disk / "tasks.jsonl"
    append_lines(file, [Task(id="a", question="?")])
    fill(disk)
    with pytest.raises(OSError, match=r"No space.*tasks.jsonl"):
        append_lines(file, [Task(id="b", question="x" * 100_000)])
    assert [task.id for task in read_lines(file, Task)] == ["a"]
