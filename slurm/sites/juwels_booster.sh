# JUWELS Booster (JSC): nodes with 4 NVIDIA A100.
# not run here; from github.com/FZJ-JSC/tutorial-multi-gpu (.etc/common-env, the centre's own tutorial), 2025-12-03
export SITE=juwels_booster

# Set your own project:
# export SBATCH_ACCOUNT=myproject
export SBATCH_PARTITION="${SBATCH_PARTITION:-booster}"

export LABKIT_GPUS_PER_NODE=4
export LABKIT_GPU_FORM="gres"
# As an option, since the tutorial notes that SBATCH_GRES "is not yet available" there.
# 48 cores / 4 ranks: github.com/HelmholtzAI-FZJ/2023-deep-learning-for-neuroscience (JSC's course), 2023-10-17, says
# "48 cores x 2 threads".
export LABKIT_SBATCH_OPTIONS="--gres=gpu:4 --cpus-per-task=12"

# modules.sh of the tutorial; MPI-settings/CUDA switches GPU buffers on.
# Its NCCL module is left out, since PyTorch brings its own. Ask the site: do OpenMPI/5.0.5 and MPI-settings/CUDA load
# without CUDA/12? Then it can move into LABKIT_SETUP_MODULES.
export LABKIT_MODULES="Stages/2025 GCC/13.3.0 CUDA/12 OpenMPI/5.0.5 MPI-settings/CUDA"
export LABKIT_LAUNCHER="srun"
export LABKIT_MPI="openmpi"
# NCCL_SOCKET_IFNAME: no source. JSC's courses reach the InfiniBand address of the first host by its name with an added
# "i" (seen in a course of github.com/HelmholtzAI-FZJ, December 2025): ask the site if NCCL's first contact fails.
