"""Shows an episode on the terminal while it happens: the model's text, the output of its code, and the end.

Everything that a model or a program wrote is shown as plain text: control characters become visible marks, so no text
can move the cursor, change colours or set the window's title.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from saccade.cli.output import visible
from saccade.episode.flow import IDLE_NOTICE, Ask, Call, Event, Notice, Ran, Run, Said, Wrote, idle_detail
from saccade.record.content import ParseError
from saccade.record.execution import Execution, Status
from saccade.record.trajectory import STOPS, StopReason, Trajectory, Turn

if TYPE_CHECKING:
    from saccade.evals.grades import EvalProgress, ProgressCallback


class AskScreen:
    """Prints the events of one episode; a callback."""

    def __init__(self, console: Console, dialect: str = "") -> None:
        """`dialect` is the id of the one that is spoken, for what is said of a model that does not follow it."""
        self._console = console
        self._dialect = dialect
        self._turn = 0
        self._idle = 0
        """Turns in a row after which nothing was run."""
        self._streamed = ""
        """Part of the turn's text that has been shown."""
        self._in_fence = False
        """Whether it ended inside a code fence."""

    def __call__(self, event: Event) -> None:
        if isinstance(event, Ask):
            if self._idle == IDLE_NOTICE and self._dialect:
                self._note(idle_detail(self._dialect, self._idle), style="yellow")
            if event.turns:
                self._not_run(event.turns[-1])
            self._idle += 1
            self._turn += 1
            self._streamed, self._in_fence = "", False
            self._console.rule(f"turn {self._turn}", align="left", style="dim")
        elif isinstance(event, Notice):
            self._note(visible(event.text))
        elif isinstance(event, Wrote):
            self._write(event.piece)
        elif isinstance(event, Said):
            self._said(event)
        elif isinstance(event, Run | Call):
            self._idle = 0
            self._note("running the code …" if isinstance(event, Run) else f"calling {visible(event.call.name)} …")
        elif isinstance(event, Ran):
            self._ran(event.execution, event.seconds)

    def ended(self, trajectory: Trajectory) -> None:
        """Print the answer, or why there is none, and what the episode cost."""
        self._console.rule(style="dim")
        if trajectory.answer is not None:
            self._console.print(Text(visible(trajectory.answer), style="bold green"))
        else:
            stop = trajectory.stop or StopReason.CANCELLED
            self._console.print(Text(STOPS[stop].words, style="bold red"))
            for text in (trajectory.stop_detail, limit_words(trajectory)):
                if text:
                    self._console.print(Text(visible(text), style="red"))
        self._note(costs(trajectory))

    def _write(self, piece: str) -> None:
        if not piece and self._streamed:  # a broken answer begins again
            self._console.print()
            self._note("the connection broke; the model begins this turn again")
            self._streamed, self._in_fence = "", False
            return
        for line in piece.splitlines(keepends=True):
            style = "cyan" if self._in_fence else ""
            self._console.print(Text(visible(line), style=style), end="", soft_wrap=True)
            self._streamed += line
            if line.endswith("\n") and self._streamed.rstrip("\n").rpartition("\n")[2].lstrip().startswith("```"):
                self._in_fence = not self._in_fence

    def _said(self, said: Said) -> None:
        if not self._streamed:
            self._console.print(Text(visible(said.completion.text)), end="", soft_wrap=True)
        self._console.print()
        for call in said.completion.tool_calls:
            self._console.print(Text(visible(f"{call.name}({dict(call.arguments)})"), style="cyan"))
        for hosted in said.completion.hosted:
            self._note(f"{visible(hosted.tool)} ran in the provider's sandbox:")
            self._console.print(Text(visible(hosted.code.rstrip("\n")), style="cyan"))
            self._ran(hosted.execution)

    def _ran(self, execution: Execution, seconds: float | None = None) -> None:
        for text, style in (
            (execution.stdout, ""),
            (execution.stderr, "yellow"),
            (execution.value, ""),
            (execution.traceback, "red"),
            *((note, "yellow") for note in execution.notes),
        ):
            if text:
                self._console.print(Text(visible(text.rstrip("\n")), style=style))
        for picture in execution.pictures:
            path = f", {visible(picture.path)}" if picture.path else ""
            self._console.print(
                Text(f"picture ({picture.source}{path}): {picture.image.width}×{picture.image.height}", style="cyan")
            )
        ok = execution.status is Status.OK
        time = "" if seconds is None else f", {seconds:.2f} s"
        self._console.print(Text(f"{execution.status.value}{time}", style="green" if ok else "red"))

    def _not_run(self, turn: Turn) -> None:
        """Say why nothing ran of what the model asked for, or not all."""
        if isinstance(turn.action, ParseError):
            self._note(f"nothing was run: {visible(turn.action.reason)}", style="yellow")
        elif len(turn.calls) > 1:
            self._note(f"of {len(turn.calls)} calls only the first was made", style="yellow")

    def _note(self, text: str, style: str = "dim") -> None:
        self._console.print(Text(text, style=style))


def limit_words(trajectory: Trajectory) -> str:
    """Name the setting that ended the episode and how to allow more; empty if none did."""
    name = "" if trajectory.stop is None else STOPS[trajectory.stop].limit
    value = getattr(trajectory.provenance.limits, name) if name else None
    return "" if value is None else f"limits.{name} is {value:g}; allow more with --set limits.{name}=N."


def costs(trajectory: Trajectory) -> str:
    """Write turns, calls, tokens, money and time in one line; what is not known is left out."""
    turns = trajectory.turns
    calls = sum(len(turn.executions) for turn in turns)
    parts = [_count(len(turns), "turn"), _count(calls, "call")]
    read = [turn.tokens.context for turn in turns if turn.tokens.context is not None]
    sampled = [turn.tokens.sampled for turn in turns if turn.tokens.sampled is not None]
    if read or sampled:
        parts.append(f"{sum(read):,} tokens read, {sum(sampled):,} written")
    prices = [turn.dollars for turn in turns if turn.dollars is not None]
    if prices:
        parts.append(f"${sum(prices):.4f}" + ("" if len(prices) == len(turns) else " (not all turns have a price)"))
    return ", ".join([*parts, f"{trajectory.seconds:.1f} s"])


def _count(number: int, what: str) -> str:
    return f"{number} {what}" + ("" if number == 1 else "s")


# Shows `saccade eval` and `saccade regrade` while they work: a bar of samples, then one of verdicts, and notices.


@contextmanager
def screen(notices: Sequence[str] = ()) -> Iterator[ProgressCallback]:
    """Draw a bar on the terminal that disappears at the end; `notices` are printed when the work begins."""
    from rich.progress import BarColumn, MofNCompleteColumn, TimeRemainingColumn
    from rich.progress import Progress as Bars

    from saccade.cli.output import plain_column, plain_console, visible

    columns = (BarColumn(), MofNCompleteColumn(), plain_column("{task.description}"), TimeRemainingColumn())
    console = plain_console(stderr=True)
    hidden = not console.is_terminal  # where it would leave an empty line
    with Bars(*columns, console=console, transient=True, speed_estimate_period=120, disable=hidden) as bars:
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
