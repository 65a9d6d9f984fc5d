"""Settings: read, overridden, refused with every mistake named, saved, compared."""

from pathlib import Path
from typing import ClassVar, Literal

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from pydantic import Field, ValidationError

from saccade.errors import SettingsError
from saccade.record.settings import Settings, differences, load_saved, load_settings, save_settings, settings_toml


class Limits(Settings):
    wall_seconds: float = Field(default=20.0, gt=0)
    processes: int = 32


class Run(Settings):
    model: str = "tiny"
    seed: int = 0
    policy: Literal["rollback", "keep"] = "rollback"
    limits: Limits = Limits()
    inner: Limits | None = None
    names: tuple[str, ...] = ()
    parts: dict[str, float] = Field(default_factory=dict)
    stages: tuple[Limits, ...] = ()
    note: str | None = "none said"


class Inner(Settings):
    RENAMED: ClassVar = {"colour": "color"}
    color: float = 8.0


class Renamed(Settings):
    RENAMED: ClassVar = {"optimiser": "optimizer"}
    optimizer: Inner | None = None
    steps: int = 1


@pytest.mark.parametrize(
    ("text", "override", "said"),
    [
        ("[optimiser]\ncolor = 2\n", "steps=2", "optimiser: no such setting. It has another name now: optimizer."),
        ("", "optimiser.color=2", "optimiser: no such setting. It has another name now: optimizer."),
        ("", "optimizer.colour=2", "optimizer.colour: no such setting. It has another name now: optimizer.color."),
    ],
)
def test_an_old_name_is_refused_with_the_new_one(tmp_path: Path, text: str, override: str, said: str) -> None:
    path = tmp_path / "run.toml"
    path.write_text(text)
    with pytest.raises(SettingsError) as caught:
        load_settings(Renamed, path, [override])
    assert said in str(caught.value)


def test_saved_settings_are_read_with_the_names_that_they_had(tmp_path: Path) -> None:
    path = tmp_path / "settings.toml"
    path.write_text("steps = 3\n[optimiser]\ncolour = 2.0\n")
    assert load_saved(Renamed, path) == Renamed(steps=3, optimizer=Inner(color=2.0))
    save_settings(load_saved(Renamed, path), path)
    assert load_saved(Renamed, path) == load_settings(Renamed, path)


def test_defaults_without_a_file() -> None:
    assert load_settings(Run) == Run()


def test_file_then_overrides_from_left_to_right(tmp_path: Path) -> None:
    path = tmp_path / "run.toml"
    path.write_text('seed = 1\nmodel = "a"\n[limits]\nprocesses = 5\n')
    run = load_settings(Run, path, ["seed=2", "limits.wall_seconds=0.5", "seed=3", "inner.processes = 9"])
    assert run == Run(model="a", seed=3, limits=Limits(processes=5, wall_seconds=0.5), inner=Limits(processes=9))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("qwen", "qwen"),
        ('"qwen"', "qwen"),
        ("7", "7"),
        ("true", "true"),
        ("a=b", "a=b"),
        ("", ""),
        ("1\nseed = 9", "1\nseed = 9"),
    ],
)
def test_a_text_is_taken_as_it_is_written(text: str, value: str) -> None:
    run = load_settings(Run, None, [f"model={text}"])
    assert run.model == value
    assert run.seed == 0


def test_arrays_and_tables_in_overrides() -> None:
    run = load_settings(Run, None, ['names=["a", "b"]', "parts={accuracy = 1.0}", "parts.format=0.5"])
    assert run.names == ("a", "b")
    assert run.parts == {"accuracy": 1.0, "format": 0.5}


def test_every_mistake_is_reported_at_once(tmp_path: Path) -> None:
    path = tmp_path / "run.toml"
    path.write_text('modle = "a"\npolicy = "kepe"\n[limits]\nwall_second = 1\n')
    with pytest.raises(SettingsError) as caught:
        load_settings(Run, path, ["seed=often", "nonsense", "=3", "seed.x=1", "limits.processes.y=2"])
    message = str(caught.value)
    assert str(path) in message
    assert "modle: no such setting. Did you mean 'model'?" in message
    assert "limits.wall_second: no such setting. Did you mean 'wall_seconds'?" in message
    assert "policy: " in message
    assert "'keep'" in message
    assert "seed: " in message
    assert "'often'" in message
    assert "'nonsense' is no override" in message
    assert "'=3' is no override" in message
    assert "seed.x: cannot be set" in message


def test_bad_override_alone_is_refused() -> None:
    with pytest.raises(SettingsError, match="1 mistake"):
        load_settings(Run, None, ["seed"])


@pytest.mark.parametrize("value", ["nan", "inf", "-inf"])
def test_numbers_are_finite(value: str) -> None:
    with pytest.raises(SettingsError, match="finite"):
        load_settings(Run, None, [f"limits.wall_seconds={value}"])


@pytest.mark.parametrize(("name", "text"), [("a.toml", "seed = "), ("a.json", "{"), ("a.json", "[1]")])
def test_broken_file(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(SettingsError, match=name):
        load_settings(Run, tmp_path / name)


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="Check the path"):
        load_settings(Run, tmp_path / "none.toml")


def test_settings_are_frozen() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        Run().seed = 3  # type: ignore[misc]


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=10)
limits = st.builds(Limits, wall_seconds=st.floats(1e-300, allow_infinity=False), processes=st.integers(-(2**62), 2**62))
runs = st.builds(
    Run,
    model=texts,
    limits=limits,
    inner=st.none() | limits,
    names=st.lists(texts, max_size=3).map(tuple),
    parts=st.dictionaries(texts, st.floats(allow_nan=False, allow_infinity=False), max_size=3),
    stages=st.lists(limits, max_size=2).map(tuple),
    note=texts,
)


@hypothesis_settings(deadline=None)
@given(runs, st.sampled_from(["run.toml", "run.json"]))
def test_saved_settings_come_back_exactly(tmp_path_factory: pytest.TempPathFactory, run: Run, name: str) -> None:
    path = tmp_path_factory.mktemp("settings") / name
    save_settings(run, path)
    assert load_settings(Run, path) == run


def test_saved_settings_hold_the_defaults_too() -> None:
    assert "wall_seconds = 20.0" in settings_toml(Run())


def test_what_toml_cannot_hold_is_refused_and_json_holds_it(tmp_path: Path) -> None:
    run = Run(note=None)
    with pytest.raises(SettingsError, match='note: null -> "none said"'):
        save_settings(run, tmp_path / "run.toml")
    save_settings(run, tmp_path / "run.json")
    assert load_settings(Run, tmp_path / "run.json") == run
    with pytest.raises(SettingsError, match="suffix"):
        save_settings(run, tmp_path / "run.yaml")


def test_differences_name_what_differs() -> None:
    left = Run(parts={"a": 1.0})
    right = Run(seed=1, limits=Limits(processes=5), parts={"b": 1.0}, inner=Limits())
    assert [str(item) for item in differences(left, right)] == [
        "seed: 0 -> 1",
        "limits.processes: 32 -> 5",
        'inner: null -> {"wall_seconds": 20.0, "processes": 32}',
        "parts.a: 1.0 -> (not set)",
        "parts.b: (not set) -> 1.0",
    ]
    assert differences(left, left) == ()
