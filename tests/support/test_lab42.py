"""Reading job commands as their launchers do, and the cases that lab 42's answers are held against."""

import pytest
from labkit import doctor, launch
from labkit.errors import LabError
from support import lab42

TRAIN = ["python", "train.py", "--name=a=b"]


@pytest.mark.parametrize(("text", "mpiname", "want"), lab42.LIBRARIES)
def test_labkit_itself_tells_the_libraries_apart_in_the_same_way(text, mpiname, want):
    assert doctor.identify(text, mpiname) == want


@pytest.mark.parametrize(("maps", "want"), lab42.MAPS)
def test_labkit_itself_finds_the_same_libraries_in_a_process(tmp_path, maps, want):
    (tmp_path / "maps").write_text(maps)
    assert doctor.loaded_mpi(str(tmp_path / "maps")) == want


@pytest.mark.parametrize(("calls", "proof"), lab42.TIMELINES)
def test_made_up_timelines_hold_the_calls_that_they_stand_for(calls, proof):
    activities = lab42.timeline_of(*calls)
    for name, (_, tensors) in proof.items():
        assert sum(activity.name == name for activity in activities) == tensors
    assert {activity.name for activity in activities} >= {"MEMCPY_IN_FUSION_BUFFER", *proof}


def test_mpirun_rsh_takes_what_stands_before_the_program_for_variables():
    words = ["mpirun_rsh", "-export-all", "-np", "4", "-hostfile", "hosts", "A=1", "B=x=y", *TRAIN]
    assert lab42.read_command(words) == {
        "options": lab42.options_of("mpirun_rsh", 2, 2),
        "variables": {"A": "1", "B": "x=y"},
        "program": TRAIN,
    }


def test_variables_behind_the_program_are_its_arguments():
    read = lab42.read_command(["mpirun_rsh", "-np", "4", "--hostfile", "hosts", *TRAIN, "A=1"])
    assert read["variables"] == {}
    assert read["program"] == [*TRAIN, "A=1"]


def test_srun_takes_a_variable_behind_its_options_for_the_program():
    words = ["env", "A=1", "srun", "--mpi", "pmi2", "--nodes=2", "B=2", *TRAIN]
    assert lab42.read_command(words) == {
        "options": {"mpi": "pmi2", "nodes": "2"},
        "variables": {"A": "1"},
        "program": ["B=2", *TRAIN],
    }


def test_the_options_of_srun_are_those_of_two_nodes_with_four_gpus():
    words = "srun --mpi=pmi2 --nodes=2 --ntasks-per-node=4 --gpus-per-node=4 --gpu-bind=none python"
    assert lab42.read_command(words.split())["options"] == lab42.options_of("srun", 2, 4)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("mpirun_rsh -np 2", "must be a list of words"),
        ([], "must be a list of words"),
        (["mpirun_rsh", "-np", 2], "all of them text"),
        (["mpiexec", "-n", "2"], "must begin with mpirun_rsh"),
        (["A=1", "srun", "python"], "must begin with mpirun_rsh"),
        (["mpirun_rsh", "A=1", "-np", "2", "python"], "needs the number of ranks"),
        (["mpirun_rsh", "-np", "none", "-hostfile", "hosts", "python"], "needs the number of ranks"),
        (["mpirun_rsh", "-np", "2", "python", "train.py"], "takes the next 2 words for hosts"),
        (["mpirun_rsh", "-n", "2", "python"], "-n is no option"),
        (["mpirun_rsh", "-np", "2", "-hostfile"], "-hostfile is no option that is of use here, or its value"),
        (["mpirun_rsh", "-np", "2", "-hostfile", "hosts", "A=1"], "finds no program"),
        (["env", "A=1", "python"], "not srun"),
        (["srun", "--mpi=pmi2"], "srun finds no program"),
    ],
)
def test_a_line_that_cannot_work_is_refused_in_a_sentence(words, says):
    with pytest.raises(LabError, match=says):
        lab42.read_command(words)


def test_without_the_tool_mpiname_there_is_no_text(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert lab42.mpiname() == ""


def test_what_the_tool_mpiname_prints_is_read(monkeypatch, tmp_path):
    (tmp_path / "mpiname").write_text("#!/bin/sh\necho MVAPICH2 2.3.7 $1\n")
    (tmp_path / "mpiname").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert lab42.mpiname() == "MVAPICH2 2.3.7 -a\n"


@pytest.mark.slow
def test_real_ranks_hold_one_mpi_library_and_the_level_that_was_asked_for():
    (text, maps, level), *_ = launch.run(lab42.look_inside, ranks=2, env=lab42.UNBOUND)
    family, version = doctor.identify(text, lab42.mpiname())
    assert family
    assert version
    assert maps.count("libmpi.so") >= 1
    assert level == "MULTIPLE"
    assert launch.run(lab42.thread_level, ranks=2, env=lab42.UNBOUND) == ["MULTIPLE"] * 2
    assert launch.run(lab42.thread_level, ranks=2, env=lab42.UNBOUND | lab42.SINGLE) == ["less"] * 2
