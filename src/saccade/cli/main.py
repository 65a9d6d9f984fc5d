"""The command `saccade`: finds the verb, runs it, and turns errors into messages and exit codes.

Verbs are one file each and are imported only when they are called, so `saccade --help` is quick and a verb whose
module is missing or broken does not take the others along. Exit codes: what the verb says (0 means success),
2 for a `SaccadeError`, a wrong command line or an exception of a user's own code, 3 for an outage (a model, a sandbox
or a tool that is gone) and a disk that cannot be read or written, 130 after Ctrl-C or SIGTERM. Any other exception is a
fault of Saccade and keeps its traceback.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.metadata import version
from types import FrameType
from typing import Any

import typer
import typer.core

from saccade.cli.logs import Logs, add_log_options
from saccade.cli.plain import error_text
from saccade.errors import (
    ModelLostError,
    SaccadeError,
    SandboxFullError,
    SandboxLostError,
    SettingsError,
    ToolLostError,
    UnavailableError,
)
from saccade.record.disk import disk_words
from saccade.record.own_code import blame


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

VERBS: dict[str, Verb] = {
    "ask": Verb("saccade.cli.ask:app", "Ask a model about a picture or a video.", _ASK),
    "compare": Verb("saccade.cli.compare:app", "Compare two runs of an evaluation, task by task.", _MEASURE),
    "cards": Verb("saccade.cli.cards:app", "List benchmarks, and check their data on this disk.", _MEASURE),
    "completion": Verb("saccade.cli.completion:app", "Print what lets a shell complete `saccade`.", _MORE),
    "convert": Verb("saccade.cli.convert:app", "Convert training data between this field's formats.", _TRAIN),
    "curate": Verb("saccade.cli.curate:app", "Filter trajectories, and report what each filter left out.", _TRAIN),
    "demo": Verb("saccade.cli.demo:app", "Play an episode and make a page of it; no key, no GPU.", _ASK),
    "doctor": Verb("saccade.cli.doctor:app", "Show which isolation layers this machine has.", _ASK),
    "eval": Verb("saccade.cli.eval:app", "Play a benchmark with a model, and grade it.", _MEASURE),
    "export": Verb("saccade.cli.export:app", "Write a run's samples as a table: jsonl, csv, parquet, xlsx.", _MEASURE),
    "list": Verb("saccade.cli.list:app", "List tools, dialects, graders and everything else by name.", _MORE),
    "mcp": Verb("saccade.cli.mcp:app", "Give agents a Python sandbox that shows pictures, over MCP.", _ASK),
    "merge": Verb("saccade.cli.merge:app", "Put the shards of an evaluation together.", _MEASURE),
    "openenv": Verb("saccade.cli.openenv:app", "Serve the environment to trainers over OpenEnv.", _TRAIN),
    "protocols": Verb(
        "saccade.cli.protocols:app", "Show how a run used its tools, what went wrong, what it cost.", _MEASURE
    ),
    "regrade": Verb("saccade.cli.regrade:app", "Grade a stored run again, without the model.", _MEASURE),
    "report": Verb("saccade.cli.report:app", "Make a page of evaluations and training runs, with figures.", _MEASURE),
    "review": Verb("saccade.cli.review:app", "Keep, drop or correct items of a run by hand, in the browser.", _TRAIN),
    "rl": Verb("saccade.cli.rl:app", "Train a model by reinforcement learning on its own rollouts.", _TRAIN),
    "runs": Verb("saccade.cli.runs:app", "List the evaluations in a folder.", _MEASURE),
    "sandbox": Verb("saccade.cli.sandbox:app", "Serve sandboxes to other hosts.", _ASK),
    "serve": Verb("saccade.cli.serve:app", "Serve models that look again behind OpenAI's protocol.", _ASK),
    "sft": Verb("saccade.cli.sft:app", "Train a model on trajectories.", _TRAIN),
    "show": Verb("saccade.cli.show:app", "Make a page of a run's episodes, and open it.", _ASK),
    "synth": Verb("saccade.cli.synth:app", "Make trajectories for fine-tuning, by experts or a teacher.", _TRAIN),
    "tasks": Verb("saccade.cli.tasks:app", "Check, show and write tasks from any source.", _TRAIN),
    "tools": Verb("saccade.cli.tools:app", "List typed tools with what each needs, or serve them.", _ASK),
    "view": Verb("saccade.cli.view:app", "Follow evaluations in the browser while they run.", _MEASURE),
    "worlds": Verb("saccade.cli.worlds:app", "Draw tasks from a seed, with their gold answers.", _TRAIN),
}

MOVED = {
    "tiny": "is a script of the repository now: python examples/tiny/build.py, or table.py beside it; see docs/tiny.md."
}
"""Verbs that there were, and where they went."""
_SHARD = {"--shard": "--shard-model", "--no-shard": "--no-shard-model"}
RENAMED_OPTIONS = {"rl": _SHARD, "sft": _SHARD}
"""Options that a verb had: `--shard` is a part of the tasks, in `eval`."""

FIRST_STEPS = (
    "First time here? `saccade doctor` shows what this machine isolates, `saccade demo` plays an episode, and `saccade "
    "serve` has a page on which to ask. Exit codes: 0 done, 1 done in part, 2 wrong command or setting, 3 a "
    "model, a sandbox or a disk that cannot be used, 130 stopped."
)
_OUTAGES = (ModelLostError, SandboxFullError, SandboxLostError, ToolLostError)
_HELP = ["-h", "--help"]
# The verb's own parser sees everything after its name, `--help` included.
_PASS_THROUGH = {
    "allow_extra_args": True,
    "allow_interspersed_args": False,
    "help_option_names": [],
    "ignore_unknown_options": True,
}


def main(argv: list[str] | None = None) -> int:
    """Run one command line (without the program's name) and return its exit code; never raises `SystemExit`."""
    return run(_app(tuple(VERBS.items())), sys.argv[1:] if argv is None else argv, "saccade")


def run(app: typer.Typer, arguments: list[str], name: str) -> int:
    """The same of the program `name` whose commands are `app`, such as a script's."""
    try:
        with _terminated_as_interrupted(), Logs():
            _command(app).main(args=list(arguments), prog_name=name)
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    except SaccadeError as error:
        print(f"saccade: {error_text(str(error))}", file=sys.stderr)
        return 3 if isinstance(error, _OUTAGES) else 2
    except OSError as error:
        if error.errno is None or isinstance(error, ConnectionError):
            raise
        print(f"saccade: {disk_words(error)}", file=sys.stderr)
        return 3
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        own = blame(error)
        if not own:
            raise
        print(f"saccade: {own}", file=sys.stderr)
        return 2
    return 0


@cache
def _app(verbs: tuple[tuple[str, Verb], ...]) -> typer.Typer:
    return build_app(dict(verbs))


@cache
def _command(app: typer.Typer) -> Any:
    """What parses and runs `app`'s command lines; made once in a process, which may run many."""
    return add_log_options(typer.main.get_command(app))


@contextmanager
def _terminated_as_interrupted() -> Iterator[None]:
    """A SIGTERM, as batch systems and containers send it, does what Ctrl-C does, so that nothing played is lost."""
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


class GroupedHelp(typer.core.TyperGroup):
    """Lists commands under the headings of their `rich_help_panel`: first those of `HEADINGS`, then others."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        shown = [(name, command) for name, command in self.commands.items() if not command.hidden]
        limit = formatter.width - 6 - max(len(name) for name, _ in shown)
        groups: dict[Any, list[tuple[str, str]]] = {heading: [] for heading in HEADINGS}
        for name, command in shown:
            heading = getattr(command, "rich_help_panel", None)
            groups.setdefault(heading, []).append((name, command.get_short_help_str(limit)))
        for heading, rows in groups.items():
            if rows:
                with formatter.section(heading):
                    formatter.write_dl(rows)


def build_app(verbs: dict[str, Verb]) -> typer.Typer:
    """The root command with one lazily loaded command for each verb."""
    app = typer.Typer(
        cls=GroupedHelp,
        help="Vision-language models that look again: Python in a sandbox, pictures back.",
        epilog=FIRST_STEPS,
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": _HELP},
    )
    app.callback()(_root_options)
    for name, verb in verbs.items():
        app.command(name, help=verb.help, rich_help_panel=verb.group, context_settings=_PASS_THROUGH)(
            _runner(name, verb)
        )
    for name, where in MOVED.items():
        app.command(name, hidden=True, context_settings=_PASS_THROUGH)(_refused(f"`saccade {name}` {where}"))
    return app


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"saccade {version('saccade')}")
        raise typer.Exit


def _root_options(
    show_version: bool = typer.Option(
        False, "--version", callback=_show_version, is_eager=True, help="Show the version and stop."
    ),
) -> None:
    """Typer reads the root's options from this signature."""


def _runner(name: str, verb: Verb) -> Callable[[typer.Context], None]:
    # No postponed annotation may hide `typer.Context` here: Typer looks it up in this module.
    def run(context: typer.Context) -> None:
        for old, new in RENAMED_OPTIONS.get(name, {}).items():
            if old in context.args:
                raise SettingsError(f"`saccade {name}` has no option {old}: it is {new} now.")
        command = _command(load(name, verb))
        try:
            code = command.main(
                args=list(context.args),
                prog_name=f"saccade {name}",
                standalone_mode=False,
                help_option_names=_HELP,  # commands below this one inherit it
            )
        except KeyboardInterrupt:
            raise typer.Exit(130) from None
        raise typer.Exit(code if isinstance(code, int) else 0)

    return run


def _refused(message: str) -> Callable[[], None]:
    def refuse() -> None:
        raise SettingsError(message)

    return refuse


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
            "(pip install 'saccade[serve,bench]') or report it if it is installed."
        ) from error
    if not isinstance(app, typer.Typer):
        raise UnavailableError(f"`saccade {name}` cannot be loaded: {verb.target} is no typer.Typer. Report it.")
    return app
