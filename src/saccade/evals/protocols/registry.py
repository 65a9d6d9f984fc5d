"""The protocols by name, each imported when it is asked for. Other packages add some as `saccade.protocols`."""

from __future__ import annotations

from typing import Final

from saccade.errors import RegistryError
from saccade.evals.protocols.base import AnyProtocol, Protocol
from saccade.record.registry import Registry

PROTOCOLS: Final = Registry(
    "protocols",
    {
        "faithfulness@1": "saccade.evals.protocols.faithfulness.protocol:PROTOCOL",
        "errors@1": "saccade.evals.protocols.errors.protocol:PROTOCOL",
        "tool_use@1": "saccade.evals.protocols.tool_use.protocol:PROTOCOL",
        "tokens@1": "saccade.evals.protocols.tokens.protocol:PROTOCOL",
        "confidence@1": "saccade.evals.protocols.confidence.protocol:PROTOCOL",
    },
)


def load_protocol(name: str) -> AnyProtocol:
    """The protocol of that name.

    Raises:
        RegistryError: there is none (suggests the nearest), or it cannot be imported.
    """
    found = PROTOCOLS.load(name)
    if not isinstance(found, Protocol):
        raise RegistryError(f"{name} of protocols is {found!r}, which is no Protocol. Correct its target.")
    return found


def protocol_names() -> tuple[str, ...]:
    """All names, without versions."""
    return tuple(dict.fromkeys(entry.partition("@")[0] for entry in PROTOCOLS.ids()))
