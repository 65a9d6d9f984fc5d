"""Names that a session may have from the start, and the warm-up that all sessions share.

`warm_up` runs once in the zygote: it imports and executes the common paths, so that lazy imports and caches are
inherited by every fork. It leaves no figure open and the random states seeded.
"""

from __future__ import annotations

import ast
import contextlib
import ctypes
import importlib
import importlib.util
import io
import json
import random
import traceback
from collections.abc import Iterable
from glob import escape, glob
from typing import Any

PRELOAD: dict[str, str] = {
    "Image": "PIL.Image",
    "ImageDraw": "PIL.ImageDraw",
    "ImageEnhance": "PIL.ImageEnhance",
    "ImageFilter": "PIL.ImageFilter",
    "ImageOps": "PIL.ImageOps",
    "PIL": "PIL",
    "VideoReader": "decord:VideoReader",
    "base64": "base64",
    "collections": "collections",
    "cpu": "decord:cpu",
    "cv2": "cv2",
    "decord": "decord",
    "io": "io",
    "itertools": "itertools",
    "json": "json",
    "math": "math",
    "matplotlib": "matplotlib",
    "np": "numpy",
    "numpy": "numpy",
    "os": "os",
    "plt": "matplotlib.pyplot",
    "random": "random",
    "re": "re",
    "string": "string",
    "sys": "sys",
}
"""Name -> the module that it stands for, or `module:name in it`. `decord` is `guest.video`."""

SEED = 0
"""Random numbers of every session start from here, so that a run can be repeated."""


def lookup(name: str) -> Any:
    """What a name stands for. Raises ValueError for an unknown name, ImportError if a module is not installed."""
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
    _warm_python()
    _hold_ffmpeg()
    random.seed(SEED)
    importlib.import_module("numpy").random.seed(SEED)


def draw_unseen() -> None:
    """Draw a small figure without pyplot, so that no figure of a program and no number of one is touched."""
    import numpy as np
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure()
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    axes.imshow(np.zeros((90, 120, 3), np.uint8))
    figure.canvas.draw()


def _warm_figures() -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    import numpy as np
    from matplotlib.patches import Rectangle

    # Small, since what is inherited does not depend on the number of pixels.
    figure, axes = plt.subplots(1, 2, figsize=(2, 1), dpi=50)
    axes[0].plot([1, 2, 3], [1, 4, 9], "o-", label="line")
    axes[0].set_title("Title, $x^2$")
    axes[0].set_xlabel("x")
    axes[0].legend()
    axes[0].grid(True)
    axes[0].bar([1, 2], [1, 2])
    axes[0].add_patch(Rectangle((1, 1), 1, 2, fill=False, edgecolor="red"))
    shown = axes[1].imshow(np.arange(64.0).reshape(8, 8), cmap="gray")
    figure.colorbar(shown)
    axes[1].axis("off")
    axes[1].text(1, 1, "text", fontsize=12, weight="bold")
    figure.tight_layout()
    for kind in ("png", "jpeg"):
        figure.savefig(io.BytesIO(), format=kind)
    plt.imshow(np.zeros((8, 8, 3), np.uint8))
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
            picture.resize((32, 32)).save(file, kind)
            file.seek(0)
            Image.open(file).load()
        except (KeyError, OSError):
            continue  # this build of Pillow lacks the format
    pencil = ImageDraw.Draw(picture)
    pencil.rectangle((1, 1, 9, 9), outline="red", width=2)
    pencil.text((2, 2), "text", fill="white", font=ImageFont.load_default())
    picture.crop((2, 2, 60, 60)).rotate(30, expand=True).resize((64, 64), Image.Resampling.LANCZOS)
    ImageEnhance.Contrast(picture).enhance(1.5).filter(ImageFilter.SHARPEN)
    ImageOps.autocontrast(ImageOps.grayscale(picture))


def _warm_opencv() -> None:
    try:
        import cv2
    except ImportError:
        return
    import numpy as np

    cv2.setNumThreads(0)
    picture = np.zeros((32, 32, 3), np.uint8)
    grey = cv2.cvtColor(picture, cv2.COLOR_BGR2GRAY)
    cv2.GaussianBlur(cv2.resize(grey, (16, 16)), (3, 3), 0)
    cv2.findContours(cv2.Canny(grey, 50, 150), cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_SIMPLE)
    cv2.rectangle(picture, (1, 1), (9, 9), (0, 0, 255), 2)
    cv2.putText(picture, "text", (2, 20), cv2.FONT_HERSHEY_SIMPLEX, 0.5, (255, 255, 255))
    ok, data = cv2.imencode(".png", picture)
    if ok:
        cv2.imdecode(data, cv2.IMREAD_COLOR)


def _hold_ffmpeg() -> None:
    """Let PyAV see one processor, whenever a program imports it: its threads could not be kept between calls."""
    spec = importlib.util.find_spec("av")
    folders = spec.submodule_search_locations if spec is not None else None
    for folder in folders or ():
        for library in glob(escape(folder) + ".libs/libavutil*"):
            with contextlib.suppress(OSError, AttributeError):
                ctypes.CDLL(library).av_cpu_force_count(1)


def _warm_python() -> None:
    json.loads(json.dumps({"a": [1, 2.5, None, "text"]}))
    tree = ast.parse("for i in range(2):\n    print(f'{i:.2f}', [j for j in range(i)])\n")
    compile(tree, "<warm-up>", "exec")
    try:
        raise ValueError("warm-up") from KeyError("cause")
    except ValueError as error:
        "".join(traceback.TracebackException.from_exception(error).format())
