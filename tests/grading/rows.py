"""A table as one test, which runs every row and reports all that fail."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any

import pytest


def rows(names: str | tuple[str, ...], table: Iterable[Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Run a test for each row, as `pytest.mark.parametrize` does, but within one item; tables may be stacked."""
    columns = (names,) if isinstance(names, str) else names
    table = list(table)

    def over(test: Callable[..., None]) -> Callable[..., None]:
        def every(**given: Any) -> None:
            failed = []
            for row in table:
                values = dict(zip(columns, (row,) if len(columns) == 1 else row, strict=True))
                try:
                    test(**given, **values)
                except (Exception, pytest.fail.Exception) as error:
                    failed.append(f"{row!r}: {type(error).__name__}: {error}")
            assert table
            assert not failed, f"{len(failed)} of {len(table)} rows fail:\n" + "\n".join(failed)

        rest = [one for name, one in inspect.signature(test).parameters.items() if name not in columns]
        every.__signature__ = inspect.Signature(rest)  # type: ignore[attr-defined]
        every.__name__, every.__doc__, every.__module__ = test.__name__, test.__doc__, test.__module__
        return every

    return over
