#!/bin/sh
# What one GPU does with Saccade, in at most ten minutes and without a network: tools/gpu_check.sh OUT
# Needs an environment with `saccade-vlm[train]`; PYTHON names its interpreter. Without a GPU everything is tiny.
set -eu
exec timeout 600 "${PYTHON:-python3}" "$(dirname "$0")/gpu_check.py" "${1:?name a folder for the table: tools/gpu_check.sh OUT}"
