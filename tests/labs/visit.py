"""A lab from top to bottom in a real kernel, as learners go through it:
`python -m tests.labs.visit STEM`.

At each exercise the stub comes first, as in the learner's notebook: its check must fail. Then the
call that the failure recommends, in a cell of its own; then each wrong answer, which the check must
reject with its phrase, and each right one in another form; then the answer, as in the solved
notebook. The parameters are SMALL, those of the tests. Every figure is looked at: no text may lie
on another or leave the figure.

Ranks are forks of a process with the libraries, as learners' are on a machine without a GPU. --cold
starts each anew. --keep FILE writes the notebook with its outputs.

Problems are printed, and status is 1 if there are any.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

import nbformat
from authoring import cells as authoring_cells
from authoring import generate, kernel
from authoring.cell import Cell
from authoring.source import Lab
from labkit import paths
from labkit.labfile import Exercise

from tests.labkit.plots import texts
from tests.labs.wrong_answers import Right, Wrong

FEWEST = 3  # wrong answers for each exercise
SECONDS = 900  # to end a lab that hangs
FAILS = "raises-exception"  # nbclient goes on after an error in a cell with this tag
WATCH = """\
from tests.labkit.plots import texts
texts.watch_figures()"""


class Trial(NamedTuple):
    """The cells from an answer to its check, with a text that the check has to reject or to
    take."""

    what: str
    says: str = ""  # a phrase of the rejection; "": it is taken

    def problem(self, cells: list) -> str:
        """What is wrong with what came of its cells; "" if all is as it should be."""
        errors = [
            output for cell in cells for output in cell.outputs if output.output_type == "error"
        ]
        if not errors:
            return f"{self.what}: the check let it pass" if self.says else ""
        if errors[0].ename != "CheckFailed":
            last = "\n".join("\n".join(errors[0].traceback).splitlines()[-8:])
            return f"{self.what}: an error outside the check:\n{last}"
        if not self.says:
            return f"{self.what}: right, but refused:\n{errors[0].evalue}"
        if self.says not in errors[0].evalue:
            return f"{self.what}: rejected, but without {self.says!r}:\n{errors[0].evalue}"
        return ""


class Visit:
    """The way through one lab: its cells, the trials among them by their tags, and the problems
    found."""

    def __init__(self, stem: str, root: Path | None = None):
        self.lab: Lab = generate.load(stem, root)
        module = import_module(f"tests.labs.wrong_answers.{stem}")
        self.small: dict[str, object] = module.SMALL
        self.wrong: list[Wrong] = list(module.WRONG)
        self.right: list[Right] = list(getattr(module, "RIGHT", ()))
        self.cells: list[Cell] = []
        self.trials: dict[str, Trial] = {}
        self.problems: list[str] = []
        self._look_at_lists()
        self._lay()

    def _look_at_lists(self) -> None:
        """Every answer belongs to an exercise, and every exercise has enough wrong ones."""
        numbers = [exercise.number for exercise in self.lab.exercises]
        for answer in (*self.wrong, *self.right):
            if answer.exercise not in numbers:
                self.problems.append(f"{answer}: the lab has no such exercise")
        for number in numbers:
            count = sum(wrong.exercise == number for wrong in self.wrong)
            if count < FEWEST:
                self.problems.append(
                    f"{number} has {count} wrong answers; at least {FEWEST} are needed"
                )

    def _lay(self) -> None:
        self.solved = authoring_cells.solved_cells(self.lab, self.small)
        first_answers = {exercise.answers[0]: exercise for exercise in self.lab.exercises}
        for position, cell in enumerate(self.solved):
            if position in first_answers:
                self._lay_exercise(first_answers[position])
            self.cells.append(cell)

    def _lay_exercise(self, exercise: Exercise) -> None:
        """The stub, the recommended hint, each wrong answer, and each right one in another form."""
        number = exercise.number
        learners = authoring_cells.learner_cells(self.lab)
        stubs = {
            place: learners[place].source
            for place in range(exercise.answers[0], exercise.check + 1)
        }
        refused = f"✗ {number}  not solved yet."
        self._lay_trial(exercise, Trial(f"{number}, the stub", refused), stubs)
        self.cells.append(Cell("code", f'hint("{number}")', 0, (f"hint-{number}",)))
        patience = {**self.lab.parameters, **self.small}.get("patience")
        answers = {place: self.solved[place].source for place in exercise.answers}
        for answer in (*self.wrong, *self.right):
            if answer.exercise != number:
                continue
            if isinstance(answer, Wrong):
                trial = Trial(f"{number}, {answer.mistake!r}", answer.says)
            else:
                trial = Trial(f"{number}, {answer.way!r}")
            try:
                texts = answer.edited(answers)
            except ValueError as error:
                self.problems.append(f"{trial.what}: {error}")
                continue
            hangs = isinstance(answer, Wrong) and answer.hangs
            if hangs and patience is None:
                self.problems.append(
                    f"{trial.what}: it hangs, and the lab has no parameter `patience`"
                )
                continue
            if hangs:
                self.cells.append(Cell("code", f"patience = {answer.patience(patience)}", 0))
            self._lay_trial(exercise, trial, texts)
            if hangs:
                self.cells.append(Cell("code", f"patience = {patience}", 0))

    def _lay_trial(self, exercise: Exercise, trial: Trial, texts: dict[int, str]) -> None:
        tag = f"trial-{len(self.trials)}"
        self.trials[tag] = trial
        for place in range(exercise.answers[0], exercise.check + 1):
            cell = self.solved[place]
            if cell.kind == "code":
                self.cells.append(
                    Cell("code", texts.get(place, cell.source), cell.line, (FAILS, tag))
                )

    def execute(self, cold: bool = False) -> nbformat.NotebookNode:
        """Run all cells in one kernel, and add to the problems. Returns the notebook with its
        outputs."""
        env = {"LABKIT_FORKS": "0"} if cold else {}
        book, error = kernel.run(
            self.lab.stem,
            [Cell("code", WATCH, 0), *self.cells],
            self.lab.path.parents[1],
            seconds=SECONDS,
            env=env,
        )
        if error:
            self.problems.append(f"the solved lab itself fails:\n{error}")
        self._judge(book)
        return book

    def _judge(self, book: nbformat.NotebookNode) -> None:
        cells = [cell for cell in book.cells if cell.cell_type == "code" and cell.execution_count]
        tagged: dict[str, list] = {}
        for cell in cells:
            for tag in cell.metadata.get("tags", ()):
                tagged.setdefault(tag, []).append(cell)
        for tag, trial in self.trials.items():
            problem = (
                trial.problem(tagged[tag]) if tag in tagged else f"{trial.what}: was not tried"
            )
            if problem:
                self.problems.append(problem)
        plain = [cell for cell in cells if FAILS not in cell.metadata.get("tags", ())]
        text = printed(plain)
        if "Traceback" in text:
            self.problems.append(
                f"a traceback is printed:\n{text[text.index('Traceback') :][:2000]}"
            )
        for exercise in self.lab.exercises:
            if text.count(f"✓ {exercise.number}  {exercise.title}\n") != 1:
                self.problems.append(f"{exercise.number}: its answer does not pass exactly once")
            self._judge_hint(exercise, tagged.get(f"hint-{exercise.number}", []))
        for line in printed(cells).splitlines():
            if line.startswith(texts.CROWDED):
                self.problems.append(line)

    def _judge_hint(self, exercise: Exercise, cells: list) -> None:
        shown = [output.data.get("text/markdown", "") for cell in cells for output in cell.outputs]
        if len(shown) != 1 or not shown[0].startswith(f"**{exercise.hints[0][0]}**"):
            self.problems.append(f"{exercise.number}: the first hint is shown as {shown}")


def printed(cells: list) -> str:
    """What executed cells printed."""
    outputs = [output for cell in cells for output in cell.outputs]
    return "".join(output.text for output in outputs if output.output_type == "stream")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("stem")
    parser.add_argument(
        "--root", type=Path, default=paths.root(), help="another checkout than this one"
    )
    parser.add_argument("--cold", action="store_true", help="start each rank anew")
    parser.add_argument(
        "--keep", type=Path, help="write the notebook with its outputs to this file"
    )
    options = parser.parse_args()
    visit = Visit(options.stem, options.root)
    with tempfile.TemporaryDirectory() as home:
        os.environ["LABKIT_HOME"] = home  # of somebody who has seen no hint yet
        book = visit.execute(options.cold)
    if options.keep:
        nbformat.write(book, options.keep)
    for problem in visit.problems:
        print(f"PROBLEM {options.stem} {problem}", file=sys.stderr)
    print(
        f"{options.stem}: {len(visit.wrong)} wrong answers and {len(visit.right)} right ones in"
        f" other forms tried, {len(visit.problems)} problems"
    )
    return 1 if visit.problems else 0


if __name__ == "__main__":
    sys.exit(main())
