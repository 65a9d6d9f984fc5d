"""A program in the place of `vllm serve`, that judges everything right."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

VLLM = f"""#!{sys.executable}
import json, os, sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

arguments = sys.argv[1:]
with open(os.path.join(os.path.dirname(sys.argv[0]), "started.jsonl"), "a") as file:
    file.write(json.dumps([os.getpid(), os.environ["CUDA_VISIBLE_DEVICES"], arguments]) + "\\n")

class Judge(BaseHTTPRequestHandler):
    def log_message(self, *given): pass

    def answer(self, body):
        data = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self):
        self.answer({{}})

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        said = {{"role": "assistant", "content": json.dumps({{"score": 1}})}}
        self.answer({{"id": "1", "object": "chat.completion", "created": 1, "model": asked["model"],
                     "choices": [{{"index": 0, "message": said, "finish_reason": "stop"}}],
                     "usage": {{"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}}}})

ThreadingHTTPServer(("127.0.0.1", int(arguments[arguments.index("--port") + 1])), Judge).serve_forever()
"""


def vllm(tmp_path: Path, text: str = VLLM) -> Path:
    program = tmp_path / "vllm"
    program.write_text(text)
    program.chmod(0o755)
    return program


def gone(process: int, seconds: float = 60) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            os.kill(process, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.1)
    return False


def started(tmp_path: Path) -> list[Any]:
    return [json.loads(line) for line in (tmp_path / "started.jsonl").read_text().splitlines()]
