"""The functions that try a lab's answers (labkit.checks.modules), read as text: what they need of
the lab."""

from __future__ import annotations

import ast
from functools import cache

from authoring.cell import Source


def functions(lab: Source) -> dict[str, ast.FunctionDef]:
    """Exercise -> the function that tries it; {} where the lab has no module."""
    folder = lab.path.parents[1] / "labs" / "support"
    for file in (folder / f"lab{lab.stem[:2]}.py", folder / f"lab{lab.stem[:2]}" / "checks.py"):
        if file.exists():
            return _functions_in(file.read_text(encoding="utf-8"))
    return {}


@cache
def _functions_in(text: str) -> dict[str, ast.FunctionDef]:
    return {
        decorator.args[0].value: node
        for node in ast.parse(text).body
        if isinstance(node, ast.FunctionDef)
        for decorator in node.decorator_list
        if ast.unparse(decorator).startswith("check.exercise(")
    }


def asked(lab: Source, number: str) -> str:
    """What the check of an exercise tries, in the words of its docstring; "" where there is
    none."""
    function = functions(lab).get(number)
    return " ".join((ast.get_docstring(function) or "").split()) if function else ""


def hold_to_lab(lab: Source, bound) -> None:
    """Each `check("40.1", …)` has its function, and what that calls by name is bound in a cell
    above."""
    wanted = {
        number: [argument.arg for argument in function.args.args]
        for number, function in functions(lab).items()
    }
    above: set[str] = set()
    for cell in (cell for cell in lab.cells if cell.kind == "code"):
        tree = lab.tree(cell)
        for node in tree.body:
            call = getattr(node, "value", None)
            if isinstance(call, ast.Call) and ast.unparse(call.func) == "check":
                line = cell.line + node.lineno - 1
                number = ast.literal_eval(call.args[0])
                if number not in wanted:
                    raise lab.wrong(
                        line, f'no function in labs/support has `@check.exercise("{number}")`.'
                    )
                if not asked(lab, number):
                    raise lab.wrong(
                        line, f"the check of {number} has no docstring that says what it tries."
                    )
                for name in wanted.pop(number)[len(call.args) - 1 :]:
                    if name not in above:
                        raise lab.wrong(
                            line, f"the check of {number} needs `{name}`: no cell above has it."
                        )
        above |= {name for name, _ in bound(tree)}
    if wanted:
        raise lab.wrong(1, f"labs/support tries {', '.join(wanted)}, and no cell here calls it.")
