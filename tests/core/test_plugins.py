"""What a user is told where a name needs a plug-in that is not installed."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from saccade.cli.main import main
from saccade.core import registry as module
from saccade.core.registry import Registry
from saccade.errors import RegistryError, UnavailableError
from saccade.models.registry import PROVIDERS, checkpoint_named, load_model
from saccade.tasks.worlds.base import WORLDS
from saccade.training.sft.synth.experts import EXPERTS

FOLDER_GONE = [
    SimpleNamespace(
        name=name,
        value=f"saccade.plugins.no_such_folder.thing:{name[:5].upper()}",
        group=group,
        dist=SimpleNamespace(name="saccade"),
    )
    for group, name in (
        ("saccade.worlds", "shape-count"),
        ("saccade.models", "tiny"),
        ("saccade.models", "solver"),
        ("saccade.experts", "general"),
    )
]


def forget(monkeypatch: pytest.MonkeyPatch, points: list[SimpleNamespace]) -> None:
    """As in a process in which only `points` are registered."""
    monkeypatch.setattr(module, "entry_points", lambda group: [point for point in points if point.group == group])
    registries: tuple[Registry[Any], ...] = (WORLDS, PROVIDERS, EXPERTS)
    for registry in registries:
        for name in ("_registered", "entries", "owners"):
            monkeypatch.delitem(registry.__dict__, name, raising=False)


@pytest.fixture
def gone(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """An installation without the plug-in, with its entry points or without these as well."""
    forget(monkeypatch, request.param)


both = pytest.mark.parametrize("gone", [[], FOLDER_GONE], indirect=True, ids=["not registered", "no files"])


@both
@pytest.mark.usefixtures("gone")
def test_a_world_an_expert_or_a_model_says_which_plug_in_it_needs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = ["--out", str(tmp_path / "run")]
    for command in (
        ["eval", "world:shape-count", "--model", "scripted:x.json", "--n", "1", *out],
        ["eval", "shape-count", "--model", "solver", "--n", "1", *out],
        ["synth", "shape-count", "--dialect", "vista", "--n", "1", *out],
    ):
        assert main(command) == 2
        said = capsys.readouterr().err
        assert "plug-in `worlds`" in said
        assert "pip install" in said
    for name in ("tiny", "solver"):
        with pytest.raises((RegistryError, UnavailableError), match="plug-in `worlds`"):
            load_model(name)
    with pytest.raises(UnavailableError, match="plug-in `worlds`"):
        checkpoint_named("tiny")
    with pytest.raises((RegistryError, UnavailableError), match="plug-in `worlds`"):
        EXPERTS.load("general")


@both
@pytest.mark.usefixtures("gone")
def test_without_the_small_model_ask_needs_a_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ask", str(tmp_path / "photo.png"), "How many circles are there?"]) == 2
    assert "no model is named" in capsys.readouterr().err


@both
@pytest.mark.usefixtures("gone")
def test_other_names_are_found_as_before(tmp_path: Path) -> None:
    assert checkpoint_named("local:folder") == "folder"
    assert checkpoint_named("Qwen/Qwen2.5-VL-3B-Instruct") == "Qwen/Qwen2.5-VL-3B-Instruct"
    with pytest.raises(RegistryError, match="Did you mean"):
        load_model("opena:gpt")
