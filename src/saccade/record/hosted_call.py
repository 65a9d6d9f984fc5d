"""A call of a provider's own sandbox: code that ran there while the model wrote its turn, and what came of it.

The provider decides what is told: some name the exit status, others print the error among the output alone.
"""

from __future__ import annotations

from pydantic import NonNegativeInt

from saccade.record.base import Name, Record, Text
from saccade.record.execution import Execution


class HostedCall(Record):
    """One call, in the order in which the calls were made."""

    tool: Name
    """As the provider names it, e.g. `code_interpreter` or `bash_code_execution`."""
    language: Text = "python"
    """Of `code`: `python`, `bash`, or `json` for the arguments of a tool that takes no code."""
    code: Text = ""
    at: NonNegativeInt = 0
    """Characters of the turn's text that were written before the call."""
    call_id: Text | None = None
    """The provider's identifier."""
    container: Text = ""
    """The provider's name of the sandbox, where it tells one."""
    execution: Execution
    """Pictures are those that the protocol gives back. Its status is `lost` where the provider's sandbox was out of
    order, or never answered."""
