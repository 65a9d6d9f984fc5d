"""The verbs of the plug-in `worlds`, named by entry points of `saccade.commands`; imports nothing heavy."""

from __future__ import annotations

from saccade.cli.main import Verb

DEMO = Verb(
    "saccade.plugins.worlds.cli:demo_verb", "Play an episode and make a page of it; no key, no GPU.", "Ask and serve"
)
WORLDS = Verb(
    "saccade.plugins.worlds.cli:worlds_verb", "Draw tasks from a seed, with their gold answers.", "Data and training"
)
