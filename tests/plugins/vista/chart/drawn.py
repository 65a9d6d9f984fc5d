"""Charts drawn for tests, with the lines of text that OCR would find in them."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from PIL import Image, ImageDraw, ImageFont

from saccade.plugins.vista.ocr import TextLine
from saccade.tools.context import ToolContext
from saccade.tools.definition import Needs

RED, BLUE, GREEN = (214, 40, 40), (36, 84, 205), (30, 150, 60)


def text(words: str, *box: int) -> TextLine:
    """A line that OCR found in a box."""
    x0, y0, x1, y1 = box
    return TextLine(text=words, confidence=1.0, box=(x0, y0, x1, y1), corners=((x0, y0), (x1, y0), (x1, y1), (x0, y1)))


class Board:
    """A white sheet that remembers what was written on it."""

    def __init__(self, size: tuple[int, int]) -> None:
        self.picture = Image.new("RGB", size, "white")
        self.pen = ImageDraw.Draw(self.picture)
        self.lines: list[TextLine] = []

    def write(self, text: str, at: tuple[int, int]) -> None:
        """The text with its middle at a place."""
        font = ImageFont.load_default(14)
        self.pen.text(at, text, fill="black", font=font, anchor="mm")
        left, top, right, bottom = map(round, self.pen.textbbox(at, text, font=font, anchor="mm"))
        corners = ((left, top), (right, top), (right, bottom), (left, bottom))
        places = tuple((float(x), float(y)) for x, y in corners)
        self.lines.append(TextLine(text=text, confidence=1.0, box=(left, top, right, bottom), corners=places))


def standing(values: dict[str, Sequence[int]], colours: Sequence[tuple[int, int, int]] = (RED, BLUE)) -> Board:
    """Bars of the values, 2 pixels for each unit up to 100, the base line at row 260; a legend if there are series."""
    board = Board((460, 320))
    for tick in range(0, 101, 20):
        board.write(str(tick), (30, 260 - 2 * tick))
    board.pen.line((50, 50, 50, 260), fill="black")
    board.pen.line((50, 260, 340, 260), fill="black")
    board.write("Harvest", (200, 20))
    for index, (label, bars) in enumerate(values.items()):
        board.write(label, (95 + 80 * index, 275))
        for order, value in enumerate(bars):
            left = 75 + 80 * index + 20 * order
            board.pen.rectangle((left, 260 - 2 * value, left + 19, 259), fill=colours[order])
    if len(next(iter(values.values()))) > 1:
        for order, name in enumerate(("North", "South")):
            board.pen.rectangle((370, 80 + 30 * order, 382, 92 + 30 * order), fill=colours[order])
            board.write(name, (410, 86 + 30 * order))
    return board


def pie() -> Board:
    """A half, three tenths and a fifth, with a legend."""
    board, turn = Board((420, 260)), 0
    for order, (name, share, colour) in enumerate((("Cat", 50, RED), ("Dog", 30, BLUE), ("Owl", 20, GREEN))):
        board.pen.pieslice((20, 30, 219, 229), turn * 3.6, (turn + share) * 3.6, fill=colour)
        board.pen.rectangle((280, 80 + 30 * order, 292, 92 + 30 * order), fill=colour)
        board.write(name, (316, 86 + 30 * order))
        turn += share
    return board


def reading(tool: Any, board: Board, least: float = 0.2) -> Any:
    """The tool where an engine, which is not ours, finds what was written on the board."""

    def run(arguments: Any, context: ToolContext) -> Any:
        assert arguments.min_confidence == least
        assert context.image(None).size == board.picture.size
        return SimpleNamespace(value=SimpleNamespace(lines=tuple(board.lines)))

    tool.needs, tool._ocr = Needs(), SimpleNamespace(run=run)
    return tool
