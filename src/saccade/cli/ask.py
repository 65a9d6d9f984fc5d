"""`saccade ask`: one question about pictures or a video, answered by a model that looks again."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from saccade.cli.output import AsJson, ToolNames, print_json
from saccade.errors import SettingsError

if TYPE_CHECKING:
    from saccade.episode.ask import AskSettings, Question
    from saccade.record.trajectory import Trajectory

app = typer.Typer(add_completion=False, rich_markup_mode=None)

EPILOG = (
    "Exit codes: 0 answered; 1 ended without an answer; 2 a name, a file or a setting is wrong; 3 the model, the "
    "sandbox or the disk failed; 130 interrupted by Ctrl-C or SIGTERM (the episode so far is kept in --out; after a "
    "kill the same command resumes it). Keys are read from the environment; `saccade list models` names the variable "
    "of each provider. Then `saccade show RUN` makes a page of it."
)

SETTINGS_HELP = (
    "sampling.temperature, sampling.max_tokens, limits.turns, limits.images, limits.wall_seconds, tools, "
    "retry.seconds, frames.fps, media.max_pixels, session.wall_seconds, "
    "sandbox (addresses of `saccade sandbox serve`), "
    "... A wrong name lists all."
)

BatchSources: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--tasks",
        metavar="SOURCE",
        help="Every question of a source (docs/your-data.md); may be repeated. --set is as for `saccade eval`.",
    ),
]

PromptFile = Annotated[
    Path | None,
    typer.Option(
        help="Prompts of your own, as text, PyVision's JSON or a Python file; --set prompt_names.user=NAME takes "
        "one by its name."
    ),
]
ModelName = Annotated[
    str | None,
    typer.Option(
        help="PROVIDER:NAME, as openai:gpt-4.1 or local:FOLDER; `saccade list models` names all providers.  "
        "[default: tiny, for the kinds of questions that it learned; docs/tiny.md]"
    ),
]


@app.command(epilog=EPILOG)
def ask(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[PICTURE]... QUESTION",
            help="Pictures and videos (files, or http(s) addresses with --allow-urls), then what you want to know.",
        ),
    ] = None,
    batch: BatchSources = None,
    model: ModelName = None,
    dialect: Annotated[
        str | None,
        typer.Option(help="Form of prompt and turns; a wrong name lists all.  [default: what suits it]"),
    ] = None,
    image: Annotated[
        list[str] | None, typer.Option(help="Another picture (or video). May be repeated; the order counts.")
    ] = None,
    choice: Annotated[list[str] | None, typer.Option(help="A possible answer. May be repeated.")] = None,
    prompt_file: PromptFile = None,
    allow_urls: Annotated[
        bool, typer.Option("--allow-urls", help="Download pictures that are given by address.")
    ] = False,
    out: Annotated[Path | None, typer.Option(help="Run folder in which the episode is kept.")] = None,
    settings: Annotated[
        Path | None, typer.Option(help="TOML file with settings; options on the command line override it.")
    ] = None,
    tools: ToolNames = None,
    option: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help=SETTINGS_HELP),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Ask a model about a picture; it writes Python, looks at what comes back, and answers."""
    from saccade.core.settings import load_settings
    from saccade.episode.ask import AskSettings

    given = named(model=model, dialect=dialect, prompt_file=prompt_file, tools=tools)
    if batch:
        alone = {"a question": words, "--image": image, "--choice": choice, "--allow-urls": allow_urls}
        raise typer.Exit(ask_batch(batch, settings, option or [], given, out, as_json=as_json, beside=alone))
    query = _query(words or [], image or [], choice or [])
    if allow_urls:
        given["media"] = {"allow_urls": True}
    if settings is None and model is None and not any(item.startswith("model=") for item in option or []):
        given["model"] = _default_model(query)
    resolved = load_settings(AskSettings, settings, option or [], given)
    trajectory = asyncio.run(_ask(query, resolved, out, quiet=as_json))
    if as_json:
        print_json(summary(trajectory))
    raise typer.Exit(exit_code(trajectory))


def _query(words: list[str], images: list[str], choices: list[str]) -> Question:
    from saccade.episode.ask import Question

    if not words:
        raise SettingsError("there is no question. Write it last: saccade ask photo.jpg 'What is this?'")
    media, text = _read(words, images)
    return Question(text, media, tuple(choices))


def _default_model(query: Question) -> str:
    """Return the model that answers where none is named. Raises `SettingsError` if none does; says how one is named."""
    from saccade.errors import RegistryError, UnavailableError
    from saccade.models.registry import DEFAULT, provider_of

    try:
        provider = provider_of(DEFAULT)
        if provider.refusal is None:
            raise SettingsError(NO_MODEL)
        refusal = provider.refusal(query.text, query.choices)
    except (RegistryError, UnavailableError):
        raise SettingsError(NO_MODEL) from None
    if refusal:
        raise SettingsError(f"{NO_MODEL}\n{refusal}")
    return DEFAULT


def _read(words: list[str], more: list[str]) -> tuple[tuple[str, ...], str]:
    """Return the media and the question. Raises `SettingsError` if the last word is no question but a picture."""
    from saccade.media.decode import is_url

    *media, question = words
    if is_url(question) or (not question.endswith("?") and os.path.isfile(question)):
        raise SettingsError(
            f"{question} is a picture, and there is no question. Write it last: saccade ask {question} 'What is this?'"
        )
    return (*media, *more), question


async def _ask(question: Question, settings: AskSettings, out: Path | None, *, quiet: bool) -> Trajectory:
    from saccade.cli.output import plain_console
    from saccade.cli.screen import AskScreen
    from saccade.episode.ask import AskTarget, answered, suited
    from saccade.episode.drive import NotKeptError, unwatched
    from saccade.episode.flow import Effect, Event

    settings, says = suited(settings)
    screen = AskScreen(plain_console(stderr=quiet, highlight=False), settings.dialect)

    def watched(event: Event) -> None:
        nonlocal says
        if says and isinstance(event, Effect):  # not before the run has begun: an error says enough
            for line in says:
                print(line, file=sys.stderr)
            says = ()
        screen(event)

    watch = unwatched if quiet else watched
    try:
        trajectory = await answered(question, AskTarget(settings), out=out, watch=watch, cancel=_cancel_on_interrupt())
    except NotKeptError as refused:
        if quiet:
            print_json(summary(refused.trajectory))
        else:
            screen.ended(refused.trajectory)
        print(f"saccade: {refused}", file=sys.stderr)
        raise typer.Exit(3) from refused
    if not quiet:
        screen.ended(trajectory)
        if out is not None:
            print(f"Kept in {out}; see it with: saccade show {out}")
    return trajectory


def summary(trajectory: Trajectory) -> dict[str, object]:
    """Return the answer of an episode, why it ended, and what it cost."""
    turns = trajectory.turns
    return {
        "id": trajectory.id,
        "answer": trajectory.answer,
        "stop": trajectory.stop,
        "stop_detail": trajectory.stop_detail,
        "notes": trajectory.provenance.notes,
        "turns": len(turns),
        "calls": sum(turn.execution is not None for turn in turns),
        "context_tokens": sum(turn.tokens.context or 0 for turn in turns),
        "sampled_tokens": sum(turn.tokens.sampled or 0 for turn in turns),
        "dollars": sum(turn.dollars or 0.0 for turn in turns) if any(turn.dollars for turn in turns) else None,
        "seconds": round(trajectory.seconds, 3),
    }


def exit_code(trajectory: Trajectory) -> int:
    """Return the exit status of `saccade ask`, as its epilog lists them."""
    from saccade.record.trajectory import StopReason

    if trajectory.answer is not None:
        return 0
    if trajectory.stop is StopReason.CANCELLED:
        return 130
    return 3 if trajectory.lost else 1


def _cancel_on_interrupt() -> asyncio.Event:
    """Return an event that the first Ctrl-C sets; the second one ends the program as always."""
    cancel = asyncio.Event()
    loop = asyncio.get_running_loop()

    def interrupted() -> None:
        loop.remove_signal_handler(signal.SIGINT)
        print("\nBreaking off; once more Ctrl-C ends at once.", file=sys.stderr)
        cancel.set()

    try:
        loop.add_signal_handler(signal.SIGINT, interrupted)
    except NotImplementedError as error:  # Windows' loop has no signal handlers
        raise SettingsError(f"this system's event loop cannot be interrupted: {error}") from error
    return cancel


_AT_ONCE = 16


def ask_batch(
    sources: Sequence[str],
    file: Path | None,
    options: Sequence[str],
    given: Mapping[str, object],
    out: Path | None,
    *,
    as_json: bool,
    beside: Mapping[str, object],
) -> int:
    """Ask every question of some sources at once, print the answers, and return the exit status.

    `options` are settings of `saccade eval` as text, over those that are `given`; `beside` is what one question may
    have and a batch may not. Without `out` nothing is kept.

    Raises `SettingsError`: names every mistake, or a source is none.
    """
    from saccade.cli.screen import screen
    from saccade.core.settings import load_settings
    from saccade.evals.run import continuing, evaluate
    from saccade.evals.settings import EvalSettings

    if strange := [name for name, value in beside.items() if value]:
        raise SettingsError(f"--tasks asks the questions of its sources: leave out {', '.join(strange)}.")
    check_model(file, given, options)
    with ExitStack() as stack:
        folder = out or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="saccade-ask-")))
        loaded = load_settings(EvalSettings, file, options, {**given, "sources": list(sources)})
        settings, said = continuing(loaded, folder)
        with screen(said) as show:
            made = asyncio.run(evaluate(settings, folder, workers=_AT_ONCE, watch=show))
        unanswered = _print(folder, as_json=as_json)
    if out is not None and not as_json:
        print(f"Kept in {out}; see them with: saccade show {out}")
    if made.progress.failed:
        kinds = ", ".join(f"{kind} {count}" for kind, count in made.progress.kinds.most_common())
        print(f"saccade: {made.progress.failed} questions came to nothing ({kinds})", file=sys.stderr)
        return 3
    return int(unanswered > 0)


def _print(folder: Path, *, as_json: bool) -> int:
    """Print the stored answers, and return how many tasks have none."""
    from saccade.cli.output import print_json
    from saccade.episode.run_folder import TRAJECTORIES
    from saccade.record.codec import read_lines
    from saccade.record.trajectory import Trajectory

    unanswered = 0
    path = folder / TRAJECTORIES
    for item in read_lines(path, Trajectory) if path.exists() else ():
        unanswered += item.answer is None
        if as_json:
            line = {"id": item.task.id, "question": item.task.question, "answer": item.answer, "stop": item.stop}
            print_json(line)
        else:
            print(f"{item.task.id}: {'(no answer)' if item.answer is None else item.answer}")
    return unanswered


NO_MODEL = (
    "no model is named. Use --model, as in --model openai:gpt-4.1 (key in OPENAI_API_KEY) or --model "
    "vllm:NAME@http://host:8000/v1; `saccade list models` has all."
)


def named(**options: object) -> dict[str, object]:
    """Return the options that a command was given, as settings; a path as its text."""
    return {
        name: os.fspath(value) if isinstance(value, Path) else value
        for name, value in options.items()
        if value is not None and value != [] and value is not False
    }


def check_model(file: Path | None, given: Mapping[str, object], options: Sequence[str] | None) -> None:
    """Raise `SettingsError` where neither a file nor an option could name a model."""
    if file is None and "model" not in given and not any(item.startswith("model=") for item in options or ()):
        raise SettingsError(NO_MODEL)
