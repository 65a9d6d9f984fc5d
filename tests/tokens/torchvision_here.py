"""Torchvision where its compiled operators do not load: PyPI has them for CUDA, and torch may be the CPU's.

Video processors scale frames with functions that are written in Python over torch's own operators. The compiled ones
(boxes, deformed convolutions) are never called there, but torchvision describes them to torch when it is imported, and
fails if they do not exist. So they are declared here, without a body: calling one is still an error.
"""

from __future__ import annotations

import re
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import torch

_DESCRIBED = re.compile(r'(?:torchvision::|register_meta\(")(\w+)')


@cache
def torchvision_imports() -> bool:
    """Whether torchvision is installed; its operators are declared if they cannot be loaded."""
    spec = find_spec("torchvision")
    if spec is None or spec.origin is None:
        return False
    folder = Path(spec.origin).parent
    try:
        torch.ops.load_library(folder / "_C.so")
    except OSError:
        library = torch.library.Library("torchvision", "DEF")
        for name in sorted(set(_DESCRIBED.findall((folder / "_meta_registrations.py").read_text(encoding="utf-8")))):
            library.define(f"{name}() -> ()")
        _KEPT.append(library)
    return True


_KEPT: list[torch.library.Library] = []
"""What was declared is gone with its library."""
