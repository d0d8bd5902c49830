"""Which rank of how many this process is, under any launcher, and on what it runs.

For labs:

    rank, size                 this process's number in the job, from 0, and how many there are
    local_rank, local_size     the same on this host
    is_root                    true on rank 0, which alone prints, plots and records
    launcher                   what started this process as one of several; None when it runs alone
    cores, device              cores it may use; "cuda:0" or "cpu"
    gpu_count                  CUDA devices that PyTorch sees

For the kit's other parts:

    gpu_files                  NVIDIA GPUs of this node, without an import of PyTorch
    shown_gpus                 those that CUDA_VISIBLE_DEVICES shows this process; None: all
    describe                   one line that says all of this
    in_kernel                  is this process a Jupyter kernel?
    batch_job                  the number of the Slurm job that runs this process, or None
    clean_env, clean           an environment without secrets and without what a launcher left in it
    without_secrets, is_secret an environment without tokens and passwords; is a variable one?
    launched, tasks_per_node   what a launcher's or Slurm's variables say
"""

from labkit.world.launchers import clean, is_secret, launched, tasks_per_node, without_secrets
from labkit.world.place import (
    batch_job,
    clean_env,
    cores,
    describe,
    device,
    gpu_count,
    gpu_files,
    in_kernel,
    is_root,
    launcher,
    local_rank,
    local_size,
    rank,
    shown_gpus,
    size,
)
