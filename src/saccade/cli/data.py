"""`saccade convert`: training data from one of this field's formats to another."""

from __future__ import annotations

import inspect
import secrets
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from saccade.cli.list import print_recipes
from saccade.cli.output import AsJson, OpenIt, PagePort, count_bar, counted, print_json, teller, waiting
from saccade.errors import SettingsError

if TYPE_CHECKING:
    from saccade.training.sft.curate.pipeline import CurateReport, FilterReport
    from saccade.training.sft.formats.base import Refused


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
    from saccade.dialects.registry import load_dialect
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
    from saccade.episode.run_folder import TRAJECTORIES
    from saccade.evals.rows import EXPORTS
    from saccade.record.codec import read_ids, read_lines
    from saccade.record.trajectory import Trajectory

    exported = EXPORTS.load(to)
    file = run / TRAJECTORIES if run.is_dir() else run
    if not file.is_file():
        raise SettingsError(f"{run} is no run folder: it has no {TRAJECTORIES}. Name the folder of a run.")
    if endpoint and out is not None:
        raise SettingsError(f"--endpoint sends the {exported.items} and --out writes them. Give one of the two.")
    target = endpoint or out or file.parent / exported.file_name
    last = {name: number for number, name in enumerate(read_ids(file, Trajectory))}
    episodes = (item for number, item in enumerate(read_lines(file, Trajectory)) if last[item.id] == number)
    return exported.items, exported.export(counted(episodes, "Episodes", len(last)), target, content=content), target


def _model(checkpoint: Path, out: Path | None, dtype: str | None, *, as_json: bool) -> None:
    from saccade.cli.train import need_training
    from saccade.core.settings import load_saved
    from saccade.dialects.registry import load_dialect
    from saccade.training.rl.settings import RlSettings
    from saccade.training.sft.settings import SftSettings

    need_training()
    from saccade.training.checkpoints import export_checkpoint
    from saccade.training.folder import SETTINGS

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
    reviewer = Reviewer(items, DecisionLog(folder), secrets.token_urlsafe(16))
    address = f"{{url}}/?token={reviewer.token}"
    decided = f"{len(items.names)} items, {len(reviewer.log)} decided. Ctrl-C ends it; decisions are kept."
    raise typer.Exit(serve_page(review_app(reviewer), port, f"{decided}\n{address}", address, open_it=open_it))


def _rate(folders: list[Path], rater: str, count: int, seed: int, port: int, open_it: bool) -> int:
    from saccade.cli.web import serve_page
    from saccade.training.sft.rating import RatingLog, sheets
    from saccade.training.sft.rating_server import Raters, rating_app
    from saccade.training.sft.review import ReviewItems

    runs = [ReviewItems.open(folder) for folder in folders]
    raters = Raters(
        runs,
        [RatingLog(run.folder) for run in runs],
        sheets(runs, rater, count, seed),
        rater,
        secrets.token_urlsafe(16),
    )
    address = f"{{url}}/?token={raters.token}"
    rated = sum(map(raters.is_rated, raters.sheets))
    said = f"{len(raters.sheets)} sheets, {rated} rated by {rater}. Ctrl-C ends it; ratings are kept in each run."
    return serve_page(rating_app(raters), port, f"{said}\n{address}", address, open_it=open_it)


def _written(folder: Path, out: Path, undecided: str) -> CurateReport:
    from saccade.training.sft.curate.pipeline import parse_pipeline
    from saccade.training.sft.curate.run import curate

    step = {"name": "reviewed", "reviews": [str(folder)], "undecided": undecided}
    return curate([folder], parse_pipeline({"filter": [step]}, where="saccade review"), out, cache=folder)
