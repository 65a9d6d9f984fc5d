"""How an execution ended: a type, never a substring of some text."""

from enum import StrEnum


class Status(StrEnum):
    """How one call of a sandbox or a tool ended.

    `lost` is an outage of ours: it is never shown to a model as its mistake and never enters a loss.
    Every other status is the doing of the program that was run.
    """

    OK = "ok"
    """The code ran to its end; its state is kept."""
    ERROR = "error"
    """The code raised an exception (or does not compile)."""
    TIMEOUT = "timeout"
    """The code ran longer than the wall or CPU limit and was killed."""
    KILLED = "killed"
    """The process of the call died: a signal, `os._exit`, a segmentation fault."""
    OUT_OF_MEMORY = "out_of_memory"
    """The code asked for more memory than the limit."""
    REFUSED = "refused"
    """The code ended, but left something that may not stay (a running thread or process), or broke the rules."""
    LOST = "lost"
    """Our own processes, host or network failed. Not the program's fault."""
