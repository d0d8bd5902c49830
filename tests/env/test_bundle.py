"""The bundle for a GPU machine without a network: what is in it, its file, and the environment out of it."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from env.bundle import archive, contents, wheels
from env.gpu_check import place
from env.install.steps import StepFailed
from tests.env import wheels as made_wheels

ROOT = Path(__file__).resolve().parents[2]


def test_the_lock_for_a_python_has_one_version_of_each():
    pins = contents.locked("3.12")
    assert pins["scikit-learn"].startswith("scikit-learn==")
    assert "tomli" not in pins, "only for 3.10"
    assert "aiohttp" in pins
    assert "aiohttp" not in contents.locked("3.11")


def test_what_the_machine_has_is_left_out_with_what_it_brings():
    absent = contents.left_out(contents.WITHOUT, "3.12")
    assert {"torch", "numpy", "matplotlib", "pillow", "python-dateutil"} <= absent
    assert not absent & set(contents.ALWAYS), "Horovod's build wants these versions"
    assert "h5py" not in contents.left_out(["tensorflow*", "keras"], "3.12"), "nobody said that it is there"
    assert contents.expected("3.12", ["torch", "cmake"]) >= ["cmake", "jinja2"]
    assert "cmake" not in contents.expected("3.12", contents.WITHOUT)


def test_all_that_is_needed_is_asked_for_once():
    """The metadata of the wheels, made up: a chain of two, a circle, an extra, and a marker that is false."""
    lines = {
        "jupytext": ["nbformat", "mdit-py-plugins"],
        "mdit-py-plugins": ["markdown-it-py[linkify]"],
        "markdown-it-py": ["mdurl", 'requests ; extra == "linkify"', 'tornado ; extra == "other"'],
        "nbformat": ["jupytext", 'zmq-of-old ; python_version < "3.9"', "torch"],
        "ipykernel": ["debugpy", "numpy"],
    }
    asked: list[str] = []

    def requirements_of(pins: list[str]) -> dict[str, list[str]]:
        names = [contents.normal(pin.split("==")[0]) for pin in pins]
        asked.extend(names)
        return {name: lines.get(name, []) for name in names}

    pins = contents.complete("3.12", contents.WITHOUT, requirements_of)
    assert {"mdit-py-plugins", "markdown-it-py", "mdurl", "requests", "mpich", "cmake"} <= set(pins)
    assert not {"torch", "numpy", "tornado", "debugpy", "matplotlib", "zmq-of-old"} & set(pins)
    assert sorted(asked) == sorted(pins), "each once"
    assert pins["mpich"] == contents.locked("3.12")["mpich"]


def wheel(folder: Path, name: str, files: dict[str, str]) -> Path:
    return made_wheels.make(folder, name, "1.0", files)


def bundle(folder: Path, source: Path, expected: list[str] | None = None) -> Path:
    """A bundle of the wheels in a folder, as env.bundle.sequence writes it."""
    packed = source.parent / f"{source.name}-packed"
    (packed / archive.WHEELS).mkdir(parents=True)
    for file in source.glob("*.whl"):
        archive.store(file, packed / archive.WHEELS)
    (packed / archive.SOURCES).mkdir()
    (packed / archive.SOURCES / "setup.py").write_text("")
    folder.mkdir()
    archive.pack(packed, folder / archive.FILE)
    told = {
        "python": wheels.own_version(),
        "without": ["torch", "nobodys"],
        "expected": expected or [],
        "sha256": archive.digest(folder / archive.FILE),
    }
    (folder / archive.MANIFEST).write_text(json.dumps(told))
    return folder


def test_a_wheel_is_the_same_when_it_is_stored(tmp_path):
    made = wheel(tmp_path / "a", "thing", {"thing/__init__.py": "x = 1\n" * 1000})
    with zipfile.ZipFile(made, "a") as packed:
        script = zipfile.ZipInfo("thing-1.0.data/scripts/tool")
        script.external_attr = 0o100755 << 16
        packed.writestr(script, "#!python\n")
    (tmp_path / "b").mkdir()
    stored = archive.store(made, tmp_path / "b")
    with zipfile.ZipFile(made) as before, zipfile.ZipFile(stored) as after:
        assert after.namelist() == before.namelist()
        for name in after.namelist():
            assert after.read(name) == before.read(name)
            assert after.getinfo(name).external_attr == before.getinfo(name).external_attr
            assert after.getinfo(name).compress_type == zipfile.ZIP_STORED


def test_no_bundle_and_a_damaged_one_are_told(tmp_path):
    with pytest.raises(StepFailed, match="holds no bundle") as failure:
        archive.manifest(tmp_path)
    assert "make gpu-bundle" in failure.value.cure
    (tmp_path / "w").mkdir()
    made = bundle(tmp_path / "bundle", tmp_path / "w")
    assert archive.manifest(made)["python"] == wheels.own_version()
    with (made / archive.FILE).open("ab") as file:
        file.write(b"more")
    with pytest.raises(StepFailed, match="is not the file that bundle.json beside it tells of"):
        archive.manifest(made)


def test_a_file_of_the_archive_cannot_leave_its_folder(tmp_path):
    with tarfile.open(tmp_path / archive.FILE, "w:xz") as packed:
        entry = tarfile.TarInfo("../outside")
        packed.addfile(entry, io.BytesIO(b""))
    with pytest.raises(StepFailed, match="cannot be read"):
        archive.unpack(tmp_path, tmp_path / "out")
    assert not (tmp_path / "outside").exists()


def below(tmp_path: Path, files: dict[str, str]) -> Path:
    """A Python with these modules, which is an environment itself, as many a machine's is."""
    folder = tmp_path / "below"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    site = next(folder.glob("lib/python3.*/site-packages"))
    for name, text in files.items():
        (site / name).parent.mkdir(parents=True, exist_ok=True)
        (site / name).write_text(text)
    return folder / "bin" / "python"


def pip_wheel(folder: Path) -> None:
    """The pip that is here, as a wheel."""
    import pip

    files = {}
    home = Path(pip.__file__).parent
    for file in home.rglob("*"):
        if file.suffix in (".py", ".pem", ".txt", ".typed"):
            files[f"pip/{file.relative_to(home)}"] = file.read_text(encoding="utf-8")
    made_wheels.make(folder, "pip", pip.__version__, files)


@pytest.mark.slow
def test_an_environment_out_of_a_bundle(tmp_path, monkeypatch):
    """With a real pip, and a small `ipykernel` in place of the real one."""
    source = tmp_path / "w"
    pip_wheel(source)
    wheel(source, "ipykernel", {"ipykernel/__main__.py": "import sys; print(sys.argv)"})
    wheel(source, "thing", {"thing/__init__.py": "says = 'from the bundle'\n"})
    made = bundle(tmp_path / "bundle", source, expected=["nobodys"])
    python = below(tmp_path, {"torch/__init__.py": "says = 'from below'\n"})
    monkeypatch.setenv("PYTHON", str(python))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    target = tmp_path / "place"

    with pytest.raises(StepFailed, match="lacks nobodys, and the bundle leaves them to it") as failure:
        place.provide(made, target)
    assert failure.value.cure.endswith('make gpu-bundle WITHOUT="torch".')

    below_site = next(python.parents[1].glob("lib/python3.*/site-packages"))
    (below_site / "nobodys-2.0.dist-info").mkdir()
    told = "Metadata-Version: 2.1\nName: nobodys\nVersion: 2.0\n"
    (below_site / "nobodys-2.0.dist-info" / "METADATA").write_text(told)
    inside = place.provide(made, target)
    ask = "import thing, torch, labkit; print(thing.says, torch.says, labkit.__file__, sep='|')"
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    said = subprocess.run([inside, "-c", ask], env=env, capture_output=True, text=True, check=True).stdout
    assert said.strip() == f"from the bundle|from below|{ROOT / 'labs/labkit/__init__.py'}"

    before = (target / place.NOTE).stat().st_mtime_ns
    assert place.provide(made, target) == inside
    assert (target / place.NOTE).stat().st_mtime_ns == before, "the same bundle is not unpacked twice"
