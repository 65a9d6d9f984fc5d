"""`saccade doctor`: which isolation layers this machine gives, what each stops, and what to do for those that are off.

With `--attack` it runs the hostile programs of the plug-in `audit` against a local sandbox. Exit code 1 if a required
layer is missing, if the sandbox cannot start, or if an attack got through. It changes nothing on the machine.
"""

from __future__ import annotations

import asyncio
import platform
import sys
from collections.abc import Collection
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from saccade.cli.output import AsJson, plain_console, print_json, visible, waiting
from saccade.errors import IsolationError, SandboxError, SettingsError
from saccade.sandbox.isolation import MINIMUM, Isolation, Layer, weakened

if TYPE_CHECKING:
    from saccade.sandbox.registry import Audit, AuditOutcome

app = typer.Typer(add_completion=False, rich_markup_mode=None)

STOPS: dict[Layer, str] = {
    Layer.ENVIRONMENT: "reading keys and tokens from environment variables",
    Layer.RLIMITS: "using up memory, CPU time, files and processes",
    Layer.NO_NEW_PRIVS: "gaining rights through set-uid programs",
    Layer.USER_NAMESPACE: "using rights of the real root or of your user",
    Layer.MOUNT_NAMESPACE: "seeing any file but the interpreter's and its own",
    Layer.PID_NAMESPACE: "seeing or signalling other processes",
    Layer.NET_NAMESPACE: "reaching the network and local services",
    Layer.IPC_NAMESPACE: "sharing memory with other programs",
    Layer.WORKSPACE: "filling the disk",
    Layer.SESSION_USER: "reaching files or processes of another session",
    Layer.CAPABILITIES: "acting as an administrator",
    Layer.SECCOMP: "dangerous or rare system calls: sockets, exec, ptrace, io_uring, bpf",
    Layer.LANDLOCK: "opening files outside by any path or link",
    Layer.CGROUP: "passing the memory limit with many processes together",
    Layer.CPU_SHARES: "slowing other sessions down with many processes or threads",
    Layer.INSPECTION: "keeping what is shared with others, after patching its own runtime",
}
"""What a guest could do without it."""

REMEDIES: dict[Layer, str] = {
    Layer.USER_NAMESPACE: "allow unprivileged user namespaces (sysctl kernel.unprivileged_userns_clone=1, or "
    "AppArmor's kernel.apparmor_restrict_unprivileged_userns=0); in a container allow `unshare` in its seccomp profile",
    Layer.MOUNT_NAMESPACE: "allow user namespaces, or run as root outside a restricted container",
    Layer.PID_NAMESPACE: "allow user namespaces",
    Layer.NET_NAMESPACE: "allow user namespaces; without it seccomp still refuses every socket",
    Layer.IPC_NAMESPACE: "allow user namespaces; without it seccomp still refuses shared memory",
    Layer.WORKSPACE: "needs a mount namespace; without it files are counted after each call",
    Layer.SESSION_USER: "run as root, or allow user namespaces",
    Layer.LANDLOCK: "Linux 5.13 or newer with landlock in the kernel's lsm= list",
    Layer.SECCOMP: "a kernel with CONFIG_SECCOMP_FILTER, on x86_64 or aarch64",
    Layer.CGROUP: "run as root, or delegate a cgroup to your user (systemd-run --user --scope -p Delegate=yes)",
    Layer.CPU_SHARES: "run as root with the cpu controller mounted, or delegate it",
    Layer.INSPECTION: "allow user namespaces, or run as root",
}

NOT_LINUX = (
    "The local sandbox needs Linux: {system} has no namespaces, seccomp or Landlock, and Saccade does not run hostile "
    "code without them. Start `saccade sandbox serve` on a Linux host (or in a Linux virtual machine) and use "
    "RemoteSandbox from here."
)


@app.command()
def doctor(
    as_json: AsJson = False,
    attack: Annotated[bool, typer.Option("--attack", help="Also run the hostile programs (about a minute).")] = False,
    only: Annotated[
        list[str] | None, typer.Option("--only", help="With --attack: run only this one; repeatable.")
    ] = None,
    require: Annotated[list[str] | None, typer.Option(help="A layer that must be on; repeatable.")] = None,
) -> None:
    """Show which isolation layers this machine has, and attack them if asked to."""
    required = _layers(require)
    audit = _audit(only) if attack else None
    with waiting("Starting a sandbox"):
        report = asyncio.run(examine(required))
    outcomes: list[AuditOutcome] = []
    if audit is not None and not report["error"]:
        outcomes = asyncio.run(_attacked(audit, only, quiet=as_json))
        report["attacks"] = [_as_dict(outcome) for outcome in outcomes]
        report["ok"] = report["ok"] and all(outcome.passed for outcome in outcomes)
    if as_json:
        print_json(report)
    else:
        _print_report(report, plain_console())
        if outcomes:
            _print_attacks(outcomes, plain_console())
    raise typer.Exit(0 if report["ok"] else 1)


def _layers(names: list[str] | None) -> frozenset[Layer]:
    if not names:
        return MINIMUM
    unknown = sorted(set(names) - {layer.value for layer in Layer})
    if unknown:
        known = ", ".join(layer.value for layer in Layer)
        raise SettingsError(f"no isolation layer is called {', '.join(unknown)}. The layers are: {known}.")
    return frozenset(Layer(name) for name in names)


async def examine(required: Collection[Layer]) -> dict[str, Any]:
    """Start a sandbox and report what it is made of; `error` says why it could not start, `missing` what is lacking."""
    report: dict[str, Any] = {
        "ok": False,
        "error": None,
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "python": f"{platform.python_version()} ({sys.executable})",
        "guest": {},
        "memory": memory_facts(),
        "packages": package_facts(),
        "required": sorted(layer.value for layer in required),
        "missing": None,
        "layers": [],
    }
    if sys.platform != "linux":
        report["error"] = NOT_LINUX.format(system=platform.system())
        return report
    from saccade.sandbox.local import LocalSandbox

    try:
        async with LocalSandbox(require_isolation=()) as sandbox:
            isolation = await sandbox.isolation()
            report["guest"] = sandbox.versions
    except SandboxError as error:
        report["error"] = str(error)
        return report
    report["layers"] = [layer_facts(isolation, layer) for layer in Layer]
    try:
        isolation.require(required)
    except IsolationError as error:
        report["missing"] = str(error)
    report["ok"] = report["missing"] is None
    return report


def layer_facts(isolation: Isolation, layer: Layer) -> dict[str, Any]:
    """Describe a layer: its purpose, whether it is on, and if not why, what is lost, and what to do."""
    details = [state.detail for state in isolation.layers if state.layer is layer]
    on = isolation.is_on(layer)
    return {
        "layer": layer.value,
        "on": on,
        "stops": STOPS[layer],
        "detail": details[0] if details else "",
        "weakens": "" if on else weakened(layer),
        "remedy": "" if on else REMEDIES.get(layer, "report it: this layer is there on every Linux"),
    }


def memory_facts() -> dict[str, str]:
    """Return memory of the machine and which cgroup versions are mounted; empty where there is no /proc."""
    facts = {}
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            name, _, value = line.partition(":")
            if name in ("MemTotal", "MemAvailable"):
                facts[name] = f"{int(value.split()[0]) // 1024} MiB"
        mounts = [line.split() for line in Path("/proc/mounts").read_text().splitlines()]
        kinds = {"cgroup2": "v2", "cgroup": "v1"}
        facts["cgroup"] = ", ".join(sorted({kinds[m[2]] for m in mounts if m[2] in kinds})) or "not mounted"
    except (OSError, ValueError, IndexError):
        return facts
    return facts


def package_facts() -> list[dict[str, str | None]]:
    """Return the packages of the extra `sandbox`, each with its version (None: absent) and what to know of it."""
    from saccade.sandbox.isolation import INSTALL, OFFERED

    return [
        {
            "module": package.module,
            "version": package.version,
            "note": package.note if package.version else f"absent; to have it: {INSTALL}",
        }
        for package in OFFERED
    ]


def _audit(names: list[str] | None) -> Audit:
    """Load the attacks. Raises `UnavailableError` without the plug-in, `SettingsError` for an unknown name."""
    from saccade.sandbox.registry import load_audit

    audit = load_audit("attacks")
    audit.choose(names)
    return audit


async def _attacked(audit: Audit, names: list[str] | None, *, quiet: bool) -> list[AuditOutcome]:
    from rich.progress import Progress

    from saccade.sandbox.local import LocalSandbox

    with Progress(console=plain_console(stderr=True), disable=quiet, transient=True) as progress:
        task = progress.add_task("attacks", total=len(audit.choose(names)))

        def show(outcome: AuditOutcome) -> None:
            progress.update(task, advance=1, description=f"attacks ({outcome.attack.name})")

        box = partial(LocalSandbox, limits=audit.limits, require_isolation=())
        return list(await audit.run(box, names, on_outcome=show))


def _as_dict(outcome: AuditOutcome) -> dict[str, Any]:
    return {
        "name": outcome.attack.name,
        "group": outcome.attack.group,
        "promise": outcome.attack.promise.value,
        "tries": outcome.attack.tries,
        "passed": outcome.passed,
        "held": outcome.held,
        "session_survived": outcome.session_survived,
        "neighbour_ok": outcome.neighbour_ok,
        "seconds": round(outcome.seconds, 3),
        "evidence": outcome.evidence,
    }


def _print_report(report: dict[str, Any], console: Console) -> None:
    facts = {"system": report["system"], "python": report["python"], **report["memory"]}
    facts |= {f"guest {name}": version for name, version in report["guest"].items()}
    for name, value in facts.items():
        console.print(f"{name:>16}  {value}", highlight=False, markup=False)
    for row in report.get("packages", ()):
        words = "  ".join(filter(None, (row["version"], row["note"])))
        console.print(f"{'imports ' + row['module']:>20}  {words}", highlight=False, markup=False)
    if report["error"]:
        console.print(report["error"], style="bold red", markup=False)
        return
    table = Table(title="Isolation layers of the local sandbox")
    for column in ("layer", "on", "stops", "detail; if it is off, the promises it weakens and what to do"):
        table.add_column(column, overflow="fold")
    for row in report["layers"]:
        parts = (row["detail"], f"weaker: {row['weakens']}", f"to do: {row['remedy']}")
        advice = row["detail"] if row["on"] else "\n".join(filter(None, parts))
        table.add_row(
            row["layer"], Text("on", "green") if row["on"] else Text("off", "red"), row["stops"], visible(advice)
        )
    console.print(table)
    if report["missing"]:
        console.print(report["missing"], style="bold red", markup=False)
    else:
        console.print(f"All required layers are on: {', '.join(report['required'])}.", style="green")


def _print_attacks(outcomes: list[AuditOutcome], console: Console) -> None:
    table = Table(title="Attacks on a local sandbox of this machine")
    for column in ("attack", "promise", "what it tried", "result", "stopped by, or how it got through"):
        table.add_column(column, overflow="fold")
    for outcome in outcomes:
        promise = outcome.attack.promise.value
        table.add_row(outcome.attack.name, promise, outcome.attack.tries, verdict(outcome), visible(outcome.evidence))
    console.print(table)
    failed = sum(not outcome.passed for outcome in outcomes)
    lost = sum(outcome.passed and not outcome.session_survived for outcome in outcomes)
    summary = f"{len(outcomes)} attacks, {failed} got through or did harm, {lost} cost the attacker its own session."
    console.print(summary, style="bold red" if failed else "bold green")


def verdict(outcome: AuditOutcome) -> Text:
    """Return the result of an attack in a word or two, with colour."""
    if not outcome.held:
        return Text("BREACH", "bold red")
    if not outcome.neighbour_ok:
        return Text("neighbour harmed", "bold red")
    if not outcome.session_survived:
        return Text("held, own session lost") if outcome.attack.may_lose_session else Text("session lost", "bold red")
    return Text("held", "green")
