#!/usr/bin/env bash
# Makes the reference environment of LIBERO-Pro (Python 3.11, mujoco 2.3.7, numpy 1.26.4) beside this file, or in the folder given.
#   bash third_party/libero_pro/setup.sh [FOLDER]
# A Python 3.11 other than the first found: PYTHON=/path/to/python3.11 bash third_party/libero_pro/setup.sh
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
venv="${1:-$here/.venv}"

fail() {
    printf 'error: %s\n' "$*" >&2
    exit 2
}

python=""
for candidate in ${PYTHON:+"$PYTHON"} python3.11 python3; do
    if "$candidate" -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' 2>/dev/null; then
        python="$candidate"
        break
    fi
done
[ -n "$python" ] || fail "Python 3.11 is needed (mujoco 2.3.7 has no packages for later ones) and was not found; set PYTHON=/path/to/python3.11"
want="$(sha256sum "$here/requirements.lock" | cut -d' ' -f1)"
if [ -x "$venv/bin/python" ] && [ "$(cat "$venv/stamp" 2>/dev/null)" = "$want" ]; then
    echo "$venv is ready"
    exit 0
fi
if [ -e "$venv" ] && [ ! -e "$venv/pyvenv.cfg" ]; then
    fail "$venv exists and is no virtual environment; name another folder"
fi
echo "making $venv (some 340 MB of LIBERO's assets are downloaded the first time)"
rm -rf "$venv"
"$python" -m venv "$venv" || fail "python -m venv failed, see above (on Debian and Ubuntu: apt-get install python3.11-venv)"
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-input --no-deps -r "$here/requirements.lock" ||
    fail "the packages of requirements.lock could not be installed, see above; the same command tries again"
"$venv/bin/python" "$here/runner.py" --check || fail "the environment is not usable, see above"
printf '%s\n' "$want" >"$venv/stamp"
echo "$venv is ready: $venv/bin/python $here/runner.py --help"
