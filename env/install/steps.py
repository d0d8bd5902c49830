"""Numbered steps with progress on the screen, everything in a log, and failures that say what to
do."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

TELLING = re.compile(
    r"error|fatal|no space|not found|denied|refused|unreachable|failed|killed|cannot", re.I
)
DULL = re.compile(
    r"^\s*(\^|note:|hint:|WARNING|DEPRECATION|\[notice\])|subprocess-exited|exit code|pip"
    r" subprocess",
    re.I,
)
# What a failed command says -> what to do.
CURES = {
    r"No space left on device": (
        "The disk is full: free some space, then run it again. About 6 GB are needed; 12 GB where"
        " PyTorch comes with CUDA, as PyPI's for x86-64 does (TORCH_INDEX=URL adds an index of"
        " PyTorch's CPU builds); 16 GB with GPU_OPERATIONS."
    ),
    r"Temporary failure in name resolution|Name or service not known|NewConnectionError|ProxyError"
    r"|Network is unreachable|Connection (timed out|refused)|Max retries exceeded|ReadTimeout": (
        "There is no way to the package index: check the network and the proxy (see `pip config"
        " list`)."
    ),
    r"No matching distribution found|Could not find a version": (
        "The package index does not offer that version for this Python and machine. Linux on x86-64"
        " with Python 3.10 to 3.13 is supported; TORCH_INDEX=URL adds an index for PyTorch."
    ),
    r"No module named '?(venv|ensurepip)|ensurepip is not available": (
        "Python lacks its venv module: on Debian and Ubuntu `sudo apt-get install python3-venv`."
    ),
    r"internal compiler error|Killed signal terminated|cc1plus.*killed|out of memory": (
        "The compiler ran out of memory: run it again with MAKEFLAGS=-j1."
    ),
    r"No CMAKE_CXX_COMPILER|is not able to compile|C\+\+ compiler|g\+\+: (command )?not found": (
        "A C++ compiler is missing or broken: on Debian `sudo apt-get install g++ make patch`; on"
        " Fedora g++ is `gcc-c++`."
    ),
    r"Python\.h": (
        "Python's headers are missing: on Debian `sudo apt-get install python3-dev`, on Fedora"
        " `sudo dnf install python3-devel`."
    ),
    r"Hunk #\d+ FAILED|can't find file to patch": (
        "Horovod's sources are not those that env/horovod/patches are for: use the pinned version."
    ),
    r"Permission denied|Read-only file system": (
        "A folder cannot be written: check who owns this checkout and the cache."
    ),
}


class StepFailed(Exception):
    """A step could not be done. `cure` says what to do; `log` is the file with the whole story."""

    def __init__(self, message: str, cure: str = "", log: Path | None = None):
        super().__init__(message)
        self.message, self.cure, self.log = message, cure, log


def cure_for(text: str) -> str:
    """What to do about the failure that this output tells of; empty when it is an unknown one."""
    return next((cure for pattern, cure in CURES.items() if re.search(pattern, text)), "")


def telling_line(text: str) -> str:
    """The last line that says what went wrong."""
    lines = [line.strip() for line in text.splitlines() if line.strip() and not DULL.search(line)]
    errors = [line for line in lines if TELLING.search(line)]
    return (errors or lines or ["(no output)"])[-1][:300]


class Step:
    """One step: `run` starts a command whose output goes to the step's log; `say` shows how far it
    is."""

    def __init__(self, number: int, total: int, title: str, log: Path):
        self.label = f"[{number}/{total}] {title}"
        self.log = log
        self.start = time.monotonic()
        self.live = sys.stdout.isatty()
        self.shown = self.start
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_text("", encoding="utf-8")
        print(self.label + " …", end="" if self.live else "\n", flush=True)

    def say(self, text: str) -> None:
        """Show progress: at once on a terminal, every 20 seconds in a log."""
        now = time.monotonic()
        if self.live:
            print(
                f"\r\033[K{self.label} … {text[:60]} ({now - self.start:.0f} s)", end="", flush=True
            )
        elif now - self.shown >= 20:
            self.shown = now
            print(f"      {text[:60]} ({now - self.start:.0f} s)", flush=True)

    def warn(self, text: str) -> None:
        """Say what may go wrong later, here and in the log."""
        print(f"{chr(10) if self.live else ''}      warning: {text}", flush=True)
        with self.log.open("a", encoding="utf-8") as log:
            log.write(f"warning: {text}\n")

    def done(self, result: str = "done") -> None:
        """End the step: say what came of it and how long it took."""
        head = f"\r\033[K{self.label}" if self.live else "     "
        print(f"{head} {result} ({time.monotonic() - self.start:.1f} s)", flush=True)

    def run(
        self,
        command: Sequence[str | Path],
        *,
        env: dict[str, str] | None = None,
        cwd: Path | None = None,
        timeout: int | None = None,
    ) -> str:
        """Run a command, for `timeout` seconds at most, and return its output. Raises StepFailed
        when it fails."""
        words = [str(word) for word in command]
        limit = ["timeout", str(timeout)] if timeout else []
        lines = []
        with self.log.open("a", encoding="utf-8") as log:
            log.write("$ " + " ".join(words) + "\n")
            try:
                process = subprocess.Popen(
                    [*limit, *words],
                    env=env,
                    cwd=cwd,
                    text=True,
                    errors="replace",
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
            except OSError as error:
                raise StepFailed(
                    f"cannot start {words[0]}: {error.strerror}", log=self.log
                ) from None
            try:
                for line in process.stdout:
                    lines.append(line)
                    log.write(line)
                    if news := progress(line):
                        self.say(news)
                process.wait()
            finally:
                if process.poll() is None:  # interrupted: no process of the step may outlive it
                    os.killpg(process.pid, signal.SIGTERM)
                    process.wait()
                process.stdout.close()
        text = "".join(lines)
        if timeout and process.returncode == 124:
            raise StepFailed(f"no end after {timeout} s: {telling_line(text)}", log=self.log)
        if process.returncode:
            raise StepFailed(telling_line(text), cure_for(text), self.log)
        return text


def progress(line: str) -> str:
    """What pip is busy with, or CMake's own percentage, as in `[ 64%] Building CXX object …`; empty
    for other lines."""
    if found := re.search(r"\[ *(\d+)%\] (\w+)", line):
        return f"{found[1]} % {found[2].lower()}"
    found = re.match(
        r"\s*(Collecting|Downloading|Processing|Installing collected packages)[ :]*(\S*)", line
    )
    return f"{found[1].lower()} {found[2].rsplit('/', 1)[-1]}" if found else ""
