"""Trajectories of a step in groups for one forward pass each, and how much work each is."""

from __future__ import annotations

from collections.abc import Sequence

_LENGTH = 3000
"""Tokens of a row at which its attention costs as much as all else: an estimate for a small model."""

_PASS = 200
"""Tokens that cost as much as a pass does by itself, however small it is: an estimate."""


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


def work(lengths: Sequence[int], passes: Sequence[Sequence[int]]) -> list[float]:
    """How much work each of `passes` is, against the others: in tokens, more in a long row, and some for itself."""
    return [_PASS + sum(lengths[at] * (1 + lengths[at] / _LENGTH) for at in rows) for rows in passes]
