"""The card of a benchmark: everything that is particular to it, as frozen data from one short TOML file.

A card holds no code and no prompt. It names its loader and its graders by id, or as code of the user's own; whether
these exist is asked when they are used. Sizes and scores are those of the stated source, not measured here.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Final, Literal, Self

from pydantic import BeforeValidator, Field, FiniteFloat, NonNegativeInt, PositiveInt, model_validator

from saccade.core.registry import REFERENCE_PATTERN
from saccade.core.settings import Settings
from saccade.record.task import AnswerType, Task


def as_tuple(value: object) -> object:
    """Return a text as a tuple of it only, for a validator; all else as it is."""
    return (value,) if isinstance(value, str) else value


def _as_table(value: object) -> object:
    return {"id": value} if isinstance(value, str) else value


Id = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]*@(0|[1-9][0-9]*)$")]
"""A versioned id, `name@version`."""

PartName = Annotated[str, Field(pattern=rf"^([a-z0-9][a-z0-9._-]*@(0|[1-9][0-9]*)|{REFERENCE_PATTERN})$")]
"""A versioned id, or code of the user's own."""

Names = Annotated[tuple[str, ...], BeforeValidator(as_tuple)]
"""One text, or several of which the first that a row has counts. See `values.py` for what a field may be."""

SAME_QUESTION: Final = "@question"
"""In place of a field in `Fields.group`: rows with the same question about the same media are one group."""

BoxOrder = Literal["xyxy", "xywh", "yxyx"]
BoxScale = Literal[0, 1, 100, 1000]


class DataSource(Settings):
    """Where the data come from."""

    name: str
    """Repository or hub name."""
    url: str
    licence: str = "see the source"
    get: str
    """What a person does to get the data into `{folder}`: a command, or a sentence."""
    paper: str = ""


class Reading(Settings):
    """Which loader reads which files."""

    id: PartName
    files: Names
    """Glob patterns relative to the data set's folder; all files of the first pattern that matches any."""
    media: tuple[str, ...] = ()
    """Further folders, relative to the data set's, where media that rows name may be."""
    known_from: str = ""
    """Where the form of the rows is known from: the repository and the file that was read, and when."""
    met: str = ""
    """Which real file of the source was read with this form, and when; empty: none, only rows made by hand after it."""


class Fields(Settings):
    """From fields of a row to those of a task."""

    id: Names = ("_row",)
    question: Names
    hint: Names = ()
    """A text that stands before the question."""
    images: Names = ()
    videos: Names = ()
    answer: Names = ()
    answer_is: Literal["text", "letter", "letter-or-text", "index-0", "index-1", "first-choice"] = "text"
    """How the gold answer of a row with choices names its choice."""
    answer_names: Mapping[str, str] = {}
    """What a gold answer that is written as a code stands for, as in `{ 0 = "no", 1 = "yes" }`."""
    without_answers: bool = False
    """Whether rows may have no gold answer; else one without is broken."""
    choices: Names = ()
    choices_from: Literal["field", "columns", "question"] = "field"
    """`columns`: fields `A`, `B`, ..., and of a row without them the field `choices`; `question`: options that are
    written into the question, and taken out of it."""
    default_choices: tuple[str, ...] = ()
    """Of a row without choices: the letters of options that stand in the picture."""
    boxes: Names = ()
    """Where the answer can be seen in the first picture: a box, a list of boxes, such a list as text, or a table of
    boxes; a box is four numbers, or a table with these as `bbox`."""
    box_keys: Names = ()
    """The field with the keys of those boxes of a table that count: a list, or one. Without it all of them count."""
    boxes_are: BoxOrder = "xyxy"
    """What the four numbers of a box are; also of gold answers that are boxes."""
    boxes_scale: BoxScale = 0
    """What these numbers run to along each side; 0: they are pixels."""
    box_labels: Names = ()
    """What each box shows: a text, or a list with one for each box."""
    split: Names = ()
    """The split of a row, where rows name it; by default the card's."""
    group: Names = ()
    """What variants of one question share."""
    variant: Names = ()
    tags: Mapping[str, Names] = {}
    tag_lists: Names = ()
    """Tags of which a row may have several: the items of a list, or of a text with commas."""
    published: Names = ()
    """A table in the row: the name of a published model -> whether it answered this row rightly."""


class Case(Settings):
    """Rows whose fields have these values have another type of answer; `*` in a value stands for anything."""

    when: Mapping[str, Names]
    answer_type: AnswerType
    choices: tuple[str, ...] = ()
    """Of such a row without choices of its own: the letters of options that stand in its picture."""


class Choices(Settings):
    """In which order choices are shown."""

    order: Literal["given", "shuffle", "cycle", "circular"] = "given"
    """`shuffle`: by `seed` and the task's id, where the source's gold position is constant; who plays the tasks does
    it (`saccade.tasks.sources.settings`). `cycle`: each task once for every rotation of its choices, by the loader;
    `circular`: the same, and a question is right if all of them are."""
    seed: NonNegativeInt = 0
    why: str = ""


class GraderChoice(Settings):
    """A grader by id."""

    id: PartName
    parameters: Mapping[str, bool | int | float | str] = {}
    """Of the grader, where the source asks for others than its own, as in `{ tolerance = 0.1 }`, or of a box grader
    `{ scale = 1000, order = "yxyx" }` where the question asks for boxes that count so."""
    headline: Literal["rule", "judge"] = "rule"
    """Whose verdict counts where a run has a judge: `judge` where the source's authors use one. Without a judge the
    rule's counts."""
    judged: Literal["right", "share"] = "right"
    """What a judge says of an answer: `right` or wrong, or which `share` of the gold answer it has, from 0 to 1."""

    @property
    def spec(self) -> str:
        """Id and parameters as `saccade.grading.registry.load_grader` reads them."""
        parameters = ",".join(f"{name}={json.dumps(value)}" for name, value in sorted(self.parameters.items()))
        return f"{self.id}:{parameters}" if parameters else self.id


class Metric(Settings):
    """What the headline number is."""

    id: Id = "accuracy@1"
    by: tuple[str, ...] = ()
    """Tags for which the number is also given."""
    note: str = ""


class PaperSettings(Settings):
    """How a paper ran the benchmark; None where it does not say."""

    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]*$")]
    """As `saccade eval --as` names it."""
    source: str
    """The paper before the first comma, then the place in it; scores of the same paper begin alike."""
    dialect: str | None = None
    """How the paper's own checkpoint is spoken to."""
    temperature: FiniteFloat | None = None
    top_k: PositiveInt | None = None
    turns: PositiveInt | None = None
    samples: PositiveInt | None = None
    """Answers for each task, whose accuracies are averaged."""
    context_tokens: PositiveInt | None = None
    shown_pixels: PositiveInt | None = None
    """Most pixels of a picture of the task as the model is shown it."""


class PublishedScore(Settings):
    """A published result."""

    model: str
    score: FiniteFloat
    """Percent."""
    source: str
    part: str = ""
    """The part of the benchmark, if it is not all of it."""
    faithful: FiniteFloat | None = None
    """Percent of all samples that are right and whose tool use is faithful, where published."""


class SplitFiles(Settings):
    """Another split of the data set than the card's own."""

    files: Names
    """As those of the loader."""
    media: tuple[str, ...] = ()
    only: Mapping[str, Names] = {}
    tasks: PositiveInt | None = None
    """How many there should be."""
    source: str = ""
    """Where that number is from."""


class Size(Settings):
    """How many tasks there should be."""

    tasks: PositiveInt | None = None
    """None where no source gives an exact number."""
    source: str = ""
    """Where the number is from, or what is known without one."""
    taken: PositiveInt | None = None
    """How many of them the paper took, where nobody says which."""


_STATED_ANYWAY: Final = frozenset(
    {"id", "question", "images", "answer", "answer_is", "tags", "boxes_are", "boxes_scale"}
)
"""Fields that a form has of its own in any case, or that only say how others are read.

Any other, if the card's own form has it, each other form must state as well: empty where it has none. A field that is
added to `Fields` later is among these.
"""
_EITHER: Final = ("choices", "choices_from")
"""Two ways to the choices: one of them is enough."""


class Form(Settings):
    """Another form in which the data of a card are published, as by their own source.

    Nothing of the card's own form is silently without its counterpart here: `cases`, `only`, the tags of
    `metric.by` and all fields but `_STATED_ANYWAY` must be stated if the card states them.
    """

    title: str
    """Who publishes it so, in a few words."""
    loader: Reading
    fields: Fields
    only: Mapping[str, Names] = {}
    cases: tuple[Case, ...] = ()
    media: Literal["image", "images", "video", "text"] | None = None
    """As the card's, where it is another: `text` where rows may have no picture."""
    answer_type: AnswerType | None = None
    """As the card's, where it is another."""
    size: Size = Size()
    splits: Mapping[str, SplitFiles] = {}
    """Of this form; a split whose files are named like the card's own needs no entry."""


class Card(Settings):
    """A benchmark: where its files are, how its rows become tasks, how it is scored."""

    id: Id
    title: str
    split: str
    """As tasks record it."""
    part: str = ""
    """The split, where another than the card's own was asked for; stands in the ids of its tasks."""
    splits: Mapping[str, SplitFiles] = {}
    """Other splits, where their files are named otherwise than the own one with the split's name in it."""
    media: Literal["image", "images", "video", "text"]
    prompt: Literal["choice", "short", "count", "yes-no", "free", "mixed"]
    """Style of the question, for a person and for dialects that have several; it adds nothing to the text."""
    answer_type: AnswerType
    """Of rows without choices for which no case says otherwise; rows with choices are `choice`."""
    source: DataSource
    loader: Reading
    fields: Fields
    only: Mapping[str, Names] = {}
    """Only rows whose fields have one of these values belong to the benchmark; `*` as in a case."""
    cases: tuple[Case, ...] = ()
    choices: Choices = Choices()
    graders: Mapping[AnswerType, Annotated[GraderChoice, BeforeValidator(_as_table)]]
    metric: Metric = Metric()
    groups: tuple[str, ...] = ()
    """Groups of benchmarks over which a paper gives a mean: the paper before the first comma, then the group's name."""
    settings: tuple[PaperSettings, ...] = ()
    scores: tuple[PublishedScore, ...] = ()
    size: Size = Size()
    forms: tuple[Form, ...] = ()
    """Other forms of the same data, looked for where the card's own files are not there."""
    form: str = ""
    """The title of the form that was found, where it is not the card's own."""
    notes: str = ""

    @property
    def name(self) -> str:
        """The id without its version; also the name of the data set's folder."""
        return self.id.partition("@")[0]

    def grader_of(self, task: Task) -> GraderChoice:
        """Return the grader of a task of this benchmark."""
        return self.graders[task.answer_type]

    @model_validator(mode="after")
    def _forms_lose_nothing(self) -> Self:
        for form in self.forms:
            lost = [name for name in ("cases", "only") if getattr(self, name) and name not in form.model_fields_set]
            lost += [
                f"fields.{name}"
                for name, field in Fields.model_fields.items()
                if name not in _STATED_ANYWAY and getattr(self.fields, name) != field.default
                if form.fields.model_fields_set.isdisjoint(_EITHER if name in _EITHER else (name,))
            ]
            lost += [
                f"fields.tags.{tag}" for tag in self.metric.by if tag in self.fields.tags.keys() - form.fields.tags
            ]
            if lost:
                raise ValueError(
                    f"the form {form.title!r} says nothing of {', '.join(lost)}, which the card's own form has: state "
                    "it there too, empty where there is none"
                )
        return self

    @model_validator(mode="after")
    def _graders_for_all(self) -> Self:
        needed = {self.answer_type, *(case.answer_type for case in self.cases)}
        needed |= {
            kind for form in self.forms for kind in (form.answer_type, *(c.answer_type for c in form.cases)) if kind
        }
        for fields in (self.fields, *(form.fields for form in self.forms)):
            relative = fields.boxes_are != "xyxy" or fields.boxes_scale
            if relative and not fields.boxes and AnswerType.BOX not in needed:
                raise ValueError("`boxes_are` and `boxes_scale` say how boxes count, and no field has any")
            if fields.choices or fields.default_choices or fields.choices_from != "field":
                needed.add(AnswerType.CHOICE)
        missing = sorted(needed - self.graders.keys())
        if missing:
            raise ValueError(f"tasks may be of type {', '.join(missing)}, for which `graders` names none")
        if self.media in ("image", "images") and not self.fields.images:
            raise ValueError("a benchmark of pictures needs `fields.images`")
        if self.media == "video" and not self.fields.videos:
            raise ValueError("a benchmark of videos needs `fields.videos`")
        for kind, grader in self.graders.items():
            if grader.parameters.get("scale") and self.media in ("text", "video"):
                raise ValueError(
                    f"graders.{kind}.parameters.scale: relative boxes need a picture, and its tasks are of {self.media}"
                )
        names = [settings.name for settings in self.settings]
        if len(set(names)) < len(names):
            raise ValueError(f"two `settings` have one name: {', '.join(names)}")
        if not self.fields.answer and self.fields.answer_is != "first-choice":
            raise ValueError("`fields.answer` names no field")
        return self
