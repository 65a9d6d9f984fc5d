"""A turn of the record as the page shows it."""

from __future__ import annotations

from collections.abc import Iterator

from saccade.record.action import Answer, Code, ParseError, ToolCall
from saccade.record.content import Message, TextPart
from saccade.record.execution import Execution
from saccade.record.status import Status
from saccade.record.turn import FinishReason, TokenCounts, Turn
from saccade.report.highlight import highlighted
from saccade.report.picture_book import PictureBook
from saccade.report.plain_text import cut_end
from saccade.report.segments import TextSegment, prose, segments
from saccade.report.view import ExecutionView, Fact, HostedView, PictureOut, PieceView, Talk, TurnView
from saccade.report.words import SOURCES, STATUSES, count, duration, money, some

COLOURS = 8
"""Colours that turns take in their order, and then again."""
_WARNINGS = {
    FinishReason.LENGTH: "The text was cut off by the limit of tokens.",
    FinishReason.FILTERED: "The provider withheld text.",
}


def turn_view(number: int, turn: Turn, book: PictureBook, looked: int) -> TurnView:
    """The turn of that `number`, from 1; `looked` regions are drawn for it."""
    execution = turn.execution
    last = turn.hosted[-1].at if turn.hosted else 0
    return TurnView(
        number=number,
        colour=colour(number),
        deed=_deed(turn),
        hosted=tuple(_hosted(turn, book)),
        pieces=tuple(_piece(segment) for segment in segments(turn.model_copy(update={"text": turn.text[last:]}))),
        exact=cut_end(turn.text),
        problem=turn.action.reason if isinstance(turn.action, ParseError) else "",
        warning=_WARNINGS.get(turn.finish_reason, "") if turn.finish_reason is not None else "",
        ran=None if execution is None else _ran(execution, book, tool=isinstance(turn.action, ToolCall)),
        shown=tuple(
            talk(title, message, book)
            for title, message in (("What the model was shown", turn.observation), ("Asked once more", turn.request))
            if message is not None
        ),
        facts=_facts(turn),
        looked=looked,
    )


def _hosted(turn: Turn, book: PictureBook) -> Iterator[HostedView]:
    begin = 0
    for call in turn.hosted:
        title = f"{call.language} · ran in the provider's sandbox ({call.tool})"
        said = tuple(_piece(segment) for segment in prose(turn.text[begin : call.at]))
        yield HostedView(said, title, highlighted(call.code, call.language), _ran(call.execution, book, tool=True))
        begin = call.at


def colour(number: int) -> str:
    """The class that colours turn `number`, from 1."""
    return f"hue{(number - 1) % COLOURS}"


def talk(title: str, message: Message, book: PictureBook) -> Talk:
    """A message with its texts and pictures in their order."""
    pieces = tuple(
        PieceView("text", cut_end(part.text))
        if isinstance(part, TextPart)
        else PieceView("picture", picture=book.add(part))
        for part in message.parts
    )
    return Talk(title, message.role, pieces)


def _piece(segment: TextSegment) -> PieceView:
    language = {"code": "python", "quoted": "python", "call": "json"}.get(segment.kind)
    code = None if language is None else highlighted(segment.text, language)
    return PieceView(segment.kind, cut_end(segment.text), segment.title, code)


def _deed(turn: Turn) -> str:
    if turn.hosted:
        calls = f"{len(turn.hosted)} call{'s' * (len(turn.hosted) != 1)} of the provider's sandbox"
        return f"{'answered' if isinstance(turn.action, Answer) else 'wrote no answer'} after {calls}"
    match turn.action:
        case Code():
            return "ran code" if turn.execution is not None else "wrote code that was not run"
        case ToolCall(name=name):
            return f"called {name}" if turn.execution is not None else f"asked for {name}, which was not called"
        case Answer():
            return "answered"
    return "wrote no action"


def _ran(execution: Execution, book: PictureBook, *, tool: bool) -> ExecutionView:
    wall = execution.timings.wall
    return ExecutionView(
        status=STATUSES[execution.status],
        good=execution.status is Status.OK,
        time=duration(wall) if wall else "",
        state="" if tool else "state kept" if execution.committed else "state rolled back",
        stdout=cut_end(execution.stdout),
        stderr=cut_end(execution.stderr),
        value=cut_end(execution.value or ""),
        traceback=cut_end(execution.traceback or ""),
        pictures=tuple(
            PictureOut(book.add(item.image), " · ".join(filter(None, (SOURCES[item.source], item.path))))
            for item in execution.pictures
        ),
        files=tuple(Fact(file.path, f"{some(file.size, 'byte')}") for file in execution.files),
        repairs=tuple(Fact(repair.name, repair.note) for repair in execution.repairs),
        notes=execution.notes,
    )


def _facts(turn: Turn) -> tuple[Fact, ...]:
    facts = [Fact("model", duration(turn.model_seconds))] if turn.model_seconds else []
    if turn.execution_seconds:
        facts.append(Fact("run", duration(turn.execution_seconds)))
    facts += _token_facts(turn.tokens)
    if turn.dollars is not None:
        facts.append(Fact("cost", money(turn.dollars)))
    return tuple(facts)


def _token_facts(tokens: TokenCounts) -> list[Fact]:
    named = (
        ("tokens read", tokens.context),
        ("of them visual", tokens.context_visual),
        ("of them cached", tokens.context_cached),
        ("tokens written", tokens.sampled),
    )
    return [Fact(name, count(value)) for name, value in named if value is not None]
