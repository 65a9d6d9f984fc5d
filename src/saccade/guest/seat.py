"""What the zygote knows of one session."""

from __future__ import annotations

from dataclasses import dataclass

from .workspaces import WorkspaceFamily


@dataclass
class Seat:
    """Processes and folders of a session; a process id here is also the id of its process group."""

    id: int
    uid: int
    family: WorkspaceFamily
    """Folder that holds the workspaces of this session and of the sessions it shares memory with."""
    workspace: str
    keeper: int = 0
    leaf: int | None = None
    former: int = 0
    """The keeper before the last commit, to be killed as soon as the host has its result; 0 if it is."""
    rolling: bool = False
    """A rollback was ordered and the leaf has not ended yet."""
    closing: bool = False
