"""`saccade export`: a run as a table or as spans, or a training run's checkpoint as a model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from saccade.cli.json_output import AsJson, print_json
from saccade.cli.progress import counted, waiting
from saccade.errors import SettingsError

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
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
    from saccade.evals.export import export as exported
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
    from saccade.evals.exports import EXPORTS
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
    from saccade.cli.train_options import need_training
    from saccade.dialects.registry import load_dialect
    from saccade.record.settings import load_saved
    from saccade.rl.train.settings import RlSettings
    from saccade.sft.train.settings import SftSettings

    need_training()
    from saccade.training.export_checkpoint import export_checkpoint
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
