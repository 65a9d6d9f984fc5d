from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import cast

import pytest
import pytest_asyncio
from tests.sandbox.providers import PROVIDERS, SUITES, linux_only

from saccade.errors import SettingsError
from saccade.record.status import Status
from saccade.sandbox.base import Sandbox
from saccade.sandbox.conformance import CHECKS, LIMITS, Check, ConformanceError, run_all
from saccade.sandbox.result import RunResult

pytestmark = [linux_only, pytest.mark.asyncio(loop_scope="module")]

SHARED = [check for check in CHECKS if not check.closes]
CLOSING = [check for check in CHECKS if check.closes]


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=SUITES)
async def sandbox(request: pytest.FixtureRequest) -> AsyncIterator[Sandbox]:
    async with PROVIDERS[request.param](LIMITS) as opened:
        yield opened


@pytest.mark.parametrize("check", SHARED, ids=lambda check: check.name)
@pytest.mark.few(4, of=lambda params: params["check"].name.partition(".")[0])
async def test_conformance(check: Check, sandbox: Sandbox) -> None:
    await check(sandbox)


@pytest.mark.parametrize("provider", SUITES)
async def test_run_all_runs_the_named_checks(provider: str) -> None:
    """Those that close their sandbox among them, which each have one of their own."""
    names = ("state.variables_persist", *(check.name for check in CLOSING))
    outcomes = await run_all(lambda: PROVIDERS[provider](LIMITS), names)
    assert [(outcome.check.name, outcome.message) for outcome in outcomes] == [(name, "") for name in names]
    assert all(outcome.passed for outcome in outcomes)


async def test_names_are_unique_and_documented() -> None:
    names = [check.name for check in CHECKS]
    assert len(set(names)) == len(names) >= 60
    assert all(check.about.endswith((".", ":")) for check in CHECKS), "each check says in a sentence what it asks"


async def test_run_all_names_unknown_checks() -> None:
    with pytest.raises(SettingsError, match=r"state\.no_such_check"):
        await run_all(lambda: PROVIDERS["local"](LIMITS), ["state.no_such_check"])


class Forgetful:
    """A provider that answers every call with `ok` and nothing else, or with an exception."""

    limits = LIMITS

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error

    async def open(self, *_args: object, **_kwargs: object) -> Forgetful:
        return self

    async def run(self, code: str, *, wall_seconds: float | None = None) -> RunResult:
        if self.error is not None:
            raise self.error
        return RunResult(status=Status.OK, committed=True)

    async def close(self) -> None: ...

    async def __aenter__(self) -> Forgetful:
        return self

    async def __aexit__(self, *exc: object) -> None: ...


async def test_a_provider_that_misbehaves_fails() -> None:
    names = ["state.variables_persist", "rollback.exception"]
    outcomes = await run_all(cast(Callable[[], Sandbox], Forgetful), names)
    assert [outcome.passed for outcome in outcomes] == [False, False]
    assert "expected '42', got ''" in outcomes[0].message
    [outcome] = await run_all(lambda: cast(Sandbox, Forgetful(RuntimeError("broken"))), names[:1])
    assert "RuntimeError: broken" in outcome.message


async def test_the_error_is_an_assertion() -> None:
    assert issubclass(ConformanceError, AssertionError)
