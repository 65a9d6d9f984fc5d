"""`saccade ask` on the command line: what it prints, keeps and returns."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import pytest
from PIL import Image
from rich.console import Console
from tests.models.wire_server import WireServer, chat, status, then_slow
from tests.tasks.sources.files import video

from saccade.cli import ask as ask_module
from saccade.cli.ask import NO_MODEL
from saccade.cli.main import main
from saccade.cli.output import visible
from saccade.cli.screen import AskScreen
from saccade.episode.ask import Question
from saccade.episode.flow import Said, Wrote
from saccade.episode.run_folder import unfinished
from saccade.errors import SettingsError, UnavailableError
from saccade.models.base import Completion
from saccade.plugins.worlds import tiny
from saccade.plugins.worlds.tiny import known_kind
from saccade.record.codec import read_lines
from saccade.record.trajectory import STOPS, FinishReason, StopReason, Trajectory
from saccade.tasks.worlds import draw_sample, load_world

LOOK = "I look.\n<code>\n```python\nprint(image_clue_0.size)\nimage_clue_0.show()\n```\n</code>"


ANSWER = "Red.\n<answer>\n\\boxed{red \x1b]0;owned\x07}\n</answer>"


@pytest.fixture
def photo(tmp_path: Path) -> Path:
    path = tmp_path / "photo.png"
    Image.new("RGB", (8, 4), "red").save(path)
    return path


def scripted(tmp_path: Path, *texts: str) -> str:
    path = tmp_path / "script.json"
    path.write_text(json.dumps(texts))
    return f"scripted:{path}"


def ask(photo: Path, *more: str) -> int:
    return main(["ask", str(photo), "Which colour?", *more])


def test_an_episode_as_it_happens(photo: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "run"
    assert ask(photo, "--model", scripted(tmp_path, LOOK, ANSWER), "--out", str(out)) == 0
    shown = capsys.readouterr().out
    for piece in (
        "turn 1",
        "image_clue_0.show()",
        "(8, 4)",
        "picture (show): 8×4",
        "red ␛]0;owned␇",
        "2 turns, 1 call",
    ):
        assert piece in shown
    assert "\x1b" not in shown
    (stored,) = read_lines(out / "trajectories.jsonl", Trajectory)
    assert stored.answer == "red \x1b]0;owned\x07"
    assert 'dialect = "pyvision"' in stored.provenance.settings
    assert (out / "settings.toml").read_text() == stored.provenance.settings
    assert all((out / "media" / part.sha256[:2] / part.sha256).is_file() for part in stored.media())
    assert ask(photo, "--model", scripted(tmp_path, ANSWER), "--out", str(out)) == 0
    assert len({item.id for item in read_lines(out / "trajectories.jsonl", Trajectory)}) == 2


def test_json_is_all_that_is_printed(photo: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert ask(photo, "--model", scripted(tmp_path, LOOK, ANSWER), "--json") == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["answer"], said["stop"], said["turns"], said["calls"]) == ("red \x1b]0;owned\x07", "answered", 2, 1)


def test_exit_codes(photo: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = scripted(tmp_path, LOOK, "No.", "No.")
    assert ask(photo, "--model", model, "--set", "limits.turns=2") == 1
    assert STOPS[StopReason.TURN_LIMIT].words in capsys.readouterr().out
    assert ask(photo, "--model", scripted(tmp_path, LOOK)) == 3  # the script ends: the backend refuses
    assert "has 1 replies" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ([], "no model is named. Use --model"),
        (["--model", "opnai:x"], "Did you mean 'openai'"),
        (["--model", "openai:gpt-4.1"], "OPENAI_API_KEY"),
        (["--model", "M", "--dialect", "pyvison"], "pyvision"),
        (["--model", "M", "--set", "limits.turn=2"], "turns"),
        (["--model", "M", "--set", "tools=['crop']"], "offers no typed tools"),
        (["--model", "vllm:m@http://x/v1", "--set", "model.retry.tries=1"], "model.retry.tries: cannot be set"),
        (["--model", "compatible:m@http://127.0.0.1:9/v1", "--set", "sampling.top_k=5"], "not know sampling.top_k"),
        (["--model", "M", "--prompt-file", "no-such-file"], "no-such-file"),
        (["--model", "M", "--image", "no-such.png"], "no-such.png"),
        (["--model", "M", "--dialect", "pyvision-rl-video"], "is for videos"),
    ],
)
def test_mistakes_are_named_before_a_model_is_asked(
    photo: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], more: list[str], says: str
) -> None:
    model = scripted(tmp_path, ANSWER)
    assert ask(photo, *(model if word == "M" else word for word in more)) == 2
    assert says in " ".join(capsys.readouterr().err.split())


def test_several_pictures_and_none(photo: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    rest = ["--model", scripted(tmp_path, ANSWER), "--out", str(out)]
    assert main(["ask", str(photo), str(photo), "Which colours?", "--image", str(photo), *rest]) == 0
    assert main(["ask", "What is 2 + 2?", *rest]) == 0
    several, none = read_lines(out / "trajectories.jsonl", Trajectory)
    assert [item.name for item in several.task.media] == ["0-photo.png", "1-photo.png", "2-photo.png"]
    assert (none.task.media, none.task.question) == ((), "What is 2 + 2?")


@pytest.mark.parametrize(("command", "option"), [("ask", "--model"), ("eval", "--model"), ("eval", "--judge")])
def test_a_password_in_an_address_is_neither_recorded_nor_shown(
    command: str, option: str, photo: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    address, out = "compatible:m@http://me:hidden-word@127.0.0.1:9/v1", tmp_path / "out"
    asked = [str(photo), "Which colour?"] if command == "ask" else ["visual-search", "--n", "1"]
    model = [] if option == "--model" else ["--model", scripted(tmp_path, ANSWER)]
    assert main([command, *asked, *model, option, address, "--out", str(out)]) == 2
    said = capsys.readouterr()
    assert "holds a user or a password" in " ".join(said.err.split())
    kept = [file.read_text(errors="replace") for file in tmp_path.rglob("*") if file.is_file()]
    assert not any("hidden-word" in text for text in [said.out, said.err, *kept])


@pytest.mark.parametrize("words", [["PHOTO"], ["PHOTO", "PHOTO"], ["https://example.org/a.jpg"]])
def test_a_forgotten_question(words: list[str], photo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = [str(photo) if word == "PHOTO" else word for word in words]
    assert main(["ask", *given, "--model", "scripted:nowhere"]) == 2
    assert f"{given[-1]} is a picture, and there is no question" in " ".join(capsys.readouterr().err.split())


def test_a_question_may_be_longer_than_any_name_of_a_file(photo: Path, tmp_path: Path) -> None:
    question = "Look at fig.2 and describe what you see in it. " * 200
    assert main(["ask", str(photo), question, "--model", scripted(tmp_path, ANSWER)]) == 0


def test_an_address_says_how_it_is_allowed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = scripted(tmp_path, ANSWER)
    assert main(["ask", "http://127.0.0.1:9/a.jpg", "Which?", "--model", model]) == 2
    assert "http://127.0.0.1:9/a.jpg is an address of the web" in " ".join(capsys.readouterr().err.split())
    assert main(["ask", "http://127.0.0.1:9/a.jpg", "Which?", "--model", model, "--allow-urls"]) == 2
    assert "http://127.0.0.1:9/a.jpg cannot be had" in " ".join(capsys.readouterr().err.split())


def test_what_was_done_to_a_picture_is_said(photo: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    note = "photo.png: this picture has 80x40 pixels and is shown scaled down to 39x19, 1 pixel for 2.05"
    Image.new("RGB", (80, 40), "red").save(photo)
    rest = ["--model", scripted(tmp_path, ANSWER), "--set", "media.shown_pixels=784"]
    assert ask(photo, *rest) == 0
    assert note in " ".join(capsys.readouterr().out.split())
    assert ask(photo, *rest, "--json") == 0
    assert json.loads(capsys.readouterr().out)["notes"] == [note]


def test_settings_come_from_a_file_and_options_come_first(
    photo: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "ask.toml"
    file.write_text('model = "scripted:nowhere"\ndialect = "codedance"\n[limits]\nturns = 3\n')
    out = tmp_path / "run"
    model = scripted(tmp_path, "<answer>red</answer>")
    assert ask(photo, "--settings", str(file), "--model", model, "--out", str(out)) == 0
    (stored,) = read_lines(out / "trajectories.jsonl", Trajectory)
    assert stored.provenance.dialect == "codedance@1:paper"
    assert stored.provenance.limits.turns == 3
    assert stored.provenance.model == model


def test_a_prompt_file_of_ones_own(photo: Path, tmp_path: Path) -> None:
    prompt = tmp_path / "prompt.txt"
    prompt.write_text("Mine: {query}")
    out = tmp_path / "run"
    model = scripted(tmp_path, ANSWER)
    assert ask(photo, "--model", model, "--prompt-file", str(prompt), "--out", str(out)) == 0
    (stored,) = read_lines(out / "trajectories.jsonl", Trajectory)
    assert "Mine: Which colour?" in stored.prompt[0].text


@pytest.mark.parametrize("name", ["no_tool", "no_tool_no_cot", "vistool", "vistool_with_img_info_v2", "retool"])
def test_a_template_of_the_published_file_by_its_name(name: str, photo: Path, tmp_path: Path) -> None:
    """PyVision's JSON holds a text for each kind of run; one of them, `retool`, is for questions without a picture."""
    prompts = tmp_path / "prompts.json"
    names = ("retool", "vistool", "vistool_with_img_info_v2", "no_tool", "no_tool_no_cot")
    prompts.write_text(json.dumps({known: f"{known}: {{query}}" for known in names}))
    dialect = "direct" if name.startswith("no_tool") else "pyvision"
    media = [] if name == "retool" else [str(photo)]
    options = ["--model", scripted(tmp_path, ANSWER), "--dialect", dialect, "--prompt-file", str(prompts)]
    out = tmp_path / "run"
    command = ["ask", *media, "Which colour?", *options, "--set", f"prompt_names.user={name}", "--out", str(out)]
    assert main(command) == 0
    (stored,) = read_lines(out / "trajectories.jsonl", Trajectory)
    assert f"{name}: Which colour?" in stored.prompt[-1].text
    assert len(stored.prompt[-1].media) == len(media)


def test_a_video_and_a_picture_in_one_question(photo: Path, tmp_path: Path) -> None:
    """The scaffold for models behind an API takes both: frames of the video, and the picture."""
    clip = video(tmp_path / "clip.mp4")
    out = tmp_path / "run"
    model = scripted(tmp_path, "<code>\n```python\nprint(image_clue_2.size)\n```\n</code>", ANSWER)
    options = ["--model", model, "--dialect", "pyvision", "--out", str(out)]
    assert main(["ask", str(clip), str(photo), "Is it in the clip?", *options]) == 0
    (stored,) = read_lines(out / "trajectories.jsonl", Trajectory)
    frames = [item.frame.second for item in stored.task.media if item.frame is not None]
    assert frames == [0.0, 1.0]
    assert len(stored.prompt[-1].media) == 3
    execution = stored.turns[0].execution
    assert execution is not None
    assert execution.stdout is not None
    assert "(" in execution.stdout


def test_ctrl_c_keeps_what_there_is(photo: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    hang = "<code>\n```python\nprint('begun')\nwhile True: pass\n```\n</code>"
    program = "import sys; from saccade.cli.main import main; sys.exit(main())"
    command = [sys.executable, "-c", program, "ask", str(photo), "Q?"]
    child = subprocess.Popen(
        [*command, "--model", scripted(tmp_path, LOOK, hang), "--out", str(out)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    assert child.stdout is not None
    seen = ""
    while "while True" not in seen:
        line = child.stdout.readline()
        assert line, child.stderr.read() if child.stderr else ""
        seen += line
    time.sleep(0.3)
    child.send_signal(signal.SIGINT)
    rest, _ = child.communicate(timeout=30)
    assert child.returncode == 130
    assert STOPS[StopReason.CANCELLED].words in rest
    (stored,) = read_lines(out / "trajectories.jsonl", Trajectory)
    assert stored.stop is StopReason.CANCELLED
    assert len(stored.turns) == 2


def test_nothing_that_a_terminal_obeys_is_shown() -> None:
    for code in (*range(32), *range(0x7F, 0xA0), 0x202E, 0x2066):
        if chr(code) not in "\n\t":
            assert chr(code) not in visible(f"a{chr(code)}b")


def test_a_text_that_begins_again_is_said_to() -> None:
    console = Console(record=True, width=80)
    screen = AskScreen(console)
    for piece in ("half a", "", "the whole"):
        screen(Wrote(piece))
    screen(Said(Completion("the whole", FinishReason.STOP)))
    assert "begins this turn again" in console.export_text()


def test_a_tool_that_is_not_installed_is_refused_by_name_and_else_told(
    photo: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "saccade.tools.definition.find_spec", lambda name: None if name.startswith("rapidocr") else find_spec(name)
    )
    vista = ["--model", scripted(tmp_path, "<answer>red</answer>"), "--dialect", "vista"]
    assert ask(photo, *vista, "--set", "tools=['crop', 'ocr']") == 2
    assert "not available here, so no model could call it: ocr (" in capsys.readouterr().err
    ask(photo, *vista)
    assert "Not available here, so not offered:" in " ".join(capsys.readouterr().out.split())


def test_other_settings_do_not_replace_those_of_an_earlier_question(photo: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    for more in ((), ("--set", "limits.turns=3"), ()):
        assert ask(photo, "--model", scripted(tmp_path, ANSWER), "--out", str(out), *more) == 0
    assert "turns = 3" not in (out / "settings.toml").read_text()
    assert "turns = 3" in (out / "settings-2.toml").read_text()
    assert not (out / "settings-3.toml").exists()
    kept = [item.provenance.settings for item in read_lines(out / "trajectories.jsonl", Trajectory)]
    assert ["turns = 3" in text for text in kept] == [False, True, False]


WIDTH = "I look.\n<code>\n```python\nwidth = image_clue_0.width\nprint(width)\n```\n</code>"


MORE = "Again.\n<code>\n```python\nprint(width * 10)\n```\n</code>"


EIGHTY = "<answer>\n\\boxed{80}\n</answer>"


@pytest.fixture
def command(tmp_path: Path, server: WireServer) -> list[str]:
    Image.new("RGB", (8, 4), "red").save(tmp_path / "photo.png")
    named = ["--model", f"vllm:m@{server.url}/v1", "--out", str(tmp_path / "run")]
    return ["ask", str(tmp_path / "photo.png"), "How wide, ten times?", *named]


def stopped(server: WireServer, command: list[str], number: signal.Signals, requests: int) -> int:
    """The exit code of the command, which gets the signal when the server has heard so many requests."""
    process = subprocess.Popen([sys.executable, "-m", "saccade", *command], stdout=subprocess.DEVNULL)
    end = time.monotonic() + 60
    while len(server.bodies) < requests and process.poll() is None and time.monotonic() < end:
        time.sleep(0.01)
    process.send_signal(number)
    return process.wait(30)


def stopped_in_turn_two(server: WireServer, command: list[str], number: signal.Signals) -> int:
    server.will(chat(WIDTH), then_slow(server))
    return stopped(server, command, number, 2)


@pytest.mark.slow
def test_kill_shows_what_there_was_and_the_same_command_continues(
    tmp_path: Path, server: WireServer, command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    assert stopped_in_turn_two(server, command, signal.SIGKILL) == -signal.SIGKILL
    (left,) = unfinished(run)
    assert [turn.text for turn in left.trajectory.turns] == [WIDTH]
    assert main(["show", str(run), "--no-open"]) == 0
    page = (run / "index.html").read_text(encoding="utf-8")
    assert "The episode had not ended when it was recorded." in page
    assert "image_clue_0.width" in page
    server.will(chat(MORE), chat(EIGHTY))
    capsys.readouterr()
    assert main(command) == 0
    printed = capsys.readouterr()
    assert "Continuing an episode that was broken off after turn 1" in printed.out
    assert len(server.bodies) == 2, "the first turn was paid twice"
    (made,) = read_lines(run / "trajectories.jsonl", Trajectory)
    assert [turn.execution and turn.execution.stdout for turn in made.turns] == ["8\n", "80\n", None]
    assert made.answer == "80"
    assert not list(unfinished(run))


@pytest.mark.slow
def test_sigterm_is_as_ctrl_c(tmp_path: Path, server: WireServer, command: list[str]) -> None:
    assert stopped_in_turn_two(server, command, signal.SIGTERM) == 130
    (made,) = read_lines(tmp_path / "run" / "trajectories.jsonl", Trajectory)
    assert (made.stop, [turn.text for turn in made.turns]) == (StopReason.CANCELLED, [WIDTH])


@pytest.mark.slow
def test_sigterm_ends_an_evaluation_and_keeps_what_was_played(tmp_path: Path, server: WireServer) -> None:
    run = tmp_path / "run"
    model = ["--model", f"vllm:m@{server.url}/v1", "--dialect", "direct"]
    command = ["eval", "nested-squares", "--n", "3", "--workers", "1", *model, "--out", str(run)]
    server.will(chat("<answer>4</answer>"), then_slow(server))
    assert stopped(server, command, signal.SIGTERM, 2) == 130
    assert len(list(read_lines(run / "trajectories.jsonl", Trajectory))) == 1
    server.will(chat("<answer>4</answer>"))
    assert main(command) == 0
    assert len(list(read_lines(run / "trajectories.jsonl", Trajectory))) == 3


DOT = "What colour is the dot on the green sign?"


@pytest.fixture(autouse=True)
def weights(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiny, "tiny_weights", lambda: Path("weights"))


@pytest.mark.parametrize(("question", "choices"), [("Count the pentagons in the image.", ()), (DOT, ("red", "blue"))])
def test_a_question_that_was_learned(question: str, choices: tuple[str, ...]) -> None:
    assert ask_module._default_model(Question(question, (), choices)) == "tiny"


def test_any_other_question_says_what_can_be_asked() -> None:
    with pytest.raises(SettingsError, match=r"no model is named(.|\n)*crossings of two coloured lines"):
        ask_module._default_model(Question("What is the mood of this picture?", (), ()))


def test_what_was_learned_with_possible_answers_needs_them() -> None:
    with pytest.raises(SettingsError, match="--choice red"):
        ask_module._default_model(Question(DOT, (), ("red",)))


def test_without_weights_a_model_must_be_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def lost() -> Path:
        raise UnavailableError("no weights")

    monkeypatch.setattr(tiny, "tiny_weights", lost)
    with pytest.raises(SettingsError) as refused:
        ask_module._default_model(Question("Count the pentagons in the image.", (), ()))
    assert str(refused.value) == NO_MODEL


@pytest.mark.parametrize(
    ("world", "kind"),
    [
        ("shape-count", {"counting", "nested-squares"}),
        ("line-crossings", {"line-crossings"}),
        ("nested-squares", {"nested-squares"}),
        ("grid-count", {"rows-columns"}),
        ("touching-circles", {"two-circles"}),
        ("sign-close-up", {"sign", "dot"}),
        ("chart-bar", {"chart"}),
        ("chart-line", {"chart"}),
        ("chart-pie", {"chart"}),
        ("chart-scatter", {"chart"}),
        ("table-arithmetic", {"table"}),
        ("rotated-dark-text", {"word"}),
        ("pixel-colour", {"colour"}),
    ],
)
def test_generated_questions_are_known(world: str, kind: set[str]) -> None:
    loaded = load_world(world)
    knobs = loaded.knobs(kinds=("letter", "dot")) if world == "sign-close-up" else None
    found = [known_kind(draw_sample(loaded, "test", index, knobs).question) for index in range(30)]
    assert sum(item in kind for item in found) >= 27, found


@pytest.mark.parametrize(
    "question",
    [
        "What is the mood of this picture?",
        "Who is this?",
        "How many people are in the photo?",
        "What does the sign say?",
        "What stands in the table?",
        "What is the area of the park?" + " And which words are written on its gate?",
        "",
    ],
)
def test_other_questions_are_of_no_kind(question: str) -> None:
    assert known_kind(question) is None


QUICK = ("--set", "retry.first_seconds=0.01")


@pytest.fixture
def photo_path(tmp_path: Path) -> str:
    Image.new("RGB", (40, 30), "red").save(tmp_path / "photo.png")
    return str(tmp_path / "photo.png")


def at(server: WireServer, provider: str = "compatible") -> str:
    return f"{provider}:m@{server.url}/v1"


def test_waits_are_on_the_screen_with_their_reason(
    server: WireServer, photo_path: str, capsys: pytest.CaptureFixture[str]
) -> None:
    server.will(status(429, "slow down"), status(503, "busy"), chat("<answer>\\boxed{red}</answer>"))
    assert main(["ask", photo_path, "Which colour?", "--model", at(server), *QUICK]) == 0
    printed = capsys.readouterr().err
    assert "is asked in the dialect pyvision: the default" in printed
    assert "asks for a pause (429): slow down. Trying again in 0.0 s (2 of 6)." in printed
    assert "failed (503): busy. Trying again in 0.0 s (3 of 6)." in printed


def test_tries_are_a_setting_and_the_advice_names_it(
    server: WireServer, photo_path: str, capsys: pytest.CaptureFixture[str]
) -> None:
    server.will(status(500, "oh"))
    assert main(["ask", photo_path, "Which colour?", "--model", at(server), *QUICK, "--set", "retry.tries=2"]) == 3
    printed = "".join(capsys.readouterr())
    assert len(server.bodies) == 2
    assert "Tried 2 times; gave up. Try again later, or raise retry.tries." in " ".join(printed.split())
    assert main(["ask", photo_path, "Which colour?", "--model", at(server), "--set", "retry.trys=2"]) == 2
    assert "tries" in capsys.readouterr().err


def test_prose_costs_four_requests_and_says_what_to_try(
    server: WireServer, photo_path: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server.will(chat("I think the sign says EXIT 42."))
    out = tmp_path / "run"
    asked = ["ask", photo_path, "What does it say?", "--model", at(server), "--out", str(out)]
    assert main(asked) == 1
    printed = " ".join(capsys.readouterr().out.split())
    assert len(server.bodies) == 4
    assert "the model wrote 3 turns in a row without an action: it does not follow the dialect pyvision" in printed
    assert "Try --dialect native (for an API with function calls) or direct." in printed
    [kept] = read_lines(out / "trajectories.jsonl", Trajectory)
    assert (kept.stop, kept.answer) == (StopReason.NO_ACTION, None)
    assert "4 turns in a row" in kept.stop_detail


def test_hosted_models_are_asked_by_function_calls_and_may_answer_in_prose(
    server: WireServer, photo_path: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "k-1")
    server.will(chat("I think the sign says EXIT 42."))
    asked = ["ask", photo_path, "What does it say?", "--model", at(server, "openai"), "--json"]
    assert main(asked) == 0
    assert json.loads(capsys.readouterr().out)["answer"] == "I think the sign says EXIT 42."
    assert [tool["function"]["name"] for tool in server.bodies[0]["tools"]] == ["python"]


def test_the_first_failure_of_an_evaluation_is_printed_and_the_kinds_at_its_end(
    server: WireServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server.will(status(404, "no model of that name"))
    evaluated = ["eval", "nested-squares", "--n", "3", "--out", str(tmp_path / "run"), "--model", at(server)]
    assert main([*evaluated, "--workers", "16"]) == 1
    printed = capsys.readouterr()
    assert printed.err.count("no model of that name") == 1
    assert "failed (model_refused): compatible:m refused the request (404)" in printed.err
    assert "3 samples failed (model_refused 3)" in printed.out


def test_prose_in_an_evaluation_is_said_once(
    server: WireServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server.will(chat("Several."))
    assert main(["eval", "nested-squares", "--n", "2", "--out", str(tmp_path / "run"), "--model", at(server)]) == 0
    printed = capsys.readouterr()
    assert len(server.bodies) == 8
    assert printed.err.count("does not follow the dialect pyvision") == 1
    assert "2 samples ended with turns without an action" in printed.out


def test_the_right_form_of_an_address_is_named(
    server: WireServer, photo_path: str, capsys: pytest.CaptureFixture[str]
) -> None:
    bare = server.url.removeprefix("http://")
    assert main(["ask", photo_path, "What?", "--model", f"compatible:ok@{bare}"]) == 2
    assert f"Write compatible:ok@http://{bare}/v1" in capsys.readouterr().err
    assert server.bodies == []


@pytest.mark.parametrize("model", ["gpt-4.1", "opnai:gpt-4.1", "openai:gpt-99"])
def test_nothing_is_said_of_the_dialect_before_a_run_begins(
    photo: Path, tmp_path: Path, model: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    row = json.dumps({"id": "a", "question": "Which?", "answer": "red", "image": str(photo)})
    (tmp_path / "tasks.jsonl").write_text(row + "\n", encoding="utf-8")
    for command in (
        ["ask", str(photo), "Which?", "--model", model],
        ["eval", str(tmp_path / "tasks.jsonl"), "--model", model, "--out", str(tmp_path / "run")],
    ):
        assert main(command) in (2, 3)
        printed = capsys.readouterr()
        assert "dialect" not in printed.err + printed.out
        assert ("Write openai:gpt-4.1." in printed.err) is (model == "gpt-4.1")
