"""Rules that a recipe names and gives parameters in one table: `rule = "grpo"`, or code of the user's own.

    [advantage]
    rule = "my_rules.py:Centred"        # or module:NAME, or what an installed package registers
    scale = 0.5

A rule is a settings object that can be called. Which kinds there are stands in `rl/select` and `rl/advantages`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from pydantic import ValidationInfo
from pydantic_core import PydanticCustomError

from saccade.errors import RegistryError
from saccade.record.registry import Registry
from saccade.record.settings import Settings, is_saved


class Rule(Settings):
    """Base of selections and advantages; the first sentence of the docstring is what `saccade list` shows."""

    rule: str = ""
    """As the recipe names it."""


R = TypeVar("R", bound=Settings)


def named(rules: Registry[type[R]], default: str, key: str = "rule") -> Callable[[object, ValidationInfo], object]:
    """Make a pydantic validator of a table that names its class under `key`; without it, the class is `default`.

    In settings that were saved (`saccade.record.settings.load_saved`) it runs no code that this process did not load.
    """

    def make(given: object, info: ValidationInfo) -> object:
        if not isinstance(given, Mapping):
            return given
        name = str(given.get(key, default))
        try:
            kind = rules.load_recorded(name) if is_saved(info) else rules.load(name)
        except RegistryError as error:
            raise PydanticCustomError("unknown_rule", "{said}", {"said": str(error)}) from error
        shown = name.partition("@")[0] if rules.code(name) is None else name
        return kind.model_validate({**given, key: shown})

    return make
