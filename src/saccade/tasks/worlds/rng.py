"""Make random choices that are equal on every machine and with every version of NumPy.

NumPy promises a stable raw stream of a bit generator, but not of `Generator`'s methods; the methods here use only raw
words and whole numbers. Ranges of up to 2**32 values are uniform to within
2**-32. Not for secrets.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

T = TypeVar("T")


class Rng:
    """A stream of random choices from a seed; every call moves it on."""

    def __init__(self, seed: int) -> None:
        self._bits = np.random.PCG64(seed)

    def integer(self, low: int, high: int) -> int:
        """Return a whole number with `low <= n <= high`; both ends are possible. ValueError if there is none."""
        if low > high:
            raise ValueError(f"no whole number lies between {low} and {high}")
        return low + int(self._bits.random_raw()) % (high - low + 1)

    def chance(self, percent: int) -> bool:
        """Return True in `percent` of 100 cases."""
        return self.integer(0, 99) < percent

    def choice(self, items: Sequence[T]) -> T:
        """Return one of `items`. ValueError if there is none."""
        return items[self.integer(0, len(items) - 1)]

    def sample(self, items: Sequence[T], count: int) -> list[T]:
        """Return `count` different items in random order. ValueError if there are fewer."""
        if count > len(items):
            raise ValueError(f"cannot take {count} different ones of {len(items)} items")
        rest = list(items)
        for index in range(count):
            other = self.integer(index, len(rest) - 1)
            rest[index], rest[other] = rest[other], rest[index]
        return rest[:count]

    def shuffled(self, items: Sequence[T]) -> list[T]:
        """Return all items in random order."""
        return self.sample(items, len(items))

    def bytes_array(self, *shape: int) -> NDArray[np.uint8]:
        """Return an array of independent uniform bytes (0..255)."""
        count = int(np.prod(shape))
        words: Any = self._bits.random_raw(count // 8 + 1)
        # Little-endian on every machine, so that the bytes come in one order.
        return np.asarray(words, dtype="<u8").view(np.uint8)[:count].reshape(shape)

    def child(self) -> Rng:
        """Return a stream of its own, so that drawing more or less from it leaves this one where it is."""
        return Rng(int(self._bits.random_raw()))
