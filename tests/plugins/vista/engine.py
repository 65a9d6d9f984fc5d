"""One engine of OCR for all tests of a process: its models take two seconds of work to load."""

from __future__ import annotations

from functools import cache

from saccade.plugins.vista.chart.tools import ChartOcr
from saccade.plugins.vista.ocr import Ocr


@cache
def shared_ocr() -> Ocr:
    return Ocr()


def chart_ocr() -> ChartOcr:
    tool = ChartOcr()
    tool._ocr = shared_ocr()
    return tool
