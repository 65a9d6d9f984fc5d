"""`saccade list`: everything that has a name, a line for each: its id, where it is from, and what it is.

Of an installed package that cannot be loaded the line says why; the others are listed all the same. Code of a user's
own is not listed: it is named by its file or module.
"""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, is_dataclass
from importlib import import_module
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer
from rich.table import Table

from saccade.cli.output import AsJson, counted, plain_console, print_json, print_some, teller
from saccade.cli.web import read_token, serve_app
from saccade.core.recipes import Kind as RecipeKind
from saccade.core.recipes import about_recipe, recipe_list, recipe_names
from saccade.core.registry import DISTRIBUTION
from saccade.errors import SaccadeError, SettingsError

if TYPE_CHECKING:
    from saccade.core.registry import Registry
    from saccade.tasks.benchmarks.card import Card
    from saccade.tasks.benchmarks.registry import DataSetCheck
    from saccade.tools.serving import ToolServeSettings

# `saccade cards`: the benchmarks that are known, what a card says, and whether the data on this disk are that.

cards_verb = typer.Typer(no_args_is_help=True, add_completion=False, rich_markup_mode=None)

Wanted = Annotated[str, typer.Argument(help="A card: its id, or the path of a .toml file.")]

_FILES_SHOWN = 8


@cards_verb.callback()
def cards() -> None:
    """Show benchmarks as cards: where the data come from, how they are read, how answers are graded."""


@cards_verb.command("list")
def list_cards(as_json: AsJson = False) -> None:
    """Name every card, its size (`show` says why some have no single one), and its metric."""
    print_parts("cards", as_json=as_json)


@cards_verb.command()
def show(wanted: Wanted, as_json: AsJson = False) -> None:
    """Print a card with all its settings, and at the end how to get its data and where they go."""
    from saccade.core.settings import settings_toml
    from saccade.tasks.benchmarks.benchmark import how_to_get
    from saccade.tasks.benchmarks.registry import load_card

    card = load_card(wanted)
    if as_json:
        print_json(card)
    else:
        get, folder = how_to_get(card)
        print(f"{settings_toml(card)}\n# {get}\n# Then: saccade cards check {folder}")


@cards_verb.command()
def check(
    data: Annotated[Path, typer.Argument(help="The data set's folder, or the one above it.")],
    card: Annotated[str | None, typer.Option(help="The card; by default the one that reads the folder.")] = None,
    complete: Annotated[
        bool, typer.Option("--whole", help="Fail also if there are not as many tasks as the card expects.")
    ] = False,
    store: Annotated[
        Path | None, typer.Option(help="Keep the media in this store; by default they are not kept.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Say what a data set is, read all its rows, and say what is there and what is missing; 1 if rows are broken."""
    from saccade.evals.benchmarks import check_graders
    from saccade.tasks.benchmarks.registry import load_card

    say = teller(as_json)
    name, data = (card, data) if card else _recognised(data, say)
    chosen = load_card(name)
    check_graders(chosen)
    if store is not None:
        findings = _read(chosen, data, store)
    else:
        with tempfile.TemporaryDirectory(prefix="saccade-check-") as folder:
            findings = _read(chosen, data, Path(folder))
    splits = _splits(chosen, data)
    if as_json:
        print_json(_findings(findings, splits))
    else:
        for line in (
            *findings.lines(),
            *(f"split         {split}: {'also' if there else 'not'} here ({name})" for split, name, there in splits),
        ):
            print(line)
    print_some(findings.problems)
    if findings.problems or (complete and not findings.complete):
        raise typer.Exit(1)


def _recognised(data: Path, say: Callable[[str], None]) -> tuple[str, Path]:
    """Return the card of a folder and the folder: the card of its name, else the one that reads it or what is in it.

    Says what else could read it.
    """
    from saccade.tasks.benchmarks.registry import card_matches, cards, sets_below

    own = data.resolve().name
    matches = card_matches(data) if data.is_dir() else []
    if own in cards().names() and not any(item.card.name == own for item in matches):
        return own, data
    if data.is_dir() and own not in cards().names() and not any(item.named for item in matches[:1]):
        below = sets_below(data)
        if len({match.card.id for match in below.values()}) > 1:
            held = "\n".join(f"  {path}: {match.name}" for path, match in below.items())
            raise SettingsError(
                f"{data} holds several data sets. Check one of them; for eval and training name {data} with --data:\n"
                f"{held}"
            )
        if below and not (matches and matches[0].likely and not matches[0].guessed):
            data = next(iter(below))
            matches = card_matches(data)
    if not matches:
        held = ", ".join(sorted(path.name for path in data.iterdir())[:_FILES_SHOWN]) if data.is_dir() else "no folder"
        raise SettingsError(
            f"no card reads {data} (it holds: {held or 'nothing'}). Name one with --card (`saccade cards list` has "
            "all, `saccade cards show NAME` says which files it wants and how to get them), or read the folder as "
            "your own data: `saccade tasks check`."
        )
    matches.sort(key=lambda item: item.card.name == own, reverse=True)
    best, others = matches[0], list(dict.fromkeys(item.name for item in matches[1:] if item.likely))
    verb = "may be" if best.guessed and best.card.name != own else "is"
    say(f"{data} {verb} {best.name}: {', '.join(sorted({file.name for file in best.files})[:_FILES_SHOWN])}")
    if verb == "may be":
        say(f"guessed       by the form of its rows alone; for questions of your own: saccade tasks check {data}")
    if names := [name for name in others if name.partition(":")[0] != best.card.id][:_FILES_SHOWN]:
        say(f"read also by  {', '.join(names)} (name one with --card)")
    return best.name, data


def _splits(card: Card, data: Path) -> list[tuple[str, str, bool]]:
    """Return the further splits of the card: how each is called, what names it, and whether it lies there."""
    from saccade.tasks.benchmarks.registry import card_ids, load_card, other_splits

    if card.id not in card_ids():
        return []
    complete = load_card(card.id)
    folder = data / card.name if (data / card.name).is_dir() else data
    return [
        (split, complete.id if split == complete.split else f"{complete.id}:{split}", there)
        for split, there in other_splits(complete, folder)
        if split != card.split
    ]


def _findings(findings: DataSetCheck, splits: list[tuple[str, str, bool]]) -> dict[str, object]:
    return {
        "card": findings.card.name,
        "tasks": findings.tasks,
        "expected": findings.card.size.tasks,
        "whole": findings.complete,
        "broken": [str(problem) for problem in findings.problems],
        "answer_types": findings.answer_types,
        "choice_counts": findings.choice_counts,
        "gold_positions": findings.gold_positions,
        "tags": findings.tags,
        "other_splits": [{"split": split, "name": name, "here": there} for split, name, there in splits],
    }


def _read(card: Card, data: Path, store: Path) -> DataSetCheck:
    from saccade.media.store import MediaStore
    from saccade.tasks.benchmarks.benchmark import open_benchmark
    from saccade.tasks.benchmarks.registry import survey

    benchmark = open_benchmark(card, data)
    items = counted(benchmark.tasks(MediaStore(store)), f"Reading {card.id}", benchmark.count())
    return survey(benchmark.card, items)


list_verb = typer.Typer(add_completion=False, rich_markup_mode=None)


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
    "dialects": ListedKind("saccade.dialects.base:DIALECTS", "how a model is spoken to", "--dialect NAME"),
    "sandboxes": ListedKind("saccade.sandbox.registry:SANDBOXES", "where code runs", "--sandbox NAME"),
    "graders": ListedKind(
        "saccade.grading.registry:GRADERS", "whether an answer is right", "eval --grader NAME, cards"
    ),
    "models": ListedKind("saccade.models.registry:PROVIDERS", "providers of models", "--model NAME:MODEL, --judge"),
    "worlds": ListedKind("saccade.tasks.worlds:WORLDS", "generated tasks", "eval NAME, synth NAME, rl --tasks NAME"),
    "experts": ListedKind(
        "saccade.training.sft.synth.settings:EXPERTS", "who plays without a teacher", "synth --expert NAME"
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
    "rewards": ListedKind("saccade.rewards.reward:REWARDS", "what a rollout is worth", "recipes: reward.preset"),
    "judges": ListedKind("saccade.rewards.judges.model:JUDGES", "who judges tool outputs", "recipes: reward.judge"),
    "selections": ListedKind(
        "saccade.training.rl.select:SELECTIONS", "which rollouts are trained on", "recipes: selection.rule"
    ),
    "advantages": ListedKind(
        "saccade.training.rl.select:ADVANTAGES", "from rewards to advantages", "recipes: advantage.rule"
    ),
    "kl-estimators": ListedKind(
        "saccade.training.rl.select:KL_ESTIMATORS", "how far a policy is from its reference", "recipes: loss.kl"
    ),
    "tool-origins": ListedKind("saccade.tools.registry:TOOL_ORIGINS", "tools of other systems", "--tools NAME:WHERE"),
    "tool-servers": ListedKind("saccade.tools.serving:TOOL_SERVERS", "where served tools run", "tools serve --on NAME"),
    "trainers": ListedKind("saccade.training.rl.settings:TRAINERS", "who trains by reinforcement", "rl --on NAME"),
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


@list_verb.command("list")
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


# `saccade tools`: `list` says which typed tools there are, `serve` gives them to other processes and hosts over HTTP.
#
# The token is read as `saccade sandbox serve` reads its own, from a file or from the environment.


@dataclass(frozen=True, slots=True)
class ListedTool:
    """One line: a tool, or a paper's name for it."""

    paper: str
    """List of `saccade.tool-lists`, family and name there; empty for a tool of none."""
    tool: str
    given: dict[str, str]
    """Arguments by which it does what the paper's does."""
    state: str
    """`ready` or `unavailable`."""
    cost: str
    needs: str
    """Weights it loads or model it asks; empty for none."""
    remedy: str
    """How to have it; empty if it is ready."""
    aliases: tuple[str, ...]


def list_tools(as_json: AsJson = False) -> None:
    """List all tools, those of VISTA-Gym first: state, cost, needs, and how to have what is missing."""
    from saccade.tools.registry import warn_of_unread_tables

    warn_of_unread_tables()
    listed = list(listed_tools())
    if as_json:
        print_json(listed)
        return
    table = Table(box=None, pad_edge=False)
    for title in ("paper", "tool", "state", "cost", "needs"):
        table.add_column(title, overflow="fold")
    for item in listed:
        given = "".join(f" {name}={value}" for name, value in item.given.items())
        table.add_row(item.paper or "-", item.tool + given, item.state, item.cost, item.needs or "-")
    console = plain_console(width=None if sys.stdout.isatty() else 170)
    console.print(table)
    remedies = {item.tool: item.remedy for item in listed if item.remedy}
    if remedies:
        console.print("\nTo have those that are unavailable:", highlight=False, markup=False)
        for tool, remedy in remedies.items():
            console.print(f"  {tool}: {remedy}", highlight=False, markup=False, soft_wrap=True)


def listed_tools() -> Iterator[ListedTool]:
    """Yield the tools of each list of a paper in its order, then the others by name."""
    from saccade.tools.registry import TOOL_LISTS, TOOLS

    known = set()
    for paper in TOOL_LISTS.names():
        for item in TOOL_LISTS.load(paper):
            known.add(item.tool)
            yield _listed(item.tool, f"{paper}, {item.family}: {item.name}", dict(item.given))
    for name in TOOLS.names():
        if name not in known:
            yield _listed(name, "", {})


def _listed(name: str, paper: str, given: dict[str, str]) -> ListedTool:
    from saccade.tools.registry import make_tool

    tool = make_tool(name)
    needs, remedy = tool.needs, tool.needs.remedy
    return ListedTool(
        paper=paper,
        tool=name,
        given=given,
        state="unavailable" if remedy else "ready",
        cost=tool.cost.value,
        needs=needs.weights or ", ".join(needs.modules),
        remedy=remedy,
        aliases=tuple(alias.name for alias in tool.aliases),
    )


TOKEN_VARIABLE = "SACCADE_TOOLS_TOKEN"

tools_verb = typer.Typer(no_args_is_help=True, add_completion=False, rich_markup_mode=None)
tools_verb.command("list")(list_tools)


@tools_verb.callback()
def tools() -> None:
    """Show typed tools: which there are, what each needs, and a server of them."""


@tools_verb.command(
    epilog="The other side: --tools http://HOST:PORT with the same token in SACCADE_TOOLS_TOKEN (docs/tools.md). There "
    "is no encryption: between machines, put a TLS proxy in front. Stop with Ctrl-C."
)
def serve(
    file: Annotated[
        Path | None,
        typer.Argument(metavar="[TOOLS.TOML]", help="Groups of tools; without it, every tool that is installed."),
    ] = None,
    host: Annotated[str, typer.Option(help="Address to listen on; 0.0.0.0 or :: for every interface.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65_535, help="Port; 0 takes a free one.")] = 8730,
    token_file: Annotated[
        Path | None, typer.Option(help="File with the token; without it, the variable SACCADE_TOOLS_TOKEN is used.")
    ] = None,
    no_token: Annotated[
        bool, typer.Option("--no-token", help="Ask nobody for a token. Only for a loopback address.")
    ] = False,
    on: Annotated[
        str, typer.Option(help="Where tools run: `processes` of this machine, or `ray` (Ray Serve).")
    ] = "processes",
) -> None:
    """Run typed tools for other processes and hosts."""
    from saccade.core.settings import load_settings
    from saccade.tools.serving import TOOL_SERVERS, ToolServeSettings

    serve_on = TOOL_SERVERS.load(on)
    settings = load_settings(ToolServeSettings, file, [])
    token = read_token(token_file, host, no_token=no_token, variable=TOKEN_VARIABLE)
    raise typer.Exit(serve_on(settings, token, host, port, "saccade tools: {url}"))


def serve_in_processes(settings: ToolServeSettings, token: str | None, host: str, port: int, line: str) -> int:
    """Serve in processes of this machine, as many for each group of tools as its table says. Returns the exit code."""
    from saccade.tools.serving import PooledBackend, ToolService, tools_app

    application = tools_app(ToolService(PooledBackend(settings), settings.server), token)
    return serve_app(application, host, port, line)
