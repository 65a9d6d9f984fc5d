"""Trajectories of a step in groups for one forward pass each."""

from __future__ import annotations

from collections.abc import Sequence


def forward_passes(lengths: Sequence[int], most_tokens: int, *, packed: bool) -> list[list[int]]:
    """Rows, as indices into `lengths`, in groups for one forward pass each.

    Grouped by length, longest first, so that little is padded. A group takes at most `most_tokens` tokens, padding
    included; a row that is longer stands alone.
    """
    order = sorted(range(len(lengths)), key=lambda index: (-lengths[index], index))
    groups: list[list[int]] = []
    taken = 0
    for index in order:
        size = lengths[index] if packed else (lengths[groups[-1][0]] if groups else lengths[index])
        if groups and taken + size <= most_tokens:
            groups[-1].append(index)
            taken += size
        else:
            groups.append([index])
            taken = lengths[index]
    return groups
