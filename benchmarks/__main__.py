"""Measure the sandbox, the loop, an evaluation and more, on this machine, now: `python -m benchmarks NAME`."""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer
from rich.console import Console
from rich.text import Text

from saccade.cli.main import run
from saccade.cli.output import AsJson, plain_console, print_json, waiting
from saccade.core.registry import install
from saccade.errors import SaccadeError, SettingsError, UnavailableError

if TYPE_CHECKING:
    from benchmarks.figures import Figure

OutFile: TypeAlias = Annotated[
    Path | None, typer.Option("--out", metavar="FILE", help="Also write every figure, as JSON, to this file.")
]
Quick: TypeAlias = Annotated[
    bool, typer.Option("--quick", help="Smaller and shorter: seconds, or a minute or two; most targets are not judged.")
]
Checkpoint: TypeAlias = Annotated[
    str, typer.Option(help="Checkpoint: a folder, or `tiny`; without, a small one with random weights.")
]
Threads: TypeAlias = Annotated[int, typer.Option(min=1, help="Threads of torch on a CPU.")]

app = typer.Typer(no_args_is_help=True, add_completion=False, rich_markup_mode=None)


@app.callback()
def benchmarks() -> None:
    """Measure this machine: the sandbox, the loop, an evaluation and more."""


@app.command()
def sandbox(
    quick: Quick = False,
    out: OutFile = None,
    as_json: AsJson = False,
    only: Annotated[
        list[str] | None, typer.Option(metavar="ROW", help="Only this row. May be repeated; a wrong name lists all.")
    ] = None,
) -> None:
    """The sandbox beside a Jupyter kernel, smolagents, a subprocess per call and plain exec: the same work, one run.

    A peer that is not installed is named with the command that installs it. Close other programs first: figures of a
    busy machine are marked as such. A full run takes ten minutes or so, most of it waiting for the peers.
    """
    from benchmarks.sandbox import as_json as values
    from benchmarks.sandbox import choose, footing, heading, measure, table
    from benchmarks.sandbox_peers import FULL, QUICK

    rows = choose(only)
    _check_place(out)
    console = _console(180)
    with plain_console(stderr=True).status("starting") as status:
        report = measure(
            rows, QUICK if quick else FULL, on_progress=lambda what: status.update(Text(f"measuring {what}"))
        )
    if not as_json:
        console.print(*heading(report), sep="\n", highlight=False, markup=False)
        console.print(table(report))
        console.print(*footing(report), sep="\n", highlight=False, markup=False)
    _keep(values(report), out, as_json=as_json)


@app.command()
def loop(quick: Quick = False, out: OutFile = None, as_json: AsJson = False) -> None:
    """The loop with a model that answers instantly: turns per second, its own cost, memory over many episodes."""
    from benchmarks.loop import FULL_LOOP, QUICK_LOOP, measure_loop

    _measured("loop", partial(measure_loop, QUICK_LOOP if quick else FULL_LOOP), out, as_json=as_json)


@app.command("eval")
def evaluation(quick: Quick = False, out: OutFile = None, as_json: AsJson = False) -> None:
    """An evaluation with a model that answers after 50 ms: samples per second, memory, how soon it is continued."""
    from benchmarks.evaluation import FULL_EVAL, QUICK_EVAL, measure_eval

    _measured("eval", partial(measure_eval, QUICK_EVAL if quick else FULL_EVAL), out, as_json=as_json)


@app.command()
def tasks(quick: Quick = False, out: OutFile = None, as_json: AsJson = False) -> None:
    """Sources of 100,000 tasks: seconds until they are open, and peak of memory. Needs pyarrow."""
    from benchmarks.tasks import FULL_TASKS, QUICK_TASKS, measure_tasks

    _measured("tasks", partial(measure_tasks, QUICK_TASKS if quick else FULL_TASKS), out, as_json=as_json)


@app.command()
def tools(
    quick: Quick = False,
    only: Annotated[
        list[str] | None,
        typer.Option("--only", metavar="TOOL", help="color_stats, ocr or grounding_dino; may be repeated."),
    ] = None,
    out: OutFile = None,
    as_json: AsJson = False,
) -> None:
    """Calls of typed tools by 1 to 64 episodes at once, in worker processes and served. Needs [ocr,serve]."""
    _need("ocr", "rapidocr")
    _need("serve", "fastapi")
    from benchmarks.tools import FULL_TOOLS, QUICK_TOOLS, TOOLS, measure_tools

    if unknown := [name for name in only or () if name not in TOOLS]:
        raise SettingsError(f"not measured: {', '.join(unknown)}. Choose from: {', '.join(TOOLS)}.")
    scale = QUICK_TOOLS if quick else FULL_TOOLS
    _measured("tools", partial(measure_tools, scale, only=only or ()), out, as_json=as_json)


@app.command()
def serve(quick: Quick = False, out: OutFile = None, as_json: AsJson = False) -> None:
    """A server of agents under 64 requests at once, with a model that answers after 50 ms: requests, memory."""
    from benchmarks.serve import FULL_SERVE, QUICK_SERVE, measure_serve

    _measured("serve", partial(measure_serve, QUICK_SERVE if quick else FULL_SERVE), out, as_json=as_json)


@app.command()
def scale(
    quick: Quick = False,
    episodes: Annotated[
        list[int] | None, typer.Option(min=1, help="So many at once in place of 64, 256 and 1,024. May be repeated.")
    ] = None,
    many: Annotated[
        int | None,
        typer.Option(min=0, help="Short episodes over which memory is watched, in place of 10,000; 0: none."),
    ] = None,
    out: OutFile = None,
    as_json: AsJson = False,
) -> None:
    """The host of 64, 256 and 1,024 episodes at once, with an engine that answers after a drawn time and no model."""
    _need("train", "torch", "transformers", "accelerate")
    from benchmarks.scale import FULL_SCALE, QUICK_SCALE, measure_scale

    sizes = QUICK_SCALE if quick else FULL_SCALE
    sizes = sizes if episodes is None else sizes.with_episodes(episodes)
    sizes = sizes if many is None else replace(sizes, many=many)
    _measured("scale", partial(measure_scale, sizes), out, as_json=as_json)


@app.command()
def rollout(
    model: Checkpoint = "",
    turns: Annotated[int, typer.Option(min=1, help="Looks of an episode; with --quick fewer.")] = 4,
    threads: Threads = 1,
    quick: Quick = False,
    out: OutFile = None,
    as_json: AsJson = False,
) -> None:
    """Rollouts and updates beside `generate` on the whole context and TRL: tokens per second, waiting, memory."""
    _need("train", "torch", "transformers", "accelerate")
    # Threads of torch that wait by spinning are many times slower when sandboxes run next to them.
    os.environ.setdefault("GOMP_SPINCOUNT", "1000")
    from benchmarks.rollout import FULL_ROLLOUT, QUICK_ROLLOUT, measure_rollout
    from saccade.models.registry import checkpoint_named

    scale = QUICK_ROLLOUT if quick else replace(FULL_ROLLOUT, turns=turns)
    _measured("rollout", partial(measure_rollout, scale, checkpoint_named(model), threads), out, as_json=as_json)


@app.command()
def local(
    model: Checkpoint = "",
    turns: Annotated[int, typer.Option(min=1, help="Turns of an episode; with --quick fewer.")] = 6,
    threads: Threads = 1,
    quick: Quick = False,
    out: OutFile = None,
    as_json: AsJson = False,
) -> None:
    """A checkpoint in this process (local:FOLDER): one episode of several turns, and eight side by side."""
    _need("local", "torch", "transformers")
    from benchmarks.local import FULL_LOCAL, QUICK_LOCAL, measure_local
    from saccade.models.registry import checkpoint_named

    scale = QUICK_LOCAL if quick else replace(FULL_LOCAL, turns=turns)
    _measured("local", partial(measure_local, scale, checkpoint_named(model), threads), out, as_json=as_json)


@app.command("real-model")
def real_model(
    episodes: Annotated[int, typer.Option(min=16, help="In all; an eighth for each dialect, streamed and not.")] = 300,
    python: Annotated[
        Path, typer.Option(metavar="FILE", help="Interpreter of the environment that `make real-model` builds.")
    ] = Path(".venv-real/bin/python"),
    runs: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Keep the run folders there; a stopped run continues.")
    ] = None,
    only: Annotated[
        list[str] | None, typer.Option(metavar="DIALECT", help="Only this one of the four. May be repeated.")
    ] = None,
    out: OutFile = None,
    as_json: AsJson = False,
) -> None:
    """A small trained language model behind llama-cpp-python's server, in four dialects: how its episodes end."""
    from benchmarks.real_model import DIALECTS, faults, measure_real_model, real_model_table

    if unknown := [name for name in only or () if name not in DIALECTS]:
        raise SettingsError(f"not played: {', '.join(unknown)}. Choose from: {', '.join(DIALECTS)}.")
    _check_place(out)
    with plain_console(stderr=True).status("starting") as status:
        played = measure_real_model(python, episodes, runs, lambda what: status.update(Text(what)), only or DIALECTS)
    if not as_json:
        _console(180).print(real_model_table(played))
    _keep({"played": [vars(one) for one in played]}, out, as_json=as_json)
    if found := faults(played):
        raise SaccadeError("; ".join(found))


@app.command("tool-accuracy")
def tool_accuracy(
    problems: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Also problems of Geometry3K: folders with data.json, logic_form.json."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Of the charts that Matplotlib draws.")] = 0,
    quick: Quick = False,
    out: OutFile = None,
    as_json: AsJson = False,
) -> None:
    """How often the tools that read charts and geometry by rules are right, on drawn pictures with known values."""
    from benchmarks.tool_accuracy import FULL_ACCURACY, QUICK_ACCURACY, measure_accuracy

    scale = replace(QUICK_ACCURACY if quick else FULL_ACCURACY, seed=seed)
    _measured("tool-accuracy", partial(measure_accuracy, scale, problems), out, as_json=as_json)


@app.command()
def grading(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Stored answers with official verdicts.")],
    shown: Annotated[int, typer.Option("--examples", min=0, help="Examples of each kind.")] = 5,
    out: OutFile = None,
    as_json: AsJson = False,
    unread: Annotated[
        Path | None, typer.Option("--unread", metavar="FILE", help="Write every unread answer there, one a line.")
    ] = None,
) -> None:
    """Our verdicts on answers of real models beside the benchmark's own: agreement, who accepts alone, what is unread.

    Reads the files that MMMU-Pro and MathVista publish (.jsonl, .json); docs/grading.md says which fields.
    """
    from benchmarks.grading import as_json as values
    from benchmarks.grading import examples, figures, grading_table, judge_folder, unread_lines

    _check_place(out)
    with waiting("Grading"):
        files = judge_folder(folder)
    everything = [one for _, judged, _ in files for one in judged]
    rows = [figures(*file) for file in files]
    if len(files) > 1:
        rows.append(figures("all", everything, sum(ungraded for *_, ungraded in files)))
    console = _console(150)
    if not as_json:
        console.print(grading_table(rows))
        console.print(*examples(everything, shown), sep="\n", highlight=False, markup=False, soft_wrap=True)
    _keep(values(rows), out, as_json=as_json)
    if unread is not None:
        unread.write_text(unread_lines(everything), encoding="utf-8")


@app.command()
def lazy(
    folder: Annotated[
        Path | None, typer.Argument(metavar="[FOLDER]", help="Also data sets: tabmwp, geometry3k, blindtest, answers.")
    ] = None,
    out: OutFile = None,
    as_json: AsJson = False,
) -> None:
    """What each grader pays policies that look at nothing: constants, the question's own words, all options at once."""
    from dataclasses import asdict

    from benchmarks.lazy import by_hand, earned, lazy_table, of_data

    _check_place(out)
    with waiting("Grading"):
        items = [(item.grader, item) for item in by_hand()]
        parts = [earned(items), earned(list(of_data(folder))) if folder is not None else []]
    console = _console(150)
    for rows in filter(None, parts if not as_json else ()):
        console.print(lazy_table(rows))
    _keep({"earned": [asdict(row) for rows in parts for row in rows]}, out, as_json=as_json)


def _need(extra: str, *packages: str) -> None:
    for package in packages:
        if importlib.util.find_spec(package) is None:
            raise UnavailableError(f"the package `{package}` is not installed. Run: {install(extra)}")


def _measured(
    name: str, measure: Callable[[Callable[[str], None]], Sequence[Figure]], out: Path | None, *, as_json: bool
) -> None:
    """Measure, show the figures, and write them to a file."""
    from dataclasses import asdict

    from benchmarks.figures import figure_table, this_machine

    _check_place(out)
    machine = this_machine()
    console = _console(150)
    with plain_console(stderr=True).status("starting") as status:
        figures = measure(lambda what: status.update(Text(f"measuring {what}")))
    if not as_json:
        console.print(
            f"{machine.processor}, {machine.cores} cores, Python {machine.python}, load {machine.load:.2f}"
            + ("; WARNING: the machine was busy, trust ratios only" if machine.busy else ""),
            highlight=False,
            markup=False,
        )
        console.print(figure_table(figures, f"python -m benchmarks {name}"))
    _keep({"machine": machine.as_dict(), "figures": [asdict(figure) for figure in figures]}, out, as_json=as_json)


def _console(width: int) -> Console:
    """Return a console, `width` wide where the output is no terminal: nobody can make that wider afterwards."""
    return plain_console(width=None if sys.stdout.isatty() else width)


def _check_place(out: Path | None) -> None:
    """Check `out` before anything is measured. Raises `SettingsError` if the file has no folder."""
    if out is not None and not out.parent.is_dir():
        raise SettingsError(f"{out} cannot be written: there is no folder {out.parent}.")


def _keep(values: object, out: Path | None, *, as_json: bool) -> None:
    if out is not None:
        out.write_text(json.dumps(values, indent=1) + "\n", encoding="utf-8")
    if as_json:
        print_json(values)


if __name__ == "__main__":
    sys.exit(run(app, sys.argv[1:], "python -m benchmarks"))
