"""An MCP server over stdio, without the package: it gives the list of tools and the answer that its command names.

    python nonsense_server.py TOOLS ANSWER

Both are JSON: the member `result` of the reply to `tools/list`, and the members of the reply to `tools/call`.
"""

from __future__ import annotations

import json
import sys


def main(tools: str, answer: str) -> None:
    """Answer until the input ends."""
    for line in sys.stdin:
        message = json.loads(line)
        if "id" not in message:
            continue
        head = f'"jsonrpc": "2.0", "id": {json.dumps(message["id"])}'
        if message["method"] == "initialize":
            result = {
                "protocolVersion": message["params"]["protocolVersion"],
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "nonsense", "version": "1"},
            }
            body = f'"result": {json.dumps(result)}'
        elif message["method"] == "tools/list":
            body = f'"result": {tools}'
        elif message["method"] == "tools/call":
            body = answer.strip()[1:-1]
        else:
            body = '"error": {"code": -32601, "message": "no such method"}'
        print(f"{{{head}, {body}}}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
