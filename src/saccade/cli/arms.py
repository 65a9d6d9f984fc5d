"""`saccade arms`: arms of a recipe trained and measured one after the other, and one table of all."""

from __future__ import annotations

import math
import re
import shlex
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from statistics import fmean
from typing import Annotated, Final

import typer

from saccade.cli.output import AsJson, print_json, teller
from saccade.cli.train import RecipeArgument
from saccade.errors import SettingsError

app = typer.Typer(add_completion=False, rich_markup_mode=None)

START, FULL = "start", "full"
_ARM = re.compile(r"(?:(?P<name>[\w.-]+)=)?(?P<profiles>[\w.+-]+)(?:@(?P<model>\S+))?")
_INTERRUPTED: Final = (130, -2)
_EVERY: Final = 10
"""Steps between checkpoints where --at does not ask for others."""

EPILOG = (
    "An arm is `full` (the recipe as it is), `start` (the model as it is, not trained), or a profile of the recipe, "
    "several with +; @CHECKPOINT begins with another model (zero-rl@FOLDER), NAME= calls it otherwise. Each is trained "
    "by `saccade rl` into OUT/ARM/rl and measured by `saccade eval` into OUT/ARM/eval-1, eval-2, ..., in processes of "
    "their own: one that fails is listed and the others are played. The same command resumes. The table is printed, "
    "and written to OUT/arms.md and OUT/arms.json. Exit codes: 0 all arms are done; 1 some failed, or some samples of "
    "them; 2 a name or a setting is wrong; 130 stopped with Ctrl-C."
)


@dataclass(frozen=True, slots=True)
class Arm:
    """What one arm trains, and from what."""

    name: str
    profiles: str
    """With commas between them; empty: the recipe as it is."""
    model: str
    trained: bool = True


@dataclass
class ArmRow:
    """A line of the table: an arm, or a checkpoint of it."""

    arm: str
    right: dict[str, float] = field(default_factory=dict)
    """Name of a source -> the number by which it is known, from 0 to 1."""
    turns: dict[str, float] = field(default_factory=dict)
    """Name of a source -> turns of a sample."""
    calls: dict[str, float] = field(default_factory=dict)
    missing: int = 0
    """Samples that failed."""


@app.command("arms", epilog=EPILOG)
def arms(
    recipe: RecipeArgument,
    listed: Annotated[str, typer.Option("--arms", metavar="ARM,ARM,...", help="What is compared, in this order.")],
    model: Annotated[
        str, typer.Option(help="Checkpoint that arms begin with: a folder, a name on the hub, or `tiny`.")
    ],
    evals: Annotated[
        list[str],
        typer.Option("--eval", metavar="'SOURCE... OPTIONS'", help="As after `saccade eval`, without model and out."),
    ],
    out: Annotated[Path, typer.Option(help="Folder of all arms.")],
    train: Annotated[str, typer.Option(metavar="'OPTIONS'", help="As after `saccade rl RECIPE`, for all arms.")] = "",
    profile: Annotated[str, typer.Option(help="Profile under that of every arm, such as tiny.")] = "",
    at: Annotated[
        str, typer.Option("--at", metavar="STEP,STEP,...", help="Measure after these steps.  [default: the last]")
    ] = "",
    beside: Annotated[
        str,
        typer.Option(metavar="SOURCE", help='Published scores below the arms, as cards name them: "CodeV, table 3".'),
    ] = "",
    as_json: AsJson = False,
) -> None:
    """Train and measure several arms of a recipe, such as a paper's ablations, and put them in one table."""
    chosen = read_arms(recipe, listed, profile, model, shlex.split(train))
    steps = _steps(at)
    say = teller(as_json)
    rows: list[ArmRow] = []
    failed: list[str] = []
    for arm in chosen:
        rows += [row for row in _played(arm, recipe, shlex.split(train), evals, steps, out, failed) if row.right]
        _write(out, rows, failed, beside)
    say((out / "arms.md").read_text(encoding="utf-8"))
    if as_json:
        print_json({"arms": rows, "failed": failed, "out": out})
    raise typer.Exit(1 if failed or any(row.missing for row in rows) else 0)


def read_arms(recipe: str, listed: str, profile: str, model: str, train: Sequence[str] = ()) -> list[Arm]:
    """Read the arms, all of which must be there, also with the settings of `train`.

    Raises `SettingsError`: one of them is none, or a setting is wrong.
    """
    from saccade.training.rl.settings import load_rl_settings

    found: list[Arm] = []
    overrides = [value for option, value in pairwise(train) if option == "--set"]
    for text in filter(None, (part.strip() for part in listed.split(","))):
        match = _ARM.fullmatch(text)
        if match is None:
            raise SettingsError(
                f"{text!r} is no arm: write full, start, or a profile, with @CHECKPOINT for another model"
            )
        own = match["profiles"]
        names = [profile] * bool(profile) + own.split("+") * (own not in (START, FULL))
        settings = load_rl_settings(recipe, ",".join(names) or None, overrides)
        begins = match["model"] or settings.model.source or model
        found.append(Arm(match["name"] or own, ",".join(names), begins, own != START))
    if not found:
        raise SettingsError("no arm is named: give --arms full,PROFILE,...")
    if twice := {arm.name for arm in found if sum(arm.name == other.name for other in found) > 1}:
        raise SettingsError(f"two arms are called {min(twice)}: give one another name, as in other={min(twice)}@MODEL")
    return found


def _steps(at: str) -> list[int]:
    if not re.fullmatch(r"([1-9]\d*(,[1-9]\d*)*)?", at):
        raise SettingsError(f"--at {at}: write steps with commas between them, as in 300,400,500")
    return [int(step) for step in at.split(",") if step]


def _played(
    arm: Arm, recipe: str, train: list[str], evals: Sequence[str], steps: list[int], out: Path, failed: list[str]
) -> Iterator[ArmRow]:
    """Train and measure one arm; what goes wrong is put into `failed`."""
    folder = out / arm.name
    if not arm.trained:
        named = ":" in arm.model or arm.model == "tiny"
        yield _measured(arm.name, arm.model if named else f"local:{arm.model}", evals, folder, failed)
        return
    words = ["rl", recipe, *(["--profile", arm.profiles] if arm.profiles else []), "--model", arm.model]
    if steps:
        kept = math.gcd(*steps)
        words += ["--set", f"keep.every={math.gcd(kept, _EVERY)}", "--set", f"keep.milestones={kept}"]
    code = _run([*words, *train, "--out", str(folder / "rl"), "--resume"])
    if code:
        failed.append(f"{arm.name}: saccade rl ended with exit code {code}")
        return
    for step in steps:
        target = folder / "models" / f"step-{step:08d}"
        checkpoint = folder / "rl" / "checkpoints" / target.name
        if not target.is_dir() and (code := _run(["export", str(checkpoint), "--out", str(target)])):
            failed.append(f"{arm.name}: saccade export of step {step} ended with exit code {code}")
            continue
        yield _measured(f"{arm.name}, step {step}", f"local:{target}", evals, folder / target.name, failed)
    if not steps:
        yield _measured(arm.name, f"local:{folder / 'rl' / 'model'}", evals, folder, failed)


def _measured(name: str, model: str, evals: Sequence[str], folder: Path, failed: list[str]) -> ArmRow:
    from saccade.evals.metrics import source_score
    from saccade.evals.run import figures_of
    from saccade.evals.stored import run_settings

    row = ArmRow(name)
    for number, words in enumerate(evals, 1):
        target = folder / f"eval-{number}"
        asked = shlex.split(words)
        code = _run(["eval", *asked, *([] if "--model" in asked else ["--model", model]), "--out", str(target)])
        if code > 1 or code < 0:
            failed.append(f"{name}: saccade eval {words} ended with exit code {code}")
            continue
        samples, summary = figures_of(target, run_settings(target))
        row.missing += summary.missing
        of_source = defaultdict(list)
        for sample in samples:
            of_source[sample.source].append(sample)
        for source, part in summary.sources.items():
            score = source_score(part.avg, summary.card_numbers.get(source, {}), summary.k)
            if score.value is not None:
                row.right[source] = score.value
            row.turns[source] = fmean(sample.turns for sample in of_source[source])
            row.calls[source] = fmean(sample.calls for sample in of_source[source])
    return row


def _run(words: Sequence[str]) -> int:
    """Run a command of Saccade in a process of its own. Raises `KeyboardInterrupt` where it was stopped so."""
    print(f"saccade {shlex.join(words)}", file=sys.stderr, flush=True)
    code = subprocess.run([sys.executable, "-m", "saccade", *words], stdout=2, check=False).returncode
    if code in _INTERRUPTED:
        raise KeyboardInterrupt
    return code


def _write(out: Path, rows: Sequence[ArmRow], failed: Sequence[str], beside: str) -> None:
    import json
    from dataclasses import asdict

    from saccade.core.disk import write_atomic

    write_atomic(
        out / "arms.json", json.dumps({"arms": [asdict(row) for row in rows], "failed": failed}, indent=1) + "\n"
    )
    write_atomic(out / "arms.md", "\n".join(table(rows, failed, beside)) + "\n")


def table(rows: Sequence[ArmRow], failed: Sequence[str], beside: str = "") -> list[str]:
    """Return a table in Markdown: percent right and turns of each arm by benchmark, means, and published scores."""
    from saccade.evals.summary import markdown
    from saccade.report.sections.view import card_of, percent, title_of

    sources = list(dict.fromkeys(source for row in rows for source in row.right))
    lines: list[tuple[str, ...]] = []
    for row in rows:
        cells = [f"{percent(row.right.get(source))} / {_number(row.turns.get(source))}" for source in sources]
        right, turns = ([part.get(source) for source in sources] for part in (row.right, row.turns))
        calls = fmean(row.calls.values()) if row.calls else None
        lines.append((row.arm, *cells, f"{percent(_mean(right))} / {_number(_mean(turns))}", _number(calls)))
    published: dict[str, dict[str, float]] = defaultdict(dict)
    for source in sources if beside else ():
        card = card_of(source)
        for score in () if card is None else card.scores:
            if score.source == beside and not score.part:
                published[score.model][source] = score.score / 100
    for model, scores in published.items():
        values = [scores.get(source) for source in sources]
        lines.append((f"{model} ({beside})", *map(percent, values), percent(_mean(values)), "–"))
    told = [
        f"Percent right / turns of a sample. {sum(row.missing for row in rows)} samples failed and are not counted."
    ]
    if beside and not published:
        told.append(f"No card of these benchmarks quotes scores of {beside!r}.")
    head = ("arm", *map(title_of, sources), "mean", "calls")
    return [*markdown(head, lines), "", *told, *(f"Failed: {line}." for line in failed)]


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known and len(known) == len(values) else None


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"
