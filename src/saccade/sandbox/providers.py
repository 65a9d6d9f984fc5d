"""The providers of sandboxes that come with Saccade; see `saccade.sandbox.registry`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from saccade.errors import SettingsError
from saccade.sandbox.base import Sandbox
from saccade.sandbox.limits import Limits

if TYPE_CHECKING:
    from saccade.sandbox.result import RunResult


def local(rest: str, limits: Limits, wait: float | None) -> Sandbox:
    """Isolated processes of this machine (Linux)."""
    from saccade.sandbox.local import LocalSandbox

    if rest:
        raise SettingsError(f"nothing may follow the sandbox `local`. Leave out {rest!r}.")
    return LocalSandbox(limits=limits)


def remote(rest: str, limits: Limits, wait: float | None) -> Sandbox:
    """Sessions of one `saccade sandbox serve` or several, by address: `http://host:8765,http://other:8765`."""
    from saccade.sandbox.pool import PoolTimes, SandboxPool
    from saccade.sandbox.remote import RemoteSandbox

    boxes = [RemoteSandbox(address.strip()) for address in rest.split(",")]
    return SandboxPool(boxes, None if wait is None else PoolTimes(wait=wait))


def scripted(rest: str, limits: Limits, wait: float | None) -> Sandbox:
    """Answers from a JSON list, one for each call, as in `scripted:FILE.json`; runs nothing, for tests."""
    from saccade.sandbox.scripted import ScriptedSandbox

    return ScriptedSandbox(_results(rest), limits=limits)


def _results(path: str) -> list[RunResult]:
    """The results in a file: a list of texts (what a call prints) or of objects with fields of `RunResult`."""
    from pydantic import TypeAdapter, ValidationError

    from saccade.record.status import Status
    from saccade.sandbox.result import RunResult

    try:
        with open(path, "rb") as file:
            found = TypeAdapter(list[str | RunResult]).validate_json(file.read())
    except OSError as error:
        raise SettingsError(f"sandbox scripted:{path}: the file cannot be read: {error.strerror}.") from error
    except ValidationError as error:
        first = error.errors()[0]
        raise SettingsError(
            f"sandbox scripted:{path}: {first['msg']}. The file is a JSON list of texts, or of objects such as "
            '{"status": "error", "traceback": "NameError: x"}.'
        ) from error
    return [RunResult(Status.OK, stdout=item, committed=True) if isinstance(item, str) else item for item in found]
