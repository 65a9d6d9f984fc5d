"""What models behind a provider's own client package share: name, key, connections, and patience with outages."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from saccade.models.base import Completion
from saccade.models.endpoint import Endpoint
from saccade.models.failures import converted, load_client
from saccade.models.keys import find_key
from saccade.models.retry import with_retries

_CLIENTS = {"openai": "AsyncOpenAI", "anthropic": "AsyncAnthropic"}


class HostedModel:
    """The base of such models; a subclass says what is asked and how an answer is read."""

    def __init__(
        self, provider: str, endpoint: Endpoint, *, package: str, api_key: str | None, key_needed: bool = True
    ) -> None:
        """`package` is the client package to talk with, `openai` or `anthropic`.

        Raises:
            UnavailableError: it is not installed.
            ModelRefusedError: a key is needed, and there is none.
        """
        self.name = f"{provider}:{endpoint.model}"
        self._endpoint = endpoint
        self._package = load_client(package)
        self._key = find_key(provider, api_key, needed=key_needed)
        self._client: Any = getattr(self._package, _CLIENTS[package])(
            api_key=self._key.reveal() or "none",
            base_url=endpoint.base_url,
            max_retries=0,
            timeout=endpoint.timeout_seconds,
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    async def close(self) -> None:
        """Give back the connections."""
        await self._client.close()

    async def _patiently(self, ask: Callable[[], Awaitable[Completion]]) -> Completion:
        """What `ask`, one try, gives; outages are tried again, and all failures are errors of ours."""
        return await with_retries(
            lambda: converted(
                ask,
                client=self._package,
                key=self._key,
                who=self.name,
                timeout_seconds=self._endpoint.timeout_seconds,
            ),
            self._endpoint.retry,
            self._endpoint.clock,
        )
