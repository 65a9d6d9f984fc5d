"""Which files of this machine the running interpreter needs: found, not configured.

Call after the libraries that sessions use were imported: shared libraries in unusual places are found among those
loaded. Promises to name no folder that holds a person's files as a whole.
"""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Iterable

_SYSTEM = (
    "/lib",
    "/lib64",
    "/usr/lib",
    "/usr/lib64",
    "/usr/local/lib",
    "/usr/local/lib64",
    "/usr/share/zoneinfo",
    "/usr/share/fonts",
    "/usr/local/share/fonts",
    "/usr/share/fontconfig",
    "/usr/share/matplotlib",
    "/etc/fonts",
    "/etc/alternatives",
    "/etc/localtime",
    "/etc/timezone",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
)
_WIDE_NAMES = (
    "/ /bin /boot /dev /etc /home /media /mnt /opt /proc /root /run /sbin /srv /sys /tmp /usr /usr/local /usr/share "
    "/var /var/lib /var/tmp /dev/shm"
)
_TOO_WIDE = frozenset(_WIDE_NAMES.split())


def too_wide(path: str) -> bool:
    """Whether a folder is never to be shown as a whole: a system folder, a home folder, or one that holds a home."""
    real = os.path.realpath(path)
    home = os.path.realpath(os.path.expanduser("~"))
    return real in _TOO_WIDE or home == real or home.startswith(real + "/") or os.path.dirname(real) == "/home"


def interpreter_paths() -> list[str]:
    """Folders and files that this interpreter and its loaded libraries read; none in another.

    Paths are absolute, exist, and may lead through symbolic links.
    """
    wanted = [*_SYSTEM, *_python_folders()]
    kept = [path for path in wanted if not too_wide(path)]
    kept = [path for path in kept if os.path.exists(path)]
    covered = [os.path.realpath(path) for path in kept]
    for library in _loaded_libraries():
        if not any(_beneath(library, path) for path in covered):
            folder = os.path.dirname(library)
            kept.append(library if too_wide(folder) else folder)
            covered.append(kept[-1])
    return _outermost(kept)


def _python_folders() -> list[str]:
    """Standard library, site-packages and the library folders of the prefixes."""
    names = ("stdlib", "platstdlib", "purelib", "platlib")
    folders = [sysconfig.get_path(name) for name in names]
    for prefix in (sys.base_prefix, sys.base_exec_prefix, sys.prefix, sys.exec_prefix):
        folders += [os.path.join(prefix, "lib"), os.path.join(prefix, "lib64")]
    folders += [
        path
        for path in sys.path
        if os.path.isabs(path) and os.path.basename(path) in ("site-packages", "dist-packages", "lib-dynload")
    ]
    return folders


def _loaded_libraries() -> list[str]:
    """Real paths of the shared objects mapped into this process."""
    libraries = set()
    with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as file:
        for line in file:
            # address, permissions, offset, device, inode, path
            fields = line.rstrip("\n").split(maxsplit=5)
            if len(fields) == 6 and "x" in fields[1] and fields[5].startswith("/"):
                libraries.add(fields[5])
    executable = os.path.realpath(sys.executable)
    return sorted(path for path in libraries if path != executable and os.path.exists(path))


def _beneath(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def _outermost(paths: Iterable[str]) -> list[str]:
    """Sorted, without repetitions and without paths that lie in another one as written."""
    result: list[str] = []
    for path in sorted(set(paths)):
        if not any(_beneath(path, other) for other in result):
            result.append(path)
    return result
