"""Applies the settings with which a paper ran a benchmark to a run, and compares them with a run's.

    saccade eval vstar --as pyvision-rl

What a user sets wins over the paper, with a notice. Prompts, graders and picture sizes of a paper are not included:
equal settings do not promise an equal figure.
"""

from __future__ import annotations

from dataclasses import dataclass

from saccade.core.registry import did_you_mean
from saccade.errors import RegistryError, SettingsError
from saccade.evals.benchmarks import source_names
from saccade.evals.settings import EvalSettings
from saccade.tasks.benchmarks.card import Card, PaperSettings
from saccade.tasks.benchmarks.registry import load_card


@dataclass(frozen=True, slots=True)
class _Knob:
    """One setting of a paper, and where a run has it."""

    name: str
    """As a person reads it."""
    field: str
    """Of `PaperSettings`."""
    group: str
    """Of `EvalSettings`, or empty."""
    setting: str
    """Within the group."""

    def of_paper(self, paper: PaperSettings) -> object:
        return getattr(paper, self.field)

    def of_run(self, settings: EvalSettings) -> object:
        return getattr(getattr(settings, self.group) if self.group else settings, self.setting)

    def chosen(self, settings: EvalSettings) -> bool:
        """Whether the user has set it, in a file or on the command line."""
        holder = getattr(settings, self.group) if self.group else settings
        return self.setting in holder.model_fields_set


_KNOBS = (
    _Knob("dialect", "dialect", "", "dialect"),
    _Knob("temperature", "temperature", "sampling", "temperature"),
    _Knob("top-k", "top_k", "sampling", "top_k"),
    _Knob("turns", "turns", "limits", "turns"),
    _Knob("context tokens", "context_tokens", "limits", "context_tokens"),
    _Knob("samples of each task", "samples", "", "k"),
)


@dataclass(frozen=True, slots=True)
class Applied:
    """Settings with a paper's in them, and the notices about it."""

    settings: EvalSettings
    says: tuple[str, ...]


def as_published(settings: EvalSettings) -> Applied:
    """Return the settings with those of the paper that they name (`EvalSettings.published`) where the user set nothing
    else.

    Raises:
        SettingsError: a source is no benchmark, its card has no settings of that name, or two cards differ in them.
        RegistryError: there is no such card.
    """
    if not settings.published:
        return Applied(settings, ())
    papers = {name: _paper(name, settings.published) for name in source_names(settings)}
    paper = _agreed(papers, settings.published)
    changed, says = settings, []
    for knob in _KNOBS:
        value = knob.of_paper(paper)
        if value is None:
            continue
        if not knob.chosen(settings):
            changed = _with(changed, knob, value)
            says.append(f"{knob.name} {value}")
        elif knob.of_run(settings) != value:
            says.append(f"{knob.name} {knob.of_run(settings)} as you set it (the paper: {value})")
    return Applied(changed, (f"As in {paper.source}: {', '.join(says)}.",))


def differing(settings: EvalSettings, paper: PaperSettings) -> tuple[str, ...]:
    """Return the settings that a run and a paper do not share, in words; of those that the paper gives."""
    given = ((knob, knob.of_paper(paper), knob.of_run(settings)) for knob in _KNOBS)
    return tuple(
        f"{knob.name} {'not set' if ours is None else ours} (there {theirs})"
        for knob, theirs, ours in given
        if theirs is not None and theirs != ours
    )


def beside_published(settings: EvalSettings, card: Card) -> tuple[str, ...]:
    """Write a line for each paper with a score in the card: whether its settings are known, and which differ here."""
    lines = []
    for name in dict.fromkeys(_paper_of(score.source) for score in card.scores):
        paper = next((known for known in card.settings if _paper_of(known.source) == name), None)
        if paper is None:
            lines.append(f"{name}: its settings for {card.title} are not known here")
        elif differ := differing(settings, paper):
            lines.append(f"{name}: other settings there: {', '.join(differ)}")
        else:
            lines.append(f"{name}: all settings that it gives are the same here")
    return tuple(lines)


def _paper_of(source: str) -> str:
    return source.partition(",")[0]


def _paper(source: str, name: str) -> PaperSettings:
    try:
        card = load_card(source)
    except RegistryError as error:
        raise SettingsError(
            f"--as {name}: {source} is no benchmark, so no paper gives settings for it. Leave --as out, or name "
            "benchmarks alone (saccade cards list)."
        ) from error
    known = {settings.name: settings for settings in card.settings}
    if name not in known:
        hint = did_you_mean(name, known) if known else "The card gives none."
        raise SettingsError(f"--as {name}: the card {card.id} has no settings of that name. {hint}")
    return known[name]


def _agreed(papers: dict[str, PaperSettings], name: str) -> PaperSettings:
    first, *_ = papers.values()
    for knob in _KNOBS:
        values = {source: knob.of_paper(paper) for source, paper in papers.items()}
        if len(set(values.values())) > 1:
            listed = ", ".join(f"{source}: {_shown(value)}" for source, value in values.items())
            raise SettingsError(
                f"--as {name}: the paper's {knob.name} differs between these benchmarks ({listed}). Evaluate them in "
                "runs of their own."
            )
    return first


def _shown(value: object) -> str:
    return "not given" if value is None else str(value)


def _with(settings: EvalSettings, knob: _Knob, value: object) -> EvalSettings:
    if not knob.group:
        return settings.model_copy(update={knob.setting: value})
    group = getattr(settings, knob.group).model_copy(update={knob.setting: value})
    return settings.model_copy(update={knob.group: group})
