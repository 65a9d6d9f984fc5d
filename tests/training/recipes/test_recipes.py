from __future__ import annotations

from pathlib import Path

import pytest

from saccade.cli.main import main
from saccade.core.recipes import FOLDER, find_recipe, recipe_list, recipe_names
from saccade.errors import SettingsError


def test_by_name_and_by_path(tmp_path: Path) -> None:
    assert find_recipe("rl", "codedance") == FOLDER / "rl" / "codedance.toml"
    own = tmp_path / "codedance.toml"
    own.write_text("")
    assert find_recipe("rl", own) == own
    assert find_recipe("sft", str(own)) == own


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ("codedanse", "no recipe 'codedanse' for this, and no such file. Did you mean 'codedance'"),
        ("recipes/codedance.toml", "recipes/codedance.toml is no file.*Did you mean 'codedance'"),
        ("mine.toml", "mine.toml is no file.*Known: codedance, codev"),
    ],
)
def test_what_is_not_there(wanted: str, said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        find_recipe("rl", wanted)


@pytest.mark.parametrize("kind", ["curate", "rl", "sft", "sources"])
def test_every_folder_has_recipes_that_say_what_they_are(kind: str) -> None:
    names = recipe_names(kind)  # type: ignore[arg-type]
    lines = recipe_list(kind).splitlines()  # type: ignore[arg-type]
    assert [line.split()[0] for line in lines] == list(names)
    assert all(len(line.split()) > 3 for line in lines)


@pytest.mark.parametrize(
    ("command", "named"),
    [
        (["rl", "list"], "vista-r1"),
        (["sft", "list"], "plain"),
        (["curate", "--pipeline", "list"], "codev"),
    ],
)
def test_the_commands_list_them(command: list[str], named: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(command) == 0
    assert f"{named} " in capsys.readouterr().out.replace(":", " ")


@pytest.mark.parametrize(
    ("command", "near"),
    [
        (["rl", "codedanse", "--model", "m", "--tasks", "t"], "codedance"),
        (["sft", "plane", "--model", "m", "--data", "r"], "plain"),
        (["curate", "runs", "--pipeline", "vists", "--out", "out"], "vista"),
    ],
)
def test_a_wrong_name_comes_before_what_is_not_installed(
    command: list[str], near: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("saccade.cli.train._NEEDED", ("no_such_package_here",))
    code = main(command)
    printed = capsys.readouterr().err
    assert code == 2
    assert f"'{near}'" in printed
    assert "no_such_package_here" not in printed
