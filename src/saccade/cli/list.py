"""`saccade list`: everything that has a name, a line for each: its id, where it is from, and what it is.

Of an installed package that cannot be loaded the line says why; the others are listed all the same. Code of a user's
own is not listed: it is named by its file or module.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass
from importlib import import_module
from importlib.metadata import PackageNotFoundError, requires, version
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer

from saccade.cli.output import AsJson, print_json
from saccade.core.plugins import DISTRIBUTION
from saccade.core.recipes import Kind as RecipeKind
from saccade.core.recipes import about_recipe, recipe_list, recipe_names
from saccade.errors import SaccadeError, SettingsError

if TYPE_CHECKING:
    from saccade.core.registry import Registry

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@dataclass(frozen=True, slots=True)
class ListedKind:
    """Something that is found by name."""

    registry: str
    """`module:attribute` of its registry, or of a function that gives it."""
    what: str
    named: str
    """Where one is named."""


KINDS = {
    "tools": ListedKind("saccade.tools.registry:TOOLS", "what models call by name", "--set 'tools=[\"NAME\"]'"),
    "dialects": ListedKind("saccade.dialects.registry:DIALECTS", "how a model is spoken to", "--dialect NAME"),
    "sandboxes": ListedKind("saccade.sandbox.registry:SANDBOXES", "where code runs", "--sandbox NAME"),
    "graders": ListedKind(
        "saccade.grading.registry:GRADERS", "whether an answer is right", "eval --grader NAME, cards"
    ),
    "models": ListedKind("saccade.models.registry:PROVIDERS", "providers of models", "--model NAME:MODEL, --judge"),
    "worlds": ListedKind("saccade.tasks.worlds:WORLDS", "generated tasks", "eval NAME, synth NAME, rl --tasks NAME"),
    "experts": ListedKind(
        "saccade.training.sft.synth.experts:EXPERTS", "who plays without a teacher", "synth --expert NAME"
    ),
    "cards": ListedKind("saccade.tasks.benchmarks.registry:cards", "benchmarks", "eval NAME"),
    "loaders": ListedKind("saccade.tasks.benchmarks.loaders.rows:LOADERS", "formats of benchmarks", "cards: loader.id"),
    "protocols": ListedKind(
        "saccade.evals.protocols.base:PROTOCOLS", "studies of stored runs", "protocols --only NAME"
    ),
    "filters": ListedKind(
        "saccade.training.sft.curate.pipeline:FILTERS", "which trajectories stay", "pipelines: filter.name"
    ),
    "formats": ListedKind(
        "saccade.training.sft.formats.base:FORMATS", "formats of training data", "convert --from NAME --to NAME"
    ),
    "exports": ListedKind("saccade.evals.rows:EXPORTS", "forms of episodes for others", "export --to NAME"),
    "task-forms": ListedKind(
        "saccade.tasks.sources.survey:TASK_FORMS", "forms of tasks for others", "tasks write --to NAME"
    ),
    "rewards": ListedKind("saccade.rewards.registry:REWARDS", "what a rollout is worth", "recipes: reward.preset"),
    "judges": ListedKind("saccade.rewards.judges.registry:JUDGES", "who judges tool outputs", "recipes: reward.judge"),
    "selections": ListedKind(
        "saccade.training.rl.select:SELECTIONS", "which rollouts are trained on", "recipes: selection.rule"
    ),
    "advantages": ListedKind(
        "saccade.training.rl.advantages:ADVANTAGES", "from rewards to advantages", "recipes: advantage.rule"
    ),
    "kl-estimators": ListedKind(
        "saccade.training.rl.advantages:KL_ESTIMATORS", "how far a policy is from its reference", "recipes: loss.kl"
    ),
    "tool-origins": ListedKind("saccade.tools.registry:TOOL_ORIGINS", "tools of other systems", "--tools NAME:WHERE"),
    "tool-servers": ListedKind(
        "saccade.tools.serving.backend:TOOL_SERVERS", "where served tools run", "tools serve --on NAME"
    ),
    "trainers": ListedKind("saccade.training.rl.trainers:TRAINERS", "who trains by reinforcement", "rl --on NAME"),
}


RECIPES = "recipes"


@dataclass(frozen=True, slots=True)
class ListedPart:
    """One thing that has a name."""

    id: str
    source: str
    """`built in`, or the package that registers it."""
    description: str
    presets: tuple[str, ...] = ()
    needs: str = ""
    """Command that installs its missing packages; empty if none is missing."""
    problem: str = ""
    """Why it cannot be loaded; empty if it can."""

    def __str__(self) -> str:
        said = self.description if not self.problem else f"cannot be loaded: {self.problem}"
        presets = f" Presets: {', '.join(self.presets)}." if self.presets else ""
        return f"{said}{presets}{f' Needs: {self.needs}' if self.needs else ''}"


@app.command("list")
def list_kind(
    kind: Annotated[str | None, typer.Argument(help="tools, dialects, ...; without it, the kinds are listed.")] = None,
    as_json: AsJson = False,
) -> None:
    """List everything that has a name: id, where it is from, what it is."""
    if kind is None:
        _kinds(as_json)
    else:
        print_parts(kind, as_json=as_json)


def print_parts(kind: str, *, as_json: bool) -> None:
    """Print the parts of a kind; raises as `parts_of`."""
    parts = list(parts_of(kind))
    if as_json:
        print_json(parts)
        return
    for line in lines(parts):
        print(line)


def lines(parts: list[ListedPart]) -> Iterator[str]:
    """Yield a line for each, in columns."""
    names = max((len(part.id) for part in parts), default=0)
    sources = max((len(part.source) for part in parts), default=0)
    for part in parts:
        yield f"{part.id:<{names}}  {part.source:<{sources}}  {part}"


def parts_of(kind: str) -> Iterator[ListedPart]:
    """Yield the parts of a kind, by their ids.

    Raises:
        SettingsError: there is no such kind; suggests the nearest.
        RegistryError: two installed packages claim one id, or one claims something that is no id.
    """
    from saccade.core.registry import did_you_mean

    if kind == RECIPES:
        yield from _recipes()
        return
    if kind not in KINDS:
        hint = did_you_mean(kind, (*KINDS, RECIPES)) or f"There are: {', '.join((*KINDS, RECIPES))}."
        raise SettingsError(f"there is nothing called {kind!r} to list. {hint}")
    module, _, attribute = KINDS[kind].registry.partition(":")
    holder = getattr(import_module(module), attribute)
    registry: Registry[Any] = holder() if kind == "cards" else holder
    for entry in registry.ids():
        yield _part(registry, entry)


def _recipes() -> Iterator[ListedPart]:
    """Yield the bundled ones, as they are written on a command line."""
    for verb in get_args(RecipeKind):
        for name in recipe_names(verb):
            yield ListedPart(f"{verb} {name}", "built in", about_recipe(verb, name))


def _part(registry: Registry[Any], entry: str) -> ListedPart:
    from saccade.core.registry import PresetRegistry

    owner = registry.owners.get(entry, "")
    source = "built in" if owner in ("", DISTRIBUTION) else f"{owner} {_version(owner)}".strip()
    needs = _missing(owner or DISTRIBUTION, registry.extra(entry))
    try:
        presets = registry.presets(entry) if isinstance(registry, PresetRegistry) else ()
        part = _card(entry) if registry.kind == "cards" else registry.load(entry)
    except SaccadeError as error:
        return ListedPart(entry, source, "", needs=needs, problem=str(error))
    if not needs and hasattr(part, "needs") and part.needs.missing():
        needs = part.needs.remedy
    return ListedPart(entry, source, _description(part, registry.entries[entry].partition(":")[0]), presets, needs)


def _card(entry: str) -> object:
    from saccade.tasks.benchmarks.registry import load_card

    return load_card(entry)


def _description(value: object, module: str) -> str:
    """Return a sentence: what the part says of itself, or else its module or class."""
    from saccade.tasks.benchmarks.card import Card

    if isinstance(value, Card):
        tasks = "no one size" if value.size.tasks is None else f"{value.size.tasks} tasks"
        return f"{value.title} ({tasks}; {value.metric.id})"
    for name in ("description", "title"):
        if isinstance(text := getattr(value, name, None), str) and text:
            keys = getattr(value, "key_names", ())
            return f"{_sentence(text)} Key: {', '.join(keys)}." if keys else _sentence(text)
    if isinstance(value, type) or hasattr(value, "__name__"):
        return _sentence(value.__doc__ or "")
    text = _sentence(sys.modules[module].__doc__ or type(value).__doc__ or "")
    parameters = _parameters(value) if hasattr(value, "grade") else ""
    return f"{text} Parameters: {parameters}." if parameters else text


def _parameters(part: object) -> str:
    if not is_dataclass(part):
        return ""
    own = {field.name: getattr(part, field.name) for field in fields(part)}
    return ", ".join(f"{name}={value}" for name, value in own.items() if isinstance(value, int | float))


def _sentence(text: str) -> str:
    """Return the first one, as far as its end can be found."""
    first = " ".join(text.strip().partition("\n\n")[0].split())
    match = re.match(r".*?(?<!et al)[.!?](?=\s+[A-Z0-9`]|$)", first)
    return match[0] if match else first


def _missing(package: str, extra: str) -> str:
    """Return the command that installs an extra of a package; empty if all of it is there, or none is needed."""
    if not extra:
        return ""
    try:
        wanted = [item for item in requires(package) or () if re.search(rf"extra\s*==\s*['\"]{extra}['\"]", item)]
        for item in wanted:
            version(re.split(r"[^\w.-]", item, maxsplit=1)[0])
    except PackageNotFoundError:
        return f"pip install '{package}[{extra}]'"
    return ""


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def print_recipes(kind: RecipeKind, *, as_json: bool) -> None:
    """Print the bundled recipes of a command, a line for each: its name, and what it says of itself."""
    if as_json:
        print_json([{"recipe": name, "about": about_recipe(kind, name)} for name in recipe_names(kind)])
    else:
        print(recipe_list(kind))


def _kinds(as_json: bool) -> None:
    kinds = {
        **KINDS,
        RECIPES: ListedKind("", "settings of trainings, pipelines", "saccade NAME: rl codedance, sft plain, ..."),
    }
    if as_json:
        print_json([{"kind": name, "what": kind.what, "named": kind.named} for name, kind in kinds.items()])
        return
    for name, kind in kinds.items():
        print(f"{name:<15}{kind.what:<41}{kind.named}")
    print(
        "\n`saccade list KIND` lists one of them. Code of your own goes wherever one of them is named,\n"
        "as file.py:NAME or module:NAME; a recipe of your own by its path."
    )
