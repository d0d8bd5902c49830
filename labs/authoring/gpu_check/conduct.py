"""The parts of the check in their order: machine, flop/s, labs, tests, labs with Horovod, report.

`python -m authoring.gpu_check [--device cpu] [--minutes 10] [--labs 40,46] [--out FOLDER] [--horovod NOTE]`

Status 0: no test failed, no lab failed, and all tensors were where they should be; 1: not so; 130: Ctrl-C.
With a GPU the records go to solutions/results/gpu, beside REPORT.md; those of some labs alone to the folder
of pages. `--device cpu` is a rehearsal: it runs the same on the CPU with the settings of the tests, its
proofs fail, and it writes to its own folder alone.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from datetime import datetime
from pathlib import Path

from labkit import builds, doctor, jsonl, labfile, launch, paths, record, world
from labkit.errors import LabError

from authoring import tour
from authoring.gpu_check import machine, plan, proof, report, trial
from authoring.gpu_check.plan import Clock, Lab
from authoring.gpu_check.report import Check, LabRun
from authoring.gpu_check.trial import Tried
from authoring.gpu_check.witness import Witness

NO_GPU = "PyTorch sees no GPU here, and gpu-check is about GPUs: nothing was done."


class Conductor:
    """Runs the parts; what came of them is in `labs`, `tried` and `flops`.

    out: the folder of pages, logs and the labs' own records. note: how far Horovod's compilation is, see
    env.gpu_check.compile; None where nothing is compiled.
    """

    def __init__(self, out: Path, labs: tuple[Lab, ...], options: argparse.Namespace):
        self.root = paths.root()
        self.out = out
        self.device = options.device
        self.minutes = options.minutes
        self.note = options.horovod
        self.begun = options.begun or time.time()
        self.plan = labs
        self.labs: dict[str, LabRun] = {}
        self.tried = Tried(sentence="They were not run.")
        self.flops: list[dict] = []
        self.peak_sentence = ""
        self.outcomes: list = []
        self.doctor: dict = {}

    def run(self) -> Check:
        """All parts, as far as the time goes."""
        self.doctor = doctor.report()
        lacks = machine.tensorflow_lacks(self.doctor)
        parts = plan.order(self.plan, compiling=bool(self.note), without_tensorflow=bool(lacks))
        self.clock = Clock(parts, 60 * self.minutes, self.begun)
        for label, text in machine.rows(self.doctor):
            print(f"  {label:40} {text}")
        by_stem = {lab.stem: lab for lab in self.plan}
        with tour.Display(len(self.plan)) as display:
            for part in parts:
                if part in by_stem:
                    self._lab(by_stem[part], display)
                elif part == "peak":
                    self._peak()
                elif part == "tests":
                    self._tests()
                elif part == "horovod":
                    self._wait_for_horovod()
        return self.result()

    def result(self) -> Check:
        """What there is by now."""
        return Check(
            when=f"{datetime.now():%Y-%m-%d %H:%M}",
            minutes=self.minutes,
            seconds=time.time() - self.begun,
            facts=machine.rows(self.doctor),
            gpus=machine.gpus(self.doctor),
            device=self.device,
            tried=self.tried,
            labs=[self.labs[lab.stem] for lab in self.plan if lab.stem in self.labs],
            flops=self.flops,
            horovod=self._horovod_in_words(),
            peak_sentence=self.peak_sentence,
        )

    def _peak(self) -> None:
        """The flop/s, in a process of its own, which leaves the GPU empty behind it."""
        late = self.clock.too_late("peak")
        if late:
            self.peak_sentence = f"Not run. {late}"
            return
        limit = self.clock.limit("peak")
        rows = self.out / "flops.jsonl"
        device = "cpu" if self.device == "cpu" else "cuda:0"
        print(f"Flop/s of two nets, up to {limit:.0f} s …", flush=True)
        command = ["-m", "authoring.gpu_check.peak", "--device", device, "--out", str(rows)]
        with open(self.out / "flops.log", "w") as log:
            ended = launch.run_to_end(
                [sys.executable, *command, "--seconds", f"{0.8 * limit:.0f}"],
                patience=5,
                timeout=limit,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        if ended.cause in ("SIGINT", "SIGTERM"):
            raise KeyboardInterrupt
        if rows.exists():
            self.flops = [json.loads(line) for line in rows.read_text(encoding="utf-8").splitlines() if line]
        if ended.cause == "timeout":
            self.peak_sentence = f"The measurement was ended after its {limit:.0f} s."
        elif ended.status:
            lines = (self.out / "flops.log").read_text(errors="replace").strip().splitlines() or ["no word"]
            self.peak_sentence = f"The measurement ended with an error: {lines[-1][:200]}"
        for line in report.aims_in_words(self.flops):
            print(f"  {line}", flush=True)

    def _tests(self) -> None:
        late = self.clock.too_late("tests")
        if late:
            self.tried = Tried(sentence=f"They were not run. {late}", cut=True)
            return
        limit = self.clock.limit("tests")
        print(f"Tests marked gpu, up to {limit:.0f} s …", flush=True)
        self.tried = trial.run(self.root, self.out, limit)
        counts = f"{len(self.tried.passed)} passed, {len(self.tried.failed)} failed"
        print(f"  {counts}, {len(self.tried.skipped)} skipped. {self.tried.sentence}", flush=True)

    def _lab(self, lab: Lab, display) -> None:
        """One lab, solved; then what its records and timelines show."""
        run = LabRun(lab.stem)
        self.labs[lab.stem] = run
        run.not_run = self._lacks(lab) or self.clock.too_late(lab.stem)
        if run.not_run:
            print(f"– not run  {lab.stem}: {run.not_run}", flush=True)
            return
        display.begin(lab.stem)
        witness = Witness()

        def tick(done: int, cells: int) -> None:
            display.tick(done, cells)
            witness.look()

        outcome = tour.run.run(
            self.root,
            self.out,
            lab.stem,
            self._parameters(lab),
            "",
            tick,
            limit=self.clock.limit(lab.stem),
            variables=self._variables(lab),
        )
        display.end(outcome)
        self.outcomes.append(outcome)
        run.seconds = outcome.seconds
        if outcome.cut:
            run.not_run = f"Not to its end: {outcome.sentence[0].lower()}{outcome.sentence[1:]}"
        elif outcome.status == tour.run.FAILED:
            run.failed = outcome.sentence
        run.findings = self._look(lab, witness, complete=outcome.status == tour.run.RAN)

    def _look(self, lab: Lab, witness: Witness, *, complete: bool) -> list[proof.Finding]:
        """What the lab's records and timelines show; of a lab that broke off, what they show so far."""
        home = self.out / "home"
        kept = self.out / "timelines" / lab.stem
        kept.mkdir(parents=True)
        for file in home.glob("timeline*.json"):
            shutil.move(file, kept / file.name)
        entries = record.entries(home / "records" / f"{lab.stem}.jsonl")
        findings = proof.of_lab(
            lab,
            entries,
            proof.read_timelines(kept),
            gpus=machine.gpus(self.doctor),
            builds=list(builds.horovod_builds()),
            memory=witness.grown(),
        )
        return findings if complete else [finding for finding in findings if finding.what != "records"]

    def _lacks(self, lab: Lab) -> str:
        """Why the lab cannot run here, in a sentence; "" if it can."""
        if plan.needs_tensorflow(lab):
            lack = machine.tensorflow_lacks(self.doctor)
            if lack:
                return lack
        if plan.needs_horovod(lab) and not machine.horovod_is_here():
            why = self._told().get("sentence", "")
            return f"Horovod is not here{f': {why}' if why else ''}."
        return ""

    def _parameters(self, lab: Lab) -> dict:
        """Those of the tests' runs; on a GPU, the plan's beside them."""
        small = tour.run.small_parameters(self.root, lab.stem)
        return small if self.device == "cpu" else {**small, **lab.settings}

    def _variables(self, lab: Lab) -> dict[str, str]:
        variables = {}
        if lab.by_nccl and machine.gpus(self.doctor) >= plan.MANY and "nccl" in builds.horovod_builds():
            variables |= builds.variables("nccl")
        if lab.timeline:
            variables["HOROVOD_TIMELINE"] = str(self.out / "home" / f"timeline_{lab.number}.json")
        return variables

    def _wait_for_horovod(self) -> None:
        """Until it is compiled, or its share of the time is over."""
        limit = self.clock.limit("horovod")
        end = time.monotonic() + limit
        if self._told().get("state") == "compiling":
            print(f"Horovod is being compiled; waiting up to {limit:.0f} s …", flush=True)
        while self._told().get("state") == "compiling" and time.monotonic() < end:
            time.sleep(0.5)
        print(f"  {self._horovod_in_words()}", flush=True)

    def _told(self) -> dict:
        """The compilation's note; {} where there is none."""
        if not self.note:
            return {}
        try:
            return json.loads(Path(self.note).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {"state": "failed", "builds": {}, "sentence": f"{self.note} cannot be read"}

    def _horovod_in_words(self) -> str:
        """How Horovod's compilation went; "" where nothing was compiled here."""
        told = self._told()
        if not told:
            return ""
        times = " and ".join(f"`{name}` in {seconds:.0f} s" for name, seconds in told["builds"].items())
        made = f"Horovod was compiled here, for PyTorch alone: {times}." if times else ""
        if told["state"] == "compiling":
            made += " Its compilation was not at its end when its time was over."
        elif told["state"] == "failed":
            made += f" Its compilation failed: {told['sentence']}."
        elif told["sentence"]:
            made += f" But {told['sentence']}."
        return made.strip()


def write(check: Check, conductor: Conductor, folder: Path) -> None:
    """The records, with what they were measured on, and REPORT.md, into an empty folder."""
    folder.mkdir(parents=True, exist_ok=True)
    about = machine.versions(conductor.doctor)
    for file in sorted((conductor.out / "home" / "records").glob("*.jsonl")):
        for entry in record.entries(file):
            jsonl.append(folder / file.name, {**entry, **about})
    for row in check.flops:
        jsonl.append(folder / "flops.jsonl", {**row, **about, "utc": check.when})
    (folder / "REPORT.md").write_text(report.render(check), encoding="utf-8")


def pick(names: str) -> tuple[Lab, ...]:
    """The labs of the plan that are named, "40,46", or all. LabError for one that is not among them."""
    numbers = [labfile.find(name.strip()) for name in names.split(",") if name.strip()]
    unknown = [stem for stem in numbers if stem not in {lab.stem for lab in plan.LABS}]
    if unknown:
        known = ", ".join(lab.number for lab in plan.LABS)
        raise LabError(f"gpu-check has nothing to say of {', '.join(unknown)}. Its labs are {known}.")
    return tuple(lab for lab in plan.LABS if not numbers or lab.stem in numbers)


def main(arguments: list[str] | None = None) -> int:
    """The command line; see above for the status."""
    parser = argparse.ArgumentParser(prog="authoring.gpu_check", description=__doc__)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda", help="cpu: a rehearsal")
    parser.add_argument("--minutes", type=float, default=plan.MINUTES, help="for all of it")
    parser.add_argument("--labs", default="", help="only these: numbers, with commas between")
    parser.add_argument("--out", type=Path, help="folder of pages and logs (default: build/gpu-check)")
    parser.add_argument("--horovod", type=Path, help="the note of its compilation")
    parser.add_argument("--begun", type=float, help="time.time() of the beginning")
    options = parser.parse_args(arguments)
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        return _main(options)
    except LabError as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("The check was stopped; what it had started has ended.", file=sys.stderr)
        return 130
    finally:
        signal.signal(signal.SIGTERM, before)


def _main(options: argparse.Namespace) -> int:
    rehearsal = options.device == "cpu"
    if not rehearsal and world.device() == "cpu":
        raise LabError(NO_GPU)
    if not options.minutes > 0:
        raise LabError(f"The minutes must be more than 0, not {options.minutes:g}.")
    root = paths.root()
    labs = pick(options.labs)
    out = tour.fresh_folder(options.out or root / "build" / ("gpu-rehearsal" if rehearsal else "gpu-check"))
    if rehearsal:
        os.environ["CUDA_VISIBLE_DEVICES"] = ""  # on a machine with a GPU, too
        place = paths.shown(out)
        print(f"A rehearsal on the CPU: nothing is written to solutions/results/gpu, all to {place}.")
    conductor = Conductor(out, labs, options)
    check = conductor.run()
    shutil.rmtree(out / "work", ignore_errors=True)
    if conductor.outcomes:
        tour.report.write(root, out, conductor.outcomes, conductor.doctor, seconds=check.seconds, small=True)
    if rehearsal or options.labs:
        folder = out / "results"  # what is not all is not what the kit keeps
    else:
        folder = root / "solutions" / "results" / "gpu"
        shutil.rmtree(folder, ignore_errors=True)  # an older check's records would mix with these
    write(check, conductor, folder)
    for sentence in check.failures:
        print(f"FAILED: {sentence}")
    print(f"{check.seconds / 60:.1f} minutes. Report: {paths.shown(folder / 'REPORT.md')}")
    return 1 if check.failures or _is_without_horovod(conductor, labs) else 0


def _is_without_horovod(conductor: Conductor, labs: tuple[Lab, ...]) -> bool:
    """Whether labs asked for Horovod, and it could not be compiled: then this check says too little."""
    wanted = any(plan.needs_horovod(lab) for lab in labs)
    return wanted and not machine.horovod_is_here()
