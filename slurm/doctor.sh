#!/usr/bin/env bash
# The short job of `make doctor SITE=…`: sbatch slurm/doctor.sh FOLDER runs slurm.doctor.node on its first node, and
# FOLDER takes what that finds.
set -euo pipefail
source slurm/launch.sh
read_site doctor
hand_over slurm.doctor.node "$1"
