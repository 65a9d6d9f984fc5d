"""Preloaded names and the warm-up."""

from __future__ import annotations

import math
import subprocess
import sys

import pytest
from tests.guest.cells import Start

from saccade.guest.preload import CJK_FONTS, PRELOAD, add_cjk_font, preload


def test_names_are_bound() -> None:
    namespace: dict[str, object] = {}
    preload(namespace, ("math", "np"))
    assert namespace["math"] is math
    assert set(namespace) == {"math", "np"}
    with pytest.raises(ValueError, match=r"'pandas'.*known names are Image"):
        preload(namespace, ("pandas",))


def test_a_name_out_of_a_module() -> None:
    from saccade.guest import video

    namespace: dict[str, object] = {}
    preload(namespace, ("VideoReader", "decord", "cpu"))
    decord = sys.modules["decord"]
    assert namespace == {"VideoReader": video.VideoReader, "decord": decord, "cpu": video.cpu}
    names = {name for name in vars(decord) if not name.startswith("_")}
    assert names == {"VideoReader", "cpu", "gpu", "bridge", "DECORDError"}  # no helper of ours
    assert decord.__name__ == "decord"


def test_every_name_in_a_session(start: Start) -> None:
    pytest.importorskip("cv2")
    guest = start(preload=tuple(PRELOAD))
    result = guest.run("print(np.pi > 3, Image.new, plt.show, ImageOps.invert, cv2.imread)\nstring.digits")
    assert (result.status, result.value) == ("ok", "'0123456789'")


def test_a_font_of_this_machine_draws_chinese_by_whatever_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """A font of other letters stands for it here, under a name that is known to have them."""
    import matplotlib
    from matplotlib.font_manager import FontEntry, findfont, fontManager

    known = list(fontManager.ttflist)
    monkeypatch.setattr(fontManager, "ttflist", known)
    assert add_cjk_font() in (None, *CJK_FONTS)
    mono = next(entry for entry in known if entry.name == "DejaVu Sans Mono")
    own = FontEntry(fname=mono.fname, name="WenQuanYi Zen Hei", weight=400)
    monkeypatch.setattr(fontManager, "ttflist", [*(e for e in known if e.name not in CJK_FONTS), own])
    with matplotlib.rc_context():
        monkeypatch.setattr(matplotlib, "rcParamsDefault", matplotlib.rcParamsDefault.copy())
        assert add_cjk_font() == add_cjk_font() == "WenQuanYi Zen Hei"
        assert matplotlib.rcParams["font.sans-serif"].count("WenQuanYi Zen Hei") == 1
        for name in ("SimHei", "Microsoft YaHei", "Noto Sans CJK SC", "SimSun"):
            assert findfont(name, fallback_to_default=False) == mono.fname


def test_warm_up_leaves_no_traces_and_nothing_to_load() -> None:
    """In a fresh process: no figures, no output, seeded, single-threaded, and show is ours.

    What programs commonly use is loaded then, whatever they import of it late.
    """
    code = """
from saccade.guest.preload import warm_up
warm_up()
import random, sys, threading
a = random.random()
import numpy as np
b = np.random.random()
warm_up()
import matplotlib.pyplot as plt
print(a == random.random(), b == np.random.random(), plt.get_fignums(), threading.active_count(), plt.show.__module__)
known = set(sys.modules)
import io, json, PIL.Image
axes = plt.figure(figsize=(1, 1)).add_subplot()
axes.plot([1, 2], label="x")
axes.legend()
for kind in ("png", "jpeg"):
    plt.savefig(io.BytesIO(), format=kind)
for kind in ("PNG", "JPEG", "WEBP", "BMP", "GIF", "TIFF"):
    file = io.BytesIO()
    PIL.Image.new("RGB", (9, 9)).save(file, kind)
    PIL.Image.open(file).load()
print(json.dumps(sorted(set(sys.modules) - known)))
"""
    run = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True)
    assert (run.stdout, run.stderr) == ("True True [] 1 saccade.guest.shown\n[]\n", "")


def test_the_package_works_under_its_name_in_the_jail(tmp_path) -> None:
    """The jail has the folder `guest` on its path, and no `saccade`."""
    import saccade.guest

    (tmp_path / "guest").symlink_to(saccade.guest.__path__[0])
    code = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
        "import guest.cell, guest.show, guest.preload, guest.repairs\n"
        "print(sorted(name for name in sys.modules if name.startswith('saccade')))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() in ("[]", "['saccade']")
