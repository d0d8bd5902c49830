#!/usr/bin/env bash
# The short job of `make doctor SITE=…`: sbatch slurm/doctor.sh FOLDER PYTHON runs slurm.doctor.node on its first node,
# and FOLDER takes what that finds.
set -euo pipefail
source slurm/launch.sh
read_site doctor
[[ -x $2 ]] || stop "On $(hostname) there is no $2 that can be run."
export PYTHONPATH="$PWD/labs${PYTHONPATH:+:$PYTHONPATH}"
export SRUN_CPUS_PER_TASK="${SLURM_CPUS_PER_TASK:-1}"
exec "$2" -m slurm.doctor.node "$1"
