"""Lab 42: lines that start jobs, judged and started; MPI from inside; rows of timelines."""

import sys

import numpy as np
import pytest
from labkit import builds, cluster, launch, placement, timing
from labkit.errors import LabError
from labkit.horovod import Training, timeline, train_ways
from support import lab42

TRAIN = ["python", "train.py", "--name=a=b"]
GDR = {"MV2_USE_CUDA": "1", "MV2_ENABLE_AFFINITY": "0"}
JOB = lab42.Job(2, 4, 14, 4)
SRUN = (
    "env MV2_USE_CUDA=1 MV2_ENABLE_AFFINITY=0 srun --mpi=pmi2 --nodes=2 --ntasks-per-node=4 "
    "--cpus-per-task=14 --gpus-per-node=4 --gpu-bind=none"
)
RSH = (
    "mpirun_rsh -export-all -np 8 -hostfile hosts MV2_USE_CUDA=1 MV2_ENABLE_AFFINITY=0"
    " OMP_NUM_THREADS=14"
)


def test_a_lab_that_copies_to_the_host_does_what_the_build_host_does(monkeypatch):
    monkeypatch.setattr(builds, "current_horovod", lambda: "mpi")
    took = timing.Measurement(np.array([1.0]))
    by_mpi = Training(took, None, placement.Placement("cuda:0", False, "MPI"))
    by_lab = Training(took, None, placement.Placement("cuda:0", True, "MPI", by_lab=True))
    assert lab42.device_and_build(by_mpi) == ("cuda:0", "mpi")
    assert lab42.device_and_build(by_lab) == ("cuda:0", "host")


@pytest.mark.parametrize(
    "words",
    [
        SRUN,
        RSH,
        f"{SRUN} --cpu-bind=cores --kill-on-bad-exit=1 --label --distribution=block",
        SRUN.replace("--nodes=2", "--nodes 2"),
        SRUN.replace("--nodes=2", "-N2 -n 8").replace("--gpus-per-node=4", "--gres=gpu:4"),
        f"{RSH} NCCL_DEBUG=INFO",
    ],
)
def test_a_line_that_does_the_job_may_hold_more(words):
    launcher = "srun" if "srun" in words else "mpirun_rsh"
    lab42.expect_line([*words.split(), *TRAIN], launcher, JOB, GDR, TRAIN)


@pytest.mark.parametrize(
    ("text", "known"),
    [
        ("MVAPICH Version:        4.0\n", True),
        ("Open MPI v5.0.11, package", True),
        ("MVAPICH-Plus Version:   5.1.0\n", False),
        ("MVAPICH2-GDR Version      :\t2.3.6\n", False),
        ("MPI VERSION    : CRAY MPICH version 8.1.25.17\n", False),
    ],
)
def test_only_texts_that_the_exercise_explains_are_asked_for(text, known):
    assert lab42.has_rule(text) == known


def test_calls_are_counted_step_by_step():
    def call(*tensors):
        return [
            {"ph": phase, "pid": tensor, "name": "MPI_ALLREDUCE", "ts": 0}
            for phase in "BE"
            for tensor in tensors
        ]

    events = call(1) + call(2, 3) + call(1, 2, 3) + call(1)
    assert lab42.calls_of_each_step(events, layers=3) == [2, 1]


def test_without_slurm_a_line_is_for_mpiexec(monkeypatch):
    monkeypatch.setattr(cluster, "here", lambda: None)
    assert lab42.launcher_here() == "mpiexec"
    assert lab42.job_here(cores=1) == lab42.Job(1, 2, 1, 0)


@pytest.mark.slow
@pytest.mark.parametrize("mpi", [None, "mvapich2"])
def test_a_line_for_this_machine_starts_ranks_with_the_cores_that_it_asks_for(mpi):
    if mpi and mpi not in builds.mpi_builds():
        pytest.skip("MVAPICH2 is not built here")
    line = ["env", "MV2_ENABLE_AFFINITY=0", "mpiexec", "-n", "2", "-bind-to", "core:1"]
    answers = lab42.start([*line, *lab42.PROGRAM], mpi)
    assert [answer["rank"] for answer in answers] == [0, 1]
    for answer in answers:
        assert (answer["cores"], answer["threads"], answer["level"]) == (1, 1, "MULTIPLE")
        assert answer["mpi"].split()[0] == ("MVAPICH2" if mpi else "MPICH")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "program", "says"),
    [
        ("-n 1", [sys.executable, "-c", "raise SystemExit('no such model')"], "no such model"),
        (
            "-n 2 env -u PMI_FD -u PMI_RANK -u PMI_SIZE",
            lab42.PROGRAM,
            "did not find each other: jobs that answered: 2",
        ),
    ],
)
def test_a_line_that_fails_is_told(words, program, says):
    with pytest.raises(LabError, match=says):
        lab42.start(["env", "mpiexec", *words.split(), *program])


@pytest.mark.gpu
def test_a_row_of_real_ranks_on_gpus_is_that_of_a_case(tmp_path):
    build = builds.current_horovod()
    results = launch.run(train_ways, 3, 64, 6, {"fused": {}}, tmp_path, ranks=1)
    rows = lab42.gradients(timeline.activities(results[0]["fused"].events))
    named = {"nccl": "NCCL_ALLREDUCE", "mpi": "MPI_ALLREDUCE", "host": "MPI_ALLREDUCE"}
    for names in rows.values():
        assert named[build] in names
        assert "WAIT_FOR_DATA" in names
        assert "MEMCPY_IN_HOST_BUFFER" not in names
