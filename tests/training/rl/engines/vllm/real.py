"""A vLLM server that tests start, kill and start again at the same port."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import httpx
import torch
import transformers

from saccade.training.rl.engines.vllm_process import ServerProcess, free_port, serve_command, serve_environment

CONTEXT = 2048
WIDER = {"qwen2_5_vl": [4, 6, 6], "qwen3_vl": [4, 6, 6], "glm4v": [4, 2, 2], "internvl": None}
"""Families -> how the numbers of a head of 32 are shared out among the axes of positions, where there are several."""


def save_random(folder: Path, seed: int = 0, family: str = "qwen2_5_vl") -> None:
    """A tiny checkpoint with random weights whose heads have 32 numbers: vLLM's CPU kernels know no narrower ones."""
    from saccade.plugins.worlds.random_checkpoint import save_tiny

    save_tiny(folder, family)
    if family == "internvl":
        _complete_internvl(folder)
    path = folder / "config.json"
    config = json.loads(path.read_text())
    text, sections = config["text_config"], WIDER[family]
    text |= {"hidden_size": 128, "intermediate_size": 256}
    if text.get("head_dim"):
        text["head_dim"] = 32
    if sections is not None:
        text["rope_parameters"]["mrope_section"] = sections
        config["vision_config"]["out_hidden_size"] = 128
    path.write_text(json.dumps(config))
    config = transformers.AutoConfig.from_pretrained(folder)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = transformers.AutoModelForImageTextToText.from_config(config)
    model.generation_config = transformers.GenerationConfig.from_pretrained(folder)
    model.save_pretrained(folder)


def _complete_internvl(folder: Path) -> None:
    """What its processor, which vLLM asks and this package does not, wants of a checkpoint."""
    marks = {"start": "<img>", "end": "</img>", "context": "<IMG_CONTEXT>"}
    named = {"video_token": "<video>", **{f"{name}_image_token": token for name, token in marks.items()}}
    transformers.AutoTokenizer.from_pretrained(folder, extra_special_tokens=named).save_pretrained(folder)
    config = {"processor_class": "InternVLProcessor", "image_seq_length": 4}
    (folder / "processor_config.json").write_text(json.dumps(config))


class RealServer:
    """One server over a checkpoint."""

    def __init__(self, program: Path, folder: Path, log: Path, *options: str, **environment: str) -> None:
        """`options` and `environment` are those of `vllm serve`, over the usual ones."""
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._folder = folder
        self._command = [*serve_command(str(program), folder, self.port, CONTEXT, cpu=True), *options]
        self._log = log
        self._environment = environment
        self._process: ServerProcess | None = None

    async def start(self) -> None:
        self._process = ServerProcess(self._command, serve_environment(None) | self._environment, self.url, self._log)
        await self._process.wait_until_ready(1200)

    def stop(self) -> None:
        assert self._process is not None
        self._process.stop()

    def copy_weights(self, folder: Path) -> None:
        """Write the checkpoint that it was started with."""
        shutil.copytree(self._folder, folder, dirs_exist_ok=True)

    def running(self) -> int:
        """Requests that it works on now."""
        return self._count("num_requests_running")

    def sampled(self) -> int:
        """Requests that it has finished."""
        return self._count("request_success_total")

    def _count(self, name: str) -> int:
        text = httpx.get(f"{self.url}/metrics").text
        found = re.findall(rf"^vllm:{name}\{{.*\}} (\S+)$", text, re.MULTILINE)
        assert found
        return int(sum(map(float, found)))
