#!/bin/sh
# python_program.sh FILE: runs a test of the Python program behind `cultivar import` with the Python that install_pytorch.sh made.
# Exit code 77 (skipped) without it.
python=${XDG_CACHE_HOME:-$HOME/.cache}/cultivar/pytorch/bin/python
"$python" -c 'import torch, numpy, yaml' 2>/dev/null || { echo "skipped: tests/install_pytorch.sh was not run"; exit 77; }
exec "$python" "$1"
