"""Parts of a user's own where something is not as it should be: what is said, and what is never run."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from PIL import Image
from tests.test_extending import FILES

from saccade.cli.main import main
from saccade.core.settings import save_settings
from saccade.episode.ask import AskSettings, suited
from saccade.errors import RegistryError, SettingsError
from saccade.evals.protocols.errors import call_errors
from saccade.grading.registry import newest, scored_by_rule
from saccade.models.local_text import write_learned
from saccade.models.registry import load_model
from saccade.record.codec import read_lines
from saccade.record.content import ToolCall
from saccade.record.execution import Execution, Status
from saccade.record.task import Task
from saccade.record.trajectory import Trajectory, Turn
from saccade.training.rl.recipe import load_recipe
from saccade.training.rl.settings import load_rl_settings
from saccade.training.settings import check_folder


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The files of docs/extending.md in the current folder; the search path is as before afterwards."""
    before = list(sys.path)
    for name, text in FILES.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    Image.new("RGB", (64, 32), "red").save(tmp_path / "photo.png")
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    sys.path[:] = before


def evaluate(source: str, *more: str, out: str = "run") -> int:
    model = ("--model", "my_model.py:Parrot@left", "--dialect", "direct")
    return main(["eval", source, *model, "--out", out, *more])


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("DIALECT = None\n", "a value of type NoneType without id, stop"),
        ("from shout import Shout\nDIALECT = Shout\n", "the class Shout; name an object of it"),
        ("from shout import Shout\nDIALECT = Shout(id='pyvision@1')\n", "has the id pyvision@1, which is another"),
    ],
)
def test_a_dialect_that_is_none(here: Path, capsys: pytest.CaptureFixture[str], source: str, said: str) -> None:
    (here / "mine.py").write_text(source)
    assert main(["ask", "photo.png", "?", "--model", "my_model.py:Parrot", "--dialect", "mine.py:DIALECT"]) == 2
    printed = capsys.readouterr().err
    assert said in printed
    assert len(printed.splitlines()) <= 3


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ("models.py:READY@x", "a ready model, so nothing may follow"),
        ("models.py:needs_a_name", "write models.py:needs_a_name@NAME"),
        ("models.py:NoName@x", "cannot be made from 'x'"),
        ("models.py:gives_text@x", "made no model: it gave a value of type str without name, complete, close"),
        ("models.py", "name what is in it: models.py:NAME"),
        ("models.py:NUMBER", "is no model: it is a value of type int"),
        ("opnai:gpt", "Did you mean 'openai'"),
    ],
)
def test_a_model_that_is_none(here: Path, wanted: str, said: str) -> None:
    (here / "models.py").write_text(
        "from my_model import Parrot\nREADY = Parrot()\nNUMBER = 3\n"
        "def needs_a_name(name): return Parrot(name)\ndef gives_text(name): return name\n"
        "class NoName(Parrot):\n    def __init__(self): super().__init__()\n"
    )
    with pytest.raises(RegistryError, match=said):
        load_model(wanted)
    assert load_model("models.py:READY").name == "parrot:7"
    assert load_model("models.py:needs_a_name@a@b:c").name == "parrot:a@b:c"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("selection.rule=my_rl.py:Plain", "selection: my_rl.py:Plain is no selection: it is the class Plain"),
        ("advantage.rule=gropo", "advantages has no 'gropo'. Did you mean 'grpo'"),
        ("advantage.scale=much", "advantage.scale: input should be a valid number"),
        ("advantage.scala=1", "advantage.scala: no such setting"),
        ("reward.parameters.wait=1", "weight"),
        ("reward.judge=my_rl.py:REWARDS", "my_rl.py has no 'REWARDS'. Did you mean 'REWARD'"),
        ("reward.judge=none", "judges tool outputs"),
    ],
)
def test_a_recipe_with_a_part_that_is_none(change: str, said: str) -> None:
    with pytest.raises((SettingsError, RegistryError)) as caught:
        load_recipe("my_recipe.toml", overrides=[change])
    assert said in str(caught.value)


def test_a_source_may_be_a_card_or_a_world_in_code(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "cards.py").write_text(
        "from saccade.tasks.benchmarks.registry import load_card\nCARD = load_card('notes.toml')\n"
    )
    assert evaluate("cards.py:CARD", "--data", ".", out="card") == 0
    assert evaluate("red_patch:WORLD", "--n", "1", out="world") == 0
    capsys.readouterr()
    assert evaluate("flip.py:Flip", "--n", "1", out="tool") == 2
    assert "flip.py:Flip is no world: it is the class Flip" in capsys.readouterr().err
    assert main(["cards", "show", "cards.py:CARD"]) == 0
    assert 'id = "notes.py:LOADER"' in capsys.readouterr().out
    assert main(["cards", "show", "flip.py:Flip"]) == 2


def test_a_run_is_not_continued_with_another_file(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = ("--n", "2", "--grader", "first_letter.py:FIRST_LETTER")
    assert evaluate("red_patch.py:WORLD", *given) == 0
    noted = (here / "run/settings.toml").read_text().splitlines()[:2]
    assert [line.partition("  ")[2] for line in noted] == ["first_letter.py", "my_model.py"]
    (here / "run/settings.toml").write_text(
        (here / "run/settings.toml").read_text().replace(noted[0][:20], "# sha256 00000000000")
    )
    assert evaluate("red_patch.py:WORLD", *given) == 2
    assert "first_letter.py has changed" in capsys.readouterr().err


def test_a_run_is_not_continued_with_another_prompt(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "mine.txt").write_text("Look. {query}")
    given = ("--n", "2", "--prompt-file", "mine.txt")
    assert evaluate("red_patch.py:WORLD", *given) == 0
    assert evaluate("red_patch.py:WORLD", *given) == 0
    (here / "mine.txt").write_text("Guess. {query}")
    capsys.readouterr()
    assert evaluate("red_patch.py:WORLD", *given) == 2
    assert "mine.txt has changed" in capsys.readouterr().err


def test_shards_of_two_versions_are_not_merged(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for shard in ("1", "2"):
        assert evaluate("red_patch.py:WORLD", "--n", "4", "--shard", f"{shard}/2", out=shard) == 0
    assert main(["merge", "1", "2", "--out", "whole"]) == 0
    assert "red_patch.py" in (here / "whole/settings.toml").read_text().splitlines()[1]
    second = here / "2/settings.toml"
    second.write_text(second.read_text().replace("# sha256 ", "# sha256 0", 1))
    assert main(["merge", "1", "2", "--out", "again"]) == 2
    assert "other versions of my_model.py" in capsys.readouterr().err


def test_an_error_inside_a_part_is_told_with_its_line(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert evaluate("red_patch.py:WORLD", "--n", "2") == 0
    broken = FILES["brevity.py"].replace('len(studied.trajectory.answer or "")', "studied.trajectory.nothing")
    (here / "broken.py").write_text(broken)
    capsys.readouterr()
    assert main(["protocols", "run", "--only", "broken.py:PROTOCOL"]) == 2
    printed = capsys.readouterr().err
    assert "row of the sample red-patch@1/test/" in printed
    assert "AttributeError: 'Trajectory' object has no attribute 'nothing'\n" in printed
    line = broken[: broken.index("studied.trajectory.nothing")].count("\n") + 1
    assert f"broken.py, line {line}" in printed
    assert "Traceback" not in printed
    (here / "slashed.py").write_text(FILES["brevity.py"].replace('Protocol("brevity"', 'Protocol("../brevity"'))
    assert main(["protocols", "run", "--only", "slashed.py:PROTOCOL"]) == 2
    assert "use letters, digits" in capsys.readouterr().err
    (here / "taken.py").write_text(FILES["brevity.py"].replace('Protocol("brevity"', 'Protocol("errors"'))
    assert main(["protocols", "run", "--only", "taken.py:PROTOCOL"]) == 2
    assert "has the name 'errors', which is taken" in capsys.readouterr().err


def test_a_tool_that_raises_ends_its_call_alone(here: Path, caplog: pytest.LogCaptureFixture) -> None:
    (here / "bad.py").write_text(FILES["flip.py"].replace("source = context.image(arguments.image)", "return 1 / 0"))
    given = ["--model", "caller.py:CALLER", "--dialect", "vista", "--set", 'tools=["bad.py:Flip"]', "--out", "asked"]
    assert main(["ask", "photo.png", "?", *given]) == 0
    (trajectory,) = read_lines(here / "asked/trajectories.jsonl", Trajectory)
    execution = trajectory.turns[0].execution
    assert execution is not None
    assert execution.problem == "tool_failure"
    assert "ZeroDivisionError" not in (execution.traceback or "")
    assert "the tool flip failed: ZeroDivisionError" in caplog.text
    assert "bad.py, line 26, in run:" in caplog.text


TRAP = "from pathlib import Path\nPath('sprung').touch()\nfrom first_letter import FIRST_LETTER as PART\n"


def test_what_a_record_names_is_never_run(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert evaluate("red_patch.py:WORLD", "--n", "2", "--grader", "first_letter.py:FIRST_LETTER") == 0
    (here / "trap.py").write_text(TRAP)
    for name in ("trajectories.jsonl", "settings.toml"):
        file = here / "run" / name
        text = file.read_text().replace("first_letter.py:FIRST_LETTER", "trap.py:PART")
        for own in ("direct@1:reason", "red-patch@1", "red_patch.py:WORLD"):
            text = text.replace(own, "trap.py:PART")
        file.write_text(text)
    for command in (["protocols", "run"], ["report", "run", "--out", "page"], ["show", "run", "--out", "pages"]):
        main(command)
    capsys.readouterr()
    assert main(["regrade", "run"]) == 2
    assert "is code, which a stored run does not run" in capsys.readouterr().err
    task = Task(id="t", question="q", answer="a", grader="trap.py:PART")
    with pytest.raises(RegistryError, match="is not run by itself"):
        scored_by_rule("a", task)
    with pytest.raises(RegistryError, match="is not run by itself"):
        newest("trap.py:PART:letters=2")
    assert not (here / "sprung").exists()


def test_a_run_is_not_continued_with_code_that_it_alone_names(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = ["--n", "1", "--model", "my_model.py:Parrot@left", "--out", "run"]
    assert main(["eval", "red_patch.py:WORLD", *given, "--dialect", "direct"]) == 0
    (here / "trap.py").write_text(TRAP)
    saved = here / "run/settings.toml"
    text = saved.read_text()
    for name, value in (("dialect", "direct"), ("grader", ""), ("judge", "")):
        saved.write_text(text.replace(f'{name} = "{value}"', f'{name} = "trap.py:PART"'))
        capsys.readouterr()
        assert main(["eval", "red_patch.py:WORLD", *given]) == 2
        assert "trap.py:PART is code of somebody's own" in capsys.readouterr().err
    saved.write_text(text.replace('grader = ""', 'grader = "trap.py:PART"'))
    assert main(["regrade", "run", "--headline", "rule"]) == 2
    assert not (here / "sprung").exists()


def test_a_checkpoint_or_stored_episode_runs_no_code_by_its_dialect(here: Path) -> None:
    (here / "trap.py").write_text(TRAP)
    (here / "weights").mkdir()
    write_learned(here / "weights", {"trap.py:PART": 1})
    assert (
        main(["ask", "photo.png", "?", "--model", "my_model.py:Parrot", "--dialect", "direct", "--out", "asked"]) == 0
    )
    episode = here / "asked/trajectories.jsonl"
    episode.write_text(episode.read_text().replace("direct@1:reason", "trap.py:PART"))
    for model in ("local:weights", f"replay:{episode}"):
        with pytest.raises(RegistryError, match="is not run by itself"):
            suited(AskSettings(model=model))
    assert not (here / "sprung").exists()


def test_a_training_is_not_resumed_with_code_that_it_alone_names(here: Path) -> None:
    settings = load_rl_settings("my_recipe.toml")
    (here / "run").mkdir()
    save_settings(settings, here / "run/settings.toml")
    check_folder(settings, here / "run", resume=True)
    (here / "trap.py").write_text(TRAP)
    saved = here / "run/settings.toml"
    saved.write_text(re.sub('rule = "[^"]+"', 'rule = "trap.py:PART"', saved.read_text()))
    with pytest.raises(SettingsError, match=r"trap\.py:PART is code of somebody's own"):
        check_folder(settings, here / "run", resume=True)
    assert not (here / "sprung").exists()


def test_what_a_model_names_is_never_run(here: Path) -> None:
    (here / "trap.py").write_text(TRAP)
    for name in ("trap.py:PART", "trap:PART"):
        call = ToolCall(name=name, arguments={})
        turn = Turn(text="", action=call, execution=Execution(status=Status.ERROR))
        list(call_errors(0, turn, call))
    texts = ['<think>a</think><tool_call>{"name": "trap.py:PART", "arguments": {}}</tool_call>', "<answer>a</answer>"]
    (here / "script.json").write_text(json.dumps(texts))
    main(["ask", "photo.png", "?", "--model", "scripted:script.json", "--dialect", "vista", "--out", "asked"])
    main(["protocols", "asked"])
    assert not (here / "sprung").exists()


def test_protocols_say_that_a_dialect_is_not_here(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = ["--model", "shouter.py:SHOUTER", "--dialect", "shout.py:SHOUT", "--out", "asked"]
    assert main(["ask", "photo.png", "?", *given]) == 0
    text = (here / "asked/trajectories.jsonl").read_text()
    (here / "asked/trajectories.jsonl").write_text(text.replace("shout@1", "scream@1"))
    capsys.readouterr()
    assert main(["protocols", "asked", "--only", "errors"]) == 0
    assert "the dialect scream@1 is not installed" in capsys.readouterr().err
    (here / "scream.py").write_text("from shout import Shout\nSCREAM = Shout(id='scream@1')\n")
    assert main(["protocols", "asked", "--only", "errors", "--dialect", "scream.py:SCREAM"]) == 0
    assert "not installed" not in capsys.readouterr().err
