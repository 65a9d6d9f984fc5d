"""Settings: read, overridden, refused with every mistake named, saved, compared."""

from __future__ import annotations

import math
import tomllib
from pathlib import Path
from typing import Any, Literal, Self

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from pydantic import Field, ValidationInfo, model_validator

from saccade.core.registry import did_you_mean
from saccade.core.settings import (
    Settings,
    differences,
    is_saved,
    load_saved,
    load_settings,
    merged,
    save_settings,
    settings_toml,
    to_toml,
)
from saccade.errors import SettingsError


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


class Patient(Settings):
    limits: Limits = Limits(processes=4)


class Deep(Settings):
    run: Patient = Patient(limits=Limits(processes=2))
    either: Limits | Run = Limits(processes=3)


def test_what_a_table_does_not_say_stays_as_the_table_around_it_has_it() -> None:
    assert load_settings(Patient, overrides=["limits.wall_seconds=5"]).limits == Limits(wall_seconds=5, processes=4)
    assert load_settings(Patient, overrides=["limits.processes=32"]).limits == Limits()
    assert load_settings(Deep, overrides=["run.limits.wall_seconds=5"]).run.limits == Limits(
        wall_seconds=5, processes=2
    )
    assert Patient(limits=Limits()).limits == Limits()
    # Which of two tables is said is not known before it is read.
    assert load_settings(Deep, given={"either": {"model": "a"}}).either == Run(model="a")


class Rule(Settings):
    rule: str = "a"
    weight: float = 1.0


class Paid(Settings):
    preset: str = "first"
    parameters: dict[str, float] = Field(default_factory=dict)
    judge: str = ""


class Chosen(Settings):
    band: Rule | None = Rule()
    advantage: Rule = Rule()
    reward: Paid = Paid()
    name: str | None = "x"


def test_an_optional_table_is_taken_out_by_none_and_a_text_none_stays_a_text() -> None:
    settings = load_settings(Chosen, overrides=["band=none", "name=none"])
    assert settings.band is None
    assert settings.name == "none"
    with pytest.raises(SettingsError, match="advantage: "):
        load_settings(Chosen, overrides=["advantage=none"])


def test_another_rule_or_preset_drops_the_settings_of_the_one_before(caplog: pytest.LogCaptureFixture) -> None:
    given = {"advantage": {"rule": "b", "weight": 3.0}, "reward": {"preset": "p", "parameters": {"x": 1}, "judge": "j"}}
    settings = load_settings(Chosen, overrides=["advantage.rule=c", "reward.preset=q"], given=given)
    assert settings.advantage == Rule(rule="c")
    assert settings.reward == Paid(preset="q", judge="j")
    assert "weight = 3.0" in caplog.text
    same = load_settings(Chosen, overrides=["advantage.rule=b@1", "reward.preset=p"], given=given)
    assert same.advantage.weight == 3.0
    assert same.reward.parameters == {"x": 1}
    after = load_settings(Chosen, overrides=["advantage.rule=c", "advantage.weight=2"], given=given)
    assert after.advantage == Rule(rule="c", weight=2)
    assert load_settings(Chosen, given=merged(given, {"advantage": {"rule": "d"}})).advantage == Rule(rule="d")


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


@pytest.mark.parametrize("value", ["nan", "inf", "-inf"])
def test_numbers_are_finite(value: str) -> None:
    with pytest.raises(SettingsError, match="finite"):
        load_settings(Run, None, [f"limits.wall_seconds={value}"])


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a.toml", "seed = ", "a.toml is not valid TOML"),
        ("a.json", "{", "a.json is not valid JSON"),
        ("a.json", "[1]", "a.json holds no table of settings but list"),
    ],
)
def test_broken_file(tmp_path: Path, name: str, text: str, said: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(SettingsError, match=said):
        load_settings(Run, tmp_path / name)


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="Check the path"):
        load_settings(Run, tmp_path / "none.toml")


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


def test_a_later_override_does_not_undo_an_earlier_one_unsaid() -> None:
    with pytest.raises(SettingsError, match=r"limits.processes: is undone by limits, set after it"):
        load_settings(Run, None, ["limits.processes=3", "limits={wall_seconds = 1}"])
    run = load_settings(Run, None, ["limits={wall_seconds = 1}", "limits.processes=3"])
    assert run.limits == Limits(wall_seconds=1, processes=3)
    for name in (".seed", "seed.", "a..b"):
        with pytest.raises(SettingsError, match="is no override"):
            load_settings(Run, None, [f"{name}=1"])


class Bounds(Settings):
    """A table that checks itself."""

    low: int
    high: int = 3

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.low > self.high:
            raise ValueError("low is above high")
        return self


class Outer(Settings):
    """Tables in tables."""

    inner: Bounds
    many: tuple[Bounds, ...] = ()

    @model_validator(mode="after")
    def _checked(self) -> Self:
        if len(self.many) == 1:
            raise ValueError("one alone is odd")
        return self


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        ([], "inner: is needed and has no default"),
        (["inner.high=1"], "inner.low: is needed and has no default"),
        (["inner.low=9"], "inner: low is above high"),
        (["inner.low=x"], "inner.low: input should be a valid integer, unable to parse string as an integer, got 'x'"),
        (["inner.low=1", "inner.hihg=2"], "inner.hihg: no such setting. Did you mean 'high'?"),
        (["inner.low=1", "inner.zzz=2"], "inner.zzz: no such setting. Known: high, low."),
        (["inner.low=1", "many=[{low = 1}]"], "one alone is odd"),
        (["inner.low=1", "many=3"], "many: is a list, and got 3. Write [3], in quotes for the shell"),
        (["inner.low=1", "many=a"], "many: is a list, and got 'a'. Write [\"a\"], in quotes for the shell"),
        (["inner.low=1", "many=[{low = 1, zzz = 2}]"], "many.0.zzz: no such setting."),
    ],
)
def test_a_mistake_is_said_once_and_in_plain_words(overrides: list[str], said: str) -> None:
    with pytest.raises(SettingsError) as caught:
        load_settings(Outer, None, overrides)
    assert str(caught.value).splitlines() == ["1 mistake(s):", f"  {said}"]


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ({"a": True, "b": 0, "c": -1.5}, "a = true\nb = 0\nc = -1.5\n"),
        ({"a": None, "b": {"c": None}}, "[b]\n"),
        ({"t": {"u": {"v": 1}}, "a": ["x", (1, 2)]}, 'a = ["x", [1, 2]]\n\n[t.u]\nv = 1\n'),
        ({"t": {"x": 1, "u": {}}}, "[t]\nx = 1\n\n[t.u]\n"),
        ({"a b": 'q"\\\x7f\n', "": 1}, '"a b" = "q\\"\\\\\\u007f\\n"\n"" = 1\n'),
        ({"a": [{"b": 1, "c": None, "d e": False}]}, 'a = [{b = 1, "d e" = false}]\n'),
        ({}, "\n"),
    ],
)
def test_plain_data_as_toml(data: dict[str, object], text: str) -> None:
    assert to_toml(data) == text
    tomllib.loads(text)


@pytest.mark.parametrize("value", [math.inf, math.nan, [None], {1}, object()])
def test_what_has_no_form_in_toml(value: object) -> None:
    with pytest.raises(ValueError, match="has no form in TOML"):
        to_toml({"a": value})


@pytest.mark.parametrize(
    ("name", "known", "said"),
    [
        ("seed", ["seeds"], "Did you mean 'seeds'?"),
        ("abcd", ["abcx", "abcy", "abcz", "abcw"], "Did you mean 'abcz' or 'abcy' or 'abcx'?"),
        ("q", ["b", "a", "b"], "Known: a, b."),
        ("q", [f"name{number:02}" for number in range(16)], "Known: name00, "),
        ("q", [f"name{number:02}" for number in range(17)], ""),
        ("q", [], ""),
    ],
)
def test_the_nearest_known_names(name: str, known: list[str], said: str) -> None:
    assert did_you_mean(name, known).startswith(said)
    assert bool(did_you_mean(name, known)) is bool(said)


def test_what_is_given_stands_over_the_file_table_by_table(tmp_path: Path) -> None:
    path = tmp_path / "run.toml"
    path.write_text('seed = 1\nnames = ["a"]\n[limits]\nprocesses = 5\nwall_seconds = 2\n')
    given = {"limits": {"wall_seconds": 3.0}, "names": ["b"], "model": "m"}
    run = load_settings(Run, path, ["limits.processes=7"], given)
    assert run == Run(seed=1, model="m", names=("b",), limits=Limits(processes=7, wall_seconds=3.0))
    assert load_settings(Run, path, (), given).limits == Limits(processes=5, wall_seconds=3.0)
    with pytest.raises(SettingsError, match="limits: "):
        load_settings(Run, path, (), {"limits": 3})


class Asking(Settings):
    saved: bool = False

    @model_validator(mode="wrap")
    @classmethod
    def _asked(cls, given: Any, handler: Any, info: ValidationInfo) -> Any:
        return handler({"saved": is_saved(info)})


def test_a_validator_knows_whether_the_settings_were_saved(tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    path.write_text("{}")
    assert load_saved(Asking, path).saved is True
    assert load_settings(Asking, path).saved is False
