"""The verbs of the plug-in `integrations`, named by entry points of `saccade.commands`; imports nothing heavy."""

from __future__ import annotations

from saccade.cli.main import Verb

OPENENV = Verb(
    "saccade.plugins.integrations.openenv_cli:app",
    "Serve the environment to trainers over OpenEnv.",
    "Data and training",
)
