"""`saccade protocols`: what stored runs say besides their accuracy."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from saccade.cli.output import AsJson, count_bar, print_json

if TYPE_CHECKING:
    from saccade.evals.protocols.base import AnyProtocol
    from saccade.evals.protocols.emergence import UsedRow
    from saccade.evals.protocols.faithfulness import PictureJudgeRules
    from saccade.evals.protocols.findings import Findings
    from saccade.evals.protocols.study import Study

app = typer.Typer(add_completion=False, rich_markup_mode=None)

EPILOG = (
    "faithfulness (CodeV): did the pictures that calls returned show what the question asks about, judged by gold "
    "boxes and by --judge; errors (VISTA): E1 to E6; tool_use (PyVision): what calls do, and calls against accuracy; "
    "tokens (PyVision-RL): tokens against accuracy; confidence: agreement, turns and budget against accuracy; --before "
    "RUN (CodeDance): operations, compositions and functions that RUN does not have. "
    "Without --judge no key is needed. A judge's replies are kept, so a second run asks nothing twice."
)


@app.command(epilog=EPILOG)
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
    from saccade.core.settings import load_settings
    from saccade.dialects.registry import load_dialect
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
        folder = findings_file(run, "", out).parent
        findings = asyncio.run(_studied(run, Study(tuple(chosen), None, budget), judge, rules, folder / REPLIES))
        _say_unknown(run, findings)
        for protocol in chosen:
            file = findings_file(run, protocol.name, out)
            write_findings(file, findings[protocol.name])
            found = findings[protocol.name]
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

    from saccade.dialects.registry import recorded_dialect
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
    """Return the protocol that says what is new since these runs."""
    from saccade.evals.protocols.emergence import Emergence, emergence
    from saccade.evals.protocols.study import Study, study

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
