"""Questions about lengths and areas: right triangles, rectangles, circles, polygons on squared paper."""

from __future__ import annotations

from math import dist

from saccade.tasks.worlds.geometry_angles import Asked
from saccade.tasks.worlds.geometry_draw import Point, Sheet, fitted, polar, turned
from saccade.tasks.worlds.rng import Rng

_TRIPLES = ((3, 4, 5), (5, 12, 13), (8, 15, 17), (7, 24, 25), (20, 21, 29))
_UNITS = ("cm", "m", "inches", "feet")


def right_triangle(rng: Rng, sheet: Sheet) -> Asked:
    """Two sides of a right triangle are given; the third is asked."""
    legs, sides = _right_triangle(rng, sheet)
    unknown = rng.integer(0, 2)
    for index, (a, b) in enumerate(sides):
        _label_side(sheet, "x" if index == unknown else str(legs[index]), (a, b), sheet.picture.size)
    lines = (
        "edges = sides(corners(lines))\nlong = edges[0][1]\n"
        "given = known(labels)\nprint(given)\n"
        "at = lambda spot: min(edges, key=lambda edge: dist(edge[1], spot))[1]\n"
        "squares = [value**2 for value, _ in given]\n"
        "print(show((sum(squares) if at(unknown(labels)) == long else abs(squares[0] - squares[1])) ** 0.5))"
    )
    question = rng.choice(("How long is the side x of the right triangle?", "Find x in this right triangle."))
    return question, str(legs[unknown]), lines


def triangle_area(rng: Rng, sheet: Sheet) -> Asked:
    """The two legs of a right triangle are given; its area is asked."""
    legs, sides = _right_triangle(rng, sheet)
    for index in (0, 1):
        _label_side(sheet, str(legs[index]), sides[index], sheet.picture.size)
    unit = rng.choice(_UNITS)
    lines = "given = [value for value, _ in known(labels)]\nprint(given)\nprint(show(given[0] * given[1] / 2))"
    answer = legs[0] * legs[1]
    question = f"Lengths are in {unit}. What is the area of the right triangle, in square {unit}?"
    return question, str(answer // 2) if answer % 2 == 0 else f"{answer // 2}.5", lines


def rectangle(rng: Rng, sheet: Sheet) -> Asked:
    """Two sides of a rectangle are given; its area or perimeter is asked."""
    width, height = rng.sample(range(4, 31), 2)
    while not 1 / 3 < width / height < 3:
        width, height = rng.sample(range(4, 31), 2)
    corners = fitted([(0, 0), (width, 0), (width, height), (0, height)], sheet.picture.size, 70)
    sheet.lines(corners, closed=True)
    for corner in range(4):
        sheet.right_angle(corners[corner], corners[corner - 1], corners[(corner + 1) % 4])
    first, second = (0, 1) if rng.chance(50) else (2, 3)
    _label_side(sheet, str(width), (corners[first], corners[first + 1]), sheet.picture.size)
    _label_side(sheet, str(height), (corners[second], corners[(second + 1) % 4]), sheet.picture.size)
    unit = rng.choice(_UNITS)
    start = "given = [value for value, _ in known(labels)]\nprint(given)\n"
    if rng.chance(50):
        question = f"Lengths are in {unit}. What is the area of the rectangle, in square {unit}?"
        return question, str(width * height), start + "print(show(given[0] * given[1]))"
    question = f"Lengths are in {unit}. What is the perimeter of the rectangle, in {unit}?"
    return question, str(2 * (width + height)), start + "print(show(2 * (given[0] + given[1])))"


def circle(rng: Rng, sheet: Sheet) -> Asked:
    """The radius or the diameter of a circle is given; its area or circumference is asked."""
    width, height = sheet.picture.size
    centre, radius = (width / 2, height / 2), min(width, height) // 2 - rng.integer(30, 80)
    length, full, angle = rng.integer(2, 20), rng.chance(50), rng.integer(0, 359)
    end = polar(centre, radius - 1, angle)
    start = polar(centre, 1 - radius, angle) if full else centre
    sheet.circle(centre, radius)
    sheet.lines([start, end])
    x, y = round(centre[0]), round(centre[1])
    sheet.pen.ellipse((x - 4, y - 4, x + 4, y + 4), fill=sheet.line)
    middle = polar(centre, radius * 0.5, angle)
    sheet.label(str(length), middle, polar((0, 0), 1, angle + 90))
    lines = (
        "[(given, _)] = known(labels)\n(x, y), radius = round_outline(lines)\n"
        "inside = cv2.circle(np.zeros_like(lines), (round(x), round(y)), round(radius * 0.9), 1, -1) & lines\n"
        "rows, columns = np.nonzero(inside)\nspots = np.column_stack([columns - x, rows - y])\n"
        # A radius lies on one side of the centre, a diameter on both.
        "far = spots[np.hypot(*spots.T).argmax()]\nopposite = (spots @ far).min() < -0.5 * far @ far\n"
        "radius = given / 2 if opposite else given\nprint(given, opposite)\n"
    )
    start_question = "The dot is the centre of the circle. "
    if rng.chance(50):
        question = "What is its area? Use 3.14 for pi and round to two decimals."
        # Hundredths as whole numbers: 314 r² is exact, or a quarter, which halves round up.
        return (
            start_question + question,
            _two(314 * length * length, 4 if full else 1),
            lines + _ROUND.format("radius**2"),
        )
    question = "What is its circumference? Use 3.14 for pi and round to two decimals."
    return start_question + question, _two(628 * length, 2 if full else 1), lines + _ROUND.format("2 * radius")


_ROUND = 'print(f"{{int(314 * {} + 0.5) / 100:.2f}}")'


def _two(hundredths: int, parts: int) -> str:
    """`hundredths / parts / 100` with two decimals, halves rounded up."""
    rounded = (2 * hundredths + parts) // (2 * parts)
    return f"{rounded // 100}.{rounded % 100:02d}"


def grid_area(rng: Rng, sheet: Sheet) -> Asked:
    """The area of a polygon on squared paper, in squares."""
    pitch = rng.integer(22, 36)
    width, height = sheet.picture.size
    columns, rows = width // pitch - 1, height // pitch - 1
    left, top = (width - columns * pitch) // 2, (height - rows * pitch) // 2
    faint = tuple((3 * paper + line) // 4 for paper, line in zip(sheet.paper, sheet.line, strict=True))
    for column in range(columns + 1):
        x = left + column * pitch
        sheet.pen.line((x, top, x, top + rows * pitch), fill=faint)
    for row in range(rows + 1):
        y = top + row * pitch
        sheet.pen.line((left, y, left + columns * pitch, y), fill=faint)
    nodes = _polygon(rng, columns, rows)
    sheet.lines([(left + x * pitch, top + y * pitch) for x, y in nodes], closed=True)
    xs, ys = [x for x, _ in nodes], [y for _, y in nodes]
    sheet.boxes.append((left + min(xs) * pitch, top + min(ys) * pitch, left + max(xs) * pitch, top + max(ys) * pitch))
    twice = abs(sum(a[0] * b[1] - b[0] * a[1] for a, b in zip(nodes, nodes[1:] + nodes[:1], strict=True)))
    lines = (
        'grey = cv2.cvtColor(np.asarray(image_0.convert("RGB")), cv2.COLOR_RGB2GRAY).astype(int)\n'
        "paper = np.bincount(grey.ravel()).argmax()\n"
        # Half of a column or a row is inked where a line of the squared paper runs.
        "across, down = (np.flatnonzero((grey != paper).mean(axis=axis) > 0.5) for axis in (0, 1))\n"
        "pitch = np.median(np.diff(across))\nprint('pitch', pitch)\n"
        "snap = lambda point: (round((point[0] - across[0]) / pitch), round((point[1] - down[0]) / pitch))\n"
        "points = [snap(point) for point in corners(lines, 5)]\nprint(points)\nprint(show(polygon_area(points)))"
    )
    question = "Each square of the paper has side 1. What is the area of the drawn shape?"
    return question, str(twice // 2) if twice % 2 == 0 else f"{twice // 2}.5", lines


def _polygon(rng: Rng, columns: int, rows: int) -> list[tuple[int, int]]:
    """A rectangle, an L, a triangle or a trapezium with corners on the nodes of the paper."""
    wide, high = rng.integer(4, columns - 2), rng.integer(4, rows - 2)
    x, y = rng.integer(1, columns - wide - 1), rng.integer(1, rows - high - 1)
    notch = rng.integer(1, wide - 2), rng.integer(1, high - 2)
    shape = rng.choice(
        (
            [(0, 0), (wide, 0), (wide, high), (0, high)],
            [(0, 0), (wide, 0), (wide, notch[1]), (notch[0], notch[1]), (notch[0], high), (0, high)],
            [(notch[0], 0), (wide, high), (0, high)],
            [(0, 0), (notch[0], 0), (wide, high), (0, high)],
        )
    )
    return [(x + column, y + row) for column, row in shape]


def _right_triangle(rng: Rng, sheet: Sheet) -> tuple[list[int], list[tuple[Point, Point]]]:
    """Draw a right triangle of whole sides; lengths and ends of its legs and of the side opposite the right angle."""
    triple = rng.choice(_TRIPLES)
    factor = rng.integer(1, 3) if triple[2] > 13 else rng.integer(1, 6)
    legs = [side * factor for side in triple]
    if rng.chance(50):
        legs[0], legs[1] = legs[1], legs[0]
    points = [(0.0, 0.0), (float(legs[0]), 0.0), (0.0, float(legs[1]))]
    corner, a, b = fitted(turned(points, rng.integer(0, 359)), sheet.picture.size, 70)
    sheet.lines([corner, a, b], closed=True)
    sheet.right_angle(corner, a, b)
    return legs, [(corner, a), (corner, b), (a, b)]


def _label_side(sheet: Sheet, text: str, side: tuple[Point, Point], size: tuple[int, int]) -> None:
    """Put a label outside the figure beside the middle of a side."""
    (ax, ay), (bx, by) = side
    middle = ((ax + bx) / 2, (ay + by) / 2)
    normal = ((by - ay) / dist(*side), (ax - bx) / dist(*side))
    outwards = (middle[0] - size[0] / 2) * normal[0] + (middle[1] - size[1] / 2) * normal[1]
    sheet.label(text, middle, normal if outwards > 0 else (-normal[0], -normal[1]))
