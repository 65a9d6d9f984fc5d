"""Token economy (PyVision-RL, figure 4): visual and text tokens per sample against accuracy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from saccade.evals.protocols.tokens.records import TokenEconomy, TokenPoint
from saccade.report.plots.curves import Axes, Series, curves
from saccade.report.plots.figure import hue
from saccade.report.sections.view import Panel, SectionRow, SectionTable, figures, mean

_AXES = Axes("visual tokens per sample, mean", "right", percent=True, amounts_x=True)


def tokens(findings: Mapping[str, TokenEconomy]) -> Panel | None:
    """The panel; None without findings."""
    if not findings:
        return None
    lines = [
        _line(name, point, place)
        for place, (run, one) in enumerate(findings.items())
        for name, point in {_name(run, one): one.total, **_sources(run, one)}.items()
    ]
    spans = [
        _line(f"{run}: {point.label}", point, place)
        for place, (run, one) in enumerate(findings.items())
        for point in one.spans
    ]
    heads = ("run", "samples", "right, %", "pictures", "visual tokens", "text tokens", "written", "read in all turns")
    notes = [
        f"{run}: visual tokens of {one.estimated:,} samples are computed from the pictures' sizes by the budget of "
        f"{one.about.budget}."
        for run, one in findings.items()
        if one.estimated
    ]
    if any(_partial(point) for one in findings.values() for point in (one.total, *one.sources.values(), *one.spans)):
        notes.append("A mean over a part of the samples says of how many; of the others the backend gave no number.")
    by_run = [_series(_name(run, one), [one.total], place) for place, (run, one) in enumerate(findings.items())]
    parts = [_series(run, one.spans, place) for place, (run, one) in enumerate(findings.items()) if len(one.spans) > 1]
    return Panel(
        "Token economy",
        tuple(notes),
        (
            SectionTable("Tokens per sample: means with 95% intervals", heads, tuple(lines)),
            SectionTable("In quarters by visual tokens", heads, tuple(spans), folded=True),
        ),
        figures(
            curves("Accuracy and visual tokens", "Each run as a point, with the 95% interval.", by_run, _AXES),
            curves("Accuracy within a run", "Samples in quarters by their visual tokens.", parts, _AXES),
        ),
    )


def _name(run: str, findings: TokenEconomy) -> str:
    return f"{run} ({findings.about.frames})" if findings.about.frames else run


def _sources(run: str, findings: TokenEconomy) -> dict[str, TokenPoint]:
    many = len(findings.sources) > 1
    return {f"{run}, {source}": point for source, point in findings.sources.items() if many}


def _line(name: str, point: TokenPoint, place: int) -> SectionRow:
    numbers = (point.pictures, point.visual, point.text, point.written, point.processed)
    cells = (
        name,
        f"{point.samples:,}",
        mean(point.accuracy, share=True, of=point.samples),
        *(mean(number, of=point.samples) for number in numbers),
    )
    return SectionRow(cells, hue(place))


def _partial(point: TokenPoint) -> bool:
    """Whether a number of it is a mean over a part of its samples."""
    numbers = (point.accuracy, point.pictures, point.visual, point.text, point.written, point.processed)
    return any(number is not None and number.samples < point.samples for number in numbers)


def _series(name: str, points: Iterable[TokenPoint], place: int) -> Series:
    known = [
        ((point.visual.value, point.accuracy.value), (point.accuracy.low, point.accuracy.high))
        for point in points
        if point.visual is not None and point.accuracy is not None
    ]
    places, intervals = zip(*known, strict=True) if known else ((), ())
    return Series(name, places, place, marks=True, intervals=intervals)
