"""Shows `saccade eval` and `saccade regrade` while they work: a bar of samples, then one of verdicts, and notices."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from saccade.evals.grades import EvalProgress, ProgressCallback


@contextmanager
def screen(notices: Sequence[str] = ()) -> Iterator[ProgressCallback]:
    """Draw a bar on the terminal that disappears at the end; `notices` are printed when the work begins."""
    from rich.progress import BarColumn, MofNCompleteColumn, TimeRemainingColumn
    from rich.progress import Progress as Bars

    from saccade.cli.output import plain_column, plain_console, visible

    columns = (BarColumn(), MofNCompleteColumn(), plain_column("{task.description}"), TimeRemainingColumn())
    with Bars(*columns, console=plain_console(stderr=True), transient=True, speed_estimate_period=120) as bars:
        row = bars.add_task("", total=None)
        began: set[str] = set()
        said = 0

        def show(counts: EvalProgress) -> None:
            nonlocal said, notices
            for line in notices:
                bars.console.print(f"saccade: {visible(line)}", markup=False, highlight=False, soft_wrap=True)
            notices = ()
            for notice in counts.notices[said:]:
                bars.console.print(visible(notice), style="yellow", markup=False, highlight=False, soft_wrap=True)
            said = len(counts.notices)
            what, total, start, now = "played", counts.total, counts.skipped, counts.done
            if counts.to_judge:
                what, total, start, now = "judged", counts.to_judge, 0, counts.judged
            if what not in began:  # so that what was there before does not make the rest look quick
                bars.reset(row, total=total, completed=start)
                began.add(what)
            bars.update(row, completed=now, description="judged" if counts.to_judge else _description(counts))

        yield show


def _description(counts: EvalProgress) -> str:
    share = "" if counts.accuracy is None else f"{100 * counts.accuracy:.1f}% right"
    return share + (f", {counts.failed} failed" if counts.failed else "")
