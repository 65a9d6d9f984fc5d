import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.models.helpers import Media, ask

from saccade.errors import ModelRefusedError, RegistryError, SettingsError
from saccade.models.providers.anthropic import AnthropicModel
from saccade.models.providers.openai import OpenAIModel
from saccade.models.registry import PROVIDERS, load_model


async def test_every_form(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "AZURE_OPENAI_API_KEY"):
        monkeypatch.setenv(name, "k")
    for wanted, kind, name in (
        ("openai:gpt-4.1", OpenAIModel, "openai:gpt-4.1"),
        ("azure:mine@https://x.openai.azure.com/openai/v1/", OpenAIModel, "azure:mine"),
        ("vllm:Qwen/Qwen2.5-VL-7B@http://localhost:8000/v1", OpenAIModel, "vllm:Qwen/Qwen2.5-VL-7B"),
        ("sglang:a@b@http://localhost:30000/v1", OpenAIModel, "sglang:a@b"),
        ("compatible:m@http://localhost:1/v1", OpenAIModel, "compatible:m"),
        ("transformers:/models/m@http://localhost:1/v1", OpenAIModel, "transformers:/models/m"),
        ("anthropic:claude-opus-4-8", AnthropicModel, "anthropic:claude-opus-4-8"),
    ):
        model = load_model(wanted)
        assert isinstance(model, kind)
        assert model.name == name
        await model.close()


async def test_a_script_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "script.json"
    path.write_text(json.dumps(["one"]))
    model = load_model(f"scripted:{path}")
    assert (await model.complete(ask(), Media())).text == "one"
    with pytest.raises(SettingsError):
        load_model("replay:nowhere.jsonl")


@pytest.mark.parametrize(
    ("wanted", "says"),
    [
        ("opnai:gpt-4.1", "Did you mean 'openai'"),
        ("gpt-4.1", "no provider of models 'gpt-4.1'"),
        ("openai", "write openai:NAME"),
        ("openai:", "write openai:NAME"),
        ("", "Known: anthropic"),
    ],
)
def test_a_miss_suggests(wanted: str, says: str) -> None:
    with pytest.raises(RegistryError) as caught:
        load_model(wanted)
    assert says in str(caught.value)


def test_what_is_missing_is_said() -> None:
    with pytest.raises(SettingsError, match="address"):
        load_model("vllm:m")
    with pytest.raises(ModelRefusedError, match="ANTHROPIC_API_KEY"):
        load_model("anthropic:claude-opus-4-8")


def test_client_packages_are_imported_late() -> None:
    code = "import saccade.models.providers, saccade.models.registry, sys; print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"openai", "anthropic", "httpx", "httpx2", "torch", "transformers"} & set(run.stdout.split())
    assert {"openai", "anthropic", "local", "scripted", "replay"} <= set(PROVIDERS.names())


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("gpt-4.1", "openai:gpt-4.1"),
        ("o4-mini", "openai:o4-mini"),
        ("openai/gpt-4o", "openai:gpt-4o"),
        ("claude-opus-4-8", "anthropic:claude-opus-4-8"),
        ("gemini-3-flash", "gemini:gemini-3-flash"),
        ("models/gemini-2.5-pro", "gemini:gemini-2.5-pro"),
        ("Qwen/Qwen2.5-VL-7B-Instruct", "local:Qwen/Qwen2.5-VL-7B-Instruct"),
        ("Qwen/Qwen2.5-VL-7B-Instruct", "vllm:Qwen/Qwen2.5-VL-7B-Instruct@http://host:8000/v1"),
        ("qwen2.5-vl", "vllm:qwen2.5-vl@http://host:8000/v1"),
        ("Qwen/Qwen3-VL-8B@http://gpu:8000/v1", "vllm:Qwen/Qwen3-VL-8B@http://gpu:8000/v1"),
    ],
)
def test_a_name_without_its_provider_is_told_with_it(name: str, written: str) -> None:
    with pytest.raises(RegistryError) as refused:
        load_model(name)
    assert written in str(refused.value)
