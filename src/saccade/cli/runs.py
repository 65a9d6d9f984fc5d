"""`saccade runs`, `protocols`, `compare`, `merge`, `regrade`, `view`, `report` and `show`: look at stored runs."""

from __future__ import annotations

import asyncio
import os
import sys
import webbrowser
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from saccade.cli.output import AsJson, OpenIt, PagePort, count_bar, counted, print_json, waiting
from saccade.core.registry import did_you_mean
from saccade.errors import RecordError, SettingsError

if TYPE_CHECKING:
    from saccade.evals.protocols.base import AnyProtocol, Findings
    from saccade.evals.protocols.faithfulness import PictureJudgeRules
    from saccade.evals.protocols.study import Study, UsedRow
    from saccade.record.trajectory import Trajectory
    from saccade.report.page import Written

# `saccade protocols`: what stored runs say besides their accuracy.

protocols_verb = typer.Typer(add_completion=False, rich_markup_mode=None)

EPILOG = (
    "faithfulness (CodeV): did the pictures that calls returned show what the question asks about, judged by gold "
    "boxes and by --judge; errors (VISTA): E1 to E6; tool_use (PyVision): what calls do, and calls against accuracy; "
    "tokens (PyVision-RL): tokens against accuracy; confidence: agreement, turns and budget against accuracy; --before "
    "RUN (CodeDance): operations, compositions and functions that RUN does not have. "
    "Without --judge no key is needed. A judge's replies are kept, so a second run asks nothing twice."
)


@protocols_verb.command(epilog=EPILOG)
def protocols(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Folders of runs.")],
    only: Annotated[
        list[str] | None,
        typer.Option("--only", metavar="NAME", help="This protocol, or one of your own as FILE.py:NAME; repeatable."),
    ] = None,
    before: Annotated[
        list[Path] | None,
        typer.Option(
            "--before",
            metavar="RUN",
            help="Say what is new since this run, such as fine-tuning's data; repeatable. Without --only, that only.",
        ),
    ] = None,
    judge: Annotated[str | None, typer.Option(metavar="MODEL", help="Model that judges pictures.")] = None,
    budget: Annotated[
        str, typer.Option(help="Pixel budget by which visual tokens are estimated: qwen2.5-vl, qwen3-vl or none.")
    ] = "qwen2.5-vl",
    dialect: Annotated[
        str | None, typer.Option(metavar="FILE.py:NAME", help="Dialect of your own in which the runs were made.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder of the findings.  [default: RUN/protocols]")] = None,
    option: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="Of the judge: prompt_file, seconds, attempts, concurrent, outages, max_tokens, dollars, ...",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Apply evaluation protocols to stored runs; the findings are kept as JSON next to each run."""
    from saccade.core.disk import one_writer
    from saccade.core.settings import load_settings
    from saccade.dialects.base import load_dialect
    from saccade.episode.run_folder import trajectories_of
    from saccade.errors import SettingsError
    from saccade.evals.protocols.base import REPLIES, findings_file, load_protocol, protocol_names, write_findings
    from saccade.evals.protocols.errors import Errors
    from saccade.evals.protocols.faithfulness import PictureJudgeRules
    from saccade.evals.protocols.study import Study
    from saccade.media.modes import policy
    from saccade.report.sections.protocols import findings_text, paired_text

    if out is not None and len(runs) > 1:
        raise SettingsError(f"--out {out} would hold the findings of {len(runs)} runs: name one run, or leave it out.")
    policy(budget)
    if dialect is not None:
        load_dialect(dialect)
    if option and judge is None:
        raise SettingsError(f"--set {option[0]} is about a judge, and there is none: name one with --judge.")
    rules = load_settings(PictureJudgeRules, overrides=option or ())
    chosen = [load_protocol(name) for name in dict.fromkeys(only or (() if before else protocol_names()))]
    if before:
        chosen.append(asyncio.run(_new_since(before)))
    errors: dict[str, Errors] = {}
    for run in runs:
        trajectories_of(run)
        folder = findings_file(run, "", out).parent
        with one_writer(run if out is None else out):
            findings = asyncio.run(_studied(run, Study(tuple(chosen), None, budget), judge, rules, folder / REPLIES))
            for protocol in chosen:
                write_findings(findings_file(run, protocol.name, out), findings[protocol.name])
        _say_unknown(run, findings)
        for protocol in chosen:
            file, found = findings_file(run, protocol.name, out), findings[protocol.name]
            if isinstance(found, Errors):
                errors[run.resolve().name if run.resolve().name not in errors else str(run)] = found
            if as_json:
                print_json({"run": run, "protocol": protocol.name, "file": file, "findings": found})
            else:
                print(f"## {run.resolve().name}: {protocol.title}\n\n{findings_text(found)}\n\n{file}\n")
    if len(errors) > 1 and not as_json and (text := paired_text(errors)):
        print(text)


def _say_unknown(run: Path, findings: dict[str, Findings]) -> None:
    """Tell of dialects that are not here: which form they ask for is then not known."""
    import sys

    from saccade.dialects.base import recorded_dialect
    from saccade.errors import RegistryError

    for name in sorted({name for item in findings.values() for name in item.about.dialects}):
        try:
            recorded_dialect(name)
        except RegistryError:
            print(
                f"{run}: the dialect {name} is not installed, so errors of form and pictures by their names are found "
                "by general rules. If it is a file of yours, name it with --dialect FILE.py:NAME.",
                file=sys.stderr,
            )


async def _new_since(runs: Sequence[Path]) -> AnyProtocol:
    from saccade.evals.protocols.study import Emergence, Study, emergence, study

    rows: list[UsedRow] = []
    for run in runs:
        found = (await study(run, Study((emergence((), ()),))))["emergence"]
        assert isinstance(found, Emergence)
        rows += found.rows
    return emergence(rows, [run.resolve().name for run in runs])


async def _studied(
    run: Path, asked: Study, judge: str | None, rules: PictureJudgeRules, replies: Path
) -> dict[str, Findings]:
    from saccade.episode.run_folder import MEDIA
    from saccade.evals.protocols.faithfulness import PictureJudge
    from saccade.evals.protocols.study import study
    from saccade.media.store import MediaStore
    from saccade.models.registry import load_model
    from saccade.rewards.judges.client import JudgeClient

    model = None if judge is None else JudgeClient(load_model(judge, rules.retry), rules, replies)
    if model is not None:
        asked = replace(asked, judge=PictureJudge(model, MediaStore(run / MEDIA), rules))
    try:
        with count_bar(run.resolve().name) as bar:
            return await study(run, asked, bar.reach)
    finally:
        if model is not None:
            await model.close()


runs_verb = typer.Typer(add_completion=False, rich_markup_mode=None)
compare_verb = typer.Typer(add_completion=False, rich_markup_mode=None)
merge_verb = typer.Typer(add_completion=False, rich_markup_mode=None)
regrade_verb = typer.Typer(add_completion=False, rich_markup_mode=None)
view_verb = typer.Typer(add_completion=False, rich_markup_mode=None)
report_verb = typer.Typer(add_completion=False, rich_markup_mode=None)
show_verb = typer.Typer(add_completion=False, rich_markup_mode=None)


@runs_verb.command()
def runs(
    folder: Annotated[Path, typer.Argument(help="Folder with runs of `saccade eval` in it or below it.")] = Path(
        "runs"
    ),
    as_json: AsJson = False,
) -> None:
    """List the evaluations in a folder: model, sources, percent right, samples, cost, date, state."""
    from dataclasses import asdict

    from saccade.evals.stored import list_runs, runs_text

    if not folder.is_dir():
        raise SettingsError(f"{folder} is no folder. Name the one in which runs lie.")
    with waiting("Reading runs"):
        listed = list_runs(folder)
    if as_json:
        print_json([{**asdict(run), "state": run.state} for run in listed])
    elif listed:
        print(runs_text(listed))
    else:
        raise SettingsError(f"{folder} holds no run of `saccade eval`. Name the folder in which runs lie.")


@compare_verb.command()
def compare(
    first: Annotated[Path, typer.Argument(help="Run folder.")],
    second: Annotated[Path, typer.Argument(help="Run folder.")],
    as_json: AsJson = False,
) -> None:
    """Say which of two runs is better, by how much, with what certainty, and in which tasks they differ."""
    from dataclasses import asdict

    from saccade.evals.metrics import compare as compared
    from saccade.evals.rows import read_rows
    from saccade.evals.summary import comparison_text

    with waiting("Reading runs"):
        comparison = compared(read_rows(first), read_rows(second))
    if as_json:
        data = {**asdict(comparison), "differing": [asdict(pair) for pair in comparison.differing]}
        del data["pairs"]
        print_json(data)
    else:
        print(comparison_text(comparison, str(first), str(second)))


@merge_verb.command()
def merge(
    shards: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Run folders made with --shard.")],
    out: Annotated[Path, typer.Option(help="A new run folder.")],
    incomplete: Annotated[
        bool, typer.Option("--incomplete", help="Merge although some shards are missing; their tasks are in no figure.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Put the shards of an evaluation together and summarise them."""
    from saccade.evals.stored import merge as merged
    from saccade.evals.stored import missing_shards, run_settings
    from saccade.evals.summary import summary_text

    with waiting("Copying samples and media"):
        summary = merged(shards, out, incomplete=incomplete)
    missing = missing_shards([run_settings(shard) for shard in shards])
    if as_json:
        print_json({"summary": summary, "shards": len(shards), "missing": missing, "out": out})
        return
    print(summary_text(summary))
    without = f", without {', '.join(missing)}" if missing else ""
    print(f"\n{len(shards)} shards{without}: {out}")


_SHOWN = 20
"""Changed samples that are listed."""


@regrade_verb.command()
def regrade(
    run: Annotated[Path, typer.Argument(help="Run folder of `saccade eval`.")],
    grader: Annotated[
        str,
        typer.Option(
            help="Grader of all samples.  [default: each source's own, in its newest version; with --judge or "
            "--headline alone: as before]"
        ),
    ] = "",
    judge: Annotated[str, typer.Option(help="A model to ask about every answer, as `saccade ask --model`.")] = "",
    headline: Annotated[str, typer.Option(help="Whose verdict counts: rule or judge.  [default: as before]")] = "",
    option: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="Of the judge: prompt_file, replies, seconds, attempts, concurrent, outages, max_tokens, dollars, "
            "retry.tries, ...  [default: as before]",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Grade a stored run again, without the model, and list the samples that changed; the earlier verdicts are kept."""
    from saccade.cli.screen import screen
    from saccade.evals.api import Regrading
    from saccade.evals.api import regrade as regraded
    from saccade.evals.summary import summary_text

    if headline not in ("", "rule", "judge"):
        raise SettingsError(f"--headline {headline} is nobody's verdict; name rule or judge.")
    with screen() as show:
        try:
            regrading = Regrading(grader, judge, headline, tuple(option or ()))  # type: ignore[arg-type]
            outcome = regraded(run, regrading, watch=show)
        except KeyboardInterrupt:
            print(f"Interrupted; {run} holds what was judged. The same command continues from there.", file=sys.stderr)
            raise
    if as_json:
        print_json(outcome)
        return
    print(summary_text(outcome.summary))
    print(f"\ngraded by {outcome.grader or 'the own grader of each source'}")
    if outcome.kept is not None:
        print(f"the earlier verdicts: {outcome.kept}")
    print(f"{len(outcome.changes)} of {outcome.samples} scores changed")
    for change in outcome.changes[:_SHOWN]:
        print(f"  {change.id}: {change.before} -> {change.after}; gold {change.gold!r}, answer {change.answer!r:.80}")
    if len(outcome.changes) > _SHOWN:
        print(f"  and {len(outcome.changes) - _SHOWN} more")


@view_verb.command()
def view(
    folder: Annotated[Path, typer.Argument(help="Folder of a run, or one with runs in it.")] = Path("runs"),
    port: PagePort = 8765,
    open_it: OpenIt = False,
) -> None:
    """Serve a run, or all runs of a folder, as pages that follow an evaluation while it runs."""
    from saccade.cli.web import serve_page
    from saccade.report.live import viewer

    if not folder.is_dir():
        raise SettingsError(f"{folder} is no folder. Name the folder of a run, or one with runs in it.")
    line = f"{{url}}/ shows {str(folder).replace('{', '{{').replace('}', '}}')}; Ctrl-C ends it"
    raise typer.Exit(serve_page(viewer(folder), port, line, "{url}/", open_it=open_it))


RUNS_EPILOG = (
    "A run is a folder of `saccade eval`, `saccade rl` or `saccade sft`; runs of one kind are shown side by side. "
    "The page is one file with everything in it; if the episodes have too many pictures for it, they are in a folder "
    "beside it. For a folder of evaluations the page is a list of them. docs/report.md says what the figures mean. "
    "Exit codes: 0 written; 2 a folder is not a run, or cannot be read."
)


@report_verb.command(epilog=RUNS_EPILOG)
def report(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Folders of runs.")],
    out: Annotated[
        Path | None, typer.Option(help="File to write. [default: report.html in the first run's folder]")
    ] = None,
    title: Annotated[str, typer.Option(help="Title of the page. [default: the names of the runs]")] = "",
    open_it: OpenIt = False,
    as_json: AsJson = False,
) -> None:
    """Make a page of evaluations and training runs; means over a paper's benchmarks, with its own, are printed too."""
    from saccade.report.runs import open_runs
    from saccade.report.sections.results import means_of
    from saccade.report.sections.view import panel_text
    from saccade.report.write import write_report

    if len(runs) == 1 and _holds_runs(runs[0]):
        _list(runs[0], out, open_it, as_json=as_json)
        return
    opened = open_runs(runs)
    for run in opened.evals:
        run.stored.check_readable()
    first = runs[0] if runs[0].is_dir() else runs[0].parent
    target = out if out is not None else first / "report.html"
    if target.is_dir():
        target = target / "report.html"
    with count_bar("Episodes") as bar:
        written = write_report(opened, target, title=title, watch=bar.reach)
    for run in opened.episodes:
        for problem in run.stored.problems:
            print(f"saccade: {problem}", file=sys.stderr)
    if (found := means_of(opened.evals)) is not None and not as_json:
        print(panel_text(found))
    _tell(written, as_json, open_it)


def _tell(written: Written, as_json: bool, open_it: bool) -> None:
    beside = f" and {written.folder}" if written.folder is not None else ""
    if as_json:
        print_json(written)
    else:
        print(f"{written.episodes} episode{'' if written.episodes == 1 else 's'}: {written.page}{beside}")
    if open_it:
        webbrowser.open(written.page.resolve().as_uri())


def _holds_runs(folder: Path) -> bool:
    """Tell whether `folder` is no run and has evaluations below it."""
    from saccade.evals.stored import is_run, list_runs
    from saccade.report.runs import METRICS

    return folder.is_dir() and not is_run(folder) and not (folder / METRICS).is_file() and bool(list_runs(folder))


def _list(folder: Path, out: Path | None, open_it: bool, *, as_json: bool) -> None:
    from saccade.evals.stored import list_runs
    from saccade.report.page import report_beside, runs_page, write_page

    target = folder / "index.html" if out is None else out / "index.html" if out.is_dir() else out
    listed = list_runs(folder)
    href = report_beside(folder) if target.parent.resolve() == folder.resolve() else lambda run: ""
    write_page(target, runs_page(listed, href))
    if as_json:
        print_json({"runs": len(listed), "page": target})
    else:
        print(f"{len(listed)} runs: {target}; runs with a report.html are links (saccade report RUN makes it)")
    if open_it:
        webbrowser.open(target.resolve().as_uri())


@show_verb.command()
def show(
    path: Annotated[Path, typer.Argument(help="Folder of a run, or a .jsonl file of trajectories.")],
    out: Annotated[Path | None, typer.Option(help="File to write. [default: index.html in the run's folder]")] = None,
    open_it: Annotated[
        bool | None,
        typer.Option("--open/--no-open", help="Open the page in the browser. [default: where there is a screen]"),
    ] = None,
    task: Annotated[str | None, typer.Option(help="Show only the episodes of the task of this id.")] = None,
    as_json: AsJson = False,
) -> None:
    """Make a page of a run's episodes, and open it."""
    from saccade.report.page import Site
    from saccade.report.runs import open_run, wires_of

    run = open_run(path)
    target = out if out is not None else run.file.parent / "index.html"
    if target.is_dir():
        target = target / "index.html"
    site = Site(target, run.store)
    shown = 0
    for trajectory in _of_task(counted(run.trajectories(), "Episodes", run.count()), task):
        site.add(trajectory, wires_of(run.file.parent, trajectory.id, run.problems))
        shown += 1
    for problem in run.problems:
        print(f"saccade: {problem}", file=sys.stderr)
    if not shown and run.problems:
        raise RecordError(f"{run.file} holds no episode that can be shown; see above.")
    _tell(site.finish(tuple(run.problems)), as_json, _has_screen() if open_it is None else open_it)


def _of_task(trajectories: Iterable[Trajectory], task: str | None) -> Iterator[Trajectory]:
    """Yield the trajectories of `task`, or all. Raises `SettingsError` in the end if a task was named and has none."""
    others = set()
    is_there = False
    for trajectory in trajectories:
        if task is None or trajectory.task.id == task:
            is_there = True
            yield trajectory
        else:
            others.add(trajectory.task.id)
    if task is not None and not is_there:
        raise SettingsError(f"no episode is of the task {task!r}. {did_you_mean(task, others)}".rstrip())


def _has_screen() -> bool:
    """Tell whether a person can see a browser here."""
    if os.environ.get("CI") or not sys.stdout.isatty():
        return False
    return sys.platform != "linux" or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
