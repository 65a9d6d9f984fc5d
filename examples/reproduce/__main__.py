"""Try a claim of a paper on a tiny model, and say whether it holds: `python -m examples.reproduce CLAIM`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from saccade.cli.main import run
from saccade.cli.output import AsJson, print_json, teller
from saccade.cli.train import need_training

if TYPE_CHECKING:
    from saccade.training.rl.metrics import RlCallback
    from saccade.training.sft.examples import SftCallback

app = typer.Typer(add_completion=False, rich_markup_mode=None)

EPILOG = (
    "OUT/CLAIM holds settings.toml, start/ (demonstrations and training of the weakened start), arms/ (runs of "
    "`saccade rl`), exams/ (run folders; `saccade show` reads them), report.md, result.json, figure.png and "
    "figure.svg. The same command resumes a run that was stopped or killed. Exit codes: 0 tested, whatever the "
    "verdict; 2 a setting, a file or the machine is wrong; 130 stopped with Ctrl-C. docs/reproduce.md says what is "
    "tested and how it is decided."
)


@app.command(epilog=EPILOG)
def reproduce(
    claim: Annotated[str, typer.Argument(help="Name of a claim; `list` names them.")],
    model: Annotated[
        str | None, typer.Option(help="Checkpoint that the start is made of: a folder; tiny is the bundled one.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for the results; the claim gets a folder in it.")] = Path(
        "runs/reproduce"
    ),
    minutes: Annotated[float | None, typer.Option(min=0, help="Time for everything; 0: no limit. Default 30.")] = None,
    seeds: Annotated[int | None, typer.Option(min=1, help="How many seeds, from 0.")] = None,
    processes: Annotated[
        int | None, typer.Option(min=1, help="Processes of an arm's training: one for each GPU, or core. Default 1.")
    ] = None,
    settings: Annotated[Path | None, typer.Option(help="TOML file instead of the claim's own.")] = None,
    option: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="steps=60, exam.temperature=0, ...")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Test a claim of a paper: train its arms, compare them, draw a figure, say whether it holds."""
    from examples.reproduce.claims import CLAIMS, load_claim

    if claim == "list":
        if as_json:
            print_json([{"claim": name, "says": it.says, "source": it.source} for name, it in CLAIMS.items()])
        for name, shown in {} if as_json else CLAIMS.items():
            print(f"{name}: {shown.says} ({shown.source})")
        return
    chosen = load_claim(claim)
    from examples.reproduce.settings import RECIPES, Reproduction
    from saccade.core.settings import load_settings

    named_overrides = [f"model={model}"] * (model is not None) + [f"minutes={minutes}"] * (minutes is not None)
    named_overrides += [f"processes={processes}"] * (processes is not None)
    named_overrides += [f"seeds={list(range(seeds or 0))}"] * (seeds is not None)
    file = settings or RECIPES / f"{claim}.toml"
    resolved = load_settings(Reproduction, file, [*(option or ()), *named_overrides])
    need_training()
    from transformers.utils import logging

    from examples.reproduce.outcome import report
    from examples.reproduce.run import reproduce as attempt

    logging.disable_progress_bar()  # ours is there
    try:
        outcome = attempt(chosen, resolved, out / claim, _Screen(teller(as_json)))
    except KeyboardInterrupt:
        teller(as_json)(f"saccade: stopped. The same command continues with what is in {out / claim}.")
        raise
    if as_json:
        print_json(outcome)
        return
    print(report(outcome))
    print(f"\nfigure: {out / claim / 'figure.png'}")


class _Screen:
    """Plain lines, and the bars of the trainers."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say

    def says(self, text: str) -> None:
        self._say(text)

    def sft(self) -> AbstractContextManager[SftCallback]:
        """Show training as `saccade sft` does."""
        from saccade.cli.train import SftScreen

        return SftScreen()

    def rl(self) -> AbstractContextManager[RlCallback]:
        """Show training as `saccade rl` does."""
        from saccade.cli.train import RlScreen

        return RlScreen()


if __name__ == "__main__":
    sys.exit(run(app, sys.argv[1:], "python -m examples.reproduce"))
