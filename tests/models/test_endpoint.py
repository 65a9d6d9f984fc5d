"""PyVision's `api_config_*.json` in the place of an address: its key reaches the server, and nothing else."""

from __future__ import annotations

import json
import logging
import os
import re
import traceback
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.models.helpers import Media, ask
from tests.models.wire_server import WireServer, chat, messages, status

from saccade.errors import ModelError, ModelRefusedError, RegistryError, SettingsError
from saccade.models.base import Usage
from saccade.models.endpoint import default_prices, endpoint_of, load_prices, read_endpoint_file
from saccade.models.providers.openai import OpenAIModel
from saccade.models.registry import load_model

CANARY = "sk-canary-8e11d07c"


def written(folder: Path, said: Any, name: str = "api_config.json") -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(said if isinstance(said, str) else json.dumps(said, indent=4), encoding="utf-8")
    return path


@pytest.mark.parametrize("provider", ["openai", "vllm", "sglang", "compatible"])
async def test_a_server_is_asked_as_the_file_says(
    server: WireServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, provider: str
) -> None:
    monkeypatch.setenv(f"SACCADE_{provider.upper()}_API_KEY", "sk-of-the-environment")
    path = written(tmp_path, {"api_key": [CANARY], "base_url": f"{server.url}/v1"})
    model = load_model(f"{provider}:gpt-4.1@{path}")
    assert isinstance(model, OpenAIModel)
    server.will(chat())
    await model.complete(ask(), Media())
    assert server.headers[0]["authorization"] == f"Bearer {CANARY}"
    assert server.bodies[0]["model"] == "gpt-4.1"
    assert model.name == f"{provider}:gpt-4.1"
    assert model.has_price is (provider == "openai")
    await model.close()


async def test_another_protocol_is_asked_so_too(server: WireServer, tmp_path: Path) -> None:
    path = written(tmp_path, {"api_key": CANARY, "base_url": server.url})
    model = load_model(f"anthropic:claude-opus-4-8@{path}")
    server.will(messages())
    await model.complete(ask(), Media())
    assert CANARY in json.dumps(server.headers[0])
    await model.close()


async def test_the_form_of_azure(server: WireServer, tmp_path: Path) -> None:
    for end in ("", "/", "/openai/v1/"):  # what stands there is a resource, or what Azure's page shows for it
        path = written(tmp_path, {"azure_openai_api_key": [CANARY], "azure_openai_endpoint": server.url + end})
        model = load_model(f"azure:mine@{path}")
        assert isinstance(model, OpenAIModel)
        server.will(chat())
        await model.complete(ask(), Media())
        assert CANARY in json.dumps(server.headers[0])
        assert server.bodies[0]["model"] == "mine"
        await model.close()
    with pytest.raises(SettingsError, match=r"for Azure's service. Write azure:DEPLOYMENT@"):
        load_model(f"openai:gpt-4.1@{path}")


def test_the_model_is_that_of_the_name_or_of_the_file(tmp_path: Path) -> None:
    path = written(tmp_path, {"api_key": [CANARY], "model": "gpt-4.1"})
    assert endpoint_of(f"@{path}", "openai").model == "gpt-4.1"
    assert endpoint_of(f"o3@{path}", "openai").model == "o3"
    assert endpoint_of(f"@{path}", "openai").base_url is None
    path = written(tmp_path, {"api_key": [CANARY], "base_url": None})
    with pytest.raises(SettingsError, match=r"names no model. Write openai:NAME@"):
        endpoint_of(f"@{path}", "openai")
    with pytest.raises(SettingsError, match="vllm needs an address"):
        load_model(f"vllm:m@{path}")


def test_names_and_folders_may_hold_the_sign_themselves(tmp_path: Path) -> None:
    path = written(tmp_path, {"api_key": [CANARY], "base_url": "http://host:1/v1"}, "me@home/my key@work.json")
    made = endpoint_of(f"org/m@2@{path}", "vllm")
    assert (made.model, made.base_url) == ("org/m@2", "http://host:1/v1")
    with pytest.raises(SettingsError, match=r"^nowhere\.json gives .* no such file"):
        endpoint_of("org/m@2@nowhere.json", "vllm")


def test_a_file_alone_says_how_to_name_it(tmp_path: Path) -> None:
    path = written(tmp_path, {"api_key": [CANARY]})
    with pytest.raises(RegistryError) as caught:
        load_model(str(path))
    assert f"Write openai:NAME@{path}" in str(caught.value)


def test_what_is_not_used_is_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = written(tmp_path, {"api_key": [CANARY, "sk-second"], "api_version": "2024", "note": CANARY})
    made = read_endpoint_file(str(path), azure=False)
    assert made.key.reveal() == CANARY
    said = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert said == [
        f"{path}: `api_version` and `note` means nothing here and is left aside.",
        f"{path} holds 2 keys; the first is used.",
    ]


WRONG: dict[str, tuple[Any, str]] = {
    "empty": ("", "no JSON object: Expecting value"),
    "broken": ('{"api_key": ["' + CANARY, "no JSON object: Unterminated string"),
    "list": ([CANARY], "it holds no object"),
    "deep": ("[" * 50_000, "no JSON object"),
    "long": (json.dumps({"api_key": CANARY, "x": "y" * 70_000}), "more than 65536 bytes"),
    "no key": ({"base_url": "http://h/v1"}, "`api_key` holds no key"),
    "neither": ({"key": CANARY}, "neither api_key nor azure_openai_api_key"),
    "both": ({"api_key": CANARY, "azure_openai_api_key": CANARY}, "Azure's form and of the other"),
    "no keys": ({"api_key": []}, "`api_key` holds no key"),
    "blank key": ({"api_key": [" "]}, "`api_key` holds no key"),
    "number": ({"api_key": [CANARY, 3]}, "`api_key` holds no key"),
    "nested": ({"api_key": {"a": CANARY}}, "`api_key` holds no key"),
    "two lines": ({"api_key": [CANARY + "\nX-Other: 1"]}, "holds a blank or a sign"),
    "umlaut": ({"api_key": [CANARY + "ä"]}, "holds a blank or a sign"),
    "as published": ({"api_key": ["sk-xxx"], "base_url": "xxx"}, "`base_url` is no address"),
    "address in blank": ({"api_key": [CANARY], "base_url": " "}, "`base_url` is no address"),
    "address a list": ({"api_key": [CANARY], "base_url": ["http://h/v1"]}, "`base_url` is no address"),
    "password": ({"api_key": ["k"], "base_url": f"https://me:{CANARY}@h/v1"}, "`base_url` is no address"),
    "no scheme": ({"api_key": [CANARY], "base_url": "h:8000/v1"}, "`base_url` is no address"),
    "model a list": ({"api_key": [CANARY], "model": ["m"]}, "`model` is no text"),
    "azure, no place": ({"azure_openai_api_key": [CANARY]}, "`azure_openai_endpoint` is no address"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_said_and_no_key(tmp_path: Path, case: str) -> None:
    said, why = WRONG[case]
    path = written(tmp_path, said)
    with pytest.raises(SettingsError) as caught:
        load_model(f"{'azure' if case.startswith('azure') else 'openai'}:m@{path}")
    assert str(caught.value).startswith(f"{path} gives no model an address and a key: ")
    assert why in str(caught.value)
    assert CANARY not in leaked(caught.value)


def test_what_is_no_file_is_said(tmp_path: Path) -> None:
    (tmp_path / "folder.json").mkdir()
    os.mkfifo(tmp_path / "pipe.json")
    (tmp_path / "bytes.json").write_bytes(b"\xff\xfe\x00")
    for name in ("folder.json", "pipe.json", "bytes.json", "nowhere.json"):
        with pytest.raises(SettingsError, match="gives no model an address and a key"):
            load_model(f"openai:m@{tmp_path / name}")


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.just(CANARY),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "api_key"]), inner, max_size=2),
    max_leaves=5,
)
names = st.sampled_from(["api_key", "base_url", "model", "azure_openai_api_key", "azure_openai_endpoint", "other"])


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.dictionaries(names, json_values, max_size=5), st.booleans(), st.integers(0, 400))
def test_whatever_it_holds_it_is_read_or_refused(tmp_path: Path, said: dict[str, Any], azure: bool, cut: int) -> None:
    path = written(tmp_path, json.dumps(said)[: cut or None])
    try:
        made = read_endpoint_file(str(path), azure=azure)
    except SettingsError as error:
        seen = leaked(error)
    else:
        assert made.key.reveal().strip() == made.key.reveal() != ""
        seen = repr(made)
    assert CANARY not in seen


async def test_a_server_that_repeats_the_key_is_masked(
    server: WireServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    path = written(tmp_path, {"api_key": [CANARY], "base_url": f"{server.url}/v1"})
    model = load_model(f"openai:gpt-4.1@{path}")
    server.will(status(401, f"Incorrect API key provided: {CANARY}"))
    with pytest.raises(ModelRefusedError) as caught:
        await model.complete(ask(), Media())
    assert isinstance(caught.value, ModelError)
    assert CANARY in json.dumps(server.headers)
    seen = leaked(caught.value) + repr(model) + repr([record.getMessage() for record in caplog.records])
    assert CANARY not in seen + repr(endpoint_of(f"m@{path}", "openai"))
    await model.close()


def leaked(error: BaseException) -> str:
    """All that a program could print of an error: its words, its causes and what those hold."""
    seen, at = "".join(traceback.format_exception(error)), error.__context__ or error.__cause__
    while at is not None:
        seen += repr(at) + repr(vars(at)) + repr(getattr(at, "doc", "")) + repr(getattr(at, "object", b""))
        at = at.__context__ or at.__cause__
    return seen + repr(vars(error))


DOCS = Path(__file__).parents[2] / "docs" / "models.md"
TABLE = """
date = "2030-01-02"
source = { openai = "contract" }
[openai]
m = { input = 1.0, output = 2.0, most_prompt_tokens = 100 }
"""


def test_the_own_table_is_dated_and_knows_snapshots() -> None:
    prices = default_prices()
    assert date.fromisoformat(prices.date)
    price = prices.price("openai", "gpt-4.1")
    assert price is not None
    assert prices.price("openai", "gpt-4.1-2025-04-14") == price
    assert prices.price("anthropic", "claude-opus-4-5-20251101") == prices.price("anthropic", "claude-opus-4-5")
    for models in prices.table.values():
        assert all(known.output > known.input > (known.cached or 0) for known in models.values())


@pytest.mark.parametrize("name", ["gpt-4.1-nano", "gpt-4", "gpt-4.10", "my-deployment", "claude-opus-4-1-fast"])
def test_an_unknown_model_has_no_price(name: str) -> None:
    assert default_prices().price("openai", name) is None
    assert default_prices().price("anthropic", name) is None


def test_the_table_of_the_docs_is_read_from_a_path_as_text(tmp_path: Path) -> None:
    (table,) = (block for block in re.findall(r"```toml[^\n]*\n(.*?)```", DOCS.read_text(), re.S) if "date =" in block)
    path = tmp_path / "prices.toml"
    path.write_text(table)
    price = load_prices(str(path)).price("openai", "gpt-4.1")
    assert price is not None
    assert (price.input, price.output) == (2.0, 8.0)


def test_what_is_unknown_costs_none(tmp_path: Path) -> None:
    path = tmp_path / "prices.toml"
    path.write_text(TABLE)
    prices = load_prices(path)
    assert prices.priced(Usage(50, 0, 10), "openai", "m").dollars == pytest.approx(70e-6)
    assert prices.priced(Usage(50, None, 10), "openai", "m").dollars == pytest.approx(70e-6)
    for usage in (Usage(101, 0, 10), Usage(50, 20, 10), Usage(None, 0, 10), Usage(50, 0, None)):
        assert prices.priced(usage, "openai", "m") == usage
    assert prices.priced(Usage(50, 0, 10), "openai", "m", cache_written=5).dollars is None
    assert prices.priced(Usage(50, 0, 10), "anthropic", "m").dollars is None


@pytest.mark.parametrize("text", ["nonsense", 'date = "x"', TABLE + "[elsewhere]\n", TABLE.replace("1.0", "-1")])
def test_a_wrong_table_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "prices.toml"
    path.write_text(text)
    with pytest.raises(SettingsError, match="no table of prices"):
        load_prices(path)
    with pytest.raises(SettingsError, match="no table of prices"):
        load_prices(tmp_path / "none.toml")
