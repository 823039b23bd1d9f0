#!/bin/sh
# install_pytorch.sh [FOLDER]: a virtual environment with PyTorch 2, numpy, pyyaml and Hugging Face's kernels and transformers for the tests that need them (about 3 GB, minutes, once).
# FOLDER: ~/.cache/cultivar/pytorch by default, where tests look for it. Without it those tests are skipped.
set -eu
folder=${1:-${XDG_CACHE_HOME:-$HOME/.cache}/cultivar/pytorch}
hugging_face="kernels==0.17.2 transformers==5.24.0"
if [ -x "$folder/bin/python" ] && "$folder/bin/python" -c 'import torch, numpy, yaml' 2>/dev/null; then
  # shellcheck disable=SC2086  # one word a package
  "$folder/bin/python" -c 'import kernels, transformers' 2>/dev/null || "$folder/bin/python" -m pip install --quiet --disable-pip-version-check $hugging_face
  echo "$folder has PyTorch $("$folder/bin/python" -c 'import torch; print(torch.__version__)')"
  exit 0
fi
command -v python3 >/dev/null || { echo "install_pytorch.sh: python3 is missing (apt-get install python3 python3-venv)" >&2; exit 3; }
mkdir -p "$(dirname "$folder")"
echo "Installing PyTorch in $folder (about 3 GB)"
python3 -m venv --clear "$folder" || { echo "install_pytorch.sh: python3 cannot make a virtual environment (apt-get install python3-venv)" >&2; exit 3; }
exec "$folder/bin/python" -m pip install --quiet --disable-pip-version-check torch==2.11.0 numpy pyyaml $hugging_face
