"""MVAPICH2's source: which archives are known, where one is looked for, how it is checked and unpacked."""

from __future__ import annotations

import hashlib
import http.client
import os
import shutil
import tarfile
import urllib.request
from dataclasses import dataclass
from pathlib import Path

from env.install.steps import Step, StepFailed

VERSION = "2.3.7"
PAGE = "https://mvapich.cse.ohio-state.edu/downloads/"
FOLDER = "https://mvapich.cse.ohio-state.edu/download/mvapich/mv2/"
PATIENCE = 60  # seconds without a byte from the page


@dataclass(frozen=True)
class Archive:
    """A source archive that is known by its checksum; `name` is what it is called where it comes from."""

    name: str
    sha256: str
    origin: str


# OSU prints no checksums. Those of its two archives are Spack's, in the package mvapich2.
KNOWN = (
    Archive(
        "mvapich2-2.3.7-1.tar.gz",
        "fdd971cf36d6476d007b5d63d19414546ca8a2937b66886f24a1d9ca154634e4",
        "OSU's, of May 2022",
    ),
    Archive(
        "mvapich2-2.3.7.tar.gz",
        "c39a4492f4be50df6100785748ba2894e23ce450a94128181d516da5757751ae",
        "OSU's, of March 2022",
    ),
    Archive(
        "mvapich2-2.3.7.tar.xz",
        "b2bb8db7e2c7b6b0b46d6dc384b334bc25b8a21be362f2385ac8886dcce8c240",
        "2.3.7-1 of the public repository, with autogen.sh run",
    ),
)
OFFERED = KNOWN[0]  # the one that is fetched
BY_HAND = (
    f"Fetch {OFFERED.name} from {PAGE} (the file itself: {FOLDER}{OFFERED.name}), on any machine, and then: "
    f"make mvapich2 SOURCE=/path/to/{OFFERED.name}"
)


def cache_root() -> Path:
    """Where the kit keeps archives and builds of MVAPICH2: below $XDG_CACHE_HOME/hpdl-labs, else ~/.cache."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "hpdl-labs" / "mvapich2"


def checksum(file: Path) -> str:
    """The file's SHA-256, in hexadecimal."""
    digest = hashlib.sha256()
    with file.open("rb") as data:
        while chunk := data.read(2**20):
            digest.update(chunk)
    return digest.hexdigest()


def identify(file: Path) -> Archive | None:
    """The known archive that this file is, by its checksum; None when it is none of them."""
    found = checksum(file)
    return next((archive for archive in KNOWN if archive.sha256 == found), None)


def given(source: str) -> tuple[Path, Archive]:
    """The file that SOURCE names, and which archive it is. Raises StepFailed when it cannot be used."""
    file = Path(source).expanduser().absolute()
    if not file.is_file():
        problem = "is a folder, not an archive" if file.is_dir() else "does not exist"
        raise StepFailed(f"SOURCE={source} {problem}", BY_HAND)
    if not os.access(file, os.R_OK):
        raise StepFailed(f"SOURCE={source} cannot be read", "Check who owns that file.")
    archive = identify(file)
    if archive is None:
        raise StepFailed(
            f"SOURCE={source} is none of the archives of MVAPICH2 {VERSION} that this kit knows: its SHA-256 "
            f"is {checksum(file)}",
            f"It may be damaged, or of another version. {BY_HAND}",
        )
    return file, archive


def in_cache() -> tuple[Path, Archive] | None:
    """An archive that was fetched before, and which it is. A damaged one is removed."""
    for archive in KNOWN:
        file = cache_root() / "archives" / archive.name
        if not file.is_file():
            continue
        if identify(file) == archive:
            return file, archive
        file.unlink()
    return None


def fetch(step: Step) -> tuple[Path, Archive]:
    """Download OSU's archive into the cache. Raises StepFailed, with what to do by hand."""
    place = cache_root() / "archives" / OFFERED.name
    place.parent.mkdir(parents=True, exist_ok=True)
    part = place.with_name(f"{place.name}.{os.getpid()}.part")
    try:
        with (
            urllib.request.urlopen(FOLDER + OFFERED.name, timeout=PATIENCE) as answer,
            part.open("wb") as file,
        ):
            _copy(answer, file, step)
        if identify(part) != OFFERED:
            raise StepFailed(f"what {FOLDER}{OFFERED.name} sent has another checksum than it should", BY_HAND)
        os.replace(part, place)
    except (OSError, http.client.HTTPException) as error:  # URLError is an OSError
        reason = getattr(error, "reason", None) or error
        raise StepFailed(
            f"no MVAPICH2 source here, and {FOLDER} cannot be reached ({reason})", BY_HAND
        ) from None
    finally:
        part.unlink(missing_ok=True)
    return place, OFFERED


def _copy(answer, file, step: Step) -> None:
    """Copy a download to its file, and say how far it is."""
    total = int(answer.headers.get("Content-Length") or 0)
    have = 0
    while chunk := answer.read(2**18):
        file.write(chunk)
        have += len(chunk)
        share = f"{100 * have // total} %" if total else f"{have / 1e6:.1f} MB"
        step.say(f"{share} of {OFFERED.name}")


def unpack(file: Path, folder: Path) -> Path:
    """Unpack into the folder; returns the folder of the sources. Raises StepFailed."""
    try:
        with tarfile.open(file) as tar:
            safe = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
            tar.extractall(folder, **safe)
    except (tarfile.TarError, EOFError) as error:
        raise StepFailed(f"{file} cannot be unpacked: {error}", BY_HAND) from None
    sources = sorted(folder.glob("mvapich2-*/configure"))
    if not sources:
        shutil.rmtree(folder, ignore_errors=True)
        raise StepFailed(f"{file} holds no mvapich2-*/configure", BY_HAND)
    return sources[0].parent
