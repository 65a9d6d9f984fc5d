"""One session for a group of rollouts: opened once, and every rollout gets a branch of it.

What opening costs (pictures decoded, files written) is paid once for a group. Branches share nothing that is
written afterwards.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from saccade.errors import SandboxClosedError, SandboxError
from saccade.sandbox.base import Binding, Sandbox, Session, SessionOptions
from saccade.sandbox.isolation import Isolation
from saccade.sandbox.limits import Limits


class GroupSandbox:
    """A `Sandbox` for the rollouts of one task: all open the same session. Closing it leaves the provider open."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox
        self._root: Session | None = None
        self._lock = asyncio.Lock()
        self._closed = False

    @property
    def limits(self) -> Limits:
        """Those of the provider."""
        return self._sandbox.limits

    async def open(
        self,
        bindings: Mapping[str, Binding] | None = None,
        *,
        files: Mapping[str, bytes] | None = None,
        options: SessionOptions | None = None,
    ) -> Session:
        """A branch of the group's session, which the first call opens: arguments must be the same each time.

        Raises:
            SandboxError: the sandbox failed; the next call opens the session anew.
        """
        async with self._lock:
            if self._closed:
                raise SandboxClosedError("the sandbox of this group was closed; its episodes are over")
            if self._root is None:
                self._root = await self._sandbox.open(bindings, files=files, options=options)
            try:
                return (await self._root.branch(1))[0]
            except SandboxError:
                root, self._root = self._root, None
                await root.close()
                raise

    async def isolation(self) -> Isolation:
        """That of the provider."""
        return await self._sandbox.isolation()

    async def close(self) -> None:
        """End the group's session; idempotent. Its branches live on until they are closed."""
        self._closed = True
        root, self._root = self._root, None
        if root is not None:
            await root.close()

    async def __aenter__(self) -> GroupSandbox:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()
