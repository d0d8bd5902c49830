"""What this machine and site really have, and which lab runs here: `make doctor`. Lab 00 teaches to read it.

Nothing fails because something is missing: what was not found is said with what it would enable. What might
crash or hang is asked in processes of its own, all at once, with a time limit.
"""

from __future__ import annotations

import argparse
import json
import sys
import time

import labkit
from labkit import _facts, _findings, _fitness, _probing, world
from labkit.errors import LabError, NotHere

_report: dict | None = None


def report(*, fresh: bool = False, limit: float = 60.0) -> dict:
    """Everything found, as plain data: report()["mpi"]["version"] is "5.0.2", or None where it was not found.

    Groups and keys: labkit._facts.FACTS. Beside them: "missing" (key -> sentence), "advice" (sentences on
    what will go wrong), "labs" (stem -> {"status", "sentence", "needs", "ranks", "minutes"}), "seconds" (that
    this took). The first call takes a few seconds, later ones in the same process return the same report;
    `fresh=True` looks again. `limit`: seconds after which a probe without an answer is given up.
    """
    global _report
    if _report is None or fresh:
        _report = _examine(limit)
    return _report


def needs(stem: str) -> tuple[str, str]:
    """("runs here" | "runs reduced" | "needs", a sentence) for one lab on this machine."""
    labs = report()["labs"]
    if stem not in labs:
        raise LabError(f"There is no lab {stem!r}. These exist: {', '.join(labs) or 'none yet'}.")
    return labs[stem]["status"], labs[stem]["sentence"]


def show() -> None:
    """The report as tables, in a notebook or on the terminal."""
    from labkit import _doctor_view

    if world.is_root():
        _doctor_view.show(report())


def require(names: str) -> None:
    """Raise NotHere that names what is missing of `names`, a comma list of needs as in a lab's header."""
    wanted = tuple(word.strip() for word in names.split(",") if word.strip())
    known = ("cpu", "mpi", "horovod", "torch", "tensorflow", "slurm", "gpu", "nccl")
    for word in wanted:
        if word not in known:
            raise LabError(f"--require knows {', '.join(known)}, but not {word!r}.")
    missing, reduced = _fitness.lacking(_fitness.Header(wanted, 1, 0), report())
    if missing or reduced:
        raise NotHere("Missing here: " + " ".join(missing + reduced))


def _examine(limit: float) -> dict:
    begin = time.perf_counter()
    found = _facts.empty()
    started = _probing.start()
    try:
        _probing.machine(found)
        _probing.network(found)
        _probing.slurm(found)
        _facts.put(found, "libraries.cuda_toolkit", _probing.toolkit())
        _findings.versions(found)
    finally:
        findings, reasons = _probing.collect(started, limit)
    _findings.fill(found, findings)
    found["missing"] = _findings.missing(found, reasons)
    found["advice"] = _findings.advice(found, reasons)
    found["labs"] = {}
    for stem, header in _fitness.headers(labkit.root()).items():
        status, sentence = _fitness.judge(header, found)
        found["labs"][stem] = {"status": status, "sentence": sentence, **header._asdict()}
    found["seconds"] = round(time.perf_counter() - begin, 1)
    return found


def main(arguments: list[str] | None = None) -> int:
    """`python -m labkit.doctor [--json] [--require mpi,horovod] [--limit SECONDS]`, or with `--site NAME`."""
    parser = argparse.ArgumentParser(
        prog="labkit doctor", description="What is here, and which lab runs here."
    )
    parser.add_argument("--json", action="store_true", help="the report as JSON")
    parser.add_argument(
        "--require", default="", metavar="NEEDS", help="status 1 if one of mpi,horovod,… is missing"
    )
    parser.add_argument("--limit", type=float, default=60.0, help="seconds to wait for a probe (default 60)")
    parser.add_argument("--site", metavar="NAME", help="check a cluster by its site file, on its login node")
    parser.add_argument("--nodes", type=int, help="with --site: nodes of the trial job (default 2)")
    parser.add_argument(
        "--patience",
        type=float,
        default=120.0,
        help="with --site: seconds it may wait in the queue (default 120)",
    )
    options = parser.parse_args(arguments)
    try:
        if options.site:
            from labkit import _site_doctor

            return _site_doctor.examine(options.site, options.nodes, options.patience)
        report(limit=options.limit)
        if options.json:
            print(json.dumps(report(), indent=2, ensure_ascii=False))
        else:
            show()
        require(options.require)
    except LabError as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
