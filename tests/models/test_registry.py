from __future__ import annotations

import json
import subprocess
import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
from tests.models.helpers import Media, ask
from tests.models.wire_server import WireServer, chat, status

from saccade.dialects.base import load_dialect
from saccade.episode.ask import AskSettings, check_speaks, suited
from saccade.errors import ContextLimitError, ModelRefusedError, RegistryError, SettingsError
from saccade.models.endpoint import default_prices, load_prices
from saccade.models.providers.anthropic import AnthropicModel
from saccade.models.providers.openai import OpenAIModel
from saccade.models.registry import PROVIDERS, check_sampling, load_model, provider_of, unheard_sampling
from saccade.record.trajectory import Sampling

OWN = """
from saccade.models.failures import ErrorWords
from saccade.models.providers.openai import Server
from saccade.models.registry import Provider
from saccade.models.providers.openai import chat_model
from saccade.models.scripted import ScriptedModel

ACME = Server(
    name="acme",
    make=chat_model,
    key_names=("ACME_KEY",),
    needs_key=True,
    price_table="openai",
    errors=ErrorWords(full_context=("the cup is full",)),
    unknown_sampling=frozenset({"seed"}),
    function_calls=False,
    dialect="codedance",
    dialect_reason="which Acme trained it in",
)
BOOK = Provider(name="book", make=lambda provider, name: ScriptedModel(["one"]), takes_name=False, samples=False)
BROKEN = Provider(name="broken", make=lambda provider, name: 3)
"""


@pytest.fixture
def own(tmp_path: Path) -> str:
    path = tmp_path / "acme.py"
    path.write_text(OWN)
    return str(path)


async def test_it_is_asked_with_its_key_and_its_errors_are_read(
    server: WireServer, own: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = f"{own}:ACME@gpt-4.1@{server.url}/v1"
    with pytest.raises(ModelRefusedError, match="Set ACME_KEY"):
        load_model(wanted)
    monkeypatch.setenv("ACME_KEY", "sk-acme")
    model = load_model(wanted)
    server.will(chat())
    completion = await model.complete(ask(), Media())
    assert model.name == "acme:gpt-4.1"
    assert server.headers[0]["authorization"] == "Bearer sk-acme"
    price = default_prices().price("openai", "gpt-4.1")
    assert price is not None
    assert price.cached is not None
    assert completion.usage.dollars == pytest.approx((600 * price.input + 400 * price.cached + 10 * price.output) / 1e6)
    server.will(status(400, "Sorry: the cup is full."))
    with pytest.raises(ContextLimitError):
        await model.complete(ask(), Media())
    await model.close()


def test_what_it_cannot_do_is_refused_and_its_dialect_is_taken(own: str) -> None:
    wanted = f"{own}:ACME@m@http://host:1/v1"
    settings, says = suited(AskSettings(model=wanted))
    assert settings.dialect == "codedance"
    assert says == (f"{wanted} is asked in the dialect codedance: which Acme trained it in.",)
    with pytest.raises(SettingsError, match=r"acme does not know sampling\.seed"):
        check_sampling(wanted, Sampling(seed=3))
    with pytest.raises(SettingsError, match="acme has none"):
        check_speaks(wanted, load_dialect("native"))
    with pytest.raises(SettingsError, match="acme cannot"):
        check_speaks(wanted, load_dialect("thyme"))
    assert "book does not sample" in unheard_sampling(f"{own}:BOOK", Sampling(seed=3))


async def test_a_name_is_wanted_or_not(own: str) -> None:
    assert (await load_model(f"{own}:BOOK").complete(ask(), Media())).text == "one"
    with pytest.raises(RegistryError, match=r"write .*:ACME@NAME"):
        load_model(f"{own}:ACME")
    with pytest.raises(RegistryError, match="made no model"):
        load_model(f"{own}:BROKEN@m")


def test_of_plain_code_and_of_slips_nothing_is_known(own: str) -> None:
    Path(own).write_text(OWN + "\ndef plain(name): return ScriptedModel([name])\n")
    for wanted in (f"{own}:plain@m", "opnai:gpt-4.1", "solver", "gpt-4.1"):
        provider = provider_of(wanted)
        assert (provider.continues, provider.unknown_sampling, provider.dialect) == (None, frozenset(), "")
    with pytest.raises(RegistryError, match="no provider of models"):
        provider_of("opnai:o3").make(provider_of("opnai:o3"), "o3")


def test_an_installed_package_adds_one(own: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.syspath_prepend(str(Path(own).parent))
    point = EntryPoint("acme", "acme:ACME", "saccade.models")
    monkeypatch.setattr("saccade.core.registry.entry_points", lambda group: [point] * (group == "saccade.models"))
    for cached in ("_registered", "entries", "owners"):
        monkeypatch.delitem(vars(PROVIDERS), cached, raising=False)
    try:
        assert provider_of("acme:m").name == "acme"
        prices = tmp_path / "prices.toml"
        prices.write_text('date = "2030-01-02"\nsource = {}\n[acme]\nm = { input = 1.0, output = 2.0 }\n')
        assert load_prices(prices).price("acme", "m") is not None
    finally:
        for cached in ("_registered", "entries", "owners"):
            vars(PROVIDERS).pop(cached, None)


def test_the_docs_say_what_each_can_do() -> None:
    text = (Path(__file__).parents[2] / "docs" / "models.md").read_text()
    for name in PROVIDERS.names():
        provider = provider_of(f"{name}:m")
        if provider.for_plan is not None:
            continue
        facts = (
            "yes" if provider.token_ids else "no",
            provider.stop_strings,
            ", ".join(sorted(provider.unknown_sampling)) or "none" if provider.samples else "does not sample",
            "yes" if provider.function_calls else "no",
            "yes" if provider.result_pictures else "no",
            "yes" if provider.videos else "no",
        )
        assert f"| `{name}` | {' | '.join(facts)} |" in text


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
