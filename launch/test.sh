#!/usr/bin/env bash
# Does all the set-up, then linters, type checks, the floors, and the tests:
#   bash launch/test.sh [--slow] [pytest arguments]
# --slow also runs the tests marked slow, those of them that this machine can.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"

marks="not slow and not gpu"
arguments=()
for argument in "$@"; do
    case "$argument" in
        --slow) marks="not gpu" ;;
        *) arguments+=("$argument") ;;
    esac
done
if [ "$marks" = "not gpu" ] && [ -e /dev/nvidia0 ]; then marks=""; fi

locked_make_venv
cd "$ROOT"
export PATH="$VENV/bin:$PATH" PYRIGHT_PYTHON_IGNORE_WARNINGS=1
failed=()

step() {
    local name="$1" began="$SECONDS"
    shift
    printf '\n== %s\n' "$name"
    if "$@"; then printf '== %s: passed in %ds\n' "$name" "$((SECONDS - began))"; else failed+=("$name"); fi
}

step "ruff check" ruff check .
step "ruff format" ruff format --check .
step "pyright" pyright
step "floors" lint-imports --no-cache
step "pytest" env OMP_NUM_THREADS=1 python -m pytest -n 2 --dist loadfile -m "$marks" "${arguments[@]}"

if [ "${#failed[@]}" -gt 0 ]; then
    printf '\nfailed: %s (%ds)\n' "$(IFS=,; echo "${failed[*]}")" "$SECONDS" >&2
    exit 1
fi
