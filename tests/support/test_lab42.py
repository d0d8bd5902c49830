"""Lines that start jobs, read and started; timelines and their rows; cases that answers are held against."""

import sys
from collections import Counter

import numpy as np
import pytest
from labkit import builds, cluster, doctor, launch, placement, timing
from labkit.errors import LabError
from labkit.horovod import Training, timeline, train_ways
from support import lab42
from support.lab42 import lines, roll_call

TRAIN = ["python", "train.py", "--name=a=b"]
GDR = {"MV2_USE_CUDA": "1", "MV2_ENABLE_AFFINITY": "0"}
JOB = lab42.Job(2, 4, 14, 4)
SRUN = (
    "env MV2_USE_CUDA=1 MV2_ENABLE_AFFINITY=0 srun --mpi=pmi2 --nodes=2 --ntasks-per-node=4 "
    "--cpus-per-task=14 --gpus-per-node=4 --gpu-bind=none"
)
RSH = "mpirun_rsh -export-all -np 8 -hostfile hosts MV2_USE_CUDA=1 MV2_ENABLE_AFFINITY=0 OMP_NUM_THREADS=14"


@pytest.mark.parametrize(("text", "mpiname", "want"), lab42.LIBRARIES)
def test_labkit_itself_tells_the_libraries_apart_in_the_same_way(text, mpiname, want):
    assert doctor.identify(text, mpiname) == want


def test_the_device_of_a_library_is_in_its_text():
    assert lab42.channel("MVAPICH2 Version      :\t2.3.7\nMVAPICH2 Device       :\tch3:sock\n") == "ch3:sock"
    assert lab42.channel("MPICH Version:      5.0.2\nMPICH Device:       ch4:ofi\n") == "ch4:ofi"
    assert lab42.channel("Open MPI v5.0.11") == ""


# --- timelines


@pytest.mark.parametrize(("calls", "proof"), lab42.TIMELINES)
def test_made_up_timelines_hold_the_calls_that_they_stand_for(calls, proof):
    activities = lab42.timeline_of(*calls)
    for name, (_, tensors) in proof.items():
        assert sum(activity.name == name for activity in activities) == tensors
    assert {activity.name for activity in activities} >= {"MEMCPY_IN_FUSION_BUFFER", *proof}


def test_rows_cannot_be_told_by_their_names_alone():
    by_row = Counter(tuple(journey.activities) for journey in lab42.JOURNEYS)
    twice = [row for row, count in by_row.items() if count > 1]
    verdicts = {journey.verdict for journey in lab42.JOURNEYS if tuple(journey.activities) in twice}
    assert verdicts == {"CUDA-aware MPI", "staged through the host"}


def test_only_nccl_builds_have_rows_with_nccl():
    for journey in lab42.JOURNEYS:
        has_nccl = any(name.startswith("NCCL_") for name in journey.activities)
        assert has_nccl == (journey.build == "nccl" and journey.device != "cpu"), journey.told


def test_gradients_are_the_tensors_that_were_averaged():
    activities = lab42.timeline_of(("MPI_BCAST", 1)) + lab42.timeline_of(("MPI_ALLREDUCE", 2))
    activities[0] = timeline.Activity("weights", "NEGOTIATE_BROADCAST", 0.0)
    rows = lab42.gradients(activities)
    assert list(rows) == ["layer 0", "layer 1"]
    assert rows["layer 1"] == [
        "NEGOTIATE_ALLREDUCE",
        "ALLREDUCE",
        "MEMCPY_IN_FUSION_BUFFER",
        "MPI_ALLREDUCE",
        "MEMCPY_OUT_FUSION_BUFFER",
    ]


def test_the_first_activities_are_shown_as_a_table(capsys):
    lab42.show(lab42.timeline_of(("MPI_ALLREDUCE", 2)), first=3)
    rows = capsys.readouterr().out.splitlines()
    assert len(rows) == 4
    assert rows[0].split() == ["began", "(ms)", "tensor", "activity"]
    assert rows[3].split() == ["0.00", "layer", "0", "ALLREDUCE"]


def test_rounds_become_one_measurement():
    where = placement.on_host("MPI")
    first = {"fused": Training(timing.Measurement(np.array([1.0, 2.0])), ["old"], where)}
    second = {"fused": Training(timing.Measurement(np.array([4.0, 5.0]), 0.1), ["new"], where)}
    took, events = lab42.together([first, second])["fused"]
    assert took.samples.tolist() == [1.0, 2.0, 4.0, 5.0]
    assert took.resolution == 0.1
    assert events == ["new"]


def test_a_lab_that_copies_to_the_host_does_what_the_build_host_does(monkeypatch):
    monkeypatch.setattr(builds, "current_horovod", lambda: "mpi")
    took = timing.Measurement(np.array([1.0]))
    by_mpi = Training(took, None, placement.Placement("cuda:0", False, "MPI"))
    by_lab = Training(took, None, placement.Placement("cuda:0", True, "MPI", by_lab=True))
    assert lab42.device_and_build(by_mpi) == ("cuda:0", "mpi")
    assert lab42.device_and_build(by_lab) == ("cuda:0", "host")


# --- lines, read


def test_mpirun_rsh_takes_what_stands_before_the_program_for_variables():
    line = lab42.read_command(
        ["mpirun_rsh", "-export-all", "-np", "4", "-hostfile", "hosts", "A=1", "B=x=y", *TRAIN]
    )
    assert line.options == {"export-all": "", "np": "4", "hostfile": "hosts"}
    assert line.variables == {"A": "1", "B": "x=y"}
    assert line.program == TRAIN


def test_variables_behind_the_program_are_its_arguments():
    line = lab42.read_command(["mpirun_rsh", "-np", "4", "--hostfile", "hosts", *TRAIN, "A=1"])
    assert line.variables == {}
    assert line.program == [*TRAIN, "A=1"]


def test_srun_takes_a_variable_behind_its_options_for_the_program():
    line = lab42.read_command(["env", "A=1", "srun", "--mpi", "pmi2", "--nodes=2", "B=2", *TRAIN])
    assert line.options == {"mpi": "pmi2", "nodes": "2"}
    assert line.variables == {"A": "1"}
    assert line.program == ["B=2", *TRAIN]


def test_srun_s_short_options_are_read():
    line = lab42.read_command(["srun", "-N2", "-n", "8", "-c", "14", "-l", "--mpi=pmi2", *TRAIN])
    assert line.options == {"nodes": "2", "ntasks": "8", "cpus-per-task": "14", "label": "", "mpi": "pmi2"}
    assert line.program == TRAIN


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("mpirun_rsh -np 2", "must be a list of words"),
        ([], "must be a list of words"),
        (["mpirun_rsh", "-np", 2], "all of them text"),
        (["horovodrun", "-n", "2"], "must begin with mpirun_rsh"),
        (["A=1", "srun", "python"], "must begin with mpirun_rsh"),
        (["mpirun_rsh", "A=1", "-np", "2", "python"], "needs the number of ranks"),
        (["mpirun_rsh", "-np", "none", "-hostfile", "hosts", "python"], "needs the number of ranks"),
        (["mpirun_rsh", "-np", "2", "python", "train.py"], "takes the next 2 words for hosts"),
        (["mpirun_rsh", "-x", "2", "python"], "-x is no option"),
        (["mpirun_rsh", "-np", "2", "-hostfile"], "-hostfile is no option that is of use here, or its value"),
        (["mpirun_rsh", "-np", "2", "-hostfile", "hosts", "A=1"], "finds no program"),
        (["env", "A=1", "python"], "not srun or mpiexec"),
        (["env", "A=1"], "not srun or mpiexec"),
        (["srun", "--mpi=pmi2"], "srun finds no program"),
        (["mpiexec", "-n", "2"], "mpiexec finds no program"),
    ],
)
def test_a_line_that_cannot_work_is_refused_in_a_sentence(words, says):
    with pytest.raises(LabError, match=says):
        lab42.read_command(words)


def judged(words: str, job=JOB, variables=None):
    """What is wrong with the line of these words and TRAIN."""
    line = words.split() + TRAIN
    launcher = next(word for word in line if word in ("srun", "mpirun_rsh", "mpiexec"))
    return lab42.shortcoming(line, launcher, job, GDR if variables is None else variables, TRAIN)


@pytest.mark.parametrize(
    "words",
    [
        SRUN,
        RSH,
        f"{SRUN} --cpu-bind=cores --kill-on-bad-exit=1 --label --distribution=block",
        f"{SRUN} --cpu-bind=verbose,cores -l -u -K",
        SRUN.replace("--ntasks-per-node=4", "--ntasks=8"),
        SRUN.replace("--nodes=2", "-N 2").replace("--cpus-per-task=14", "-c14"),
        SRUN.replace("--gpus-per-node=4", "--gres=gpu:4"),
        SRUN.replace("--gpus-per-node=4", "--gpus-per-node=a100:4"),
        SRUN.removeprefix("env MV2_USE_CUDA=1 MV2_ENABLE_AFFINITY=0 ")
        + " --export=ALL,MV2_USE_CUDA=1,MV2_ENABLE_AFFINITY=0",
        SRUN.removeprefix("env MV2_USE_CUDA=1 MV2_ENABLE_AFFINITY=0 ")
        + " env MV2_USE_CUDA=1 MV2_ENABLE_AFFINITY=0",
        RSH.replace("-np", "-n"),
        f"{RSH} NCCL_DEBUG=INFO",
    ],
)
def test_a_line_that_does_the_job_may_be_written_in_another_way(words):
    assert judged(words) == ""


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        (" --cpus-per-task=14", "", "gives a rank ONE core"),
        ("--cpus-per-task=14", "--cpus-per-task=1", "14 cores for each rank were asked for"),
        (" --mpi=pmi2", "", "every one is rank 0"),
        ("--nodes=2", "--nodes=1", "has 2 nodes"),
        (" --ntasks-per-node=4", "", "4 ranks on a node"),
        ("--gpus-per-node=4", "--gpus-per-task=1", "CUDA IPC"),
        ("--gpus-per-node=4", "--gpus-per-node=2", "4 GPUs on a node"),
        (" --gpu-bind=none", "", "Without --gpu-bind=none"),
        ("env MV2_USE_CUDA=1", "env MV2_USE_CUDA=0", "MV2_USE_CUDA=1 is missing"),
    ],
)
def test_what_is_wrong_with_a_line_of_srun_is_said_with_its_reason(old, new, says):
    assert says in judged(SRUN.replace(old, new))


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        (" OMP_NUM_THREADS=14", "", "mpirun_rsh binds nobody"),
        ("-export-all", "-export", "Without -export-all"),
        ("-np 8", "-np 4", "2 nodes times 4: 8"),
        ("-hostfile hosts", "-hostfile machines", "-hostfile hosts is missing"),
        ("MV2_USE_CUDA=1 ", "", "MV2_USE_CUDA=1 is missing"),
    ],
)
def test_what_is_wrong_with_a_line_of_mpirun_rsh_is_said_with_its_reason(old, new, says):
    assert says in judged(RSH.replace(old, new))


def test_a_job_without_gpus_must_not_ask_for_one():
    cpus = lab42.Job(2, 4, 14, 0)
    assert "This job has no GPUs" in judged(SRUN, job=cpus)
    assert judged(SRUN.replace(" --gpus-per-node=4 --gpu-bind=none", ""), job=cpus) == ""


def test_mpiexec_binds_its_ranks():
    job = lab42.Job(1, 4, 2, 0)
    assert judged("env A=1 OMP_NUM_THREADS=2 mpiexec -n 4 -bind-to core:2", job, {"A": "1"}) == ""
    assert judged("env OMP_NUM_THREADS=2 mpiexec --bind-to core:2 -np 4 -l", job, {}) == ""
    assert "-bind-to core:2 is missing" in judged("mpiexec -n 4", job, {})
    assert "would start one thread alone" in judged("mpiexec -n 4 -bind-to core:2", job, {})
    assert "-n is the number of ranks: 4" in judged("mpiexec -n 2 -bind-to core:2", job, {})


def test_words_behind_the_program_are_named():
    line = [*RSH.split(), *TRAIN, "A=1"]
    assert "['A=1'] stand behind the program" in lab42.shortcoming(line, "mpirun_rsh", JOB, GDR, TRAIN)


# --- lines, started


def test_what_the_ranks_answer_is_found_in_what_a_job_printed():
    printed = 'srun: warning\nROLL_CALL [{"rank": 0}]\nROLL_CALL [{"rank": 0}]\nbye\n'
    assert roll_call.read(printed) == [[{"rank": 0}], [{"rank": 0}]]


def test_without_slurm_a_line_is_for_mpiexec(monkeypatch):
    monkeypatch.setattr(cluster, "here", lambda: None)
    assert lab42.launcher_here() == "mpiexec"
    assert lab42.job_here(cores=1) == lab42.Job(1, 2, 1, 0)


def test_the_batch_script_reads_the_site_and_ends_with_the_line(tmp_path):
    script = lines.batch_script(["env", "A=1 2", "srun", "x"], JOB, {"PATH": "/a b"}, tmp_path)
    assert script.splitlines()[-1] == "env 'A=1 2' srun x"
    assert "export PATH='/a b'" in script
    assert script.index("read_site") < script.index("export PATH")


@pytest.mark.slow
@pytest.mark.parametrize("mpi", [None, "mvapich2"])
def test_a_line_for_this_machine_starts_ranks_with_the_cores_that_it_asks_for(mpi):
    if mpi and mpi not in builds.mpi_builds():
        pytest.skip("MVAPICH2 is not built here")
    job = lab42.Job(1, 2, 1, 0)
    line = ["env", "MV2_ENABLE_AFFINITY=0", "mpiexec", "-n", "2", "-bind-to", "core:1", *lab42.PROGRAM]
    answers = lab42.start(line, job, mpi)
    assert [answer["rank"] for answer in answers] == [0, 1]
    assert {answer["cores"] for answer in answers} == {1}
    assert {answer["threads"] for answer in answers} == {1}
    assert {answer["level"] for answer in answers} == {"MULTIPLE"}
    assert {answer["mpi"].split()[0] for answer in answers} == {"MVAPICH2" if mpi else "MPICH"}


@pytest.mark.slow
def test_a_line_that_fails_says_its_last_words():
    line = ["env", "mpiexec", "-n", "1", sys.executable, "-c", "raise SystemExit('no such model')"]
    with pytest.raises(LabError, match="no such model"):
        lab42.start(line, lab42.Job(1, 1, 1, 0))


@pytest.mark.slow
def test_ranks_that_do_not_find_each_other_are_noticed():
    line = ["env", "mpiexec", "-n", "2", "env", "-u", "PMI_FD", "-u", "PMI_RANK", "-u", "PMI_SIZE"]
    with pytest.raises(LabError, match="did not find each other: 2 jobs of 1 rank"):
        lab42.start([*line, *lab42.PROGRAM], lab42.Job(1, 2, 1, 0))


# --- ranks


def test_without_the_tool_mpiname_there_is_no_text(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert lab42.mpiname() == ""


def test_what_the_tool_mpiname_prints_is_read(monkeypatch, tmp_path):
    (tmp_path / "mpiname").write_text("#!/bin/sh\necho MVAPICH2 2.3.7 $1\n")
    (tmp_path / "mpiname").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert lab42.mpiname() == "MVAPICH2 2.3.7 -a\n"


@pytest.mark.slow
@pytest.mark.parametrize("mpi", [None, "mvapich2"])
def test_real_ranks_hold_one_mpi_library_and_the_level_that_was_asked_for(mpi):
    if mpi and mpi not in builds.mpi_builds():
        pytest.skip("MVAPICH2 is not built here")
    rank, *_ = launch.run(lab42.look_inside, ranks=2, mpi=mpi, env=lab42.UNBOUND)
    assert rank.library.startswith("MVAPICH2 2.3" if mpi else "MPICH")
    assert len(rank.files) == 1
    assert rank.level == "MULTIPLE"
    assert rank.on_node == 2
    assert launch.run(lab42.thread_level, ranks=2, mpi=mpi, env=lab42.UNBOUND) == ["MULTIPLE"] * 2
    less = lab42.settings_of(rank.library)["asked for less"]
    assert launch.run(lab42.thread_level, ranks=2, mpi=mpi, env=less) == ["SINGLE"] * 2


@pytest.mark.slow
def test_a_row_of_real_ranks_on_cpus_is_that_of_the_case(tmp_path):
    if builds.current_horovod() != "host":
        pytest.skip("another build of Horovod is in use")
    results = launch.run(
        train_ways, 3, 64, 6, {"fused": {}}, tmp_path, ranks=2, env={"CUDA_VISIBLE_DEVICES": ""}
    )
    rows = lab42.gradients(timeline.activities(results[0]["fused"].events))
    laptop = lab42.JOURNEYS[0].activities
    assert len(rows) == 3
    # The tensors that travel first wait for the fusion buffer to be made: that may be one, or all three.
    once = {"INIT_FUSION_BUFFER"}
    assert any(set(names) - once == set(laptop) for names in rows.values())


@pytest.mark.gpu
def test_a_row_of_real_ranks_on_gpus_is_that_of_a_case(tmp_path):
    build = builds.current_horovod()
    results = launch.run(train_ways, 3, 64, 6, {"fused": {}}, tmp_path, ranks=1)
    rows = lab42.gradients(timeline.activities(results[0]["fused"].events))
    named = {
        "nccl": "NCCL_ALLREDUCE",
        "mpi": "MPI_ALLREDUCE",
        "host": "MPI_ALLREDUCE",
    }
    for names in rows.values():
        assert named[build] in names
        assert "WAIT_FOR_DATA" in names
        assert "MEMCPY_IN_HOST_BUFFER" not in names
