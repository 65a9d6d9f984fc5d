import re
from datetime import date
from pathlib import Path

import pytest

from saccade.errors import SettingsError
from saccade.models.base import Usage
from saccade.models.endpoint import default_prices, load_prices

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
