#!/bin/sh
# Makes an environment for AutoGen alone.
#
#   evals/autogen/install.sh FOLDER
#
# It needs an older protobuf than the services do, so it cannot share theirs.
set -eu
here="$(cd "$(dirname "$0")" && pwd)"
python3 -m venv "${1:?folder for the environment}"
"$1/bin/pip" install --quiet --requirement "$here/requirements.txt"
echo "AutoGen is in $1; run: metacog eval autogen --python $1/bin/python ..."
