"""The two scripts as a user calls them: from anywhere, with the recipe that lies beside them."""

import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[3] / "examples" / "tiny"


def called(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    script, *rest = arguments
    return subprocess.run(
        [sys.executable, str(FOLDER / script), *rest],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("build.py", "--out", "out", "--set", "text.hiden=8"), "hidden"),
        (("build.py", "nowhere.toml", "--out", "out"), "nowhere.toml"),
        (("table.py", "--out", "out", "--only", "nothing-of-the-sort"), "no such exam"),
    ],
)
@pytest.mark.slow
def test_a_mistake_is_one_message_and_makes_nothing(arguments: tuple[str, ...], said: str, tmp_path: Path) -> None:
    done = called(*arguments, folder=tmp_path)
    assert done.returncode == 2, done.stderr
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_table_of_the_bundled_weights(tmp_path: Path) -> None:
    done = called("table.py", "--out", "out", "--only", "touching-circles", "--n", "2", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "| touching-circles | 2 | " in done.stdout
    assert (tmp_path / "out" / "table.md").read_text(encoding="utf-8") in done.stdout
