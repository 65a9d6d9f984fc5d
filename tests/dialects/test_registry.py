from pathlib import Path

import pytest

from saccade.dialects.base import DIALECTS, load_dialect, presets, recorded_dialect
from saccade.errors import RegistryError
from saccade.record.task import NamedMedia, Task

from .cases import PHOTO


@pytest.mark.parametrize("entry", DIALECTS.ids())
def test_every_preset_loads_under_its_own_id(entry: str) -> None:
    names = presets(entry)
    for preset in names or ("",):
        wanted = f"{entry}:{preset}" if preset else entry
        found = load_dialect(wanted)
        assert found.id in (wanted, entry)
        assert load_dialect(found.id) is found
    assert load_dialect(entry) is load_dialect(f"{entry}:{names[0]}" if names else entry)


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ("pyvison", "Did you mean 'pyvision'"),
        ("pyvision@7", "has no version '7'"),
        ("pyvision:rebo", "Did you mean 'repo'"),
        ("pyvision:", "has no preset ''"),
        ("", "has no ''"),
    ],
)
def test_misses_suggest(wanted: str, message: str) -> None:
    with pytest.raises(RegistryError) as caught:
        load_dialect(wanted)
    assert message in str(caught.value)


def test_a_dialect_of_ones_own(tmp_path: Path) -> None:
    file = tmp_path / "spoken.py"
    file.write_text(
        "from dataclasses import replace\nfrom saccade.dialects.direct import PRESETS\n"
        "TAKEN = PRESETS['reason']\nMINE = replace(TAKEN, id='spoken-here')\n"
    )
    with pytest.raises(RegistryError, match=r"TAKEN has the id direct@1:reason, which is another dialect's"):
        load_dialect(f"{file}:TAKEN")
    with pytest.raises(RegistryError):
        recorded_dialect("spoken-here")
    mine = load_dialect(f"{file}:MINE")
    assert recorded_dialect("spoken-here") is mine
    assert recorded_dialect("pyvision@1:repo") is load_dialect("pyvision")


def test_dialects_are_frozen() -> None:
    dialect = load_dialect("pyvision")
    with pytest.raises(AttributeError):
        dialect.id = "other"  # type: ignore[misc]
    opening = dialect.open(Task(id="a", question="b", media=(NamedMedia(name="p", part=PHOTO),)))
    assert opening.strings == {}
