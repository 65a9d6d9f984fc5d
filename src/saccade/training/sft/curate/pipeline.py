"""A pipeline: a TOML file that lists filters in their order.

    category = "source"            # what the report counts by

    [[filter]]
    name = "score"
    at_least = 1.0

    [[filter]]
    name = "duplicates"
    label = "near"                 # needed only where a filter comes twice: overrides name it
    only = { sources = ["sa1b*"] } # a branch: others pass this filter by; also `tags`, and `without = {...}`

Overrides are `name.parameter=value` (or `label.parameter=value`); every mistake is reported at once.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Annotated, Any, get_args

from pydantic import BeforeValidator, ValidationError

from saccade.core.disk import file_notes
from saccade.core.recipes import find_recipe
from saccade.core.registry import did_you_mean
from saccade.core.settings import Settings, mistaken, mistakes_of, to_toml, toml_value
from saccade.errors import RegistryError, SettingsError
from saccade.record.task import Task
from saccade.tasks.benchmarks.card import as_tuple
from saccade.training.sft.curate.registry import FILTERS, load_filter
from saccade.training.sft.curate.stage import CategoryRule, FilterSettings

# Which trajectories a filter looks at: those of some sources or with some tags, or all but those.


_Patterns = Annotated[tuple[str, ...], BeforeValidator(as_tuple)]


class TaskPattern(Settings):
    """Tasks of one of the sources or with one of the tags; `*` stands for anything."""

    sources: _Patterns = ()
    """With or without a version: `chartqa` is `chartqa@1` as well."""
    tags: _Patterns = ()

    def has(self, task: Task) -> bool:
        """Whether the task is one of them."""
        names = (task.source, task.source.partition("@")[0])
        return any(fnmatchcase(name, pattern) for name in names for pattern in self.sources) or any(
            fnmatchcase(tag, pattern) for tag in task.tags for pattern in self.tags
        )

    def __bool__(self) -> bool:
        return bool(self.sources or self.tags)


class FilterBranch(Settings):
    """The tasks that a filter is for; all where nothing is said."""

    only: TaskPattern = TaskPattern()
    without: TaskPattern = TaskPattern()

    def has(self, task: Task) -> bool:
        """Whether the filter looks at trajectories of this task; others pass it by."""
        return (not self.only or self.only.has(task)) and not self.without.has(task)


@dataclass(frozen=True, slots=True)
class FilterStep:
    """One filter of a pipeline."""

    label: str
    """Its name in the report; the filter's own where none is given."""
    filter: str
    """`id@version`, or code of the user's own as it was named."""
    settings: FilterSettings
    branch: FilterBranch = field(default_factory=FilterBranch)


@dataclass(frozen=True, slots=True)
class Pipeline:
    """Filters in their order."""

    steps: tuple[FilterStep, ...]
    category: CategoryRule = "source"
    """Categories by which the report counts."""

    def to_toml(self) -> str:
        """Return the resolved pipeline, defaults included; reads back as the same pipeline."""
        filters = [
            {
                "name": step.filter,
                "label": step.label,
                **step.branch.model_dump(mode="json", exclude_defaults=True),
                **step.settings.model_dump(mode="json"),
            }
            for step in self.steps
        ]
        notes = file_notes(filters)
        return notes + to_toml({"category": self.category, "filter": filters})


def load_pipeline(name_or_path: str | os.PathLike[str], overrides: Sequence[str] = ()) -> Pipeline:
    """Return the bundled pipeline of a name, or the one in a file, with overrides.

    Raises `SettingsError`: it is not there or cannot be read, or something in it is wrong; names every mistake.
    """
    path = find_recipe("curate", name_or_path)
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingsError(f"{path} cannot be read: {error.strerror}. Name a pipeline, a TOML file.") from error
    except ValueError as error:
        raise SettingsError(f"{path} is not valid TOML: {error}") from error
    return parse_pipeline(data, overrides, where=str(path))


def parse_pipeline(data: Mapping[str, Any], overrides: Sequence[str] = (), *, where: str = "the pipeline") -> Pipeline:
    """Return the pipeline in parsed TOML. Raises as `load_pipeline`."""
    mistakes: list[str] = []
    unknown = [name for name in data if name not in ("category", "filter")]
    mistakes += [f"{name}: no such setting. {did_you_mean(name, ('category', 'filter'))}" for name in unknown]
    category = data.get("category", "source")
    if category not in get_args(CategoryRule):
        mistakes.append(f"category: should be one of {', '.join(get_args(CategoryRule))}, got {category!r}")
    tables = data.get("filter", [])
    if not isinstance(tables, list) or not tables or not all(isinstance(table, Mapping) for table in tables):
        mistakes.append("filter: should be one [[filter]] table or more")
        tables = []
    changed = [dict(table) for table in tables]
    _override(changed, overrides, mistakes)
    steps = [step for table in changed if (step := _step(table, mistakes)) is not None]
    labels = [step.label for step in steps]
    twice = sorted({label for label in labels if labels.count(label) > 1})
    mistakes += [f"{label}: comes twice; give each a label of its own" for label in twice]
    if mistakes:
        raise mistaken(mistakes, where)
    return Pipeline(tuple(steps), category)


def _override(tables: list[dict[str, Any]], overrides: Sequence[str], mistakes: list[str]) -> None:
    names = [str(table.get("label", _label(str(table.get("name"))))) for table in tables]
    for override in overrides:
        path, equals, text = override.partition("=")
        name, dot, parameter = path.strip().rpartition(".")
        if not equals or not dot:
            mistakes.append(f"{override!r} is no override: write filter.parameter=value")
        elif names.count(name) != 1:
            mistakes.append(f"{name}: no filter of this pipeline, or several. {did_you_mean(name, names)}".rstrip())
        else:
            tables[names.index(name)][parameter] = toml_value(text)


def _label(name: str) -> str:
    """Return the name of a filter that has no label: its id without the version, of the user's code its class."""
    code = FILTERS.code(name)
    return name.partition("@")[0] if code is None else code.attribute


def _step(table: dict[str, Any], mistakes: list[str]) -> FilterStep | None:
    name = table.pop("name", None)
    if not isinstance(name, str):
        mistakes.append(f"filter: a table has no name: {table}")
        return None
    label = str(table.pop("label", _label(name)))
    chosen = {key: table.pop(key) for key in ("only", "without") if key in table}
    kind: type[Settings] = FilterBranch
    try:
        branch = FilterBranch.model_validate(chosen)
        kind = filter_kind = load_filter(name)
        return FilterStep(label, FILTERS.full_name(name), filter_kind.model_validate(table), branch)
    except RegistryError as error:
        mistakes.append(f"{label}: {error}")
    except ValidationError as error:
        mistakes += mistakes_of(kind, error, label)
    return None
