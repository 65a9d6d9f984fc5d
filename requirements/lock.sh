#!/bin/sh
# Writes requirements/lock.txt: what `.[dev]` resolves to today in an empty environment, every package pinned.
# Run from the root of the repository with Python 3.11 (its set holds the back-ports that 3.12 does not need).
set -eu

python="${PYTHON:-python3.11}"
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
"$python" -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --editable '.[dev]' 'hatchling>=1.26' 'editables>=0.5'
{
    echo "# Pinned versions of what \`.[dev]\` and its build need, for Python 3.11 and 3.12."
    echo "# Written by \`make lock\`; do not edit by hand."
    "$folder/venv/bin/python" -m pip freeze --exclude-editable --exclude saccade
} > "$folder/lock.txt"
mv "$folder/lock.txt" requirements/lock.txt
