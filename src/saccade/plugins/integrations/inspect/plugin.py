"""What inspect_ai finds when it looks for the package `saccade`: its task, solver, scorer and sandbox.

inspect_ai imports this by the entry point `saccade` of the group `inspect_ai`.
"""

from __future__ import annotations

from saccade.plugins.integrations.inspect.parts import graded, look, look_again
from saccade.plugins.integrations.inspect.sandbox import SaccadeSandboxEnvironment

__all__ = ["SaccadeSandboxEnvironment", "graded", "look", "look_again"]
