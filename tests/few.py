"""Of a test with many variants, a few in the default suite and the others in `make test-slow`.

@pytest.mark.few(3)                                         # three, spread over the whole list
@pytest.mark.few(2, of=lambda params: params["check"].group)  # two of each group
@pytest.mark.parametrize(...)
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable

import pytest


def mark_the_rest_slow(items: list[pytest.Item]) -> None:
    """Add the marker `slow` to the variants that their test's marker `few` leaves out of the default suite.

    Variants that are slow for a reason of their own are not counted.
    """
    families: dict[Hashable, list[pytest.Item]] = defaultdict(list)
    for item in items:
        marker = item.get_closest_marker("few")
        if marker is not None and item.get_closest_marker("slow") is None:
            kind = marker.kwargs["of"](item.callspec.params) if "of" in marker.kwargs else None  # type: ignore[attr-defined]
            families[item.nodeid.partition("[")[0], kind].append(item)
    for family in families.values():
        kept = spread(len(family), family[0].get_closest_marker("few").args[0])  # type: ignore[union-attr]
        for index, item in enumerate(family):
            if index not in kept:
                item.add_marker(pytest.mark.slow)


def spread(length: int, count: int) -> set[int]:
    """`count` indexes of a list of `length`, the first and the last among them; all where there are no more."""
    if count >= length:
        return set(range(length))
    return {round(step * (length - 1) / max(count - 1, 1)) for step in range(count)}
