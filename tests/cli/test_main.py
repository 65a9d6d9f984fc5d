import os
import signal
import subprocess
import sys
import types
from collections.abc import Callable

import pytest
import typer

from saccade.cli import main as cli
from saccade.errors import MediaError


@pytest.fixture
def verb(monkeypatch: pytest.MonkeyPatch) -> typer.Typer:
    """A verb named `probe` whose body the test defines."""
    app = typer.Typer(add_completion=False)
    module = types.ModuleType("probe_of_the_tests")
    module.app = app  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "probe_of_the_tests", module)
    monkeypatch.setattr(cli, "VERBS", {"probe": cli.Verb("probe_of_the_tests:app", "A probe.")})
    return app


def test_help_lists_every_verb(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--help"]) == 0
    out = capsys.readouterr().out
    for name, verb in cli.verbs().items():
        assert name in out
        assert verb.help in out


@pytest.mark.parametrize("verb", sorted(cli.verbs()))
@pytest.mark.few(3)
def test_every_verb_knows_both_spellings_of_help(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([verb, "--help"]) == 0
    long = capsys.readouterr().out
    assert cli.main([verb, "-h"]) == 0
    assert capsys.readouterr().out == long
    assert "-h, --help" in long


def test_help_of_a_command_below_a_verb(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["-h"]) == 0
    assert cli.main(["sandbox", "serve", "-h"]) == 0
    assert "--settings" in capsys.readouterr().out


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("saccade 0.")


def test_unknown_verb_suggests(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["docter"]) == 2
    assert "doctor" in capsys.readouterr().err


def test_arguments_reach_the_verb_untouched(verb: typer.Typer, capsys: pytest.CaptureFixture[str]) -> None:
    @verb.command()
    def probe(name: str, number: int = 1) -> None:
        print(name, number)

    assert cli.main(["probe", "eye", "--number", "4"]) == 0
    assert capsys.readouterr().out == "eye 4\n"
    assert cli.main(["probe", "--help"]) == 0
    assert "--number" in capsys.readouterr().out
    assert cli.main(["probe", "eye", "--numbr", "4"]) == 2
    assert "--numbr" in capsys.readouterr().err


def test_exit_code_of_the_verb(verb: typer.Typer) -> None:
    @verb.command()
    def probe() -> None:
        raise typer.Exit(7)

    assert cli.main(["probe"]) == 7


def test_error_of_ours_is_a_message_without_traceback(verb: typer.Typer, capsys: pytest.CaptureFixture[str]) -> None:
    @verb.command()
    def probe() -> None:
        raise MediaError("the picture is broken. Send another.")

    assert cli.main(["probe"]) == 2
    assert capsys.readouterr().err == "saccade: the picture is broken. Send another.\n"


def test_interrupt_is_130(verb: typer.Typer) -> None:
    @verb.command()
    def probe() -> None:
        raise KeyboardInterrupt

    assert cli.main(["probe"]) == 130


def test_fault_of_ours_keeps_its_traceback(verb: typer.Typer) -> None:
    @verb.command()
    def probe() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        cli.main(["probe"])


def test_missing_module_harms_only_its_verb(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cli, "VERBS", {**cli.VERBS, "ghost": cli.Verb("saccade.cli.no_such_verb:app", "Not there.")})
    assert cli.main(["ghost"]) == 2
    assert "no_such_verb" in capsys.readouterr().err
    assert cli.main(["--help"]) == 0


@pytest.mark.parametrize("before", [signal.default_int_handler, signal.SIG_IGN])
def test_a_sigterm_ends_a_command_also_where_ctrl_c_is_ignored(
    before: Callable[..., object] | signal.Handlers,
) -> None:
    app = typer.Typer()
    app.command()(lambda: os.kill(os.getpid(), signal.SIGTERM))
    kept = signal.signal(signal.SIGINT, before)
    try:
        assert cli.run(app, [], "saccade") == 130
    finally:
        signal.signal(signal.SIGINT, kept)


def test_the_shell_completes_verbs_commands_and_options() -> None:
    for line, offered in (
        ("saccade regr", "regrade"),
        ("saccade worlds s", "sample sheet"),
        ("saccade regrade --grad", "--grader"),
    ):
        words = line.split(" ")
        shell = {"_SACCADE_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}
        program = "import sys; from saccade.cli.main import main; sys.exit(main())"
        done = subprocess.run(
            [sys.executable, "-c", program], env=os.environ | shell, capture_output=True, text=True, check=False
        )
        assert (done.stdout.split(), done.stderr) == (offered.split(), "")
