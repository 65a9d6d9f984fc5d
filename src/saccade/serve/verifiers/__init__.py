"""Tasks, loop and rewards as plugins of Prime Intellect's verifiers. Needs the extra `verifiers`."""
