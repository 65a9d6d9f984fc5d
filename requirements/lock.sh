#!/bin/sh
# Writes requirements/lock.txt: what `.[dev]` resolves to today in an empty environment, every package pinned.
# Run from the root of the repository with Python 3.11 (its set holds the back-ports that 3.12 does not need).
#
# torch comes first, by its exact version: an index that has a CPU build of it gives that one, and what is installed
# after it takes it as it is. The build (+cpu, +cu130, ...) is left out of the file, so that each machine gets its own;
# and so is what only a CUDA build brings.
set -eu

torch="2.13.0"
python="${PYTHON:-python3.11}"
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
"$python" -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet "torch==$torch"
"$folder/venv/bin/python" -m pip install --quiet --editable '.[dev]' 'hatchling>=1.26,<2' 'editables>=0.5,<1'
{
    echo "# Pinned versions of what \`.[dev]\` and its build need, for Python 3.11 and 3.12."
    echo "# Written by \`make lock\`; do not edit by hand."
    "$folder/venv/bin/python" -m pip freeze --all --exclude-editable \
        --exclude saccade --exclude pip --exclude wheel --exclude triton |
        sed -E -e 's/^(torch==[^+]*)\+.*/\1/' -e '/^(nvidia|cuda)[-_]/d'
} > "$folder/lock.txt"
mv "$folder/lock.txt" requirements/lock.txt
