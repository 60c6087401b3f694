"""A loader as source text: one line, or a block that runs as it is pasted into a script."""

from __future__ import annotations

import ast

from fastdata_cli.loading.loader import LoaderOptions, loader_line
from fastdata_cli.operations.bench.advise import Choice
from fastdata_cli.operations.bench.subject import Subject

_WIDTH = 79
_TORCH = "DataLoader"


def fast_loader_line(subject: Subject, options: LoaderOptions) -> str:
    """Return the expression that makes a FastLoader over a dataset."""
    settings = [repr(options.batch_size), f"order={options.order!r}", *_size(subject)]
    settings += ["pin_memory=True"] if options.pin_memory else []
    return f"FastLoader({', '.join([repr(subject.name), *settings])})"


def fast_loader_block(line: str) -> str:
    """Return a script that makes the loader of ``fast_loader_line``, named ``loader``."""
    return _block(f"loader = {line}")


def loader_block(subject: Subject, choice: Choice) -> str:
    """Return a script that makes a loader over a dataset, named ``loader``."""
    if choice.threads:
        return fast_loader_block(fast_loader_line(subject, choice.options))
    dataset = f"FastDataset({', '.join([repr(subject.name), *_size(subject)])})"
    line = loader_line(subject.reader, choice.options)
    return _block(f"dataset = {dataset}\nloader = {line}")


def _size(subject: Subject) -> list[str]:
    return [f"size={subject.size}"] if subject.size else []


def _block(source: str) -> str:
    """Return assignments with the imports that they need, each argument in sight."""
    tree = ast.parse(source)
    calls = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call)]
    names = sorted({func.id for func in calls if isinstance(func, ast.Name)} - {"len"})
    imports = []
    if _TORCH in names:
        names.remove(_TORCH)
        imports = [f"from torch.utils.data import {_TORCH}", ""]
    imports.append(f"from fastdata_cli import {', '.join(names)}")
    lines = []
    for each in tree.body:
        assert isinstance(each, ast.Assign), "a block assigns"
        lines.append(f"{ast.unparse(each.targets[0])} = {_text(each.value)}")
    return "\n".join([*imports, "", *lines])


def _text(node: ast.expr, indent: str = "") -> str:
    """Return a call with one argument to a line where it is too long for one."""
    text = ast.unparse(node)
    if not isinstance(node, ast.Call) or len(indent) + len("loader = ") + len(text) <= _WIDTH:
        return text
    inner = indent + "    "
    arguments = [_text(each, inner) for each in node.args]
    arguments += [f"{each.arg}={_text(each.value, inner)}" for each in node.keywords]
    listed = "".join(f"{inner}{argument},\n" for argument in arguments)
    return f"{ast.unparse(node.func)}(\n{listed}{indent})"
