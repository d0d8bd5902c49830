"""A release: what learners get and do not get, the same bytes each time, what commands say."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest
from authoring import generate, leaks, release
from labkit import copies, edition
from labkit.errors import LabError

from tests.authoring import tiny_lab
from tests.authoring.guide import guide_lab

REAL = Path(__file__).resolve().parents[2]
TINY = (tiny_lab.NOTEBOOK, tiny_lab.SCRIPT)


@pytest.fixture
def committed(checkout):
    """A checkout with two labs, all of it committed."""
    tiny_lab.put(checkout)
    guide_lab.put(checkout)
    generate.write_all()
    (checkout.root / ".gitignore").write_text("__pycache__/\n/build/\n/release/\n/guide/\n")
    tiny_lab.commit(checkout.root)
    return checkout


@pytest.fixture
def learners(committed, tmp_path) -> Path:
    """What learners get of it."""
    edition.unpack(committed.root, tmp_path / "learners")
    release.take_answers_out(tmp_path / "learners")
    return tmp_path / "learners"


def names_in(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_learners_get_labs_and_records_and_no_solutions_tests_or_answers(committed, learners):
    names = names_in(learners)
    assert set(TINY) <= names
    assert "solutions/results/91_guided.jsonl" in names
    assert not [name for name in names if re.match(r"solutions/\d\d|tests/|labs/authoring", name)]
    book = json.loads((learners / "notebooks/91_guided.ipynb").read_text())
    text = "\n".join("".join(cell["source"]) for cell in book["cells"])
    assert "Yes: it grows." not in text
    assert "Is it long for more numbers?\n*(Your instructor has the answer.)*" in text
    assert "Hint 1: what is a sum" in text
    assert "*(Your instructor has the answer.)*" in (learners / "labs/91_guided.py").read_text()
    for name in TINY:
        assert (learners / name).read_bytes() == (committed.root / name).read_bytes()
    copies.overwrite(learners, {"notebooks/91_guided.ipynb": "{}", "labs/91_guided.py": ""})
    assert tiny_lab.set_aside() == [], "nobody has edited them"


def test_an_archive_without_git_gives_learners_the_same(committed, learners, tmp_path):
    (committed.root / "solutions/91_guided.py").chmod(0o755)
    everything = tmp_path / "everything"
    edition.unpack(committed.root, everything, left_out=())
    assert names_in(everything) >= {"solutions/91_guided.py", "tests/labs/wrong_answers/90_tiny.py"}
    (everything / "build").mkdir()
    (everything / "build/x.py").touch()
    edition.unpack(everything, tmp_path / "again")
    assert names_in(tmp_path / "again") == names_in(learners)


def test_a_checkout_without_a_commit_is_said(tmp_path):
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    with pytest.raises(LabError, match="git could not read the labs' files: fatal: "):
        edition.unpack(tmp_path, tmp_path / "learners")


ANSWER = "def f(a):\n  both = numbers\n\n  both = add(both, both)\n  return both\n"
STUB = 'raise NotImplementedError("exercise 91.1: Add")'
HOLDS, LACKS = "holds the answer of", "has no stub for 91.1."
LEAKS = [  # a file, what is replaced, by what, what is said of it
    ("labs/91_guided.py", STUB, "return a + b", [LACKS, f"{HOLDS} 91.1."]),
    ("notebooks/91_guided.ipynb", STUB.replace('"', '\\"'), "return a + b", [LACKS, f"{HOLDS} 91.1."]),
    ("env/x.py", "", ANSWER, [f"{HOLDS} 91.2."]),
    ("labs/support/lab92/x.py", "", ANSWER, []),  # a later lab may bring along what this one built
    ("solutions/90_tiny.ipynb", "", '{"cells": []}', ["is a solution."]),
    ("labs/90_tiny.py", 'name = "', '### BEGIN SOLUTION\nname = "', ["has marks of an answer."]),
]  # fmt: skip


def test_every_kind_of_leak_is_found(learners):
    labs = [generate.load(stem) for stem in ("90_tiny", "91_guided")]
    assert leaks.find(learners, labs) == []
    for name, old, new, says in LEAKS:
        file = learners / name
        file.parent.mkdir(parents=True, exist_ok=True)
        text = file.read_text() if old else ""
        assert old in text
        file.write_text(text.replace(old, new))
        assert leaks.find(learners, labs) == [f"{name} {said}" for said in says]
        file.write_text(text)
        if not old:
            file.unlink()
    (learners / "labs/90_tiny.py").unlink()
    assert leaks.find(learners, labs) == ["labs/90_tiny.py is missing."]


def unpacked(target: Path, folder: Path) -> Path:
    """The one folder in an archive."""
    with tarfile.open(target) as tar:
        owners = {(entry.uid, entry.gid, entry.uname, entry.gname) for entry in tar}
    assert owners == {(0, 0, "", "")}
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run(["tar", "-xf", target, "-C", folder], check=True)
    return folder / target.name.removesuffix(".tar.gz")


@pytest.mark.slow
def test_a_release_gives_the_same_bytes_and_its_learners_archive_works(committed, tmp_path):
    assert release.main(["--out", str(tmp_path / "one")]) == 0
    assert release.main(["--out", str(tmp_path / "two")]) == 0
    first, second = (sorted((tmp_path / name).iterdir()) for name in ("one", "two"))
    revision = edition.revision(committed.root)
    kinds = ("instructors", "learners")
    wanted = [f"hpdl-labs-{kind}-9.9.9-{revision}.tar.gz" for kind in kinds]
    assert [path.name for path in first] == wanted
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]
    instructors, learners_root = (unpacked(path, tmp_path / "unpacked") for path in first)
    assert edition.read(instructors).kind == "instructors"
    assert revision in (instructors / "guide/index.html").read_text()
    said = ["git", "-C", str(committed.root), "ls-files"]
    names = subprocess.run(said, capture_output=True, text=True, check=True).stdout.split()
    for name in names:
        assert (instructors / name).read_bytes() == (committed.root / name).read_bytes()
    assert names_in(instructors) - set(names) >= {"EDITION.json", "guide/index.html"}
    assert not [name for name in names_in(instructors) if name.endswith(".pyc")]

    # As a learner who has unpacked it: labs are there, unsolved, and a command says what it lacks.
    committed.root = learners_root
    assert edition.read(learners_root) == ("learners", "9.9.9", revision)
    progress = committed.python("-m", "labkit", "progress")
    assert "0 of 4 exercises solved." in progress.stdout, progress.stderr
    ran = committed.python("labs/90_tiny.py")
    assert ran.returncode != 0
    assert "90.1  not solved yet." in ran.stdout + ran.stderr
    solved = committed.python("-m", "labkit", "run", "90", "--solved")
    assert solved.stderr.startswith("A solved lab is not in the learners' archive, which holds no")


def test_what_stands_in_the_way_is_a_sentence(committed, capsys, monkeypatch):
    root = committed.root
    (root / "README.md").write_text("changed")
    assert release.main([]) == 1
    assert "commit, which lacks your changes: README.md. Commit first." in capsys.readouterr().err
    tiny_lab.commit(root)
    (root / "notes.txt").touch()
    (root / "slurm/sites").mkdir(parents=True, exist_ok=True)
    for name in ("solutions/92_new.py", "slurm/sites/new.sh"):
        (root / name).touch()
        assert release.main([]) == 1
        assert f"which lacks your changes: {name}. Commit" in capsys.readouterr().err
        (root / name).unlink()
    (root / "env").mkdir()
    (root / "env/x.py").write_text(ANSWER)
    tiny_lab.commit(root)
    assert release.main([]) == 1
    assert "env/x.py holds the answer of 91.2." in capsys.readouterr().err
    assert not list(root.glob("release/*"))
    shutil.rmtree(root / ".git")
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(root.parent))
    assert release.main([]) == 1
    assert "A release is made from the last commit; there is none here" in capsys.readouterr().err


@pytest.fixture(scope="module")
def real(tmp_path_factory) -> Path:
    """What learners get of the last commit of this checkout."""
    root = tmp_path_factory.mktemp("learners")
    edition.unpack(REAL, root)
    release.take_answers_out(root)
    (root / edition.FILE).write_text(edition.text(edition.Edition(edition.LEARNERS, "1", "abc")))
    return root


@pytest.mark.slow
def test_learners_get_no_solution_text_and_every_lab_unsolved(real, tmp_path):
    edition.unpack(REAL, tmp_path, left_out=("tests",))
    labs = [generate.load(path.stem, tmp_path) for path in sorted(tmp_path.glob("solutions/*.py"))]
    assert len(labs) > 40
    assert leaks.find(real, labs) == []


@pytest.mark.slow
def test_links_in_the_learners_archive_lead_somewhere(real):
    for file in [real / "README.md", *sorted(real.glob("notebooks/*.ipynb"))]:
        text = file.read_text()
        if file.suffix == ".ipynb":
            cells = [cell for cell in json.loads(text)["cells"] if cell["cell_type"] == "markdown"]
            text = "\n".join("".join(cell["source"]) for cell in cells)
        for target in re.findall(r"\]\(([^)#\s]+)", text):
            if not re.match(r"https?://", target):
                assert (file.parent / target).exists(), f"{file.name} links to {target}"


@pytest.mark.slow
@pytest.mark.parametrize("command", [["make", "help"], ["python3", "env/setup.py", "--help"]])
def test_a_command_starts_from_the_learners_archive_alone(real, command):
    done = subprocess.run(command, cwd=real, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
