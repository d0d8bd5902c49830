# Ascend (OSC): nodes with 88 usable cores and 4 NVIDIA A100 of 80 GB.
# not run here; from www.osc.edu/resources/technical_support/supercomputers/ascend/batch_limit_rules, a page without a date
# That page describes the cluster of 2022; OSC announced 274 further nodes of another kind for late 2024 to early 2025
# (www.osc.edu/book/export/html/4039). Ask the site: which partition has the nodes with 4 GPUs now?
export SITE=ascend

# Set your own; at OSC an account looks like PAS1234:
# export SBATCH_ACCOUNT=PAS1234
# The page needs no partition for GPU jobs: Slurm chooses one by what the job asks for.

export LABKIT_GPUS_PER_NODE=4
export LABKIT_GPU_FORM="gpus-per-node"
export SBATCH_GPUS_PER_NODE=4
# 88 cores / 4 ranks.
export LABKIT_SBATCH_OPTIONS="--cpus-per-task=22"

# srun: as on OSC's Pitzer (github.com/ECP-WarpX/WarpX, pitzer_v100.sbatch, 2024-10-24).
export LABKIT_LAUNCHER="srun"
# Ask the site: `module spider mvapich`, is there an mvapich-plus or mvapich2-gdr with CUDA, and for which gcc and cuda?
# (Seen in a user's script on Pitzer: cuda/11.6.1 mvapich2-gdr/2.3.7.) Then fill in both lines:
export LABKIT_MODULES=""
export LABKIT_MPI=""
# NCCL_SOCKET_IFNAME: no source.
