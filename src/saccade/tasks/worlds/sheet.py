"""Draw a contact sheet of samples: pictures with gold boxes, question and answer below.

It holds the answers, so no model may see it. Clips are shown by four frames, evenly spaced, which needs PyAV.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from textwrap import wrap

from PIL import Image, ImageDraw, ImageFont

from saccade.tasks.worlds.base import Clip, WorldSample

TILE = (420, 340)
_MARGIN = 14
_LINES = 5
_LINE = 17
_COLUMNS = 4
_GOLD = (255, 40, 200)


def contact_sheet(samples: Sequence[WorldSample]) -> Image.Image:
    """Return all samples on one sheet, four in a row."""
    columns = min(_COLUMNS, max(1, len(samples)))
    rows = -(-len(samples) // columns)
    step_x, step_y = TILE[0] + _MARGIN, TILE[1] + _LINES * _LINE + 2 * _MARGIN
    sheet = Image.new("RGB", (columns * step_x + _MARGIN, rows * step_y + _MARGIN), (226, 226, 222))
    pen, font = ImageDraw.Draw(sheet), _font(13)
    for index, sample in enumerate(samples):
        x, y = _MARGIN + index % columns * step_x, _MARGIN + index // columns * step_y
        sheet.paste(tile(sample), (x, y))
        for line, text in enumerate(_caption(sample)):
            pen.text((x, y + TILE[1] + 4 + line * _LINE), text, fill=(20, 20, 20), font=font)
    return sheet


def tile(sample: WorldSample) -> Image.Image:
    """Return the media of a sample side by side, pictures with their gold boxes; `TILE` pixels."""
    page = Image.new("RGB", TILE, (250, 250, 250))
    width = TILE[0] // max(1, len(sample.media))
    for number, (name, medium) in enumerate(sample.media.items()):
        most = (width - 4, TILE[1])
        shown = _four_frames(medium, most) if isinstance(medium, Clip) else _with_evidence(sample, name, medium, most)
        page.paste(shown, (number * width + (width - shown.width) // 2, (TILE[1] - shown.height) // 2))
    return page


def _with_evidence(sample: WorldSample, name: str, picture: Image.Image, most: tuple[int, int]) -> Image.Image:
    """Return the picture scaled down to `most` pixels, and the evidence boxes that are in it, of one line's width."""
    shown = picture.convert("RGB")
    shown.thumbnail(most, Image.Resampling.LANCZOS)
    pen = ImageDraw.Draw(shown)
    scale = shown.width / picture.width
    for box in sample.evidence:
        if box.image == name:
            x0, y0, x1, y1 = (int(value * scale) for value in box.xyxy)
            # Outside the box, so that it hides nothing.
            pen.rectangle((x0 - 3, y0 - 3, x1 + 2, y1 + 2), outline=_GOLD, width=2)
    return shown


def _four_frames(clip: Clip, most: tuple[int, int]) -> Image.Image:
    from saccade.media.video import Uniform, sample_frames

    page = Image.new("RGB", most, (250, 250, 250))
    for number, frame in enumerate(sample_frames(clip.data, Uniform(4))):
        shown = frame.image.convert("RGB")
        shown.thumbnail((most[0] // 2 - 2, most[1] // 2 - 2), Image.Resampling.LANCZOS)
        page.paste(shown, (number % 2 * most[0] // 2, number // 2 * most[1] // 2))
    return page


def _font(size: int) -> ImageFont.FreeTypeFont:
    import matplotlib

    return ImageFont.truetype(str(Path(matplotlib.get_data_path()) / "fonts/ttf/DejaVuSans.ttf"), size)


def _caption(sample: WorldSample) -> list[str]:
    question = wrap(f"[{sample.tags[0] if sample.tags else ''}] {sample.question}", 62)[: _LINES - 2]
    choices = " | ".join(sample.choices)
    return [*question, *wrap(choices, 62)[:1], f"= {sample.answer}"]
