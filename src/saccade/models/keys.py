"""Keys of model providers: read from an argument or the environment, sent to the provider, shown to nobody.

    SACCADE_<PROVIDER>_API_KEY      for every provider, before the usual names (`Provider.key_names`)

An `ApiKey` has no readable form: not in `repr`, `str`, a copy or a pickle. A program that calls `reveal` has it, of
course.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import NoReturn

from saccade.errors import ModelRefusedError


class ApiKey:
    """A secret that can only be read on purpose."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def __repr__(self) -> str:
        return "ApiKey(hidden)"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a key is never pickled or copied; read it from the environment where it is needed")

    def reveal(self) -> str:
        """The secret; for the client that sends it."""
        return self._value

    def hide(self, text: str) -> str:
        """`text` with the secret blotted out, for messages of servers that repeat what they were sent."""
        return text.replace(self._value, "[key]") if self._value else text


def find_key(provider: str, given: str | None = None, *, usual: Sequence[str] = (), needed: bool = True) -> ApiKey:
    """The key for `provider`: `given`, or of the environment; empty if there is none and none is needed.

    Args:
        provider: its name.
        given: a key that comes before the environment.
        usual: variables of the environment to look in after `SACCADE_<PROVIDER>_API_KEY`.
        needed: whether the provider answers nobody without one.

    Raises:
        ModelRefusedError: there is none, and one is needed.
    """
    names = [f"SACCADE_{provider.upper().replace('-', '_')}_API_KEY", *usual]
    value = given or next((value for name in names if (value := os.environ.get(name))), "")
    if needed and not value:
        raise ModelRefusedError(f"there is no key for {provider}. Set {names[-1]} in the environment.")
    return ApiKey(value)
