"""`saccade regrade`: the scores of a stored run, computed anew."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from saccade.cli.json_output import AsJson, print_json

app = typer.Typer(add_completion=False, rich_markup_mode=None)

_SHOWN = 20
"""Changed samples that are listed."""


@app.command()
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
            help="Of the judge: seconds, attempts, concurrent, outages, max_tokens, dollars, retry.tries, "
            "retry.seconds, ...  [default: as before]",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Grade a stored run again, without the model, and list the samples that changed; the earlier verdicts are kept."""
    from saccade.cli.eval_screen import screen
    from saccade.errors import SettingsError
    from saccade.evals.regrade import Regrading
    from saccade.evals.regrade import regrade as regraded
    from saccade.evals.tables import summary_text

    if headline not in ("", "rule", "judge"):
        raise SettingsError(f"--headline {headline} is nobody's verdict; name rule or judge.")
    with screen() as show:
        try:
            wanted = Regrading(grader, judge, headline, tuple(option or ()))  # type: ignore[arg-type]
            outcome = regraded(run, wanted, watch=show)
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
