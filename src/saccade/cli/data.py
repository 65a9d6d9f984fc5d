"""`saccade convert`, `curate`, `export`, `review` and `synth`: make, filter, write and read data for training."""

from __future__ import annotations

import asyncio
import inspect
import os
import secrets
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from saccade.cli.ask import named
from saccade.cli.list import print_recipes
from saccade.cli.output import AsJson, OpenIt, PagePort, ToolNames, count_bar, counted, print_json, teller, waiting
from saccade.core.disk import one_writer
from saccade.errors import SettingsError

if TYPE_CHECKING:
    from saccade.training.sft.curate.pipeline import CurateReport, FilterReport
    from saccade.training.sft.formats.base import Refused
    from saccade.training.sft.synth.outcome import SynthProgress
    from saccade.training.sft.synth.settings import SynthSettings

convert_verb = typer.Typer(no_args_is_help=True, add_completion=False, rich_markup_mode=None)

_SHOWN = 10
"""Refused rows that are printed; all of them are in the file."""


@convert_verb.command()
def convert(
    source: Annotated[
        Path,
        typer.Argument(help="Folder of a run, of tasks (with --dialect) or documents; a file of rows, or its folder."),
    ],
    out: Annotated[Path, typer.Option(help="Folder to write; must not exist yet.")],
    from_: Annotated[
        str,
        typer.Option(
            "--from", help="saccade, atif, sharegpt, swift, thyme, thyme-base64, verl, pyvision or pyvision-rl."
        ),
    ],
    to: Annotated[str, typer.Option("--to", help="One of the same.")],
    dialect: Annotated[str | None, typer.Option(help="Dialect of rows; by default the one that they name.")] = None,
    images: Annotated[Path | None, typer.Option(help="Folder of the pictures. [default: that of the rows]")] = None,
    root: Annotated[str, typer.Option(help="Written before the paths of pictures. [default: nothing]")] = "",
    as_json: AsJson = False,
) -> None:
    """Convert training data. Rows that cannot be converted are listed with the reason; exits with 1 if all are."""
    from saccade.dialects.base import load_dialect
    from saccade.training.sft.formats import base as work
    from saccade.training.sft.formats.base import ConversionOptions, load_format

    if dialect is not None:
        load_dialect(dialect)
    formats = (load_format(from_), load_format(to))
    with count_bar("Converting") as bar:
        done = work.convert(source, out, formats, ConversionOptions(dialect, images, root), bar.advance)
    if as_json:
        print_json(done)
    else:
        print(f"{done.written} of {done.read} rows: {out}")
    _tell(done.refused, out / work.REFUSED)
    if done.read and not done.written:
        raise typer.Exit(1)


def _tell(refused: tuple[Refused, ...], file: Path) -> None:
    if not refused:
        return
    print(f"{len(refused)} rows were not converted: {file}", file=sys.stderr)
    for item in refused[:_SHOWN]:
        print(f"  row {item.row + 1} {item.id}: {item.reason}", file=sys.stderr)
    if len(refused) > _SHOWN:
        commonest, count = Counter(item.reason for item in refused).most_common(1)[0]
        print(f"  and more; the commonest reason, {count} times: {commonest}", file=sys.stderr)


curate_verb = typer.Typer(add_completion=False, rich_markup_mode=None)

SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="NAME=VALUE", help="A filter's parameter, as in score.at_least=0.5; may be repeated."
    ),
]


@curate_verb.command()
def curate(
    sources: Annotated[
        list[str] | None,
        typer.Argument(metavar="SOURCE...", help="Folders of runs, read in this order; or sources of tasks."),
    ] = None,
    pipeline: Annotated[
        str | None, typer.Option(help="Name of a pipeline (`list` names them), or a TOML file with [[filter]] tables.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder to write; must not exist yet.")] = None,
    change: SetOption = None,
    cache: Annotated[Path, typer.Option(help="Folder in which judges keep their replies.")] = Path("runs/judge-cache"),
    list_filters: Annotated[bool, typer.Option("--list", help="Name the filters and their parameters.")] = False,
    as_json: AsJson = False,
) -> None:
    """Filter the trajectories of runs, or tasks, into a new folder, and report what each filter left out."""
    if list_filters:
        _list(as_json)
        return
    if pipeline == "list":
        print_recipes("curate", as_json=as_json)
        return
    if not sources or pipeline is None or out is None:
        raise SettingsError("curate needs a run or more, --pipeline NAME and --out FOLDER (or --list for the filters)")
    from saccade.training.sft.curate import run
    from saccade.training.sft.curate.pipeline import load_pipeline
    from saccade.training.sft.curate.run import SourceRuns

    chosen = load_pipeline(pipeline, change or ())
    opened = SourceRuns(sources)
    say = teller(as_json)
    for line in opened.lines():
        say(f"from {line}")
    with count_bar("Curating", opened.count()) as bar:
        report = run.curate(sources, chosen, out, cache=cache, on_read=bar.advance)
    if as_json:
        print_json({**report.model_dump(mode="json"), "out": out})
    else:
        _table(report)
    for item in report.filters:
        if item.seen and item.beside == item.seen:
            say(f"{item.label} saw none of them: all are of other sources and tags than it is for.")
    say(f"{report.kept} of {report.read} {'tasks' if opened.of_tasks else 'trajectories'}: {out}")
    if report.broken:
        print(f"{len(report.broken)} rows gave no task, the first: {report.broken[0]}", file=sys.stderr)
    say(f"What was left out, and why: {out / 'dropped.jsonl'}, {out / 'report.json'}")


def _list(as_json: bool) -> None:
    from saccade.training.sft.curate.pipeline import FILTERS, load_filter

    listed = []
    for entry in FILTERS.ids():
        kind = load_filter(entry)
        first = inspect.cleandoc(kind.__doc__ or "").partition("\n\n")[0].replace("\n", " ")
        parameters = {
            name: "needed" if field.is_required() else repr(field.get_default(call_default_factory=True))
            for name, field in kind.model_fields.items()
        }
        listed.append({"filter": entry, "what": first, "parameters": parameters})
        if not as_json:
            print(
                f"{entry}\n    {first}", *(f"{name} = {value}" for name, value in parameters.items()), sep="\n        "
            )
    if as_json:
        print_json(listed)


def _table(report: CurateReport) -> None:
    from rich.table import Table

    from saccade.cli.output import plain_console

    table = Table(box=None, pad_edge=False)
    for name in ("filter", "seen", "kept", "dropped", "undecided", "other branch"):
        table.add_column(name, justify="left" if name == "filter" else "right", no_wrap=True)
    table.add_column("reasons, with an example", overflow="fold")
    for item in report.filters:
        counts = (item.seen, item.kept, item.dropped, item.undecided, item.beside)
        table.add_row(item.label, *map(str, counts), _reasons(item))
    console = plain_console()
    console.print(table, markup=False)
    first, last = report.filters[0], report.filters[-1]
    kept = {count.category: count.kept for count in last.categories}
    by = Table(report.category, "read", "kept", box=None, pad_edge=False)
    for count in first.categories:
        by.add_row(count.category, str(count.seen), str(kept.get(count.category, 0)))
    console.print()
    console.print(by, markup=False)


def _reasons(item: FilterReport) -> str:
    return "\n".join(f"{reason.count} {reason.reason} ({reason.examples[0]})" for reason in item.reasons)


export_verb = typer.Typer(add_completion=False, rich_markup_mode=None)


@export_verb.command()
def export(
    run: Annotated[
        Path, typer.Argument(help="Run folder, or a checkpoint of a training run (OUT/checkpoints/step-00000100).")
    ],
    out: Annotated[
        Path | None,
        typer.Option(help="The file, or the model's folder.  [default: RUN/samples.FORMAT; OUT/models/step-...]"),
    ] = None,
    form: Annotated[
        str, typer.Option("--format", help="jsonl, csv, tsv, parquet or xlsx.  [default: the suffix of --out]")
    ] = "",
    to: Annotated[str, typer.Option(help="table, or otel for OpenTelemetry's spans.  [default: table]")] = "",
    endpoint: Annotated[
        str, typer.Option(help="With --to otel: a collector (http://host:4318/v1/traces) in place of a file.")
    ] = "",
    content: Annotated[
        bool, typer.Option("--content", help="With --to otel: texts, code and output too. They may hold anything.")
    ] = False,
    dtype: Annotated[
        str | None, typer.Option(help="Of a model's weights: float32 or bfloat16.  [default: keep.dtype of the run]")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Write one line per sample, with VLMEvalKit's columns; of a checkpoint, a model that can be asked and measured."""
    if to not in ("", "table"):
        if form or dtype is not None:
            raise SettingsError(f"--format and --dtype are not for --to {to}. Leave them out.")
        _report(as_json, *_episodes(to, run, out, endpoint, content=content))
        return
    if endpoint or content:
        raise SettingsError(
            "--endpoint and --content are for forms of episodes (--to otel). Add it, or leave them out."
        )
    if (run / "state.json").is_file():
        if form:
            raise SettingsError(f"{run} is a checkpoint and becomes a model, which has no --format. Leave it out.")
        _model(run, out, dtype, as_json=as_json)
        return
    if (run / "checkpoints").is_dir():
        names = ", ".join(sorted(path.name for path in (run / "checkpoints").glob("step-*"))) or "none"
        raise SettingsError(
            f"{run} is a training run, with a model in {run / 'model'} when it is finished. Name one of its "
            f"checkpoints, as {run}/checkpoints/NAME: {names}. (keep.checkpoints says how many of them stay.)"
        )
    if dtype is not None:
        raise SettingsError("--dtype is for the model of a checkpoint, and this is none. Leave it out.")
    from saccade.evals.rows import export as exported
    from saccade.evals.rows import read_rows

    target = out or run / f"samples.{form or 'jsonl'}"
    with waiting("Writing samples"):
        rows = read_rows(run)
        exported(rows, target, form)
    _report(as_json, "samples", len(rows), target)


def _report(as_json: bool, what: str, count: int, target: Path | str) -> None:
    if as_json:
        print_json({what: count, "out": target})
    else:
        print(f"{count} {what}: {target}")


def _episodes(to: str, run: Path, out: Path | None, endpoint: str, *, content: bool) -> tuple[str, int, Path | str]:
    from saccade.episode.run_folder import trajectories_of
    from saccade.evals.rows import EXPORTS
    from saccade.record.codec import read_ids, read_lines
    from saccade.record.trajectory import Trajectory

    exported = EXPORTS.load(to)
    file = run if run.is_file() else trajectories_of(run)
    if endpoint and out is not None:
        raise SettingsError(f"--endpoint sends the {exported.items} and --out writes them. Give one of the two.")
    target = endpoint or out or file.parent / exported.file_name
    last = {name: number for number, name in enumerate(read_ids(file, Trajectory))}
    episodes = (item for number, item in enumerate(read_lines(file, Trajectory)) if last[item.id] == number)
    return exported.items, exported.export(counted(episodes, "Episodes", len(last)), target, content=content), target


def _model(checkpoint: Path, out: Path | None, dtype: str | None, *, as_json: bool) -> None:
    from saccade.cli.train import need_training
    from saccade.core.settings import load_saved
    from saccade.dialects.base import load_dialect
    from saccade.training.rl.settings import RlSettings
    from saccade.training.sft.settings import SftSettings

    need_training()
    from saccade.training.checkpoints import export_checkpoint
    from saccade.training.settings import SETTINGS

    root = checkpoint.resolve().parent.parent
    if not (root / SETTINGS).is_file():
        raise SettingsError(f"there is no {SETTINGS} in {root}, so what {checkpoint} was trained from is not known.")
    dialects: dict[str, int] = {}
    settings: RlSettings | SftSettings
    if "[recipe" in (root / SETTINGS).read_text(encoding="utf-8"):
        settings = load_saved(RlSettings, root / SETTINGS)
        dialects = {load_dialect(settings.recipe.dialect).id: 1}
    else:
        settings = load_saved(SftSettings, root / SETTINGS)
    if dtype not in (None, "float32", "bfloat16"):
        raise SettingsError(f"--dtype {dtype}: write float32 or bfloat16")
    kind = dtype or settings.keep.dtype
    target = out or root / "models" / checkpoint.resolve().name
    with waiting("Writing the model"):
        step = export_checkpoint(checkpoint, target, settings.model, kind, dialects)
    if as_json:
        print_json({"step": step, "dtype": kind, "out": target})
        return
    print(f"Step {step}: {target}, in {'the precision of a CPU, float32' if kind == 'auto' else kind}")
    print(f"Ask it with --model local:{target}")


review_verb = typer.Typer(add_completion=False, rich_markup_mode=None)

EPILOG = (
    "Every decision is on the disk at once, in review.jsonl of the folder, so the same command resumes. With --out no "
    "page is served: what was kept so far is written as a new folder, corrections included. In a pipeline the filter "
    "`reviewed` does the same."
)


@review_verb.command(epilog=EPILOG)
def review(
    folders: Annotated[
        list[Path],
        typer.Argument(help="A run, or a folder of tasks (`saccade tasks write`); several runs to rate blindly."),
    ],
    out: Annotated[Path | None, typer.Option(help="Write what was kept to this new folder, and serve no page.")] = None,
    open_items: Annotated[
        str, typer.Option("--undecided", help="With --out, what becomes of items that are open: leave_out or keep.")
    ] = "leave_out",
    rate: Annotated[
        str, typer.Option(help="Rate trajectories from 1 to 5 under this name, those of several runs side by side.")
    ] = "",
    ratings: Annotated[
        bool, typer.Option("--ratings", help="Print the table of all ratings, and serve no page.")
    ] = False,
    count: Annotated[int, typer.Option("--n", min=1, help="With --rate, tasks of each source.")] = 40,
    seed: Annotated[int, typer.Option(min=0, help="With --rate, which tasks are drawn: the same for all raters.")] = 0,
    port: PagePort = 0,
    open_it: OpenIt = False,
) -> None:
    """Look through a run or through tasks by hand: keep, drop, correct the gold answer, or rate from 1 to 5."""
    if ratings:
        from saccade.report.ratings import rating_table, table_lines

        print("\n".join(table_lines(rating_table(folders))))
        return
    if rate:
        raise typer.Exit(_rate(folders, rate, count, seed, port, open_it))
    if len(folders) > 1:
        raise SettingsError("several folders are rated, not reviewed: add --rate NAME, or name one folder.")
    (folder,) = folders
    if out is not None:
        report = _written(folder, out, open_items)
        print(f"{report.kept} of {report.read} kept: {out}")
        for reason in report.filters[-1].reasons:
            print(f"  {reason.reason}: {reason.count}")
        return
    from saccade.cli.web import serve_page
    from saccade.training.sft.review import DecisionLog, ReviewItems
    from saccade.training.sft.review_server import Reviewer, review_app

    items = ReviewItems.open(folder)
    with one_writer(folder):
        reviewer = Reviewer(items, DecisionLog(folder), secrets.token_urlsafe(16))
        address = f"{{url}}/?token={reviewer.token}"
        decided = f"{len(items.names)} items, {len(reviewer.log)} decided. Ctrl-C ends it; decisions are kept."
        code = serve_page(review_app(reviewer), port, f"{decided}\n{address}", address, open_it=open_it)
    raise typer.Exit(code)


def _rate(folders: list[Path], rater: str, count: int, seed: int, port: int, open_it: bool) -> int:
    from saccade.cli.web import serve_page
    from saccade.training.sft.review import RatingLog, ReviewItems, sheets
    from saccade.training.sft.review_server import Raters, rating_app

    if not rater.isprintable():
        raise SettingsError(f"--rate {rater!r}: a name has letters that can be printed, in one line.")
    runs = [ReviewItems.open(folder) for folder in folders]
    drawn = sheets(runs, rater, count, seed)
    with ExitStack() as held:
        for run in runs:
            held.enter_context(one_writer(run.folder))
        raters = Raters(runs, [RatingLog(run.folder) for run in runs], drawn, rater, secrets.token_urlsafe(16))
        address = f"{{url}}/?token={raters.token}"
        rated = sum(map(raters.is_rated, raters.sheets))
        said = f"{len(raters.sheets)} sheets, {rated} rated by {rater}. Ctrl-C ends it; ratings are kept in each run."
        return serve_page(rating_app(raters), port, f"{said}\n{address}", address, open_it=open_it)


def _written(folder: Path, out: Path, undecided: str) -> CurateReport:
    from saccade.training.sft.curate.pipeline import parse_pipeline
    from saccade.training.sft.curate.run import curate

    step = {"name": "reviewed", "reviews": [str(folder)], "undecided": undecided}
    return curate([folder], parse_pipeline({"filter": [step]}, where="saccade review"), out, cache=folder)


# `saccade synth`: trajectories of experts or teachers on tasks, as data for fine-tuning.


synth_verb = typer.Typer(add_completion=False, rich_markup_mode=None)

SYNTH_EPILOG = (
    "Ctrl-C keeps what is finished; the same command resumes the run and refuses other settings (only --n and "
    "--dollars may change). Without --teacher, experts that know each world's program write the turns; all code really "
    "runs. With --teacher: `solve` lets the model play the dialect; `reason` answers at once, with reasoning in words; "
    "`codify` turns such reasoning into code that is run; `densify` lets a second model (teacher.writer) rewrite the "
    "thoughts of what was played; `rewrite` does this for the trajectories of a stored run; `question` makes questions "
    "about the pictures of a folder, and writes tasks. Trajectories have the score `correct`; wrong ones are kept "
    "unless --set keep=right. Exit codes: 0 done; 1 done, but some jobs failed; 2 a name or a setting is wrong; "
    "3 the model, the sandbox or the disk failed; 130 interrupted."
)


@synth_verb.command(epilog=SYNTH_EPILOG)
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
    _tell_synth(progress, out, teller(as_json))
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


def _tell_synth(progress: SynthProgress, out: Path, say: Callable[[str], None]) -> None:
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
    from saccade.training.sft.synth.run import QuestionProgress, make_questions

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
