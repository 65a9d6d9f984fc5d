#!/bin/sh
# What one GPU does with Saccade, in at most ten minutes and without a network: tools/gpu_check.sh OUT [PHOTOS]
# Needs an environment with `saccade-vlm[train]`; PYTHON names its interpreter. Without a GPU everything is tiny. Each
# row of the table is written as soon as it is known. PHOTOS: a folder with pictures for the tasks of the RL steps.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
export PYTHONPATH="$root${PYTHONPATH:+:$PYTHONPATH}"
exec timeout 600 "${PYTHON:-python3}" "$root/tools/gpu_check.py" "${1:?name a folder for the table: tools/gpu_check.sh OUT [PHOTOS]}" ${2:+"$2"}
