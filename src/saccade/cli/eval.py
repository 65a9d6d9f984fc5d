"""`saccade eval`: tasks played by a model, graded, kept and summed up."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from saccade.cli.output import AsJson, ToolNames, print_json, teller

if TYPE_CHECKING:
    from saccade.evals.run import Evaluated
    from saccade.evals.settings import EvalSettings

app = typer.Typer(add_completion=False, rich_markup_mode=None)

PROMPT_FILE = (
    "Prompts of your own, as text, PyVision's JSON or a Python file; --set prompt_names.user=NAME takes one by its "
    "name."
)
SOLVER = "solver"
"""Name of the baseline that writes programs from the question's wording."""

EPILOG = (
    "SOURCE is a benchmark (`saccade cards list`), a card of your own (.toml), a file or folder of tasks "
    "(docs/your-data.md), a generated world, or any of them with a weight: NAME=0.3. Ctrl-C keeps what is finished; "
    "the same command resumes the run and refuses other settings (--n and --k may grow). Outages are not wrong "
    "answers and are tried again. --dialect direct asks without tools. --model solver is a baseline without a model. "
    "With --shard 1/4 to 4/4 on four hosts, `saccade merge` puts the run together. Exit codes: 0 done; 1 done, but "
    "some samples failed; 2 a name or a setting is wrong; 3 the model, the sandbox or the disk failed; 130 interrupted "
    "(Ctrl-C, SIGTERM)."
)

SOURCES_HELP = (
    "Where the tasks come from: a world (saccade worlds list), a benchmark (saccade cards list), a file or folder of "
    "questions."
)


@app.command("eval", epilog=EPILOG)
def evaluate(
    sources: Annotated[list[str], typer.Argument(metavar="SOURCE...", help=SOURCES_HELP)],
    out: Annotated[Path, typer.Option(help="Run folder; created if missing, resumed if it exists.")],
    model: Annotated[str | None, typer.Option(help="As `saccade ask --model`, or solver.")] = None,
    dialect: Annotated[
        str | None, typer.Option(help="Form of prompt and turns; direct: without tools.  [default: what suits it]")
    ] = None,
    published: Annotated[
        str | None,
        typer.Option(
            "--as",
            metavar="PAPER",
            help="A paper's dialect, temperature, top-k, turns, context and samples, by its name in the card, where "
            "you set nothing else (saccade cards show CARD).",
        ),
    ] = None,
    data: Annotated[Path | None, typer.Option(help="Folder of the data, where a source needs one.")] = None,
    n: Annotated[int | None, typer.Option("--n", min=1, help="Tasks of each source.  [default: all]")] = None,
    k: Annotated[int | None, typer.Option("--k", min=1, help="Samples of each task.  [default: 1]")] = None,
    split: Annotated[str | None, typer.Option(help="Of generated worlds: train, validation or test.")] = None,
    seed: Annotated[int | None, typer.Option(help="Of the choice of tasks and of each sample.  [default: 0]")] = None,
    grader: Annotated[str | None, typer.Option(help="One grader for all tasks, e.g. relaxed.")] = None,
    judge: Annotated[str | None, typer.Option(help="A model that is asked about every answer at the end.")] = None,
    headline: Annotated[
        str | None, typer.Option(help="Whose verdict counts, rule or judge.  [default: the benchmark's, else rule]")
    ] = None,
    shard: Annotated[str | None, typer.Option(metavar="I/N", help="The I-th of N parts of the tasks.")] = None,
    prompt_file: Annotated[Path | None, typer.Option(help=PROMPT_FILE)] = None,
    workers: Annotated[int, typer.Option(min=1, help="Samples at once.")] = 16,
    batch: Annotated[
        bool, typer.Option("--batch", help="By the provider's batch API, at half the price, within a day each turn.")
    ] = False,
    settings: Annotated[Path | None, typer.Option(help="TOML file with settings; options override it.")] = None,
    tools: ToolNames = None,
    option: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="sampling.temperature, limits.turns, tools, retry.seconds, ... A wrong name lists similar ones.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Play tasks with a model, grade the answers, and report how many are right."""
    from saccade.cli.ask import named

    given = named(
        sources=sources,
        model=model,
        dialect=dialect,
        published=published,
        data=data,
        n=n,
        k=k,
        split=split,
        seed=seed,
        grader=grader,
        judge=judge,
        headline=headline,
        shard=shard,
        prompt_file=prompt_file,
        tools=tools,
    )
    resolved, notices = resolve(settings, option or [], out, given)
    evaluated = _evaluated(resolved, out, workers, notices, batch=batch)
    _tell(evaluated, out, resolved, as_json=as_json)
    raise typer.Exit(int(evaluated.progress.failed > 0))


def resolve(
    file: Path | None, overrides: Sequence[str], out: Path, given: Mapping[str, object] | None = None
) -> tuple[EvalSettings, tuple[str, ...]]:
    """Load the settings of a file, then `given` and `overrides`, to play in `out`, and notices about them.

    Raises `SettingsError`: names every mistake.
    """
    from saccade.cli.ask import check_model
    from saccade.core.settings import load_settings
    from saccade.evals.run import continuing
    from saccade.evals.settings import EvalSettings

    check_model(file, given or {}, overrides)
    return continuing(load_settings(EvalSettings, file, overrides, given), out)


def _evaluated(settings: EvalSettings, out: Path, workers: int, notices: Sequence[str], *, batch: bool) -> Evaluated:
    from saccade.cli.screen import screen
    from saccade.evals.run import evaluate as play
    from saccade.models.batches import BatchTimes

    with screen(notices) as show:
        try:
            times = BatchTimes() if batch else None
            return asyncio.run(play(settings, out, workers=workers, batch=times, watch=show))
        except KeyboardInterrupt:
            print(f"Interrupted; {out} holds what was played. The same command continues from there.", file=sys.stderr)
            raise


def _tell(evaluated: Evaluated, out: Path, settings: EvalSettings, *, as_json: bool) -> None:
    from saccade.evals.benchmarks import beside_published, cards_of, judged_cards
    from saccade.evals.rows import read_rows
    from saccade.evals.summary import beside_text, compared, published_beside, summary_text

    say = teller(as_json)
    progress = evaluated.progress
    if as_json:
        counts = {"played": progress.played, "there_before": progress.skipped, "failed": progress.kinds}
        print_json({"summary": evaluated.summary, **counts, "out": out})
    say(summary_text(evaluated.summary))
    for source, answers in published_beside(settings).items():
        if lines := compared(source, read_rows(out), answers):
            say(f"\n{beside_text(lines)}")
    for card in cards_of(settings):
        for line in beside_published(settings, card):
            say(f"{card.title}, published by {line}.")
    for card in () if settings.judge else judged_cards(settings):
        say(f"{card.title}: its authors let a model grade, here a rule did; --judge MODEL asks one.")
    if progress.kinds:
        kinds = ", ".join(f"{kind} {count}" for kind, count in progress.kinds.most_common())
        say(f"\n{progress.failed} samples failed ({kinds}); {out / 'failures.jsonl'} says why.")
    if settings.model == SOLVER and progress.played and not evaluated.summary.calls:
        say(
            f"\nThe solver wrote no program and answered `unknown`: the dialect {settings.dialect} writes no code, or "
            "it knows no question of this kind."
        )
    if not progress.total:
        say(f"\nNo task is in this run: there are fewer tasks than the parts of --shard {settings.shard}.")
    if progress.idle:
        say(f"\n{progress.idle} samples ended with turns without an action: see the first one above.")
    before = f", {progress.skipped} were there before" if progress.skipped else ""
    say(f"\n{progress.played} samples played{before}: {out}; see them with: saccade show {out}")
