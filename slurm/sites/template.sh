# Template of a site file: everything that the kit has to know about one cluster.
# not run here; from nothing but the manual of sbatch (Slurm 22.05, INPUT ENVIRONMENT VARIABLES), 2022-05
#
# `make site NAME=mycluster` on a login node fills this in from what Slurm says there. By hand: copy it to mycluster.sh.
# Check it there with `make doctor SITE=mycluster`. A site file is read by bash twice: on the login node before
# sbatch, and again in the job. So it only sets variables; no command, no `module load`, no secret.
# `${NAME:-value}` means: the user's own NAME if set, else the value. An empty line `""` means: not needed, or not known.

# The name of this file without .sh. `make submit SITE=name` finds the file by it, and each record keeps it.
export SITE=template

# --- Where and on whose time: sbatch reads these SBATCH_ variables like its options of the same name. They win over the
# --- #SBATCH lines of a script; an option on sbatch's command line wins over them.
# The account, also called project or allocation, that pays. Best left out here: each user writes
# `export SBATCH_ACCOUNT=…` once in their shell. Ask the site: "which account may I use, does a GPU job need another?"
# export SBATCH_ACCOUNT="${SBATCH_ACCOUNT:-my_project}"

# The partition (the queue) whose nodes the jobs use; `sinfo` lists them. Leave it out to get the site's default.
export SBATCH_PARTITION="${SBATCH_PARTITION:-gpu}"

# The quality of service: a class of jobs with its own limits and priority. Most sites need none.
# export SBATCH_QOS="${SBATCH_QOS:-debug}"

# Nodes with this feature only; some sites choose the kind of node by it in place of a partition.
# export SBATCH_CONSTRAINT="${SBATCH_CONSTRAINT:-gpu}"

# Memory per node. Needed where a job that does not ask gets little; `0` means all of a node.
# export SBATCH_MEM_PER_NODE="${SBATCH_MEM_PER_NODE:-0}"

# --- GPUs
# How many GPUs a node has; one rank per GPU is the kit's usual layout. 0: a cluster without GPUs.
export LABKIT_GPUS_PER_NODE=4

# How this site wants GPUs to be asked for: gpus-per-node, gres, or none (a job gets whole nodes, or there is no GPU).
# Ask the site: "how do I ask for all GPUs of a node?" Not gpus-per-task: it hides the neighbours' GPUs from a rank.
export LABKIT_GPU_FORM="gpus-per-node"

# The request itself, for the form gpus-per-node; sbatch reads it.
export SBATCH_GPUS_PER_NODE=4

# The request itself, for the form gres, in place of the line above. A Slurm that does not read SBATCH_GRES yet takes
# the same as an option: write --gres=gpu:4 into LABKIT_SBATCH_OPTIONS.
# export SBATCH_GRES="gpu:4"

# --- Further options of sbatch that have no SBATCH_ variable, as on its command line: `make submit` adds them. By hand:
# --- `sbatch $LABKIT_SBATCH_OPTIONS slurm/NN_name.sbatch`. Cores per rank are such a one: cores of a node / GPUs.
export LABKIT_SBATCH_OPTIONS="--cpus-per-task=16"

# --- Software
# Modules, loaded in this order in the job and by the doctor; empty where the site has none or none is needed.
# They must bring the MPI library with which `make setup MPI_HOME=…` was run.
export LABKIT_MODULES="gcc mvapich2"
# Modules for `make setup` alone, loaded by hand before it: nvcc for Horovod's GPU builds, say. Jobs do without CUDA, NCCL
# and cuDNN modules: PyTorch and TensorFlow bring these libraries, and a second copy of another version breaks them.
# export LABKIT_SETUP_MODULES="cuda/12.4"

# The command that starts the ranks; the kit adds their number and hosts. One of: srun, srun --mpi=pmi2 (what
# `srun --mpi=list` offers), mpirun_rsh -export-all, mpiexec, mpirun, ibrun. mpirun_rsh logs in to the nodes by ssh, or,
# with -launcher srun as another option, starts its helpers by srun.
export LABKIT_LAUNCHER="srun --mpi=pmi2"

# Which MPI library the modules bring: mpich, mvapich2, mvapich2-gdr, mvapich-plus, cray-mpich, openmpi or intelmpi.
# The doctor compares it with what the library itself says on a node. Ranks then find what this library wants to be told
# for Horovod, as far as you have not set it: mvapich2 MV2_ENABLE_AFFINITY=0 (or else each rank keeps one core and one
# thread may call MPI; a binding by MV2_CPU_BINDING_… or MV2_CPU_MAPPING leaves it out), mvapich2-gdr also MV2_USE_CUDA=1
# and MV2_SUPPORT_DL=1, mvapich-plus MVP_ENABLE_GPU=1. Here, or with ENV= of `make submit`, another value can be set.
export LABKIT_MPI="mvapich2"

# For mvapich2-gdr, where GDRCopy is: the whole path of libgdrapi.so, which becomes MV2_GPUDIRECT_GDRCOPY_LIB. With it, short
# messages reach GPU memory sooner. Ask the site: "is GDRCopy on the GPU nodes, and where is its library?"
# export LABKIT_GDRCOPY="/opt/gdrcopy/lib64/libgdrapi.so"

# Which build of Horovod the jobs use, where `make setup` has made several: host, nccl or mpi; `make doctor` lists them.
# Without the line: the default one. HOROVOD= of `make submit` wins.
# export LABKIT_HOROVOD="${LABKIT_HOROVOD:-nccl}"

# --- Network, only where the site's documentation says so
# The interface that NCCL (and RCCL) uses for its first contact between nodes; without it NCCL looks for one itself.
# export NCCL_SOCKET_IFNAME=ib0
# Where a node has several networks, PyTorch's Gloo should keep to the job's own as well: the interface by its name.
# export GLOO_SOCKET_IFNAME=ib0
# The same for Horovod's Gloo, when HOROVOD_CPU_OPERATIONS=gloo; else it takes the interface of the host's name.
# export HOROVOD_GLOO_IFACE=ib0
# The same for MPI over UCX, which calls the port of an InfiniBand adapter mlx5_0:1; without it all networks are used.
# export UCX_NET_DEVICES=mlx5_0:1
# The same for MPI over libfabric's provider for TCP, which chooses one for itself otherwise.
# export FI_TCP_IFACE=ib0

# --- A hub for a class (make hub SITE=name), on a machine that can submit jobs; docs/HUB.md
# The address of that machine as the compute nodes reach it; without this line there is no hub at the site.
# export LABKIT_HUB_ADDRESS=10.0.0.1
# Learners log in with the site's passwords. Name the service of PAM that your log-in nodes use, a file
# in /etc/pam.d: another one may ask for less, such as no second factor. Root starts no hub without it.
# export LABKIT_HUB_PAM="sshd"
# A learner's notebook server is a job. How long may it take, hours:minutes:seconds, before Slurm ends it
# (without the line 2 hours)?
# export LABKIT_HUB_TIME="04:00:00"
# The partition for these jobs, where it is another one than that of the batch jobs, SBATCH_PARTITION.
# export LABKIT_HUB_PARTITION="interactive"
# The nodes that the site has reserved for the course: the name of the reservation that it has told you.
# export LABKIT_HUB_RESERVATION="my_course"
# Cores of such a job (without the line 4), GPUs (without it none), and memory (without it the site's default).
# export LABKIT_HUB_CPUS=4
# How many GPUs it gets. They are idle while a learner reads, so none is a good number for most of the labs.
# export LABKIT_HUB_GPUS=1
# Memory of such a job, as sbatch's --mem takes it. A lab with 4 ranks and PyTorch in each needs about 4 GB.
# export LABKIT_HUB_MEMORY="8G"
