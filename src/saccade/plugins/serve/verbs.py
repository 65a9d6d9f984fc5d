"""The verbs of the plug-in `serve`, named by entry points of `saccade.commands`; imports nothing heavy."""

from __future__ import annotations

from saccade.cli.main import Verb

SERVE = Verb(
    "saccade.plugins.serve.cli:serve_verb", "Serve models that look again behind OpenAI's protocol.", "Ask and serve"
)
MCP = Verb(
    "saccade.plugins.serve.cli:mcp_verb", "Give agents a Python sandbox that shows pictures, over MCP.", "Ask and serve"
)
SANDBOX = Verb("saccade.plugins.serve.cli:sandbox_verb", "Serve sandboxes to other hosts.", "Ask and serve")
