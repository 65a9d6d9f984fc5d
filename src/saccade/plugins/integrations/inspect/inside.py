"""Carry out inspect_ai's commands inside the jail: sent there as text and run there, never in this process.

In the jail nothing can be started, so a command is Python or one of a few that work on files; there is no shell. Only
the standard library is imported.
"""

from __future__ import annotations

import base64
import getpass
import json
import os
import shlex
import shutil
import sys
import time
import traceback
from collections.abc import Callable

NOT_FOUND, FAILED, WRONG = 127, 1, 2
SHELL_SIGNS = frozenset("|&;<>()$`\n*?[]#~=%!{}")


def tell(line: str) -> None:
    """Print a line on stdout."""
    sys.stdout.write(line + "\n")


def complain(line: str) -> None:
    """Print a line on stderr."""
    sys.stderr.write(line + "\n")


def main(order: dict[str, object], given: object) -> int:
    """Carry out an order: `exec`, `write` or `read`. What it prints is the answer; the result is the exit code."""
    data = b"" if given is None else bytes(given)  # type: ignore[call-overload]
    kind = str(order["kind"])
    if kind == "exec":
        return in_place(order, data)
    try:
        if kind == "write":
            write(str(order["path"]), data, append=bool(order["append"]))
            tell(json.dumps({}))
        else:
            read(str(order["path"]), int(str(order["start"])), int(str(order["count"])))
    except (OSError, ValueError) as error:
        tell(json.dumps({"error": type(error).__name__, "said": str(error)}))
    return 0


def write(path: str, data: bytes, *, append: bool) -> None:
    """Write a file; folders on the way are made."""
    if os.path.isdir(path):
        raise IsADirectoryError(f"{path} is a directory")
    os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
    with open(path, "ab" if append else "wb") as file:
        file.write(data)


def read(path: str, start: int, count: int) -> None:
    """Print the file's size, and `count` bytes of it from `start` as base64."""
    if os.path.isdir(path):
        raise IsADirectoryError(f"{path} is a directory")
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        file.seek(start)
        body = file.read(count) if count else b""
    tell(json.dumps({"size": size, "data": base64.b64encode(body).decode()}))


def in_place(order: dict[str, object], data: bytes) -> int:
    """Run a command in its folder and with its variables."""
    words = [str(word) for word in order["words"]]  # type: ignore[attr-defined]
    folder, variables = os.getcwd(), dict(os.environ)
    try:
        if order["cwd"]:
            os.chdir(str(order["cwd"]))
        os.environ.update({str(k): str(v) for k, v in order["env"].items()})  # type: ignore[attr-defined]
        return command(words, data)
    except OSError as error:
        complain(f"{words[0]}: {error.strerror or error}: {error.filename or ''}".rstrip(": "))
        return FAILED
    finally:
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(variables)


def command(words: list[str], data: bytes) -> int:
    """Run one command."""
    name = os.path.basename(words[0])
    if name in ("sh", "bash"):
        return script(words[1:], data)
    if name in ("python", "python3"):
        return python(words[1:], data)
    if name in COMMANDS:
        return COMMANDS[name](words[1:], data)
    complain(
        f"{words[0]}: not found. This sandbox starts no programs: it runs python3, and {', '.join(sorted(COMMANDS))}."
    )
    return NOT_FOUND


def script(words: list[str], data: bytes) -> int:
    """Return a shell's `-c` with one plain command; what needs a shell is refused."""
    options = [word for word in words if word.startswith("-")]
    rest = [word for word in words if not word.startswith("-")]
    if not rest or not any(option.endswith("c") for option in options):
        complain("there is no shell here: give `-c` with one command")
        return NOT_FOUND
    if SHELL_SIGNS & set(rest[0]):
        complain("there is no shell here: a command is run as it stands, without pipes and variables")
        return NOT_FOUND
    return command(shlex.split(rest[0]), data)


def python(words: list[str], data: bytes) -> int:
    """Run `python3 -c CODE`, `python3 FILE` or `python3 -`, as a program of its own name space."""
    words = [word for word in words if word not in ("-u", "-I", "-B", "-s", "-E")]
    if words[:1] == ["-c"] and len(words) > 1:
        text, path, arguments = words[1], "<string>", ["-c", *words[2:]]
    elif words and words[0] != "-" and not words[0].startswith("-"):
        with open(words[0], encoding="utf-8") as file:
            text, path, arguments = file.read(), words[0], words
    elif words in ([], ["-"]):
        text, path, arguments = data.decode("utf-8"), "<stdin>", ["-"]
    else:
        complain(f"python3 takes -c, a file or - here, not {words[0]}")
        return WRONG
    before, sys.argv = sys.argv, arguments
    try:
        exec(compile(text, path, "exec"), {"__name__": "__main__", "__builtins__": __builtins__})
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return end.code or 0
        complain(str(end.code))
        return FAILED
    except BaseException:
        traceback.print_exc()
        return FAILED
    finally:
        sys.argv = before
    return 0


def plain(words: list[str]) -> tuple[set[str], list[str]]:
    """Return letters of the options, and the other words."""
    if "--" in words:
        cut = words.index("--")
        return set("".join(word.lstrip("-") for word in words[:cut])), words[cut + 1 :]
    options = [word for word in words if word.startswith("-") and len(word) > 1]
    return set("".join(word.lstrip("-") for word in options)), [word for word in words if word not in options]


def rm(words: list[str], data: bytes) -> int:
    """Remove files, with -r folders too."""
    options, paths = plain(words)
    for path in paths:
        if os.path.isdir(path) and not os.path.islink(path) and options & {"r", "R"}:
            shutil.rmtree(path)
        elif os.path.lexists(path) or "f" not in options:
            os.remove(path)
    return 0


def mkdir(words: list[str], data: bytes) -> int:
    """Make folders, with -p those above too."""
    options, paths = plain(words)
    for path in paths:
        if "p" in options:
            os.makedirs(path, exist_ok=True)
        else:
            os.mkdir(path)
    return 0


def rmdir(words: list[str], data: bytes) -> int:
    """Remove empty folders."""
    for path in plain(words)[1]:
        os.rmdir(path)
    return 0


def touch(words: list[str], data: bytes) -> int:
    """Make files, or set their time."""
    for path in plain(words)[1]:
        with open(path, "ab"):
            os.utime(path)
    return 0


def chmod(words: list[str], data: bytes) -> int:
    """Run `chmod +r|-w|...|0644 FILE...`, for everybody."""
    bits = {"r": 0o444, "w": 0o222, "x": 0o111}
    mode, paths = words[0], words[1:]
    for path in paths:
        now = os.stat(path).st_mode & 0o7777
        if mode[0] in "+-":
            asked = sum(bits[letter] for letter in mode[1:])
            os.chmod(path, now | asked if mode[0] == "+" else now & ~asked)
        else:
            os.chmod(path, int(mode, 8))
    return 0


def ls(words: list[str], data: bytes) -> int:
    """Return names in folders, one a line."""
    options, paths = plain(words)
    for path in paths or ["."]:
        names = sorted(os.listdir(path)) if os.path.isdir(path) else [path]
        for name in names:
            if "a" in options or not name.startswith("."):
                tell(name)
    return 0


def cat(words: list[str], data: bytes) -> int:
    """Print files, or what was given."""
    paths = plain(words)[1]
    for path in paths:
        with open(path, "rb") as file:
            sys.stdout.write(file.read().decode("utf-8", "replace"))
    if not paths:
        sys.stdout.write(data.decode("utf-8", "replace"))
    return 0


def wc(words: list[str], data: bytes) -> int:
    """Run `wc -c` on files, or on what was given."""
    options, paths = plain(words)
    if options != {"c"}:
        complain("wc takes -c here")
        return WRONG
    for path in paths:
        tell(f"{os.path.getsize(path)} {path}")
    if not paths:
        tell(str(len(data)))
    return 0


def printf(words: list[str], data: bytes) -> int:
    """Run `printf %s WORD...`."""
    if words[:1] != ["%s"]:
        complain("printf takes the format %s here")
        return WRONG
    sys.stdout.write("".join(words[1:]))
    return 0


def sleep(words: list[str], data: bytes) -> int:
    """Wait for so many seconds."""
    time.sleep(float(words[0]))
    return 0


def whoami(words: list[str], data: bytes) -> int:
    """Return the user's name, or number where there is none."""
    try:
        tell(getpass.getuser())
    except (KeyError, OSError):
        tell(str(os.getuid()))
    return 0


COMMANDS: dict[str, Callable[[list[str], bytes], int]] = {
    run.__name__: run for run in (cat, chmod, ls, mkdir, printf, rm, rmdir, sleep, touch, wc, whoami)
}
KNOWN = frozenset({"sh", "bash", "python", "python3", *COMMANDS})
