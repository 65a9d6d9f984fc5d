"""The plugin that verifiers finds under the id `saccade-verifiers`: its taskset and its harness.

verifiers imports a plugin by its id as a module of its own, and takes the one class of each kind from `__all__`.
"""

from __future__ import annotations

from saccade.plugins.integrations.verifiers.loop import LookHarness, LookTaskset

__all__ = ["LookHarness", "LookTaskset"]
