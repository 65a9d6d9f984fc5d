"""The seam to a user's own code: what it gives is checked where it comes in, and what it raises is told with its line.

`has_methods` and `misfit` look at signatures when a part is loaded; every call of a part that may be a user's goes
through `seam` or `awaited`. Saccade's own parts are only checked for the class of what they give.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Coroutine, Generator, Iterator
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, ParamSpec, TypeVar, get_type_hints

from pydantic import BaseModel, ConfigDict, ValidationError, create_model

from saccade.core.registry import Lacks, blame, described
from saccade.errors import OwnCodeError, SaccadeError

T = TypeVar("T")
P = ParamSpec("P")
_EXAMPLES = "docs/extending.md shows how each part is written."


def has_methods(like: type) -> Lacks:
    """Check that the public methods of an object or a class can be called, and awaited, as those of `like` are."""
    wanted = {
        name: method
        for name, method in vars(like).items()
        if inspect.isfunction(method) and (name == "__call__" or not name.startswith("_"))
    }

    def lacks(value: object) -> str:
        for name, method in wanted.items():
            still = inspect.getattr_static(value, name, None) if isinstance(value, type) else None
            if found := misfit(getattr(value, name, None), method, name, unbound=inspect.isfunction(still)):
                return found
        return ""

    return lacks


def misfit(part: object, like: Callable[..., Any], name: str, *, unbound: bool = False) -> str:
    """Return why a part that may be a user's own cannot be called as the function `like`; empty if it can."""
    if not callable(part):
        return f"it has no {name}()" if part is None else f"its {name} is {_given(part)}, and no function"
    function = _function(part)
    if _is_ours(part) or not inspect.isfunction(function):
        return ""
    known = list(inspect.signature(like).parameters.values())
    if known and known[0].name == "self" and not unbound:
        del known[0]
    keywords = [one.name for one in known if one.kind is inspect.Parameter.KEYWORD_ONLY]
    try:
        inspect.signature(part).bind(*range(len(known) - len(keywords)), **dict.fromkeys(keywords))
    except TypeError as error:
        called = ", ".join(one.name if one.name not in keywords else f"{one.name}=..." for one in known)
        return f"{place(part)} cannot be called with ({called}): {error}"
    if inspect.iscoroutinefunction(like) and not inspect.iscoroutinefunction(function):
        return f"{place(part)} is awaited, so it must be written with `async def`"
    return "" if inspect.iscoroutinefunction(like) else _wrong_way(part)


def _wrong_way(part: object) -> str:
    function = _function(part)
    if inspect.iscoroutinefunction(function):
        return f"{place(part)} is not awaited, so it must be written without `async`"
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        return f"{place(part)} yields, and must return"
    return ""


def seam(part: Callable[P, T], *kinds: type, each: tuple[type, ...] = (), count: int | None = None) -> Callable[P, T]:
    """Return `part` as it is to be called: what it gives is checked, and what it raises is told with file and line.

    Args:
        part: a function or an object that is called; a method of a part.
        kinds: what it may give. The fields of a dataclass that a user's own code made are checked too.
        each: of a sequence, what its items may be.
        count: of a sequence, how many there must be.

    The call raises `OwnCodeError`; a `SaccadeError` of the part itself, and exceptions of Saccade's own code, pass.
    """

    def called(*given: P.args, **named: P.kwargs) -> T:
        try:
            value = part(*given, **named)
        except Exception as error:
            _tell(error, part)
            raise
        return fitting(value, part, kinds, each, count)

    return called


def awaited(part: Callable[P, Awaitable[T]], *kinds: type) -> Callable[P, Awaitable[T]]:
    """Return the same of a part that is awaited, see `seam`; a part of Saccade's own is returned as it is."""
    if _is_ours(part):
        return part

    async def called(*given: P.args, **named: P.kwargs) -> T:
        with told(part):
            value = await coming(part(*given, **named), part)
        return fitting(value, part, kinds)

    return called


@contextmanager
def told(part: object) -> Iterator[None]:
    """Raise `OwnCodeError` for what a call of `part` raises inside, where a user's own code is to blame."""
    try:
        yield
    except Exception as error:
        _tell(error, part)
        raise


def coming(value: Awaitable[T], part: object) -> Awaitable[T]:
    """Return what `part` gave to be awaited. Raises `OwnCodeError` where it is nothing that can be."""
    if not inspect.isawaitable(value):
        raise OwnCodeError(f"{place(part)} is called with `await`, and is none: write `async def`.")
    return value


def _tell(error: Exception, part: object) -> None:
    """Raise `OwnCodeError` for an exception of a user's own code, or for a call that its signature does not take."""
    if isinstance(error, SaccadeError):
        return
    if own := blame(error):
        raise OwnCodeError(own) from error
    inner = error.__traceback__ and error.__traceback__.tb_next
    if isinstance(error, TypeError) and inner is None and not _is_ours(part):
        raise OwnCodeError(f"{place(part)} cannot be called as it must be: {error}. {_EXAMPLES}") from error


def fitting(
    value: T, part: object, kinds: tuple[type, ...], each: tuple[type, ...] = (), count: int | None = None
) -> T:
    """Return `value`, which `part` gave. Raises `OwnCodeError` as the calls of `seam` do."""
    if not isinstance(value, kinds):
        unlike = _wrong_way(part) if isinstance(value, Coroutine | Generator | AsyncGenerator) else ""
        if inspect.iscoroutine(value):
            value.close()  # nobody will await it
        raise OwnCodeError(f"{unlike or f'{place(part)} gave {_given(value)}, and must give {_names(kinds)}'}.")
    if each and isinstance(value, Collection):
        if wrong := [item for item in value if not isinstance(item, each)]:
            raise OwnCodeError(
                f"{place(part)} gave {_given(wrong[0])} among others, and must give {_names(each)} each."
            )
        if count is not None and len(value) != count:
            raise OwnCodeError(f"{place(part)} gave {len(value)} of the {count} that it was asked for, one for each.")
    if not _is_ours(part):
        for item in value if each and isinstance(value, Collection) else (value,):
            if mistakes := _mistaken_fields(item, each or kinds):
                raise OwnCodeError(f"{place(part)} gave {_given(item)} with a wrong field: {mistakes}.")
    return value


def _mistaken_fields(value: object, kinds: tuple[type, ...]) -> str:
    """Return what is wrong with the fields of a dataclass of ours, which does not check them itself; else nothing."""
    kind = next((kind for kind in kinds if isinstance(value, kind) and is_dataclass(kind)), None)
    if kind is None:
        return ""
    try:
        _fields_of(kind).model_validate({field.name: getattr(value, field.name) for field in fields(kind)})
    except ValidationError as error:
        found = {str(problem["loc"][0]): problem for problem in error.errors()}
        return "; ".join(f"{name} is {problem['input']!r:.80}: {problem['msg']}" for name, problem in found.items())
    return ""


@cache
def _fields_of(kind: type) -> type[BaseModel]:
    config = ConfigDict(arbitrary_types_allowed=True, strict=True, allow_inf_nan=False)
    hints = get_type_hints(kind, include_extras=True)
    typed: dict[str, Any] = {field.name: (hints[field.name], ...) for field in fields(kind)}
    return create_model(kind.__name__, __config__=config, **typed)


def _is_ours(part: object) -> bool:
    return str(getattr(_function(part), "__module__", "")).partition(".")[0] == "saccade"


def _function(part: object) -> Any:
    """Return the function behind a method or an object that is called; the part itself where it has none."""
    named = getattr(part, "__func__", part)
    if not hasattr(named, "__code__") and not isinstance(named, type):
        named = getattr(type(named), "__call__", named)  # noqa: B004 - of the class, not whether there is one
    return inspect.unwrap(named) if callable(named) else named


def place(part: object) -> str:
    """Return the file, the line and the name of a function, or of an object that is called."""
    function = _function(part)
    name = getattr(function, "__qualname__", type(part).__qualname__)
    code = getattr(function, "__code__", None)
    return f"{code.co_filename}, line {code.co_firstlineno}: {name}()" if code else f"{name}()"


def _given(value: object) -> str:
    return "None" if value is None else described(value)


def _names(kinds: tuple[type, ...]) -> str:
    return " or ".join("None" if kind is type(None) else kind.__name__ for kind in kinds)
