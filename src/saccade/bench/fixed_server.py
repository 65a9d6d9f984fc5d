"""A server of the OpenAI protocol that answers after a fixed time: `python -m saccade.bench.fixed_server`.

Arguments: seconds, and the texts of an episode as a JSON list; a question with n messages of the assistant gets text n.
The first line of its output is the port. It knows no more of HTTP than the client beside it needs.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Sequence


async def serve(seconds: float, texts: Sequence[str]) -> None:
    """Answer on a free port of this machine until the process is ended."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).lower()
                length = int(head.partition(b"content-length:")[2].partition(b"\r\n")[0])
                asked = json.loads(await reader.readexactly(length))
                await asyncio.sleep(seconds)
                said = sum(message["role"] == "assistant" for message in asked["messages"])
                writer.write(_response(texts[said]))
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # the client has gone
        finally:
            writer.close()

    server = await asyncio.start_server(talk, "127.0.0.1", 0)
    sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    await server.serve_forever()


def _response(text: str) -> bytes:
    choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}
    body = json.dumps({"id": "f", "object": "chat.completion", "created": 0, "model": "fixed", "choices": [choice]})
    head = f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(body.encode())}\r\n\r\n"
    return (head + body).encode()


if __name__ == "__main__":
    asyncio.run(serve(float(sys.argv[1]), json.loads(sys.argv[2])))
