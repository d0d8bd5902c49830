"""A release: what learners get and do not get, the same bytes each time, what commands say."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest
from authoring import __main__ as verbs
from authoring import generate
from authoring.release import archive, contents, leaks
from authoring.release import main as release
from authoring.release.archive import File
from labkit import copies, edition, paths
from labkit.errors import LabError

from tests.authoring import tiny_lab
from tests.authoring.guide import guide_lab

REAL = Path(__file__).resolve().parents[3]
TINY = (tiny_lab.NOTEBOOK, tiny_lab.SCRIPT)


def git(root: Path, *arguments: str) -> None:
    identity = [
        "-c",
        "user.name=Ann",
        "-c",
        "user.email=ann@example.org",
        "-c",
        "commit.gpgsign=false",
    ]
    subprocess.run(["git", "-C", str(root), *identity, *arguments], check=True, capture_output=True)


@pytest.fixture
def committed(checkout):
    """A checkout with two labs, all of it committed."""
    tiny_lab.put(checkout)
    guide_lab.put(checkout)
    generate.write_all()
    (checkout.root / ".gitignore").write_text("__pycache__/\n/build/\n/release/\n/guide/\n")
    git(checkout.root, "init", "-q")
    git(checkout.root, "add", "-A")
    git(checkout.root, "commit", "-qm", "All")
    return checkout


def learners(root: Path, keep_answers: bool = False) -> dict[str, File]:
    return contents.of_learners(archive.committed(root), "9.9.9", "abc", keep_answers)


def test_learners_get_labs_and_records_and_no_solutions_tests_or_answers(committed):
    files = learners(committed.root)
    assert set(TINY) <= set(files)
    assert "solutions/results/91_guided.jsonl" in files
    assert not [
        name for name in files if re.match(r"solutions/\d\d|tests/|labs/authoring/template", name)
    ]
    book = json.loads(files["notebooks/91_guided.ipynb"].content)
    text = "\n".join("".join(cell["source"]) for cell in book["cells"])
    assert "Yes: it grows." not in text
    assert "Is it long for more numbers?\n*(Your instructor has the answer.)*" in text
    assert "Hint 1: what is a sum" in text
    assert "*(Your instructor has the answer.)*" in files["labs/91_guided.py"].content.decode()
    kept = learners(committed.root, keep_answers=True)
    assert b"Yes: it grows." in kept["notebooks/91_guided.ipynb"].content
    readme = files["README.md"].content.decode().splitlines()
    assert readme[2].startswith("> This is the learners' archive, version 9.9.9, revision abc.")


def test_a_lab_without_questions_is_the_very_same_and_one_without_answers_untouched(
    committed, tmp_path
):
    files = learners(committed.root)
    for name in TINY:
        assert files[name].content == (committed.root / name).read_bytes()
    archive.unpack(tmp_path / "copy", files)
    copies.overwrite(
        tmp_path / "copy", {"notebooks/91_guided.ipynb": "{}", "labs/91_guided.py": ""}
    )
    assert not [name for name in tiny_lab.set_aside() if name.startswith(("notebooks/", "labs/"))]


def spoilt(files: dict[str, File], name: str, old: str, new: str) -> dict[str, File]:
    text = files[name].content.decode()
    assert old in text
    return {**files, name: File(text.replace(old, new).encode())}


def test_every_kind_of_leak_is_found(committed):
    labs = [generate.load(stem) for stem in ("90_tiny", "91_guided")]
    files = learners(committed.root)
    assert leaks.find(files, labs) == []
    stub = 'raise NotImplementedError("exercise 91.1: Add")'
    found = leaks.find(spoilt(files, "labs/91_guided.py", stub, "return a + b"), labs)
    assert found == [
        "labs/91_guided.py has no stub for 91.1.",
        "labs/91_guided.py holds the answer of 91.1.",
    ]
    book = files["notebooks/91_guided.ipynb"].content.decode()
    quoted = json.dumps(stub)[1:-1]
    changed = {
        **files,
        "notebooks/91_guided.ipynb": File(book.replace(quoted, "return a + b").encode()),
    }
    assert "notebooks/91_guided.ipynb holds the answer of 91.1." in leaks.find(changed, labs)
    answer = b"def f(a):\n  both = numbers\n\n  both = add(both, both)\n  return both\n"
    assert leaks.find({**files, "env/x.py": File(answer)}, labs) == [
        "env/x.py holds the answer of 91.2."
    ]
    later = {**files, "labs/support/lab92/x.py": File(answer)}
    assert leaks.find(later, labs) == [], "a later lab may bring along what this one has built"
    solution = {**files, "solutions/90_tiny.ipynb": File(b'{"cells": []}')}
    assert leaks.find(solution, labs) == ["solutions/90_tiny.ipynb is a solution."]
    marked = spoilt(files, "labs/90_tiny.py", 'name = "', '### BEGIN SOLUTION\nname = "')
    assert "labs/90_tiny.py has marks of an answer." in leaks.find(marked, labs)
    assert "labs/90_tiny.py is missing." in leaks.find(
        {name: file for name, file in files.items() if name != "labs/90_tiny.py"}, labs
    )


def unpacked(target: Path, folder: Path) -> Path:
    """The one folder in an archive."""
    with tarfile.open(target) as tar:
        assert {(entry.uid, entry.gid, entry.uname, entry.gname) for entry in tar} == {
            (0, 0, "", "")
        }
        tar.extractall(folder, filter="data")
    return folder / target.name.removesuffix(".tar.gz")


@pytest.mark.slow
def test_a_release_gives_the_same_bytes_and_its_learners_archive_works(committed, tmp_path):
    assert release(["--out", str(tmp_path / "one")]) == 0
    assert release(["--out", str(tmp_path / "two")]) == 0
    first, second = (sorted((tmp_path / name).iterdir()) for name in ("one", "two"))
    revision = edition.revision(committed.root)
    kinds = ("instructors", "learners")
    assert [path.name for path in first] == [
        f"hpdl-labs-{kind}-9.9.9-{revision}.tar.gz" for kind in kinds
    ]
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]
    instructors, learners_root = (unpacked(path, tmp_path / "unpacked") for path in first)
    assert edition.read(instructors).kind == "instructors"
    assert revision in (instructors / "guide/index.html").read_text()
    for name, file in archive.committed(committed.root).items():
        assert (instructors / name).read_bytes() == file.content
    look_at_learners_archive(committed, learners_root, revision)


def look_at_learners_archive(committed, root: Path, revision: str) -> None:
    """As a learner who has unpacked it: labs are there, unsolved, and each command says what it
    lacks."""
    committed.root = root
    assert edition.read(root) == ("learners", "9.9.9", revision)
    progress = committed.python("-m", "labkit", "progress")
    assert "0 of 4 exercises solved." in progress.stdout, progress.stderr
    ran = committed.python("labs/90_tiny.py")
    assert ran.returncode != 0
    assert "90.1  not solved yet." in ran.stdout + ran.stderr
    solved = committed.python("-m", "labkit", "run", "90", "--solved")
    assert (
        solved.stderr
        == "A solved lab is not in the learners' archive, which holds no solutions and no tests. "
        "Your instructor has it.\n"
    )
    for arguments in (
        ["solve", "90", "90.1"],
        ["reset", "90"],
        ["tour"],
        ["guide"],
        ["release"],
        ["labs"],
    ):
        ended = committed.python("-m", "authoring", *arguments)
        assert ended.returncode == 1
        assert ended.stderr.startswith(
            f"`authoring {arguments[0]}` is not in the learners' archive"
        )
        assert len(ended.stderr.splitlines()) == 1


def test_what_stands_in_the_way_is_a_sentence(committed, capsys, monkeypatch):
    (committed.root / "README.md").write_text("changed")
    assert release([]) == 1
    assert (
        "the last commit, which lacks your changes: README.md. Commit first."
        in capsys.readouterr().err
    )
    shutil.rmtree(committed.root / ".git")
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(committed.root.parent))
    assert release([]) == 1
    assert "A release is made from the last commit; there is none here" in capsys.readouterr().err
    assert verbs.main(["release"]) == 1


def test_a_leak_stops_the_release(committed, capsys):
    lines = "both = numbers\nboth = add(both, both)\nreturn both\n"
    (committed.root / "env").mkdir()
    (committed.root / "env/x.py").write_text(lines)
    git(committed.root, "add", "-A")
    git(committed.root, "commit", "-qm", "A leak")
    assert release([]) == 1
    assert "env/x.py holds the answer of 91.2." in capsys.readouterr().err
    assert not (committed.root / "release").exists() or not list(
        (committed.root / "release").iterdir()
    )


def make(folder: Path, *arguments: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        ["make", *arguments], cwd=folder, capture_output=True, text=True, check=False
    )


@pytest.fixture(scope="module")
def real(tmp_path_factory) -> tuple[dict[str, File], list, Path]:
    """The learners' files of the last commit, its labs, and the files unpacked."""
    files = archive.committed(REAL)
    sources = tmp_path_factory.mktemp("sources")
    of_labs = ("solutions/", "labs/support/")
    archive.unpack(
        sources, {name: file for name, file in files.items() if name.startswith(of_labs)}
    )
    labs = [generate.load(path.stem, sources) for path in sorted(sources.glob("solutions/*.py"))]
    chosen = contents.of_learners(files, "1", "abc", keep_answers=False)
    root = tmp_path_factory.mktemp("learners")
    said = edition.text(edition.Edition(edition.LEARNERS, "1", "abc"))
    archive.unpack(root, {**chosen, edition.FILE: File(said.encode())})
    return chosen, labs, root


@pytest.mark.slow
def test_learners_get_no_solution_text_and_every_lab_unsolved(real):
    files, labs, _ = real
    assert len(labs) > 40
    assert leaks.find(files, labs) == []


@pytest.mark.slow
def test_links_in_the_learners_archive_lead_somewhere(real):
    files, _, root = real
    for name in files:
        if not re.fullmatch(r"README\.md|notebooks/.*\.ipynb", name):
            continue
        text = files[name].content.decode()
        if name.endswith(".ipynb"):
            cells = json.loads(text)["cells"]
            text = "\n".join(
                "".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown"
            )
        for target in re.findall(r"\]\(([^)#\s]+)", text):
            if not re.match(r"https?://", target):
                assert (root / name).parent.joinpath(target).exists(), f"{name} links to {target}"


@pytest.mark.slow
def test_the_learners_archive_begins_a_set_up(real, monkeypatch):
    _, _, root = real
    monkeypatch.setattr(paths, "root", lambda: root)
    assert make(root, "help").returncode == 0
    with pytest.raises(LabError, match="not in the learners' archive"):
        edition.need_solutions("It", root)
    helped = subprocess.run(
        ["python3", "env/setup.py", "--help"], cwd=root, capture_output=True, text=True, check=False
    )
    assert helped.returncode == 0, "it starts from the archive alone"
