"""Linearised tables, as chart readers write them, taken apart into rows.

DePlot: rows end with `<0x0A>`, cells with `|`, and a first row `TITLE | ...`. UniChart: rows end with `&`.
"""

from __future__ import annotations

from saccade.tools.arguments import ToolModel


class ChartTable(ToolModel):
    """A table as it was written; whether its rows are equally long is not checked."""

    title: str
    """Empty if none was written."""
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def read_table(text: str, row_end: str) -> ChartTable:
    """The table of a linearised text; rows without a cell are left out."""
    lines = [[cell.strip() for cell in line.split("|")] for line in text.split(row_end)]
    kept = [tuple(line) for line in lines if any(line)]
    title = ""
    if kept and kept[0][0].upper() == "TITLE":
        title = " | ".join(kept.pop(0)[1:])
    return ChartTable(title=title, header=kept[0] if kept else (), rows=tuple(kept[1:]))


def as_markdown(table: ChartTable) -> str:
    """The table for a model to read; a sentence if there is none."""
    if not table.header:
        return "No table was written."
    lines = [table.header, ("---",) * len(table.header), *table.rows]
    body = "\n".join("| " + " | ".join(line) + " |" for line in lines)
    return f"{table.title}\n{body}" if table.title else body
