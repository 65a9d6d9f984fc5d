"""Define filters, and pipelines: a TOML file that lists filters in their order. Report what each of them did.

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
import re
import sys
import tomllib
import unicodedata
from abc import ABC
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final, Literal, Protocol, TypeAlias, get_args

from pydantic import BeforeValidator, NonNegativeInt, ValidationError

from saccade.core.disk import file_notes
from saccade.core.recipes import find_recipe
from saccade.core.registry import Registry, all_of, did_you_mean, is_subclass
from saccade.core.seam import has_methods, seam
from saccade.core.settings import Settings, mistaken, mistakes_of, to_toml, toml_value
from saccade.errors import OwnCodeError, RegistryError, SettingsError
from saccade.record.content import SCHEMA_VERSION, ImagePart, Name, Record, SchemaVersion, Text
from saccade.record.task import Task
from saccade.record.trajectory import Trajectory
from saccade.tasks.benchmarks.card import as_tuple

# A filter is settings that start a stage; a stage decides which trajectories stay. One that looks at one trajectory at
# a time is a `BatchStage` (it sees them in order); one that waits, such as for a judge, is an `AskStage`, which has
# several under way at once; one that must know the whole set is a `DatasetStage`: it keeps a small note of each
# trajectory and chooses at the end. A filter never reads a gold answer to a model that is curated, and never edits what
# a model wrote; a trajectory that stays may get tags, a split, evidence boxes, or a gold answer that a person
# corrected.


class Media(Protocol):
    """Store of the pictures and videos of the trajectories."""

    def get_bytes(self, sha256: str) -> bytes:
        """Return the stored bytes. Raises `MissingMediaError`."""

    def path(self, sha256: str) -> Path:
        """Return the file that holds them. Raises `MissingMediaError`."""


@dataclass(frozen=True, slots=True)
class Keep:
    """The trajectory stays."""

    trajectory: Trajectory | None = None
    """The same one with another tag, split or evidence; None if it stays as it is."""


@dataclass(frozen=True, slots=True)
class Drop:
    """The trajectory goes."""

    reason: str
    """A few words that many trajectories share: they are counted."""
    detail: str = ""
    """Details of this case."""


@dataclass(frozen=True, slots=True)
class Undecided:
    """The filter could not tell: a score was never computed, a judge gave no verdict."""

    reason: str
    detail: str = ""


FilterOutcome: TypeAlias = Keep | Drop | Undecided
"""Decision of a filter about a trajectory."""
KEEP = Keep()
"""The decision to keep a trajectory, with nothing to say."""


@dataclass(frozen=True, slots=True)
class BatchStage:
    """Decides in order, one outcome for each trajectory; how many it is given at a time is not promised."""

    decide: Callable[[Sequence[Trajectory]], Sequence[FilterOutcome]]
    close: Callable[[], None] = field(default=lambda: None)


async def _nothing() -> None:
    """Do nothing: there is nothing to give back."""


@dataclass(frozen=True, slots=True)
class AskStage:
    """Waits for each decision, with several under way; what it raises ends the run when those that run are done."""

    decide: Callable[[Trajectory], Awaitable[FilterOutcome]]
    at_once: int = 8
    close: Callable[[], Awaitable[None]] = field(default=_nothing)


@dataclass(frozen=True, slots=True)
class DatasetStage:
    """Decides when all have been seen."""

    note: Callable[[Trajectory], Any]
    """Note on a trajectory; small, since it is kept for all of them."""
    choose: Callable[[Sequence[Any]], Sequence[FilterOutcome]]
    """An outcome for each note; a `Keep` without a trajectory."""


FilterStage: TypeAlias = BatchStage | AskStage | DatasetStage
"""A filter at work in a pipeline."""


def each(decide: Callable[[Trajectory], FilterOutcome]) -> BatchStage:
    """Make the stage of a rule that looks at one trajectory at a time."""
    one = seam(decide, Keep, Drop, Undecided)
    return BatchStage(lambda batch: [one(trajectory) for trajectory in batch])


@dataclass(frozen=True, slots=True)
class FilterContext:
    """Resources of a stage besides its settings."""

    media: Media
    cache: Path
    """Folder in which judges keep their verdicts."""


class FilterSettings(Settings, ABC):
    """Base of all filters. The first sentence of the docstring is what `saccade curate --list` shows."""

    ABOUT_TASKS: ClassVar[bool] = False
    """Whether it looks only at tasks, and so can filter tasks without any episode."""

    undecided: Literal["leave_out", "keep"] = "leave_out"
    """Whether a trajectory that the filter could not decide about is kept; it is counted as undecided either way."""

    def start(self, around: FilterContext) -> FilterStage:
        """Return the stage for one run over a set: `decide`, unless a filter needs more than one trajectory.

        Raises `SaccadeError`: something that the settings name is not there, or a filter of a user's own has neither.
        """
        if getattr(type(self).decide, "__module__", "") == __name__:
            where = getattr(sys.modules.get(type(self).__module__), "__file__", type(self).__module__)
            raise OwnCodeError(f"{where}: {type(self).__name__} has neither `decide` nor `start`. Give it one of them.")
        return each(self.decide)

    def decide(self, trajectory: Trajectory) -> FilterOutcome:
        """Decide about one trajectory, where `start` is as it is here."""
        raise NotImplementedError


def task_pictures(trajectory: Trajectory) -> tuple[ImagePart, ...]:
    """Return the pictures of the task, in their order."""
    return tuple(item.part for item in trajectory.task.media if isinstance(item.part, ImagePart))


_PLACEHOLDER = re.compile(r"<image(?: \d+)?>|<IMAGE_PLACE_HOLDER_\d+>|<video>")
# A number with its decimals and its sign is one word; of other signs only those of arithmetic mean something.
_WORD = re.compile(r"\d+(?:[.,:]\d+)*|[^\W\d_]+|[-+*/=<>%^]")


def normal_text(text: str) -> str:
    """Return the words, numbers and arithmetic signs of `text` in lower case, one blank between; no placeholders."""
    plain = unicodedata.normalize("NFKC", _PLACEHOLDER.sub(" ", text)).casefold()
    return " ".join(_WORD.findall(plain))


CategoryRule: TypeAlias = Literal["source", "dialect", "model", "answer_type", "split", "tag"]


def categories(trajectory: Trajectory, rule: CategoryRule) -> tuple[str, ...]:
    """Return the categories of a trajectory: exactly one, or for `tag` one for each tag; `-` if there is none."""
    match rule:
        case "source":
            named: tuple[str, ...] = (trajectory.task.source,)
        case "dialect":
            named = (trajectory.provenance.dialect,)
        case "model":
            named = (trajectory.provenance.model,)
        case "answer_type":
            named = (trajectory.task.answer_type.value,)
        case "split":
            named = (trajectory.task.split,)
        case "tag":
            named = tuple(dict.fromkeys(trajectory.task.tags))
    return tuple(name or "-" for name in named) or ("-",)


FILTERS: Final = Registry[type[FilterSettings]](
    "filters",
    {
        "score@1": "saccade.training.sft.curate.filters.episodes:MinimumScore",
        "exact-answer@1": "saccade.training.sft.curate.filters.judged:ExactAnswer",
        "tool-turns@1": "saccade.training.sft.curate.filters.episodes:ToolTurns",
        "ended@1": "saccade.training.sft.curate.filters.episodes:Ended",
        "errors@1": "saccade.training.sft.curate.filters.episodes:ErrorTurns",
        "budget@1": "saccade.training.sft.curate.filters.episodes:Budget",
        "well-formed@1": "saccade.training.sft.curate.filters.episodes:WellFormed",
        "pass-rate@1": "saccade.training.sft.curate.filters.episodes:PassRateFilter",
        "strata@1": "saccade.training.sft.curate.filters.mixture:Strata",
        "duplicates@1": "saccade.training.sft.curate.filters.overlap:Duplicates",
        "contamination@1": "saccade.training.sft.curate.filters.overlap:Contamination",
        "cross-check@1": "saccade.training.sft.curate.filters.judged:CrossCheck",
        "question-quality@1": "saccade.training.sft.curate.filters.judged:QuestionQuality",
        "label-check@1": "saccade.training.sft.curate.filters.judged:LabelCheck",
        "outside-knowledge@1": "saccade.training.sft.curate.filters.judged:OutsideKnowledge",
        "leave-out@1": "saccade.training.sft.curate.filters.mixture:LeaveOut",
        "atomic@1": "saccade.training.sft.curate.filters.judged:Atomic",
        "reviewed@1": "saccade.training.sft.curate.filters.mixture:Reviewed",
        "image-informative@1": "saccade.training.sft.curate.filters.judged:ImageInformative",
        "box-label@1": "saccade.training.sft.curate.filters.mixture:BoxLabel",
        "mixture@1": "saccade.training.sft.curate.filters.mixture:Mixture",
        "split@1": "saccade.training.sft.curate.filters.mixture:SplitFilter",
    },
    all_of(
        is_subclass(FilterSettings, "a subclass of saccade.training.sft.curate.pipeline.FilterSettings"),
        has_methods(FilterSettings),
    ),
)


def load_filter(name: str) -> type[FilterSettings]:
    """Load the filter that `name` names: an id, or code of the user's own (`file.py:NAME`, `module:NAME`).

    Raises `RegistryError`: nothing has that name (suggests the nearest), or it is no filter.
    """
    return FILTERS.load(name)


# Which trajectories a filter looks at: those of some sources or with some tags, or all but those.


_Patterns = Annotated[tuple[str, ...], BeforeValidator(as_tuple)]


class TaskPattern(Settings):
    """Tasks of one of the sources or with one of the tags; `*` stands for anything."""

    sources: _Patterns = ()
    """With or without a version: `chartqa` is `chartqa@1` as well."""
    tags: _Patterns = ()

    def has(self, task: Task) -> bool:
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
        """Return whether the filter looks at trajectories of this task; others pass it by."""
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


EXAMPLES = 5
"""Ids that are kept for each reason; all of them are in `dropped.jsonl`."""


class DroppedTrajectory(Record):
    """A line of `dropped.jsonl`: a trajectory that a filter left out, or could not decide about."""

    id: Name
    task: Name
    filter: Text
    outcome: Literal["dropped", "undecided"]
    kept: bool = False
    """Whether it was kept nevertheless, because the filter keeps what it cannot decide about."""
    reason: Text
    detail: Text = ""


class ReasonCount(Record):
    """How often a filter gave one reason."""

    outcome: Literal["dropped", "undecided"]
    reason: Text
    count: NonNegativeInt
    examples: tuple[Text, ...]
    """Ids, the first ones in order."""


class CategoryCount(Record):
    """One category before a filter and after it. With tags, a trajectory counts in each of its own."""

    category: Text
    seen: NonNegativeInt
    kept: NonNegativeInt


class FilterReport(Record):
    """Counts of one filter."""

    label: Text
    filter: Text
    """`id@version`."""
    seen: NonNegativeInt
    kept: NonNegativeInt
    dropped: NonNegativeInt
    undecided: NonNegativeInt
    """Those that it could not decide about, whether they were kept or not."""
    beside: NonNegativeInt = 0
    """Those of another branch, which passed it by; among those that were seen and kept."""
    reasons: tuple[ReasonCount, ...]
    categories: tuple[CategoryCount, ...]


class CurateReport(Record):
    """`report.json` of a curated run."""

    schema_version: SchemaVersion = SCHEMA_VERSION
    runs: tuple[Text, ...]
    category: Text
    """Meaning of the categories."""
    read: NonNegativeInt
    kept: NonNegativeInt
    renamed: NonNegativeInt
    """Trajectories whose id an earlier run had, and that therefore got their run's name before it."""
    filters: tuple[FilterReport, ...]
    broken: tuple[Text, ...] = ()
    """Why rows of sources of tasks gave none."""


class Tally:
    """Counts the outcomes of one filter while they come."""

    def __init__(self, label: str, filter_id: str, rule: CategoryRule) -> None:
        self._label, self._filter, self._rule = label, filter_id, rule
        self._seen = self._kept = self._beside = 0
        self._reasons: Counter[tuple[Literal["dropped", "undecided"], str]] = Counter()
        self._examples: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
        self._category_seen: Counter[str] = Counter()
        self._category_kept: Counter[str] = Counter()

    def count(self, trajectory: Trajectory, outcome: FilterOutcome, kept: bool) -> DroppedTrajectory | None:
        """Count an outcome; the line of `dropped.jsonl` for it, None for one that simply stays."""
        among = categories(trajectory, self._rule)
        self._seen += 1
        self._kept += kept
        self._category_seen.update(among)
        if kept:
            self._category_kept.update(among)
        if not isinstance(outcome, Drop | Undecided):
            return None
        name: Literal["dropped", "undecided"] = "dropped" if isinstance(outcome, Drop) else "undecided"
        self._reasons[name, outcome.reason] += 1
        examples = self._examples[name, outcome.reason]
        if len(examples) < EXAMPLES:
            examples.append(trajectory.id)
        return DroppedTrajectory(
            id=trajectory.id,
            task=trajectory.task.id,
            filter=self._label,
            outcome=name,
            kept=kept,
            reason=outcome.reason,
            detail=outcome.detail,
        )

    def pass_by(self, trajectory: Trajectory) -> None:
        self._beside += 1
        self.count(trajectory, KEEP, kept=True)

    def report(self) -> FilterReport:
        """Return the counts so far; reasons by count, categories by name."""
        reasons = sorted(self._reasons.items(), key=lambda item: (-item[1], item[0]))
        totals = Counter[str]()
        for (outcome, _), count in reasons:
            totals[outcome] += count
        return FilterReport(
            label=self._label,
            filter=self._filter,
            seen=self._seen,
            kept=self._kept,
            dropped=totals["dropped"],
            undecided=totals["undecided"],
            beside=self._beside,
            reasons=tuple(
                ReasonCount(
                    outcome=outcome, reason=reason, count=count, examples=tuple(self._examples[outcome, reason])
                )
                for (outcome, reason), count in reasons
            ),
            categories=tuple(
                CategoryCount(category=name, seen=count, kept=self._category_kept[name])
                for name, count in sorted(self._category_seen.items())
            ),
        )
