"""The environment as a package of OpenEnv: `openenv build`, `openenv validate` and `openenv push` read it.

Who reaches a container's port is up to its owner; outside of one use `saccade openenv`, which asks for a token.
"""

from __future__ import annotations

import argparse
import os
import sys

import uvicorn

from saccade.plugins.integrations.openenv.environment import openenv_app
from saccade.plugins.integrations.openenv.wire import OpenEnvSettings

TASKS = os.environ.get("SACCADE_TASKS", "nested-squares").split()
DIALECT = os.environ.get("SACCADE_DIALECT", "pyvision")
TOKEN = os.environ.get("SACCADE_OPENENV_TOKEN") or None

if TOKEN is None:
    print("SACCADE_OPENENV_TOKEN is not set: whoever reaches this port may use it.", file=sys.stderr)
app = openenv_app(OpenEnvSettings(tasks=tuple(TASKS), dialect=DIALECT), token=TOKEN, only_local=False)


def main() -> None:
    """Serve the environment."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000)
    given = parser.parse_args()
    uvicorn.run(app, host=given.host, port=given.port, log_level="warning")


if __name__ == "__main__":
    main()
