"""The HTTP client of servers that hundreds of episodes ask at once: those of sandboxes, and those that sample."""

from __future__ import annotations

from collections.abc import Mapping

import httpx

CONNECT_SECONDS = 60.0
"""Hundreds of episodes connect in the same moment, and what this process itself is late for counts against each."""
NO_KEEPALIVE = httpx.Limits(max_connections=None, max_keepalive_connections=0)
"""A connection for each request. httpx gives one that is free to all requests that wait, and all but one wait again, so
that of hundreds at once some would wait for as long as others come."""


def server_client(
    address: str, headers: Mapping[str, str], transport: httpx.AsyncBaseTransport | None = None
) -> httpx.AsyncClient:
    """A client that waits as long as whoever asks lets it, and uses no proxy that the environment names.

    Args:
        address: of the server, as `checked_address` gives it.
        headers: sent with every request.
        transport: another way than the network's.
    """
    return httpx.AsyncClient(
        base_url=address,
        headers=dict(headers),
        timeout=httpx.Timeout(None, connect=CONNECT_SECONDS),
        limits=NO_KEEPALIVE,
        trust_env=False,
        transport=transport,
    )
