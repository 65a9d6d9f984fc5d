"""The protocols by name, each imported when it is asked for. Other packages add some as `saccade.protocols`."""

from __future__ import annotations

import re
from typing import Final

from saccade.errors import RegistryError
from saccade.evals.protocols.base import AnyProtocol, Protocol
from saccade.record.registry import Registry, is_a

_NAME = re.compile(r"[A-Za-z0-9_-]+")  # findings lie in a file of that name

PROTOCOLS: Final = Registry[AnyProtocol](
    "protocols",
    {
        "faithfulness@1": "saccade.evals.protocols.faithfulness.protocol:PROTOCOL",
        "errors@1": "saccade.evals.protocols.errors.protocol:PROTOCOL",
        "tool_use@1": "saccade.evals.protocols.tool_use.protocol:PROTOCOL",
        "tokens@1": "saccade.evals.protocols.tokens.protocol:PROTOCOL",
        "confidence@1": "saccade.evals.protocols.confidence.protocol:PROTOCOL",
    },
    is_a(Protocol, "a saccade.evals.protocols.base.Protocol"),
)


def load_protocol(name: str) -> AnyProtocol:
    """Load the protocol that `name` names: an id, or code of the user's own (`file.py:NAME`, `module:NAME`).

    Raises:
        RegistryError: there is none (suggests the nearest), it cannot be imported, it is no protocol, or a protocol of
            the user's own has a name that is taken or that cannot be a file's.
    """
    protocol = PROTOCOLS.load(name)
    if PROTOCOLS.code(name) is not None:
        if PROTOCOLS.has(protocol.name):
            raise RegistryError(f"{name} has the name {protocol.name!r}, which is taken. Give it one of its own.")
        if not _NAME.fullmatch(protocol.name):
            raise RegistryError(f"{name} has the name {protocol.name!r}; use letters, digits, _ and - alone.")
    return protocol


def recorded_protocol(name: str) -> AnyProtocol:
    """The protocol that stored findings name; no code is run for it. Raises `RegistryError`."""
    return PROTOCOLS.load_recorded(name)


def protocol_names() -> tuple[str, ...]:
    """All names, without versions."""
    return PROTOCOLS.names()
