# Perlmutter (NERSC): GPU nodes with one 64-core AMD EPYC 7763 and 4 NVIDIA A100.
# not run here; from github.com/NERSC/sc25-dl-tutorial (submit_pm_dp.sh, the centre's own tutorial), 2025-11-16
# Node: docs.nersc.gov/beginner-guide/nodetypesfig, a page without a date. Other sources stand beside the value.
export SITE=perlmutter

# The account of a GPU job ends in _g (github.com/ECP-WarpX/WarpX, perlmutter_gpu.sbatch, 2024-10-24). Set your own:
# export SBATCH_ACCOUNT=m1234_g
export SBATCH_CONSTRAINT="${SBATCH_CONSTRAINT:-gpu}"
export SBATCH_QOS="${SBATCH_QOS:-regular}"
# The partition follows from constraint and QOS; no source sets one.

export LABKIT_GPUS_PER_NODE=4
export LABKIT_GPU_FORM="gpus-per-node"
export SBATCH_GPUS_PER_NODE=4
# 4 ranks a node with 32 hardware threads each: 16 cores with two threads.
export LABKIT_SBATCH_OPTIONS="--cpus-per-task=32 --gpu-bind=none"

# Names without versions: github.com/ECP-WarpX/WarpX, perlmutter_gpu_warpx.profile.example, 2024-10-24; that cray-mpich is
# among the default modules: github.com/SCOREC/polyMPO, pull request 64, tested 2024-07-23.
export LABKIT_MODULES="PrgEnv-gnu cray-mpich craype-accel-nvidia80"
# For `make setup` alone: nvcc, and no library that a job should load, since PyTorch brings its own.
export LABKIT_SETUP_MODULES="cudatoolkit"
export LABKIT_LAUNCHER="srun"
export LABKIT_MPI="cray-mpich"
# Ask the site: is cray-mpich-abi there for an mpi4py that was built for MPICH? Does NCCL need the module nccl-plugin
# outside of its containers (the tutorial names it for shifter), and which NCCL_SOCKET_IFNAME does it want?
