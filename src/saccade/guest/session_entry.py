"""What the zygote knows of one session."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .inspection import Belongings, Map

FAMILY_SESSIONS = 256
"""Most sessions of one origin where there are no control groups: the kernel counts their processes together."""


@dataclass(frozen=True)
class Inspected:
    """What the zygote has seen of a process that stands still since."""

    pid: int
    stop: int
    """The number of the stop in which it stood (`groups.stands_since`)."""
    why_not: str | None
    """Why it cannot be kept, or None."""
    shared: list[Map]


@dataclass
class SessionEntry:
    """Processes and folders of a session; a process id here is also the id of its process group."""

    id: int
    uid: int
    family: str
    """Folder that holds the workspaces of this session and of the sessions it shares memory with."""
    workspace: str
    base: str
    """Folder that holds the workspaces of all sessions."""
    socket: int
    """Inode number of the session's socket."""
    memory: frozenset[int]
    """Inode numbers of the memory that session and host share."""
    keeper: int = 0
    leaf: int | None = None
    calling: bool = False
    """Whether the leaf runs a call, and the host waits to hear how it stands at its end."""
    late: bool = False
    """Whether the keeper, while it got ready, has stopped itself, which it should have done before."""
    former: int = 0
    """The keeper before the present one, to be killed as soon as that gets ready; 0 if it is."""
    inspected: Inspected | None = None
    rolling: bool = False
    """A rollback was ordered and the leaf has not ended yet."""
    closing: bool = False
    maps: list[Map] = field(default_factory=list)
    """Shared mappings of files of the workspace when the last kept call ended, with paths relative to it."""
    mapped: list[Map] | None = None
    """All mappings of files of the workspace then, once a branch was made: the same in every leaf of one keeper."""
    fault: str = ""
    """Why the zygote itself has ended the session; empty if it has not."""

    @property
    def own(self) -> Belongings:
        """What the session's processes may hold."""
        from .inspection import Belongings

        return Belongings(self.workspace, self.base, self.socket, self.memory)
