"""Settings of a command: one frozen object, from a file and overrides, saved resolved, compared by name.

    class RunSettings(Settings):
        limits: Limits = Limits()
        seed: int = 0

    settings = load_settings(RunSettings, "run.toml", ["limits.wall_seconds=5", "seed=3"])

Every mistake is reported at once. Settings hold plain data; nothing here looks at the environment. Where a setting
names a file of the user's code, the saved settings say its sha256 in a comment.
"""

from __future__ import annotations

import json
import logging
import os
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any, Final, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, ValidationError, ValidationInfo, model_validator

from saccade.core.disk import file_notes, noted_files, write_atomic
from saccade.core.registry import did_you_mean
from saccade.errors import SettingsError


class Settings(BaseModel):
    """Base of settings objects: frozen, unknown names refused, numbers finite."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _rest_as_here(cls, data: Any) -> Any:
        """Fill nested tables from the defaults of this class, which may differ from those of the nested class."""
        if not isinstance(data, Mapping):
            return data
        filled = dict(data)
        for name, field in cls.model_fields.items():
            default, said = field.default, data.get(name)
            if isinstance(said, Mapping) and isinstance(default, BaseModel) and type(default) is field.annotation:
                filled[name] = merged(default.model_dump(exclude_defaults=True), said)
        return filled


S = TypeVar("S", bound=BaseModel)
T = TypeVar("T", bound=Settings)

_log = logging.getLogger(__name__)

_SAVED = "saved"
NAMES: Final = {"rule": None, "preset": ("parameters", "by_tag")}
"""Keys that name what others of their table belong to: all the rest (None), or these."""
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_ADDRESS = re.compile(r"@https?://\S+$")


@dataclass(frozen=True, slots=True)
class Difference:
    """One setting that differs between two objects."""

    name: str
    """Dotted path, as an override names it."""
    left: object
    right: object

    def __str__(self) -> str:
        return f"{self.name}: {_shown(self.left)} -> {_shown(self.right)}"

    @property
    def is_of_address(self) -> bool:
        """Whether both sides name the same model, at servers with different addresses."""
        left, right = self.left, self.right
        return isinstance(left, str) and isinstance(right, str) and without_address(left) == without_address(right)


def without_address(model: str) -> str:
    """Return the name of a model without the address of its server: `vllm:NAME@http://host:8000/v1` -> `vllm:NAME`."""
    return _ADDRESS.sub("", model)


def beyond_addresses(changed: Sequence[Difference], run: object) -> list[Difference]:
    """Return the differences that are more than another address of a model's server; if none is, log the addresses."""
    more = [item for item in changed if not item.is_of_address]
    for item in () if more else changed:
        _log.warning("%s goes on with the model at another address: %s", run, item)
    return more


class _Missing:
    """Marks the side of a `Difference` that has no such setting."""

    def __repr__(self) -> str:
        return "(not set)"


MISSING = _Missing()


def load_settings(
    kind: type[S],
    path: str | os.PathLike[str] | None = None,
    overrides: Sequence[str] = (),
    given: Mapping[str, object] | None = None,
) -> S:
    """Load settings of class `kind` from a TOML or JSON file, then `given`, then overrides `a.b=value` in order.

    A value is read as TOML (`3`, `true`, `[1, 2]`, `"text"`); what is no TOML is taken as text, and `none` as no value
    where a setting may have none. Another `rule` or `preset` in a table drops the settings of the one before it, and a
    warning says so.

    Raises `SettingsError`: names every mistake, with the nearest known name for an unknown one.
    """
    data = deepcopy(merged({} if path is None else _read(Path(path)), given or {}))
    mistakes: list[str] = []
    raw: dict[tuple[str, ...], str] = {}
    for override in overrides:
        name, equals, text = override.partition("=")
        steps = tuple(name.strip().split("."))
        undone = [given for given in raw if len(given) > len(steps) and given[: len(steps)] == steps]
        mistakes += [f"{'.'.join(given)}: is undone by {name}, set after it; leave one out" for given in undone]
        if not equals or not all(steps):
            mistakes.append(f"{override!r} is no override: write name=value or table.name=value")
        elif not _assign(data, steps, None if _is_none(kind, steps, text) else toml_value(text)):
            mistakes.append(f"{name}: cannot be set, because a part of that path is a plain value")
        else:
            raw[steps] = text
    over = " or what was set over it" if overrides or given else ""
    return _loaded(_validate(kind, data, raw, mistakes), mistakes, path, over)


def load_saved(kind: type[T], path: str | os.PathLike[str]) -> T:
    """Read the settings that a run saved; code that they name is not run for it. Raises `SettingsError` as
    `load_settings`.
    """
    mistakes: list[str] = []
    return _loaded(_validate(kind, _read(Path(path)), {}, mistakes, _SAVED), mistakes, path)


def is_saved(info: ValidationInfo) -> bool:
    """Tell a validator whether `load_saved` reads the settings."""
    return bool(info.context == _SAVED)


def save_settings(
    settings: BaseModel, path: str | os.PathLike[str], before: str | os.PathLike[str] | None = None
) -> None:
    """Save resolved settings, defaults included, as `.toml` or `.json`; the file appears complete or not at all.

    What the TOML file `before` (by default the one that is replaced) notes of code that was not loaded here stays.

    Raises `SettingsError`: the suffix is another, or TOML cannot give a value back (a None that is not the default).
    """
    target = Path(path)
    if target.suffix == ".json":
        text = settings.model_dump_json(indent=2) + "\n"
    elif target.suffix == ".toml":
        text = settings_toml(settings, before or target)
    else:
        raise SettingsError(f"{target}: settings are saved as .toml or .json; give the file one of these suffixes")
    write_atomic(target, text)


def settings_toml(settings: BaseModel, before: str | os.PathLike[str] | None = None) -> str:
    """Return the resolved settings as TOML text, checked to read back equal; `before` as in `save_settings`.

    Raises `SettingsError`: they do not; the message names the settings that would be lost.
    """
    try:
        text = to_toml(settings.model_dump(mode="json"))
        again = type(settings).model_validate(tomllib.loads(text))
    except ValueError as error:  # pydantic's and tomllib's errors are ValueErrors
        raise SettingsError(f"these settings have no form in TOML: {error}. Save them as .json.") from error
    lost = differences(settings, again)
    if lost:
        names = ", ".join(str(item) for item in lost)
        raise SettingsError(f"TOML cannot hold these settings (it has no null): {names}. Save them as .json.")
    noted = {} if before is None else noted_files(before)
    return file_notes(settings.model_dump(mode="json"), noted) + text


def differences(left: BaseModel, right: BaseModel) -> tuple[Difference, ...]:
    """Compare two settings objects by dotted name; empty if they are equal."""
    return tuple(_walk((), left.model_dump(mode="json"), right.model_dump(mode="json")))


def _walk(path: tuple[str, ...], left: object, right: object) -> Iterator[Difference]:
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        for key in dict.fromkeys((*left, *right)):
            yield from _walk((*path, key), left.get(key, MISSING), right.get(key, MISSING))
    elif left != right or type(left) is not type(right):
        yield Difference(".".join(path), left, right)


def _shown(value: object) -> str:
    return repr(value) if isinstance(value, _Missing) else json.dumps(value, ensure_ascii=False)


def _read(path: Path) -> dict[str, Any]:
    try:
        text = path.read_text(encoding="utf-8")
        data = json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
    except OSError as error:
        raise SettingsError(f"{path} cannot be read: {error.strerror}. Check the path.") from error
    except ValueError as error:
        kind = "JSON" if path.suffix == ".json" else "TOML"
        raise SettingsError(f"{path} is not valid {kind}: {error}. Correct it, or name another file.") from error
    if not isinstance(data, dict):
        raise SettingsError(f"{path} holds no table of settings but {type(data).__name__}")
    return data


def merged(data: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Return `data` updated with `over`, nested tables too; another `rule` or `preset` drops settings of the former."""
    kept = _without_other_rule(data, over)
    both = {**kept, **over}
    for name in kept.keys() & over.keys():
        if isinstance(kept[name], Mapping) and isinstance(over[name], Mapping):
            both[name] = merged(kept[name], over[name])
    return both


def _without_other_rule(table: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Return `table` without the settings that belong to a rule or preset in whose place `over` names another."""
    kept = dict(table)
    for key, belong in NAMES.items():
        named, other = (str(item.get(key, "")).partition("@")[0] for item in (table, over))
        if not named or other in ("", named):
            continue
        dropped = {name: kept.pop(name) for name in table if name != key and (belong is None or name in belong)}
        if lost := ", ".join(f"{name} = {value!r}" for name, value in dropped.items() if value and name not in over):
            _log.warning("%s %r takes the place of %r, whose settings are dropped: %s", key, other, named, lost)
    return kept


def _assign(data: dict[str, Any], steps: tuple[str, ...], value: object) -> bool:
    for step in steps[:-1]:
        inner = data.setdefault(step, {})
        if not isinstance(inner, dict):
            return False
        data = inner
    kept = _without_other_rule(data, {steps[-1]: value})
    data.clear()
    data.update(kept)
    data[steps[-1]] = value
    return True


def _is_none(kind: type[BaseModel], steps: tuple[str, ...], text: str) -> bool:
    """Return whether an override says `none` of a setting that may be None and no text."""
    table = table_in(kind, steps[:-1]) if text.strip() == "none" else None
    field = None if table is None else table.model_fields.get(steps[-1])
    types = () if field is None else get_args(field.annotation)
    return type(None) in types and str not in types


def _loaded(settings: S | None, mistakes: list[str], path: str | os.PathLike[str] | None, over: str = "") -> S:
    if settings is None:
        where = "" if path is None else f"{path}{over}"
        raise mistaken(mistakes, where)
    return settings


def _validate(
    kind: type[S], data: dict[str, Any], raw: dict[tuple[str, ...], str], mistakes: list[str], context: str = ""
) -> S | None:
    """Return the settings, or None with every mistake added to `mistakes`."""
    try:
        settings = kind.model_validate(data, context=context)
    except ValidationError as error:
        problems = error.errors(include_url=False, include_context=False)
        # `name=7` for a text: take what was written, not the number it looks like.
        texts = {p["loc"]: raw[p["loc"]] for p in problems if p["type"] == "string_type" and p["loc"] in raw}  # type: ignore[index]
        for steps, text in texts.items():
            _assign(data, steps, text)  # type: ignore[arg-type]
        if texts:
            return _validate(kind, data, {k: v for k, v in raw.items() if k not in texts}, mistakes)
        mistakes += mistakes_of(kind, error)
        return None
    return None if mistakes else settings


def mistaken(mistakes: Sequence[str], where: str = "") -> SettingsError:
    """Make one error that names all mistakes; `where` is the file they are in."""
    head = f"{len(mistakes)} mistake(s)" + (f" in {where}" if where else "")
    return SettingsError(f"{head}:\n" + "\n".join(f"  {line}" for line in mistakes))


def mistakes_of(kind: type[BaseModel], error: ValidationError, under: str = "") -> list[str]:
    """Return a line for each problem in settings of class `kind`; `under` is put before their names."""
    problems = error.errors(include_url=False, include_context=False)
    return [_mistake(kind, p["type"], p["loc"], p["msg"], p["input"], under) for p in problems]


def _mistake(
    kind: type[BaseModel], type_: str, where: tuple[int | str, ...], message: str, given: object, under: str
) -> str:
    name = ".".join(str(step) for step in (*((under,) if under else ()), *where)) or "(all settings)"
    if type_ == "extra_forbidden":
        return f"{name}: no such setting. {_hint(table_in(kind, where[:-1]), where)}".rstrip()
    if type_ == "missing":
        return f"{name}: is needed and has no default"
    if type_ == "value_error":  # a validator's own words, which say what it was given
        said = message.removeprefix("Value error, ")
        return f"{name}: {said}" if where or under else said
    if type_ in ("tuple_type", "list_type"):
        return f"{name}: is a list, and got {given!r}. Write [{json.dumps(given)}], in quotes for the shell"
    return f"{name}: {message[0].lower() + message[1:]}, got {given!r}"


def _hint(table: type[BaseModel] | None, where: tuple[int | str, ...]) -> str:
    """Suggest names for the unknown setting at `where`, which is in `table`."""
    if table is None:
        return ""
    unknown = str(where[-1])
    return did_you_mean(unknown, [field.alias or name for name, field in table.model_fields.items()])


def table_in(kind: type[BaseModel], where: tuple[int | str, ...]) -> type[BaseModel] | None:
    """Find the class of the table at `where` by the annotations."""
    for step in where:
        field = kind.model_fields.get(str(step))
        nested = [] if field is None else [a for a in (field.annotation, *get_args(field.annotation)) if _is_model(a)]
        if not nested:
            return None
        kind = nested[0]
    return kind


def _is_model(annotation: object) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


# TOML, which the standard library reads and does not write. TOML has no null: a None in a table is left out (so reading
# gives the default), a None in an array is an error.


def to_toml(data: Mapping[str, object]) -> str:
    """Return TOML text of `data`: first its plain values, then a `[table]` for each mapping in it. Raises `ValueError`
    if a value has no form in TOML.
    """
    return "\n".join(_table(data, ())).lstrip("\n") + "\n"


def toml_value(text: str) -> object:
    """Parse `text` as a TOML value (`3`, `true`, `[1, 2]`, `"text"`); return it unchanged if it is none."""
    try:
        parsed = tomllib.loads(f"value = {text}")
    except tomllib.TOMLDecodeError:
        return text
    return parsed["value"] if parsed.keys() == {"value"} else text


def _table(data: Mapping[str, object], path: tuple[str, ...]) -> list[str]:
    plain = {key: value for key, value in data.items() if value is not None and not isinstance(value, Mapping)}
    tables = {key: value for key, value in data.items() if isinstance(value, Mapping)}
    lines = []
    if path and (plain or not tables):
        lines += ["", f"[{'.'.join(_key(step) for step in path)}]"]
    lines += [f"{_key(key)} = {_value(value)}" for key, value in plain.items()]
    for key, value in tables.items():
        lines += _table(value, (*path, key))
    return lines


def _key(key: str) -> str:
    return key if _BARE_KEY.fullmatch(key) else _text(key)


def _value(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float) and isfinite(value):
        return repr(value)
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_value(item) for item in value) + "]"
    if isinstance(value, Mapping):
        pairs = (f"{_key(key)} = {_value(item)}" for key, item in value.items() if item is not None)
        return "{" + ", ".join(pairs) + "}"
    raise ValueError(f"{value!r} has no form in TOML")


def _text(text: str) -> str:
    # A JSON string is a TOML basic string but for two things: TOML wants DEL escaped and forbids surrogate pairs.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
