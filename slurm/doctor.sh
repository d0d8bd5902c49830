#!/usr/bin/env bash
# Part of `make doctor SITE=…`. As a short job on the nodes: sbatch slurm/doctor.sh FOLDER PYTHON, where FOLDER takes
# what is found. On the login node: bash slurm/doctor.sh modules, which only loads the site's modules.
set -euo pipefail
source slurm/launch.sh # read_site, which also loads the modules
read_site doctor
[[ $1 == modules ]] && exit
[[ -x $2 ]] || stop "On $(hostname) there is no $2 that can be run."
export PYTHONPATH="$PWD/labs${PYTHONPATH:+:$PYTHONPATH}"
export SRUN_CPUS_PER_TASK="${SLURM_CPUS_PER_TASK:-1}"
exec "$2" -m slurm.doctor.node "$1"
