"""Bytes of tensors that operations make, while they live: the same for tensors with and without data."""

from __future__ import annotations

import weakref
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class PeakBytes(TorchDispatchMode):  # type: ignore[misc]
    """While it is open: what was made in it and lives, and the most that did at once.

    Storages count once, however many tensors share them. What an operation needs inside is not seen.
    """

    def __init__(self) -> None:
        super().__init__()
        self.live = 0
        self.most = 0
        self._known: set[int] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = {id(leaf.untyped_storage()) for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)}
        made = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(made):
            if isinstance(leaf, torch.Tensor) and id(leaf.untyped_storage()) not in given:
                self._count(leaf.untyped_storage())
        return made

    def _count(self, storage: Any) -> None:
        key, size = storage._cdata, storage.nbytes()
        if key not in self._known:
            self._known.add(key)
            self.live += size
            self.most = max(self.most, self.live)
            weakref.finalize(storage, self._freed, key, size)

    def _freed(self, key: int, size: int) -> None:
        self._known.discard(key)
        self.live -= size
