"""The notebook's cells, run as they stand, print what stands below them. Run as a program, writes what they print."""

import ast
import contextlib
import io
import json
from pathlib import Path

NOTEBOOK = Path(__file__).parents[2] / "docs" / "python.ipynb"


def run(source, names):
    """What a cell prints, and the value of its last line where it is one."""
    body = ast.parse(source).body
    last = body.pop() if isinstance(body[-1], ast.Expr) and not is_print(body[-1].value) else None
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(ast.Module(body, []), str(NOTEBOOK), "exec"), names)
        value = None if last is None else eval(compile(ast.Expression(last.value), str(NOTEBOOK), "eval"), names)
    return printed.getvalue(), value


def is_print(node):
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print"


def outputs_of(cell, count, names):
    printed, value = run("".join(cell["source"]), names)
    outputs = []
    if printed:
        outputs.append({"name": "stdout", "output_type": "stream", "text": printed.splitlines(keepends=True)})
    if value is not None:
        text = {"text/plain": repr(value).splitlines(keepends=True)}
        outputs.append({"data": text, "execution_count": count, "metadata": {}, "output_type": "execute_result"})
    return outputs


def code_cells(notebook):
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def test_the_notebooks_cells_print_what_stands_below_them():
    names = {}
    cells = code_cells(json.loads(NOTEBOOK.read_text()))
    assert len(cells) > 5
    for count, cell in enumerate(cells, 1):
        assert outputs_of(cell, count, names) == cell["outputs"], "".join(cell["source"])


if __name__ == "__main__":
    notebook, names = json.loads(NOTEBOOK.read_text()), {}
    for count, cell in enumerate(code_cells(notebook), 1):
        cell["execution_count"], cell["outputs"] = count, outputs_of(cell, count, names)
    NOTEBOOK.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n")
