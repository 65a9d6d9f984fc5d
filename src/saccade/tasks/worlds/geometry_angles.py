"""Questions about angles: triangles, isosceles triangles, parallel lines with a transversal, angles in a circle."""

from __future__ import annotations

from math import radians, sin

from saccade.tasks.worlds.geometry_draw import Point, Sheet, between, fitted, polar, turned
from saccade.tasks.worlds.rng import Rng

Asked = tuple[str, str, str]
"""Question, answer, and the end of the program (`labels` and `lines` are defined before it)."""

_ASK_X = ("What is x, in degrees?", "Find the measure of the angle marked x, in degrees.", "How large is x (degrees)?")


def triangle_angle(rng: Rng, sheet: Sheet) -> Asked:
    """Two angles of a triangle are given; the third is asked."""
    while True:
        angles = [rng.integer(30, 105), rng.integer(30, 105)]
        angles.append(180 - sum(angles))
        if 30 <= angles[2] <= 105:
            break
    points = _triangle(rng, sheet, angles)
    _mark_angles(sheet, points, (f"{angles[0]}°", f"{angles[1]}°", "x°"), rng.integer(20, 30))
    lines = "given = [value for value, _ in known(labels)]\nprint(given)\nprint(show(180 - sum(given)))"
    return rng.choice(_ASK_X), str(angles[2]), lines


def isosceles(rng: Rng, sheet: Sheet) -> Asked:
    """One angle of an isosceles triangle is given; another is asked."""
    top = 2 * rng.choice([half for half in range(17, 56) if not 24 <= half <= 36])
    base = (180 - top) // 2
    points = _triangle(rng, sheet, [top, base, base])
    sheet.tick(points[0], points[1])
    sheet.tick(points[0], points[2])
    texts, answer = rng.choice(
        (((f"{top}°", "x°", ""), base), (("x°", f"{base}°", ""), top), (("", f"{base}°", "x°"), base))
    )
    _mark_angles(sheet, points, texts, rng.integer(20, 28))
    lines = (
        "[(given, at)] = known(labels)\npoints = corners(lines)\ntop = apex(points)\n"
        "at_top = [min(points, key=lambda p: dist(p, spot)) == top for spot in (at, unknown(labels))]\n"
        "print(given, at_top)\n"
        "print(show((180 - given) / 2 if at_top[0] else 180 - 2 * given if at_top[1] else given))"
    )
    question = rng.choice(("The two marked sides are equally long. ", "Equal marks stand for equal sides. "))
    return question + rng.choice(_ASK_X), str(answer), lines


def transversal(rng: Rng, sheet: Sheet) -> Asked:
    """Two parallel lines are cut by a third; one angle is given, one at the other crossing is asked."""
    width, height = sheet.picture.size
    tilt, angle = rng.integer(-12, 12), rng.integer(42, 76)
    lean = tilt + (angle if rng.chance(50) else 180 - angle)
    middle = (width / 2, height / 2)
    # The crossings lie on the transversal, as far from the middle as makes the lines `gap` apart.
    gap = rng.integer(130, 170)
    reach = gap / 2 / sin(radians(angle))
    crossings = [polar(middle, reach, lean), polar(middle, -reach, lean)]
    for crossing in crossings:
        sheet.lines([polar(crossing, -190, tilt), polar(crossing, 190, tilt)])
    sheet.lines([polar(middle, reach + 90, lean), polar(middle, -reach - 90, lean)])
    # Corners of a crossing by the direction of their middle; opposite ones are equal.
    halves = [(tilt + lean) / 2, (tilt + lean) / 2 + 90]
    sizes = [(lean - tilt) % 180, 180 - (lean - tilt) % 180]
    picks = [rng.integer(0, 3), rng.integer(0, 3)]
    given, asked = (sizes[pick % 2] for pick in picks)
    for crossing, pick, text in zip(rng.shuffled(crossings), picks, (f"{given}°", "x°"), strict=True):
        direction = polar((0, 0), 1, halves[pick % 2] + 180 * (pick // 2))
        sheet.label(text, (crossing[0] + 12 * direction[0], crossing[1] + 12 * direction[1]), direction)
    lines = (
        "[(given, at)] = known(labels)\nfound = straight_lines(lines, 3)\n"
        "turn = lambda a, b: min(abs(a[1] - b[1]), np.pi - abs(a[1] - b[1]))\n"
        "cut = max(found, key=lambda line: min(turn(line, other) for other in found if other != line))\n"
        "parallels = [line for line in found if line != cut]\n"
        "def acute(spot):\n"
        "    nearest = min(parallels, key=lambda line: dist(meeting(cut, line), spot))\n"
        "    return in_acute(spot, cut, nearest)\n"
        "kinds = acute(at), acute(unknown(labels))\nprint(given, kinds)\n"
        "print(show(given if kinds[0] == kinds[1] else 180 - given))"
    )
    return f"Two of the lines are parallel. {rng.choice(_ASK_X)}", str(asked), lines


def inscribed(rng: Rng, sheet: Sheet) -> Asked:
    """An arc is seen from the centre and from the circle; one of the two angles is given."""
    width, height = sheet.picture.size
    centre, radius = (width / 2, height / 2), min(width, height) // 2 - 30
    half, facing = rng.integer(32, 70), rng.integer(0, 359)
    a, b = polar(centre, radius, facing - half), polar(centre, radius, facing + half)
    # The point of the circle looks at the arc from about the other side.
    eye = polar(centre, radius, facing + 180 + rng.integer(-12, 12))
    sheet.circle(centre, radius)
    sheet.lines([a, centre, b])
    sheet.lines([a, eye, b])
    texts = (f"{2 * half}°", "x°") if rng.chance(50) else ("x°", f"{half}°")
    sheet.label(texts[0], centre, polar((0, 0), 1, facing))
    sheet.label(texts[1], eye, between(eye, a, b))
    lines = (
        "[(given, at)] = known(labels)\ncentre, _ = round_outline(lines)\n"
        "central = dist(at, centre) < dist(unknown(labels), centre)\nprint(given, central)\n"
        "print(show(given / 2 if central else given * 2))"
    )
    answer = half if texts[1] == "x°" else 2 * half
    question = "One corner of the two angles is the centre of the circle, the other lies on the circle. "
    return question + rng.choice(_ASK_X), str(answer), lines


def _triangle(rng: Rng, sheet: Sheet, angles: list[int]) -> list[Point]:
    """Draw a triangle with these angles, turned at random; its corners in their order."""
    longer = [sin(radians(angle)) for angle in angles]
    points = [(0.0, 0.0), (longer[2], 0.0), polar((0, 0), longer[1], angles[0])]
    placed = fitted(turned(points, rng.integer(0, 359)), sheet.picture.size, 30)
    sheet.lines(placed, closed=True)
    return placed


def _mark_angles(sheet: Sheet, points: list[Point], texts: tuple[str, ...], radius: int) -> None:
    for index, text in enumerate(texts):
        if text:
            corner, a, b = (points[(index + turn) % 3] for turn in range(3))
            sheet.arc(corner, a, b, radius)
            sheet.label(text, corner, between(corner, a, b))
