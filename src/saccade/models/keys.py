"""Keys of model providers: read from an argument or the environment, sent to the provider, shown to nobody.

    SACCADE_<PROVIDER>_API_KEY      for every provider, before its own name
    OPENAI_API_KEY, AZURE_OPENAI_API_KEY, ANTHROPIC_API_KEY

An `ApiKey` has no readable form: not in `repr`, `str`, a copy or a pickle. A program that calls `reveal` has it, of
course.
"""

from __future__ import annotations

import os
from typing import NoReturn

from saccade.errors import ModelRefusedError

_USUAL = {
    "openai": "OPENAI_API_KEY",
    "azure": "AZURE_OPENAI_API_KEY",
    "anthropic": "ANTHROPIC_API_KEY",
}


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


def find_key(provider: str, given: str | None = None, *, needed: bool = True) -> ApiKey:
    """The key for `provider`: `given`, or of the environment; empty if there is none and none is needed.

    Raises:
        ModelRefusedError: there is none, and the provider answers nobody without one.
    """
    names = [f"SACCADE_{provider.upper().replace('-', '_')}_API_KEY", *_usual(provider)]
    value = given or next((value for name in names if (value := os.environ.get(name))), "")
    if needed and not value:
        raise ModelRefusedError(f"there is no key for {provider}. Set {names[-1]} in the environment.")
    return ApiKey(value)


def _usual(provider: str) -> list[str]:
    return [_USUAL[provider]] if provider in _USUAL else []
