"""The command `saccade`: finds the verb, runs it, and turns errors into messages and exit codes.

Verbs are one file each and are imported only when they are called, so `saccade --help` is quick and a verb whose
module is missing or broken does not take the others along. Plug-ins, and packages of anybody, add verbs by entry points
of the group `saccade.commands`, each of which names a `Verb`. Exit codes: what the verb says (0 means success),
2 for a `SaccadeError`, a wrong command line or an exception of a user's own code, 3 for an outage (a model, a sandbox
or a tool that is gone) and a disk that cannot be read or written, 130 after Ctrl-C or SIGTERM. Any other exception is a
fault of Saccade and keeps its traceback.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from types import FrameType
from typing import Any

import typer
import typer.core

from saccade.cli.output import Logs, add_log_options, error_text
from saccade.core.disk import disk_words
from saccade.core.registry import blame, did_you_mean, install, missing_plugin, own_version
from saccade.errors import (
    MissingPluginError,
    ModelLostError,
    SaccadeError,
    SandboxFullError,
    SandboxLostError,
    ToolLostError,
    UnavailableError,
)


@dataclass(frozen=True, slots=True)
class Verb:
    """Where a verb lives and what it does, known without importing it."""

    target: str
    """`module:attribute` of a `typer.Typer`."""
    help: str
    """One line for `saccade --help`."""
    group: str = "Commands"
    """Heading under which it stands there."""


HEADINGS = _ASK, _MEASURE, _TRAIN, _MORE = "Ask and serve", "Measure", "Data and training", "More"

VERBS: Mapping[str, Verb] = {
    "arms": Verb("saccade.cli.arms:app", "Train and measure arms of a recipe, in one table.", _TRAIN),
    "ask": Verb("saccade.cli.ask:app", "Ask a model about a picture or a video.", _ASK),
    "compare": Verb("saccade.cli.runs:compare_verb", "Compare two runs of an evaluation, task by task.", _MEASURE),
    "cards": Verb("saccade.cli.list:cards_verb", "List benchmarks, and check their data on this disk.", _MEASURE),
    "convert": Verb("saccade.cli.data:convert_verb", "Convert training data between this field's formats.", _TRAIN),
    "curate": Verb(
        "saccade.cli.data:curate_verb", "Filter trajectories, and report what each filter left out.", _TRAIN
    ),
    "doctor": Verb("saccade.cli.doctor:app", "Show which isolation layers this machine has.", _ASK),
    "eval": Verb("saccade.cli.eval:app", "Play a benchmark with a model, and grade it.", _MEASURE),
    "export": Verb(
        "saccade.cli.data:export_verb", "Write a run's samples as a table: jsonl, csv, parquet, xlsx.", _MEASURE
    ),
    "list": Verb("saccade.cli.list:list_verb", "List tools, dialects, graders and everything else by name.", _MORE),
    "merge": Verb("saccade.cli.runs:merge_verb", "Put the shards of an evaluation together.", _MEASURE),
    "protocols": Verb(
        "saccade.cli.runs:protocols_verb", "Show how a run used its tools, what went wrong, what it cost.", _MEASURE
    ),
    "regrade": Verb("saccade.cli.runs:regrade_verb", "Grade a stored run again, without the model.", _MEASURE),
    "report": Verb(
        "saccade.cli.runs:report_verb", "Make a page of evaluations and training runs, with figures.", _MEASURE
    ),
    "review": Verb(
        "saccade.cli.data:review_verb", "Keep, drop or correct items of a run by hand, in the browser.", _TRAIN
    ),
    "rl": Verb("saccade.cli.train:rl_verb", "Train a model by reinforcement learning on its own rollouts.", _TRAIN),
    "runs": Verb("saccade.cli.runs:runs_verb", "List the evaluations in a folder.", _MEASURE),
    "sft": Verb("saccade.cli.train:sft_verb", "Train a model on trajectories.", _TRAIN),
    "show": Verb("saccade.cli.runs:show_verb", "Make a page of a run's episodes, and open it.", _ASK),
    "synth": Verb("saccade.cli.data:synth_verb", "Make trajectories for fine-tuning, by experts or a teacher.", _TRAIN),
    "tasks": Verb("saccade.cli.tasks:app", "Check, show and write tasks from any source.", _TRAIN),
    "tools": Verb("saccade.cli.list:tools_verb", "List typed tools with what each needs, or serve them.", _ASK),
    "view": Verb("saccade.cli.runs:view_verb", "Follow evaluations in the browser while they run.", _MEASURE),
}

"""The verbs of the core; see `verbs`."""

FIRST_STEPS = (
    "First time here? `saccade doctor` shows what this machine isolates, `saccade demo` plays an episode, and `saccade "
    "serve` has a page on which to ask. Exit codes: 0 done, 1 done in part, 2 wrong command or setting, 3 a "
    "model, a sandbox or a disk that cannot be used, 130 stopped."
)
_OUTAGES = (ModelLostError, SandboxFullError, SandboxLostError, ToolLostError)


def main(argv: list[str] | None = None) -> int:
    """Run one command line (without the program's name) and return its exit code; never raises `SystemExit`."""
    return run(_app(), sys.argv[1:] if argv is None else argv, "saccade")


def run(app: typer.Typer, arguments: list[str], name: str) -> int:
    """Return the same of the program `name` whose commands are `app`, such as a script's."""
    try:
        with _terminated_as_interrupted(), Logs():
            _command(app).main(args=list(arguments), prog_name=name)
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    except SaccadeError as error:
        print(f"saccade: {error_text(str(error))}", file=sys.stderr)
        return 3 if isinstance(error, _OUTAGES) else 2
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        if own := blame(error):
            print(f"saccade: {own}", file=sys.stderr)
            return 2
        if not isinstance(error, OSError) or error.errno is None or isinstance(error, ConnectionError):
            raise
        print(f"saccade: {disk_words(error)}", file=sys.stderr)
        return 3
    return 0


@cache
def _command(app: typer.Typer) -> Any:
    """Return the parser of `app`'s command lines; made once in a process, which may run many."""
    return add_log_options(typer.main.get_command(app))


@contextmanager
def _terminated_as_interrupted() -> Iterator[None]:
    """Treat a SIGTERM, as batch systems and containers send it, as Ctrl-C, so that nothing played is lost."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, _interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _interrupt(number: int, frame: FrameType | None) -> None:
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as a script's shell sets it for what it starts with `&`
        signal.default_int_handler(number, frame)
    signal.raise_signal(signal.SIGINT)


def verbs() -> dict[str, Verb]:
    """Return every verb by its name, in alphabetical order: those of the core and those of installed packages."""
    return dict(sorted({**plugged(), **VERBS}.items()))


@cache
def plugged() -> Mapping[str, Verb]:
    """Return the verbs that entry points of `saccade.commands` add. One that cannot be had says so when it is run."""
    found = {}
    for point in entry_points(group="saccade.commands"):
        try:
            verb = point.load()
            lacks = "" if isinstance(verb, Verb) else f"{point.value} is no Verb"
        except (ImportError, AttributeError) as error:
            verb, lacks = None, str(error)
        found[point.name] = verb if isinstance(verb, Verb) else Verb(point.value, f"Cannot be loaded: {lacks}.", _MORE)
    return found


class VerbGroup(typer.core.TyperGroup):
    """The root command: loads the verb that is called, and lists all under the headings of their groups."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(verbs())

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command that shows what the verb does, for lists; the one that runs is loaded when it is called."""
        verb = verbs().get(cmd_name)
        return None if verb is None else typer.core.TyperCommand(cmd_name, help=verb.help)

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        name, *rest = args
        verb = VERBS.get(name) or plugged().get(name)  # a verb of the core needs no look at what is installed
        if verb is None:
            if not ctx.resilient_parsing:
                if lacks := missing_plugin("commands", name, plugged()):
                    raise MissingPluginError(lacks)
                ctx.fail(f"No such command {name!r}. {did_you_mean(name, verbs())}".strip())
            return None, None, rest
        try:
            return name, _command(load(name, verb)), rest
        except SaccadeError:
            if ctx.resilient_parsing:  # the shell completes a line; running it will say what the verb lacks
                return None, None, rest
            raise

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        groups: dict[str, list[tuple[str, str]]] = {heading: [] for heading in HEADINGS}
        for name, verb in verbs().items():
            groups.setdefault(verb.group, []).append((name, verb.help))
        for heading, rows in groups.items():
            if rows:
                with formatter.section(heading):
                    formatter.write_dl(rows)


@cache
def _app() -> typer.Typer:
    app = typer.Typer(
        cls=VerbGroup,
        help="Vision-language models that look again: Python in a sandbox, pictures back.",
        epilog=FIRST_STEPS,
        no_args_is_help=True,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_root_options)
    return app


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"saccade {own_version()}")
        raise typer.Exit


def _root_options(
    show_version: bool = typer.Option(
        False, "--version", callback=_show_version, is_eager=True, help="Show the version and stop."
    ),
) -> None:
    """Give Typer the root's options by this signature."""


def load(name: str, verb: Verb) -> typer.Typer:
    """Import the verb's app.

    Raises:
        UnavailableError: its module, or something that the module needs, cannot be imported.
    """
    module, _, attribute = verb.target.partition(":")
    try:
        app = getattr(import_module(module), attribute)
    except UnavailableError:
        raise  # it already says what to install
    except (ImportError, AttributeError) as error:
        raise UnavailableError(
            f"`saccade {name}` cannot be loaded: {error}. Install the package with all its parts "
            f"({install('serve')}) or report it if it is installed."
        ) from error
    if not isinstance(app, typer.Typer):
        raise UnavailableError(f"`saccade {name}` cannot be loaded: {verb.target} is no typer.Typer. Report it.")
    return app
