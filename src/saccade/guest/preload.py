"""Names that a session may have from the start, and the warm-up that all sessions share.

`warm_up` runs once in the zygote: it imports and executes the common paths, so that lazy imports and caches are
inherited by every fork. It leaves no figure open and the random states seeded.
"""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import importlib
import importlib.util
import io
import os
import random
from collections.abc import Iterable
from glob import escape, glob
from typing import Any

from .wire import PRELOAD

SEED = 0
"""Random numbers of every session start from here, so that a run can be repeated."""

_CORNER, _SIZE = (1, 1), (8, 8)
"""Of what is drawn to warm up: small, since what is inherited does not depend on the number of pixels."""


def lookup(name: str) -> Any:
    """Return what a name stands for. Raises ValueError for an unknown one, ImportError for a module that is missing."""
    if name not in PRELOAD:
        raise ValueError(f"{name!r} cannot be preloaded; known names are {', '.join(sorted(PRELOAD))}")
    module, _, attribute = PRELOAD[name].partition(":")
    if module == "decord":
        importlib.import_module(".video", __package__).install()
    loaded = importlib.import_module(module)
    return getattr(loaded, attribute) if attribute else loaded


def preload(namespace: dict[str, Any], names: Iterable[str]) -> None:
    """Bind `names` in `namespace`. Raises as `lookup` does."""
    for name in names:
        namespace[name] = lookup(name)


def warm_up() -> None:
    """Import and execute once what programs commonly use."""
    for name in PRELOAD:
        try:
            lookup(name)
        except ImportError:
            if name != "cv2":
                raise
    importlib.import_module(".show", __package__).patch()
    _warm_figures()
    _warm_pictures()
    _warm_opencv()
    _hold_ffmpeg()
    random.seed(SEED)
    importlib.import_module("numpy").random.seed(SEED)


def fix_machine() -> None:
    """Have `os.sysconf` tell the memory that the machine has: a session cannot ask, and libc would make it up."""
    ask, pages = os.sysconf, os.sysconf("SC_PHYS_PAGES")
    known = [name for name in ("SC_PHYS_PAGES", "SC_AVPHYS_PAGES") if name in os.sysconf_names]
    told = dict.fromkeys((*known, *(os.sysconf_names[name] for name in known)), pages)

    def sysconf(name: str | int, /) -> int:
        return told[name] if name in told else ask(name)

    os.sysconf = sysconf


CJK_FONTS = (
    *("Noto Sans CJK SC", "Noto Sans CJK JP", "Noto Sans CJK KR", "Noto Sans SC", "Source Han Sans SC"),
    *("Source Han Sans CN", "WenQuanYi Micro Hei", "WenQuanYi Zen Hei", "Droid Sans Fallback", "Arial Unicode MS"),
    *("SimHei", "Microsoft YaHei", "PingFang SC", "Heiti SC", "IPAexGothic", "IPAGothic", "TakaoGothic"),
    *("NanumGothic", "Malgun Gothic", "UnDotum"),
)
"""Families with Chinese, Japanese or Korean letters, the widest first; programs ask for any of them."""
_ASKED_FOR = ("SimSun", "KaiTi", "FangSong", "STHeiti", "STSong", "MS Gothic", "Yu Gothic", "Meiryo", "AppleGothic")


def add_cjk_font() -> str | None:
    """Let figures draw Chinese, Japanese and Korean letters by a font of this machine; its name, or None."""
    import matplotlib
    from matplotlib.font_manager import findSystemFonts, fontManager

    names: list[str] = matplotlib.rcParams["font.sans-serif"]
    for name in names:
        if name in CJK_FONTS:
            return name
    # The list of fonts is kept on disk, and may be older than a font.
    for path in set(findSystemFonts()) - {entry.fname for entry in fontManager.ttflist}:
        with contextlib.suppress(Exception):
            fontManager.addfont(path)
    there = {entry.name for entry in fontManager.ttflist}
    chosen = next((name for name in CJK_FONTS if name in there), None)
    if chosen is not None:
        own = [entry for entry in fontManager.ttflist if entry.name == chosen]
        missing = {*CJK_FONTS, *_ASKED_FOR} - there
        fontManager.ttflist += [dataclasses.replace(entry, name=name) for name in sorted(missing) for entry in own]
        for options in (matplotlib.rcParams, matplotlib.rcParamsDefault):
            options["font.sans-serif"] = [*options["font.sans-serif"], chosen]
    return chosen


def _warm_figures() -> None:
    import matplotlib

    matplotlib.use("Agg")
    add_cjk_font()
    import matplotlib.pyplot as plt
    import numpy as np
    from matplotlib.patches import Rectangle

    figure, (left, right) = plt.subplots(ncols=2, figsize=(2, 1), dpi=50)
    heights = range(4)
    left.plot(heights, "o-", label="line")
    left.set_title("Title, $x^2$")
    left.set_xlabel("x")
    left.legend()
    left.grid(True)
    left.bar(heights, heights)
    left.add_patch(Rectangle(_CORNER, *_SIZE, fill=False, edgecolor="red"))
    figure.colorbar(right.imshow(np.eye(*_SIZE), cmap="gray"))
    right.axis("off")
    right.text(*_CORNER, "text", fontsize="large", weight="bold")
    figure.tight_layout()
    for kind in ("png", "jpeg"):
        figure.savefig(io.BytesIO(), format=kind)
    plt.imshow(np.zeros((*_SIZE, 3), np.uint8))
    plt.close("all")


def _warm_pictures() -> None:
    from PIL import Image, ImageDraw, ImageEnhance, ImageFilter, ImageFont, ImageOps

    Image.init()
    # The sandbox limits memory itself, and the picture of a user may be larger than what Pillow takes for a bomb.
    Image.MAX_IMAGE_PIXELS = None
    picture = Image.radial_gradient("L").convert("RGB")
    for kind in ("PNG", "JPEG", "WEBP", "BMP", "GIF", "TIFF"):
        file = io.BytesIO()
        try:
            picture.resize(_SIZE).save(file, kind)
            Image.open(file).load()
        except (KeyError, OSError):
            continue  # this build of Pillow lacks the format
    pencil, box = ImageDraw.Draw(picture), (*_CORNER, *_SIZE)
    pencil.rectangle(box, outline="red")
    pencil.text(_CORNER, "text", fill="white", font=ImageFont.load_default())
    part = picture.crop(box).rotate(30, expand=True).resize(_SIZE, Image.Resampling.LANCZOS)
    ImageEnhance.Contrast(part).enhance(2).filter(ImageFilter.SHARPEN)
    ImageOps.autocontrast(ImageOps.grayscale(part))


def _warm_opencv() -> None:
    try:
        import cv2
    except ImportError:
        return
    import numpy as np

    cv2.setNumThreads(0)
    picture = np.zeros((*_SIZE, 3), np.uint8)
    grey = cv2.resize(cv2.cvtColor(picture, cv2.COLOR_BGR2GRAY), _SIZE)
    edges = cv2.Canny(cv2.GaussianBlur(grey, (3, 3), sigmaX=0), *_SIZE)
    cv2.findContours(edges, cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_SIMPLE)
    cv2.rectangle(picture, _CORNER, _SIZE, color=255)
    cv2.putText(picture, "text", _CORNER, cv2.FONT_HERSHEY_SIMPLEX, fontScale=1, color=255)
    _, data = cv2.imencode(".png", picture)
    cv2.imdecode(data, cv2.IMREAD_COLOR)


def _hold_ffmpeg() -> None:
    """Let PyAV see one processor, whenever a program imports it: its threads could not be kept between calls."""
    spec = importlib.util.find_spec("av")
    folders = spec.submodule_search_locations if spec is not None else None
    for folder in folders or ():
        for library in glob(escape(folder) + ".libs/libavutil*"):
            with contextlib.suppress(OSError, AttributeError):
                ctypes.CDLL(library).av_cpu_force_count(1)
