r"""Grade boxes and points in pictures, in the forms in which families of models write them.

    {"bbox_2d": [x0, y0, x1, y1], ...}   Qwen2.5-VL, Qwen3-VL and others, one or a list, also fenced; `box_2d`, `bbox`
    <|box_start|>(x0,y0),(x1,y1)<|box_end|>, <box>[[x0, y0, x1, y1]]</box>, <|det|>...   Qwen-VL, InternVL, DeepSeek-VL2
    <loc0123> x 4   PaliGemma: y0, x0, y1, x1 of 1024; <loc_123> x 4   Florence-2: x0, y0, x1, y1 of 1000
    x1=..., y1=..., x2=..., y2=..., left/top/right/bottom, x/y/width/height; or four bare numbers
    {"point_2d": [x, y]}, <point x="..." y="...">, <points x1="..." y1="..." ...>, (x, y)   points

Coordinates are pixels of the task's first picture, x first, unless the grader's `scale` and `order` say otherwise
(Gemini: `scale=1000,order=yxyx`; Qwen3-VL and InternVL: `scale=1000`; Molmo's points: `scale=100`). Nothing is guessed
from values.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, Field

from saccade.errors import GradingError
from saccade.grading.base import Verdict, judged, unread, unreadable, wrong
from saccade.grading.clean import LONGEST_ANSWER, clean, marked
from saccade.grading.extract import without_question
from saccade.grading.languages import DOUBT
from saccade.grading.wrappers import insides, without_thoughts
from saccade.record.content import Box, ImagePart, iou
from saccade.record.task import Task

Point = tuple[float, float]
Order = Literal["xyxy", "yxyx", "xywh"]


def _whole(scale: float) -> float:
    if 0 < scale < 1:
        raise ValueError("coordinates run to 1, 100, 1000 or the like, or are pixels (0)")
    return scale


Scale = Annotated[float, Field(ge=0, le=100_000), AfterValidator(_whole)]
MOST: Final = 64
"""Boxes or points in one answer; more are no answer."""

_NUMBER: Final = r"-?[0-9]{1,7}(?:\.[0-9]{1,17})?"
_NUMBERS = re.compile(_NUMBER)
_GAP: Final = r"\s{0,9}\)?\s{0,9}[,\s]\s{0,9}\(?\s{0,9}"
_PLAIN: Final = {
    count: re.compile(
        rf"(?<![0-9.\w])(?P<all>{_NUMBER}{(_GAP + _NUMBER) * (count - 1)})"
        r"(?![0-9\w]|\.[0-9]|\s{0,3},\s{0,3}-?[0-9])"
    )
    for count in (2, 4)
}
_INSIDE: Final = r"(?P<inside>[-0-9.,;\s()\[\]]{1,4000})"
_BOX_FORMS: Final = (
    re.compile(
        r"[\"'](?:b?box(?:es)?(?:_?2d)?|bounding[_ ]?box(?:es)?|coordinates|coords|region)[\"']\s{0,9}:"
        rf"\s{{0,9}}(?=\[){_INSIDE}",
        re.IGNORECASE,
    ),
    re.compile(rf"<\|box_start\|>{_INSIDE}<\|box_end\|>"),
    re.compile(rf"<(?:box|bbox)>{_INSIDE}</(?:box|bbox)>", re.IGNORECASE),
    re.compile(rf"<\|det\|>{_INSIDE}<\|/det\|>"),
)
_POINT_FORMS: Final = (
    re.compile(rf"[\"']points?(?:_?2d)?[\"']\s{{0,9}}:\s{{0,9}}(?=\[){_INSIDE}", re.IGNORECASE),
    re.compile(rf"<\|point_start\|>{_INSIDE}<\|point_end\|>"),
    re.compile(rf"<\|box_start\|>{_INSIDE}<\|box_end\|>"),
    re.compile(rf"<point>{_INSIDE}</point>", re.IGNORECASE),
)
_TOKENS: Final = (
    (re.compile(r"(?:<loc[0-9]{4}>\s?){4}"), "yxyx", 1024.0),
    (re.compile(r"(?:<loc_[0-9]{1,3}>\s?){4}"), "xyxy", 1000.0),
)


def _named(*names: str) -> re.Pattern[str]:
    """Return numbers under these names, in any order of separators: `x1=1, y1: 2`, `"x1": "1"`."""
    return re.compile(
        r"[\s,;\"']{1,9}".join(rf"\b(?:{name})[\"']?\s{{0,5}}[:=]\s{{0,5}}[\"']?({_NUMBER})" for name in names),
        re.IGNORECASE,
    )


_NAMED_BOXES: Final[tuple[tuple[re.Pattern[str], Order], ...]] = (
    (
        _named("x_?min|x_?1|x_?0|left", "y_?min|y_?1|y_?0|top", "x_?max|x_?2|x_?1|right", "y_?max|y_?2|y_?1|bottom"),
        "xyxy",
    ),
    (_named("y_?min|top", "x_?min|left", "y_?max|bottom", "x_?max|right"), "yxyx"),
    (
        re.compile(
            rf"top[-_ ]?left\W{{0,20}}({_NUMBER})\s?,\s?({_NUMBER})\W{{1,20}}(?:and\W{{1,5}}(?:the\s)?)?"
            rf"(?:bottom|lower)[-_ ]?right\W{{0,20}}({_NUMBER})\s?,\s?({_NUMBER})",
            re.IGNORECASE,
        ),
        "xyxy",
    ),
    (
        re.compile(
            "".join(
                rf"\b{edge}\b[^\d]{{1,30}}?({_NUMBER})[^\d]{{0,30}}?" for edge in ("left", "top", "right", "bottom")
            ),
            re.I,
        ),
        "xyxy",
    ),
    (_named("x|left", "y|top", "w|width", "h|height"), "xywh"),
)
_SPANS: Final = (
    re.compile(
        rf"\bx\b[^\d]{{1,20}}?({_NUMBER})\s?(?:to|-|and)\s?({_NUMBER})[^\d]{{1,30}}?\by\b[^\d]{{1,20}}?({_NUMBER})\s?(?:to|-|and)\s?({_NUMBER})",
        re.I,
    ),
    re.compile(
        "".join(rf"\b{edge}\b[^\d]{{1,30}}?({_NUMBER})[^\d]{{0,30}}?" for edge in ("left", "right", "top", "bottom")),
        re.I,
    ),
)
"""Both ends of x, then both ends of y."""
_SIZE_OF_PICTURE = re.compile(r"\b[0-9]{2,5}\s?[x×]\s?[0-9]{2,5}\b")
_NAMED_POINT = _named("x", "y")
_CORNERS = re.compile(
    rf"[^\d()]{{1,80}}\(({_NUMBER})\s?,\s?({_NUMBER})\)[^\d()]{{1,80}}\(({_NUMBER})\s?,\s?({_NUMBER})\)[^\d()]{{0,40}}"
)
"""Two points and no other number: `左上角 (12, 203), 右下角 (149, 468)`."""
_TAGGED_POINT = re.compile(r"<points?\s(?P<inside>[^<>]{1,4000})>", re.IGNORECASE)
_PAIR = _named("x[0-9]{0,3}", "y[0-9]{0,3}")


@dataclass(frozen=True, slots=True)
class _Frame:
    """Turns coordinates into pixels, x first."""

    order: Order
    scale: float
    size: tuple[int, int] | None

    def box(self, numbers: Sequence[float], order: str = "", scale: float = -1.0) -> Box | None:
        """Return the box of four numbers; None if it has no area, or is outside of what it is relative to."""
        order, scale = order or self.order, self.scale if scale < 0 else scale
        a, b, c, d = numbers
        x0, y0, x1, y1 = (b, a, d, c) if order == "yxyx" else (a, b, a + c, b + d) if order == "xywh" else (a, b, c, d)
        corners = self.point((x0, y0), scale), self.point((x1, y1), scale)
        if corners[0] is None or corners[1] is None or not (x0 < x1 and y0 < y1):
            return None
        return (*corners[0], *corners[1])

    def point(self, point: Point, scale: float = -1.0) -> Point | None:
        scale = self.scale if scale < 0 else scale
        if not scale:
            return point
        if self.size is None or not all(0 <= value <= scale for value in point):
            return None
        return point[0] * self.size[0] / scale, point[1] * self.size[1] / scale


@dataclass(frozen=True, slots=True)
class BoxGrader:
    """Full credit for boxes with an IoU of at least `threshold`, as many as the gold answer has, each for one of them.

    The gold boxes, in pixels and x first, are the task's answer, or else its first evidence.
    """

    threshold: Annotated[float, Field(gt=0, le=1)] = 0.5
    scale: Scale = 0
    """What coordinates of answers run to: 1, 100 or 1000 for the whole width and height; 0: they are pixels."""
    order: Order = "xyxy"
    """Of the numbers of a box in answers, where its form does not name them."""

    def grade(self, answer: str | None, task: Task) -> Verdict:
        """Return the verdict; see `Grader.grade`."""
        gold = gold_boxes(task)
        frame = _frame(task, self.order, self.scale)

        def compare(prediction: str) -> Verdict:
            boxes = boxes_in(prediction, frame)
            if not boxes:
                return unread("states no box x0, y0, x1, y1" + self._within(), prediction)
            overlaps = _matched(boxes, gold, iou)
            if len(boxes) != len(gold):
                return self._many(overlaps, len(boxes), len(gold), prediction)
            return self._credit(overlaps, prediction)

        return _judged_where(answer, task, compare, lambda text: boxes_in(text, frame) or None, _has_box_form)

    def _within(self) -> str:
        return f" from 0 to {self.scale:g}" if self.scale else ""

    def _many(self, overlaps: Sequence[float], count: int, wanted: int, prediction: str) -> Verdict:
        return wrong(f"{count} boxes where the gold answer has {wanted}", prediction)

    def _credit(self, overlaps: Sequence[float], prediction: str) -> Verdict:
        return Verdict(float(min(overlaps) >= self.threshold), f"IoU {min(overlaps):.3f}", prediction)


@dataclass(frozen=True, slots=True)
class IouGrader(BoxGrader):
    """Partial credit: the IoU itself; of several boxes the sum over matched ones, by the larger number of boxes."""

    def _many(self, overlaps: Sequence[float], count: int, wanted: int, prediction: str) -> Verdict:
        if wanted == 1:
            return wrong(f"{count} boxes where the gold answer has one", prediction)
        return self._share(overlaps, max(count, wanted), prediction)

    def _credit(self, overlaps: Sequence[float], prediction: str) -> Verdict:
        return self._share(overlaps, len(overlaps), prediction)

    def _share(self, overlaps: Sequence[float], of: int, prediction: str) -> Verdict:
        share = sum(overlaps) / of
        return Verdict(share, f"IoU {share:.3f}", prediction)


@dataclass(frozen=True, slots=True)
class PointGrader:
    """Full credit for a point inside the gold box; of several boxes, one point in each and no further one."""

    scale: Scale = 0
    """As `BoxGrader.scale`."""
    order: Literal["xy", "yx"] = "xy"
    """Of the two numbers, where their form does not name them."""

    def grade(self, answer: str | None, task: Task) -> Verdict:
        """Return the verdict; see `Grader.grade`."""
        gold = gold_boxes(task)
        frame = _frame(task, "yxyx" if self.order == "yx" else "xyxy", self.scale)

        def compare(prediction: str) -> Verdict:
            points = points_in(prediction, frame)
            if not points:
                return unread("states no point x, y", prediction)
            if len(points) != len(gold):
                return wrong(f"{len(points)} points where the gold answer has {len(gold)} boxes", prediction)
            hits = sum(_matched(points, gold, _holds))
            return Verdict(float(hits == len(gold)), f"{hits:g} of {len(gold)} points inside", prediction)

        return _judged_where(answer, task, compare, lambda text: points_in(text, frame) or None, _has_point_form)


def read_box(text: str) -> Box | None:
    """Read the single box in `text`, in pixels; None if there is none, more than one, or one without area."""
    boxes = boxes_in(text, _Frame("xyxy", 0.0, None))
    return boxes[0] if len(boxes) == 1 else None


def gold_boxes(task: Task) -> tuple[Box, ...]:
    """Return the gold boxes of a task. Raises `GradingError` if it has none."""
    if task.answer is None and task.evidence:
        return (task.evidence[0].xyxy,)
    boxes = boxes_in(task.answer or "", _Frame("xyxy", 0.0, None))
    if not boxes:
        raise unreadable(task, "box x0, y0, x1, y1")
    return boxes


def boxes_in(text: str, frame: _Frame) -> tuple[Box, ...]:
    """Return the boxes that a text states, each once; none if one of them cannot be read, or there is doubt."""
    plain = clean(text)
    found: list[Box | None] = []
    for tokens, order, scale in _TOKENS:
        found += [frame.box(_floats(match[0]), order, scale) for match in tokens.finditer(plain)]
    for form in _BOX_FORMS:
        for match in form.finditer(plain):
            found += _in_fours(match["inside"], frame)
    if not found:
        for named, order in _NAMED_BOXES:
            found += [frame.box([*map(float, match.groups())], order) for match in named.finditer(plain)]
            if found:
                break
    if not found and DOUBT.search(plain) is None:
        spans = [span for form in _SPANS for span in form.finditer(plain)]
        found = [frame.box([float(span[place]) for place in (1, 3, 2, 4)]) for span in spans]
    if not found:
        corners = _CORNERS.fullmatch(plain) if DOUBT.search(plain) is None else None
        found = [frame.box([*map(float, corners.groups())])] if corners else []
    if not found:
        found = [frame.box(_floats(one)) for one in _plain(plain, 4)]
    return _each_once(found)


def points_in(text: str, frame: _Frame) -> tuple[Point, ...]:
    """Return the points that a text states, each once; none if one of them cannot be read, or there is doubt."""
    plain = clean(text)
    found: list[Point | None] = []
    for tag in _TAGGED_POINT.finditer(plain):
        found += [frame.point((float(pair[1]), float(pair[2]))) for pair in _PAIR.finditer(tag["inside"])]
    flipped = frame.order == "yxyx"
    for form in _POINT_FORMS:
        for match in form.finditer(plain):
            numbers = _floats(match["inside"])
            pairs = zip(numbers[::2], numbers[1::2], strict=False)
            found += (
                [frame.point(pair[::-1] if flipped else pair) for pair in pairs] if len(numbers) % 2 == 0 else [None]
            )
    if not found:
        found = [frame.point((float(match[1]), float(match[2]))) for match in _NAMED_POINT.finditer(plain)]
    if not found:
        pairs_ = [_floats(one) for one in _plain(plain, 2)]
        found = [frame.point((pair[1], pair[0]) if flipped else (pair[0], pair[1])) for pair in pairs_]
    return _each_once(found)


def _judged_where(
    answer: str | None,
    task: Task,
    compare: Callable[[str], Verdict],
    says: Callable[[str], object],
    formed: Callable[[str], bool],
) -> Verdict:
    """Judge the marked answer; without a mark, all forms of boxes or points in the text together."""
    if answer is not None and len(answer) <= LONGEST_ANSWER:
        text = without_thoughts(clean(without_question(answer, task.question)))
        part = next(iter(insides(text)[-1:]), text)
        again = next(iter([*_CORRECTED.finditer(part)][-1:]), None) or _BUT.search(part)
        if again and says(rest := part[again.end() :]) and _GUESSED.search(part, 0, again.start()):
            return compare(rest)
        if formed(part) and not any(says(one.text) for one in marked(part)) and len(insides(text)) < 2:
            return compare(part)
    return judged(answer, task, compare, says)


_GUESSED = re.compile(
    r"\b(?:guess|thought|rough|draft|initial|estimat|attempt|try\b|tried)|初步|最初|起初|猜|一开始", re.I
)
_CORRECTED = re.compile(
    r"\b(?:correct(?:ed)?|final|refined|revised|adjusted|actual|better|tighter|precise|accurate|right)\s(?:bounding\s)?"
    r"(?:box|bbox|coordinates|position|location|point|answer)\b|(?:正确|准确|最终|修正后)的?(?:边界|包围|检测)?(?:框|坐标|点|位置)",
    re.IGNORECASE,
)
"""A box that takes the place of one that was only guessed."""
_BUT = re.compile(r"\b(?:but|however|actually)\b(?!.{0,200}\b(?:also|too|another|second)\b)|但|不过", re.IGNORECASE)


def _has_box_form(text: str) -> bool:
    return any(
        form.search(text) for form in (*_BOX_FORMS, *(token for token, _, _ in _TOKENS), *(n for n, _ in _NAMED_BOXES))
    )


def _has_point_form(text: str) -> bool:
    return any(form.search(text) for form in (*_POINT_FORMS, _TAGGED_POINT, _NAMED_POINT))


def _in_fours(text: str, frame: _Frame) -> list[Box | None]:
    numbers = _floats(text)
    if not numbers or len(numbers) % 4:
        return [None]
    return [frame.box(numbers[start : start + 4]) for start in range(0, len(numbers), 4)]


def _plain(text: str, count: int) -> list[str]:
    """Return groups of so many bare numbers; none if other numbers stand next to them, or words of doubt."""
    text = _SIZE_OF_PICTURE.sub("", text)
    found = [match["all"] for match in _PLAIN[count].finditer(text)]
    numbers = len(re.findall(r"(?<![\w.])-?[0-9]+(?:\.[0-9]+)?", text))
    alone = numbers == count * len(found)
    if not alone and len(found) == 1:  # "from x = 1 to x = 3 and y = 2 to y = 4, so [1, 2, 3, 4]"
        alone = set(_floats(text.replace(found[0], " "))) <= set(_floats(found[0]))
    if DOUBT.search(re.sub(r'"[^"]{0,200}"', "", text)) or not alone:
        return []
    return found


def _floats(text: str) -> list[float]:
    return [float(number) for number in _NUMBERS.findall(text)]


def _each_once(found: Iterable[tuple[float, ...] | None]) -> tuple:  # type: ignore[type-arg]
    every = list(found)
    return () if None in every or len(every) > MOST else tuple(dict.fromkeys(every))


def _frame(task: Task, order: Order, scale: float) -> _Frame:
    picture = next((item.part for item in task.media if isinstance(item.part, ImagePart)), None)
    if scale and picture is None:
        raise GradingError(
            f"task {task.id} has no picture, so coordinates from 0 to {scale:g} cannot be turned into pixels. "
            "Use the grader without `scale`."
        )
    return _Frame(order, scale, None if picture is None else (picture.width, picture.height))


def _holds(point: Point, box: Box) -> float:
    return float(box[0] <= point[0] <= box[2] and box[1] <= point[1] <= box[3])


def _matched(found: Sequence[tuple[float, ...]], gold: Sequence[Box], worth: Callable[..., float]) -> list[float]:
    """Return the worth of each match, best first and one to one, as COCO matches.

    0 for a gold box that is left over.
    """
    pairs = sorted(
        ((worth(one, box), -i, -j) for i, one in enumerate(found) for j, box in enumerate(gold)), reverse=True
    )
    used: set[int] = set()
    met: dict[int, float] = {}
    for value, i, j in pairs:
        if i not in used and j not in met:
            used.add(i)
            met[j] = value
    return [met.get(-j, 0.0) for j in range(len(gold))]


BOX = BoxGrader()
IOU = IouGrader()
POINT = PointGrader()
