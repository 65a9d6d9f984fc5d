"""What a user is told where a name needs a plug-in that is not installed."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import pytest

from saccade.cli.list import KINDS
from saccade.cli.main import main
from saccade.core import registry as module
from saccade.core import registry as plugins
from saccade.core.registry import OFFERED, Registry
from saccade.errors import RegistryError, UnavailableError
from saccade.models.registry import checkpoint_named, load_model
from saccade.training.sft.synth.settings import EXPERTS

FOLDER_GONE = [
    SimpleNamespace(
        name=name,
        value=f"saccade.plugins.no_such_folder.thing:{name[:5].upper()}",
        group=group,
        dist=SimpleNamespace(name="saccade-vlm"),
    )
    for group, name in (
        ("saccade.worlds", "shape-count"),
        ("saccade.models", "tiny"),
        ("saccade.models", "solver"),
        ("saccade.experts", "general"),
    )
]


def forget() -> None:
    """Every registry looks anew for what is installed."""
    for kind in KINDS.values():
        name, _, attribute = kind.registry.partition(":")
        registry = getattr(import_module(name), attribute)
        for cached in ("_registered", "entries", "owners") if isinstance(registry, Registry) else ():
            registry.__dict__.pop(cached, None)


@pytest.fixture
def gone(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An installation without the plug-in, with its entry points or without these as well."""
    monkeypatch.setattr(
        module, "entry_points", lambda group: [point for point in request.param if point.group == group]
    )
    forget()
    yield
    forget()


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


def test_a_source_tree_that_is_not_installed_says_so_as_its_version(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugins, "DISTRIBUTION", "no-such-distribution-is-installed")
    assert plugins.own_version() == "unknown (a source tree that is not installed)"


def test_the_table_is_that_of_the_entry_points() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    registered: dict[str, dict[str, set[str]]] = {}
    for group, points in project["entry-points"].items():
        for name, target in points.items():
            if group.startswith("saccade.") and target.startswith("saccade.plugins."):
                kinds = registered.setdefault(target.split(".")[2], {})
                kinds.setdefault(group.removeprefix("saccade."), set()).add(name.partition("@")[0])
    assert {plugin: set(kinds) for plugin, kinds in OFFERED.items()} == {k: set(v) for k, v in registered.items()}
    named = {(plugin, kind): names for plugin, kinds in OFFERED.items() for kind, names in kinds.items() if names}
    assert named == {(plugin, kind): registered[plugin][kind] for plugin, kind in named}
