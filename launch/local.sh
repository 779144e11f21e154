#!/usr/bin/env bash
# Runs coda_jax.main on this machine and does all the set-up it needs:
#   bash launch/local.sh --config=experiments/quickstart.py [--config.KEY=VALUE ...] [--workdir=FOLDER] [--mode=MODE]
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
locked_make_venv
exec "$VENV/bin/python" -m coda_jax.main "$@"
