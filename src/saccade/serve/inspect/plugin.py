"""What inspect_ai finds when it looks for the package `saccade`: its task, solver and scorer.

inspect_ai imports this by the entry point `saccade` of the group `inspect_ai`.
"""

from __future__ import annotations

from saccade.serve.inspect.parts import graded, look, look_again

__all__ = ["graded", "look", "look_again"]
