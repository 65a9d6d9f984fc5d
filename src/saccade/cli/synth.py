"""`saccade synth`: trajectories of experts or teachers on tasks, as data for fine-tuning."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from saccade.cli.ask import named
from saccade.cli.output import AsJson, ToolNames, count_bar, print_json, teller

if TYPE_CHECKING:
    from saccade.training.sft.synth.outcome import SynthProgress
    from saccade.training.sft.synth.settings import SynthSettings

app = typer.Typer(add_completion=False, rich_markup_mode=None)

EPILOG = (
    "Ctrl-C keeps what is finished; the same command resumes the run and refuses other settings (only --n and "
    "--dollars may change). Without --teacher, experts that know each world's program write the turns; all code really "
    "runs. With --teacher: `solve` lets the model play the dialect; `reason` answers at once, with reasoning in words; "
    "`codify` turns such reasoning into code that is run; `densify` lets a second model (teacher.writer) rewrite the "
    "thoughts of what was played; `rewrite` does this for the trajectories of a stored run; `question` makes questions "
    "about the pictures of a folder, and writes tasks. Trajectories have the score `correct`; wrong ones are kept "
    "unless --set keep=right. Exit codes: 0 done; 1 done, but some jobs failed; 2 a name or a setting is wrong; "
    "3 the model, the sandbox or the disk failed; 130 interrupted."
)


@app.command(epilog=EPILOG)
def synth(
    sources: Annotated[
        list[str],
        typer.Argument(metavar="SOURCE...", help="Worlds (`saccade worlds list`); with --teacher any source of tasks."),
    ],
    out: Annotated[Path, typer.Option(help="Run folder; created if missing, resumed if it exists.")],
    dialect: Annotated[
        str, typer.Option(help="How the turns are written; left out only with --recipe question.", show_default=False)
    ] = "",
    n: Annotated[int, typer.Option("--n", min=1, help="Tasks of each source; with weights of all.")] = 100,
    split: Annotated[str, typer.Option(help="train, validation or test.")] = "train",
    teacher: Annotated[
        str | None,
        typer.Option(help="A model instead of the experts, e.g. openai:gpt-4.1 (as `saccade ask --model`)."),
    ] = None,
    recipe: Annotated[
        str | None,
        typer.Option(help="What it does: solve, reason, codify, densify, rewrite or question.  [default: solve]"),
    ] = None,
    expert: Annotated[
        str | None,
        typer.Option(help="Who plays without a teacher (`saccade list experts`).  [default: the world's, or general]"),
    ] = None,
    dollars: Annotated[float | None, typer.Option(help="Most that the models may cost.  [default: no limit]")] = None,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Episodes at once.  [default: twice the cores; 8 with a teacher]")
    ] = None,
    seed: Annotated[int, typer.Option(help="Of the experts' choices.")] = 0,
    tools: ToolNames = None,
    option: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="samples, keep (all or right), judge, start, expert.verbosity (short or long), expert.styles.mistake, "
            "knobs.WORLD.KNOB, teacher.writer, teacher.atomic, teacher.sampling.temperature, limits.turns, tools, "
            "prompt_file, session.wall_seconds, sandbox, ... "
            "A wrong name lists similar ones.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Make trajectories for fine-tuning: N tasks of each source, solved turn by turn."""
    from saccade.core.settings import load_settings
    from saccade.training.sft.synth.settings import SynthSettings

    given = named(sources=sources, dialect=dialect, n=n, split=split, seed=seed, tools=tools)
    given["teacher"] = named(model=teacher, recipe=recipe, dollars=dollars)
    given["expert"] = named(name=expert)
    settings = load_settings(SynthSettings, None, option or [], given)
    _say_unused(settings)
    at_once = workers or (8 if teacher else 2 * (os.cpu_count() or 1))
    if settings.teacher.recipe == "question":
        raise typer.Exit(_questions(settings, out, at_once, as_json=as_json))
    progress = _made(settings, out, at_once)
    if as_json:
        print_json(_values(progress, out))
    _tell(progress, out, teller(as_json))
    raise typer.Exit(1 if progress.discarded else 0)


def _made(settings: SynthSettings, out: Path, workers: int) -> SynthProgress:
    from rich.progress import BarColumn, MofNCompleteColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    from saccade.cli.output import plain_column, plain_console
    from saccade.training.sft.synth.run import synthesise

    columns = (BarColumn(), MofNCompleteColumn(), plain_column("{task.description}"), TimeRemainingColumn())
    with Bar(*columns, console=plain_console(stderr=True), transient=True, speed_estimate_period=120) as bar:
        row = bar.add_task("", total=None)

        said: set[str] = set()

        def show(progress: SynthProgress) -> None:
            lines = [f"from {line}" for line in progress.sources]
            lines += [f"estimate: {progress.estimate}"] if progress.estimate else []
            for line in (line for line in lines if line not in said):
                said.add(line)
                bar.console.print(line, markup=False, highlight=False, soft_wrap=True)
            share = f"{100 * progress.right / progress.kept:.0f}% right" if progress.kept else ""
            lost = sum(progress.discarded.values())
            description = share + (f", {lost} failed" if lost else "")
            bar.update(row, total=progress.total, completed=progress.done, description=description)

        try:
            return asyncio.run(synthesise(settings, out, workers=workers, watch=show))
        except KeyboardInterrupt:
            print(f"Interrupted; {out} holds what was made. The same command continues from there.", file=sys.stderr)
            raise


def _say_unused(settings: SynthSettings) -> None:
    """Say which settings of a teacher change nothing, since there is none."""
    if settings.teacher.model:
        return
    for name, sampling in (("", settings.teacher.sampling), ("writer_", settings.teacher.writer_sampling)):
        for setting in (setting for setting, value in sampling.model_dump().items() if value is not None):
            said = f"no teacher is named, so teacher.{name}sampling.{setting} changes nothing."
            print(f"saccade: {said}", file=sys.stderr)


def _values(progress: SynthProgress, out: Path) -> dict[str, object]:
    return {
        "trajectories": progress.kept,
        "right": progress.right,
        "there_before": progress.skipped,
        "makers": progress.makers,
        "rejected": progress.rejected,
        "failed": progress.discarded,
        "out": out,
    }


def _tell(progress: SynthProgress, out: Path, say: Callable[[str], None]) -> None:
    share = f", {progress.right} of them right" if progress.kept else ""
    before = f" ({progress.skipped} were there before)" if progress.skipped else ""
    say(f"{progress.kept} trajectories made{share}{before}: {out}")
    for maker, count in sorted(progress.makers.items()):
        say(f"  {maker:<31} {count}")
    if progress.rejected or progress.rejected_before:
        before = f" ({progress.rejected_before} before)" if progress.rejected_before else ""
        say(f"  left out for a wrong answer: {progress.rejected}{before}, listed in {out / 'rejected.jsonl'}")
    for kind, count in sorted(progress.discarded.items()):
        say(f"  failed, {kind}: {count}; the first: {progress.example[kind]}")


def _questions(settings: SynthSettings, out: Path, workers: int, *, as_json: bool) -> int:
    from saccade.training.sft.synth.questions import QuestionProgress, make_questions

    with count_bar("Pictures") as bar:

        def show(progress: QuestionProgress) -> None:
            if not progress.done:
                for line in (*progress.sources, f"estimate: {progress.estimate}"):
                    print(line, file=sys.stderr)
            bar.reach(progress.done, progress.total)

        progress = asyncio.run(make_questions(settings, out, workers=workers, watch=show))
    if as_json:
        counts = {"questions": progress.questions, "pictures": progress.asked, "there_before": progress.skipped}
        print_json({**counts, "failed": progress.discarded, "out": out})
    say = teller(as_json)
    before = f" ({progress.skipped} pictures were asked about before)" if progress.skipped else ""
    say(f"{progress.questions} questions about {progress.asked} pictures{before}: {out}")
    for kind, count in sorted(progress.discarded.items()):
        say(f"  failed, {kind}: {count}; the first: {progress.example[kind]}")
    return 1 if progress.discarded else 0
