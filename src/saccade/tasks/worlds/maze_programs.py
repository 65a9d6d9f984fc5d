"""Programs that walk through a drawn maze: by flooding what is no wall, and from cell to cell."""

from __future__ import annotations

_DOTS = """\
import cv2
import numpy as np

COLOURS = {
    "green": (30, 150, 60), "red": (214, 40, 40), "blue": (36, 84, 205),
    "orange": (245, 130, 20), "purple": (128, 52, 168),
}
pixels = np.array(image_0.convert("RGB")).astype(int)
wall = (pixels.max(axis=2) < 128) & (pixels.max(axis=2) - pixels.min(axis=2) < 30)
dots = {}
for name, colour in COLOURS.items():
    ys, xs = np.nonzero(np.abs(pixels - colour).max(axis=2) < 40)
    if len(xs):
        dots[name] = (int(xs.mean().round()), int(ys.mean().round()))
print(dots)
"""
REACH = (
    _DOTS
    + """\
_, room = cv2.connectedComponents((~wall).astype(np.uint8), connectivity=4)
rooms = {name: int(room[y, x]) for name, (x, y) in dots.items()}
print(next(name for name, number in rooms.items() if name != "green" and number == rooms["green"]))
"""
)
LENGTH = (
    _DOTS
    + """\
ys, xs = np.nonzero(wall)
left, top, right, bottom = xs.min(), ys.min(), xs.max() + 1, ys.max() + 1


def ruled(share):
    # Positions at which walls stand one above the other (or side by side), as on a ruled sheet.
    on = np.concatenate([[False], share > 0.08, [False]])
    return np.flatnonzero(on[1:] & ~on[:-1])


# Long runs only: the thickness of a wall across is no upright wall.
upright = cv2.erode(wall.astype(np.uint8), np.ones((13, 1), np.uint8))[top:bottom, left:right]
across = cv2.erode(wall.astype(np.uint8), np.ones((1, 13), np.uint8))[top:bottom, left:right]
steps = np.concatenate([np.diff(ruled(upright.mean(axis=0))), np.diff(ruled(across.mean(axis=1)))])
pitch = int(steps.min())
print("cells of", pitch, "pixels")


def cell(name):
    x, y = dots[name]
    return (x - left) // pitch, (y - top) // pitch


def middle(place):
    return left + place[0] * pitch + pitch // 2, top + place[1] * pitch + pitch // 2


end = next(name for name in dots if name != "green")
distance = {cell("green"): 0}
front = [cell("green")]
while front:
    following = []
    for place in front:
        x0, y0 = middle(place)
        for dx, dy in ((1, 0), (-1, 0), (0, 1), (0, -1)):
            other = (place[0] + dx, place[1] + dy)
            x1, y1 = x0 + dx * pitch, y0 + dy * pitch
            if other in distance or not (left < x1 < right and top < y1 < bottom):
                continue
            if not wall[min(y0, y1):max(y0, y1) + 1, min(x0, x1):max(x0, x1) + 1].any():
                distance[other] = distance[place] + 1
                following.append(other)
    front = following
print(distance[cell(end)])
"""
)
