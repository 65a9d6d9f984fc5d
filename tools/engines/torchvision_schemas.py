"""Lets torchvision of PyPI be imported beside a CPU build of torch.

That wheel's compiled operators are CUDA's and do not load; the import then fails, because it attaches shapes to two of
them (`nms`, `qnms`) that nobody has declared. Their signatures, declared just before, are enough: transforms work, and
calling the operators themselves still fails. `install_shims.py` copies this file into the environment, with a `.pth`
file that imports it whenever Python starts; nothing happens until torchvision is imported.
"""

import sys
from importlib.abc import MetaPathFinder
from typing import Any

_SIGNATURE = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"


class _BeforeTorchvision(MetaPathFinder):
    """Finds nothing itself; declares the operators when torchvision is looked for, once."""

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> None:
        if fullname == "torchvision":
            sys.meta_path.remove(self)
            import torch

            if torch.version.cuda is None:
                for name in ("nms", "qnms"):
                    torch.library.define(f"torchvision::{name}", _SIGNATURE)


sys.meta_path.insert(0, _BeforeTorchvision())
