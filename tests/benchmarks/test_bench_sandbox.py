"""The benchmark runs and tells numbers; how large they are is for a person to judge."""

from __future__ import annotations

import dataclasses
import json
import math
import sys
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from benchmarks import __main__ as cli
from benchmarks import sandbox, sandbox_peers
from benchmarks.sandbox import ROWS, Target, as_json, footing, heading, table, write_photo
from benchmarks.sandbox_peers import (
    BenchScale,
    Exec,
    Jupyter,
    Measurement,
    NotMeasured,
    Output,
    Peer,
    Smolagents,
    Subprocess,
)
from saccade.errors import RegistryError, SandboxError, SettingsError

TINY = BenchScale(
    repeats=1,
    slow_repeats=1,
    many=2,
    idle=2,
    slow_idle=1,
    alive=3,
    array_bytes=1_000_000,
    branches=2,
    forks=3,
    think_seconds=0.01,
)
linux_only = pytest.mark.skipif(sys.platform != "linux", reason="the local sandbox is for Linux")


@pytest.fixture(scope="module")
def photo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_photo(tmp_path_factory.mktemp("photo") / "photo.jpg", (400, 300))


@linux_only
@pytest.mark.slow
def test_every_row_gives_numbers_for_ours_and_exec() -> None:
    report = sandbox.measure(ROWS, TINY, peers=[Exec])
    assert [row.row.name for row in report.rows] == [row.name for row in ROWS]
    for row in report.rows:
        ours = row.results["saccade"]
        assert isinstance(ours, Measurement), f"{row.row.name}: {ours}"
        assert all(math.isfinite(value) for value in ours.values)
        if row.row.name != "branch-memory":  # a branch may well add nothing
            assert all(value > 0 for value in ours.values), row.row.name
    read = json.loads(json.dumps(as_json(report), allow_nan=False))
    assert [row["name"] for row in read["rows"]] == [row.name for row in ROWS]
    assert read["limits"]["fork_ms"]
    assert read["limits"]["drawings_per_second"] > 0
    assert read["rows"][1]["results"]["exec"]["values"]
    console = Console(width=200, record=True)
    console.print(*heading(report), table(report), *footing(report), sep="\n")
    shown = console.export_text()
    for word in ("isolation on", "seccomp", "rolled back", "not judged", "fork + exit + wait"):
        assert word in shown
    by_name = {row.row.name: row for row in report.rows}
    assert by_name["fail"].results["saccade"] == dataclasses.replace(
        by_name["fail"].results["saccade"],
        note="rolled back",  # type: ignore[arg-type]
    )
    assert by_name["alive"].median("saccade") == 3
    assert by_name["branch"].results["exec"] == NotMeasured("none")


@pytest.mark.few(1)
@pytest.mark.filterwarnings("ignore")  # the peers' own
@pytest.mark.parametrize("peer", [Exec, Smolagents, Subprocess, Jupyter])
def test_a_peer_does_the_work(peer: type[Peer], photo: Path) -> None:
    with peer() as contender:
        session = contender.start(photo)
        try:
            if contender.picture_setup:
                session.run(contender.picture_setup)
            assert "(400, 300)" in session.run("print(image_clue_0.size)").text
            shown = session.run("import matplotlib.pyplot as plt\nplt.figure()\nplt.plot([1, 2])\nplt.show()")
            assert shown.pictures == 1
            assert session.run("raise ValueError('no')").failed
            session.run("x = 1")
            assert session.run("print(x)").failed is not contender.keeps_state
            if contender.shows_images:
                assert session.run("image_clue_0.crop((0, 0, 9, 9)).show()").pictures == 1
        finally:
            session.close()


class IdleSession:
    def run(self, code: str) -> Output:
        return Output("", 0)

    def close(self) -> None: ...


def test_a_cell_without_the_work_is_an_error() -> None:
    for wanted in ({"text": "2"}, {"pictures": 1}):
        with pytest.raises(SandboxError, match="did not do its work"):
            sandbox_peers.checked(IdleSession(), "print(1 + 1)", **wanted)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("target", "ours", "jupyter", "higher", "met"),
    [
        (Target("", 20.0), 20.0, None, False, True),
        (Target("", 20.0), 20.1, None, False, False),
        (Target("", 20.0, 40.0), 20.0, 800.0, False, True),
        (Target("", 20.0, 40.0), 20.0, 799.0, False, False),
        (Target("", 20.0, 40.0), 20.0, None, False, None),
        (Target("", 20.0, 40.0), 21.0, None, False, False),
        (Target("", times=2.0), 14.0, 7.0, True, True),
        (Target("", times=2.0), 13.9, 7.0, True, False),
        (Target("", 2000.0), 2000.0, None, True, True),
        (Target("", 2000.0), 1999.0, None, True, False),
    ],
)
def test_targets(target: Target, ours: float, jupyter: float | None, higher: bool, met: bool | None) -> None:
    assert target.met(ours, jupyter, higher_is_better=higher) is met


def test_the_command_refuses_what_it_cannot_do(tmp_path: Path) -> None:
    runner = CliRunner()
    wrong = runner.invoke(cli.app, ["sandbox", "--only", "nothing"])
    assert isinstance(wrong.exception, RegistryError)
    nowhere = runner.invoke(cli.app, ["sandbox", "--out", str(tmp_path / "no" / "file.json")])
    assert isinstance(nowhere.exception, SettingsError)
