"""Run one lab's wrong answers: `python -m tests.labs.wrong_answers.runner STEM [--json FILE]`.

One process runs the solved lab's cells from the top, with the parameters SMALL. At each exercise it runs the
cells from the answer to the check: with the learner's stub (which must be "not solved yet"), with each wrong
answer (which the check must reject with its phrase), with each right answer in another form, and with the
lab's own (which it must take). It ends after the last check.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import linecache
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path

from authoring import cells, generate
from authoring.cell import Cell
from labkit import labfile
from labkit.errors import CheckFailed
from labkit.labfile import Exercise

from tests.labs.wrong_answers import Right, Wrong, warm

FEWEST = 3  # wrong answers for each exercise


class Problem(Exception):
    """Something is wrong with the lab or with its wrong answers."""


class Runner:
    """Runs the cells of one lab in one namespace, as a notebook's kernel does."""

    def __init__(self, stem: str, root: Path | None = None):
        self.lab = generate.load(stem, root)
        module = importlib.import_module(f"tests.labs.wrong_answers.{stem}")
        self.small, self.wrong = module.SMALL, list(module.WRONG)
        self.right: list[Right] = list(getattr(module, "RIGHT", ()))
        self.cells = cells.solved_cells(self.lab)
        # Functions defined under this name travel to other processes by value, as a notebook's do.
        self.names: dict[str, object] = {"__name__": "__main__"}
        self.problems: list[str] = []
        self.rejected = 0
        self.taken = 0

    def run(self) -> None:
        """All cells up to the last check. Problems are collected in `.problems`."""
        self.look_at_list()
        first = {one.answers[0]: one for one in self.lab.exercises}
        position, last = 0, self.lab.exercises[-1].check if self.lab.exercises else len(self.cells) - 1
        while position <= last:
            if position in first:
                self.exercise(first[position])
                position = first[position].check + 1
                continue
            cell = self.cells[position]
            if cell.kind == "code":
                text = cell.source
                if "parameters" in cell.tags:
                    text = labfile.override(text, self.small)
                self.execute(text, f"cell {position + 1}")
            position += 1

    def look_at_list(self) -> None:
        """Every wrong answer belongs to an exercise, and every exercise has enough of them."""
        numbers = [one.number for one in self.lab.exercises]
        for exercise, what in [
            *((wrong.exercise, wrong.mistake) for wrong in self.wrong),
            *((right.exercise, right.way) for right in self.right),
        ]:
            if exercise not in numbers:
                self.problems.append(f"{exercise}, {what!r}: the lab has no such exercise")
        for number in numbers:
            count = sum(wrong.exercise == number for wrong in self.wrong)
            if count < FEWEST:
                self.problems.append(f"{number} has {count} wrong answers; at least {FEWEST} are needed")

    def exercise(self, exercise: Exercise) -> None:
        """The stub, each wrong answer, and the right answer of one exercise."""
        stubs = {position: cells.stub(self.lab, position) for position in exercise.answers}
        self.expect_rejection(exercise, "the stub", stubs, "not solved yet")
        for wrong in self.wrong:
            if wrong.exercise != exercise.number:
                continue
            try:
                texts = self.edited(exercise, wrong)
                with self.patience(wrong):
                    self.rejected += self.expect_rejection(exercise, repr(wrong.mistake), texts, wrong.says)
            except Problem as problem:
                self.problems.append(f"{exercise.number}, {wrong.mistake!r}: {problem}")
        for right in self.right:
            if right.exercise == exercise.number:
                self.taken += self.expect_taken(exercise, right)
        self.span(exercise, {})

    @contextlib.contextmanager
    def patience(self, wrong: Wrong) -> Iterator[None]:
        """While this is open, the lab's checks wait as long as this wrong answer deserves."""
        seconds = self.names.get("patience")
        if wrong.hangs and seconds is None:
            raise Problem("it hangs, and the lab has no parameter `patience`")
        if seconds is not None:
            self.names["patience"] = wrong.patience(seconds)
        try:
            yield
        finally:
            if seconds is not None:
                self.names["patience"] = seconds

    def edited(self, exercise: Exercise, change: Wrong | Right) -> dict[int, str]:
        """Position -> text of the answer cells with the change in them."""
        texts = {position: self.cells[position].source for position in exercise.answers}
        for old, new in change.edits():
            places = [position for position, text in texts.items() if old in text]
            count = sum(text.count(old) for text in texts.values())
            if count != 1:
                raise Problem(f"the answer holds {old!r} {count} times, not once")
            texts[places[0]] = texts[places[0]].replace(old, new)
        return texts

    def expect_rejection(self, exercise: Exercise, what: str, texts: dict[int, str], says: str) -> bool:
        """Whether the check rejects these cells with that phrase; otherwise a problem is noted."""
        try:
            self.span(exercise, texts)
        except CheckFailed as error:
            if says in str(error):
                hung = "; it hangs" if "without an end" in str(error) else ""
                print(f"    rejected {what}{hung}", flush=True)
                return True
            self.problems.append(f"{exercise.number}, {what}: rejected, but without {says!r}:\n{error}")
        except Exception:
            last = traceback.format_exc().strip().splitlines()[-8:]
            self.problems.append(
                f"{exercise.number}, {what}: an error outside the check:\n" + "\n".join(last)
            )
        else:
            self.problems.append(f"{exercise.number}, {what}: the check let it pass")
        return False

    def expect_taken(self, exercise: Exercise, right: Right) -> bool:
        """Whether the check takes this right answer; otherwise a problem is noted."""
        what = f"{exercise.number}, {right.way!r}"
        try:
            self.span(exercise, self.edited(exercise, right))
        except CheckFailed as error:
            self.problems.append(f"{what}: right, but refused:\n{error}")
        except Exception:
            last = traceback.format_exc().strip().splitlines()[-8:]
            self.problems.append(f"{what}: an error outside the check:\n" + "\n".join(last))
        else:
            print(f"    taken {right.way!r}", flush=True)
            return True
        return False

    def span(self, exercise: Exercise, texts: dict[int, str]) -> None:
        """The code cells from the answer to the check, some with another text."""
        for position in range(exercise.answers[0], exercise.check + 1):
            cell: Cell = self.cells[position]
            if cell.kind == "code":
                self.execute(
                    texts.get(position, cell.source), f"cell {position + 1}, exercise {exercise.number}"
                )

    def execute(self, text: str, name: str) -> None:
        """Run one cell's text in the lab's namespace; tracebacks and inspect find its lines."""
        name = f"<{self.lab.stem}, {name}>"
        linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
        exec(compile(text, name, "exec"), self.names)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("stem")
    parser.add_argument(
        "--root", type=Path, default=None, help="another checkout than this one (tests of the runner)"
    )
    parser.add_argument("--cold", action="store_true", help="start ranks as learners do (see warm.py)")
    parser.add_argument("--json", type=Path, help="write the outcome to this file")
    options = parser.parse_args()
    runner = Runner(options.stem, options.root)
    try:
        with contextlib.nullcontext() if options.cold else warm.ranks():
            runner.run()
    except Exception:
        runner.problems.append("the solved lab itself fails:\n" + traceback.format_exc())
    outcome = {
        "seeded": len(runner.wrong),
        "rejected": runner.rejected,
        "right": len(runner.right),
        "taken": runner.taken,
        "problems": runner.problems,
    }
    if options.json:
        options.json.write_text(json.dumps(outcome))
    for problem in runner.problems:
        print(f"PROBLEM {options.stem} {problem}", file=sys.stderr)
    print(
        f"{options.stem}: {outcome['rejected']} of {outcome['seeded']} wrong answers rejected, "
        f"{outcome['taken']} of {outcome['right']} right ones taken"
    )
    return 1 if runner.problems else 0


if __name__ == "__main__":
    sys.exit(main())
