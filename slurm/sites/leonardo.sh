# Leonardo Booster (CINECA): nodes with 32 cores (Intel Xeon 8358) and 4 NVIDIA A100 of 64 GB.
# not run here; from docs.hpc.cineca.it/hpc/leonardo.html, a page without a date
# Job options: github.com/ECP-WarpX/WarpX (Tools/machines/leonardo-cineca), 2024-10-24.
export SITE=leonardo

# Set your own; `saldo -b` lists your projects:
# export SBATCH_ACCOUNT=my_project
# For short tests: export SBATCH_QOS=boost_qos_dbg
export SBATCH_PARTITION="${SBATCH_PARTITION:-boost_usr_prod}"
# In MB; what WarpX's job script asks for on a whole node.
export SBATCH_MEM_PER_NODE="${SBATCH_MEM_PER_NODE:-494000}"

export LABKIT_GPUS_PER_NODE=4
export LABKIT_GPU_FORM="gres"
export SBATCH_GRES="gpu:4"
# 32 cores / 4 ranks.
export LABKIT_SBATCH_OPTIONS="--cpus-per-task=8"

# WarpX's profile of 2024-10-24. The kit needs CUDA 12, and this profile has 11. Ask the site (`modmap`): which Open MPI
# was built with CUDA 12? A module with nvcc for the set-up alone belongs into LABKIT_SETUP_MODULES.
export LABKIT_MODULES="gcc/11.3.0 openmpi/4.1.4--gcc--11.3.0-cuda-11.8"
export LABKIT_LAUNCHER="srun"
export LABKIT_MPI="openmpi"
# NCCL_SOCKET_IFNAME: no source.
