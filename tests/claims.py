"""Which tests say that they show something: read from their markers, for documents and for checks.

A test claims with ``@pytest.mark.MARKER("id", …)``.
"""

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

_TESTS = Path(__file__).parent


def claims(marker: str) -> dict[str, list[str]]:
    """Return the tests of every id that one claims, as ``file::test``."""
    found: dict[str, list[str]] = defaultdict(list)
    for path in sorted(_TESTS.glob("test_*.py")):
        source = path.read_text("utf-8")
        if f"pytest.mark.{marker}(" not in source:
            continue
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                for each in _claimed(node, marker):
                    found[each].append(f"{path.name}::{node.name}")
    return found


def _claimed(function: ast.FunctionDef | ast.AsyncFunctionDef, marker: str) -> Iterator[str]:
    for decorator in function.decorator_list:
        if (
            isinstance(decorator, ast.Call)
            and ast.unparse(decorator.func) == f"pytest.mark.{marker}"
        ):
            yield from (ast.literal_eval(argument) for argument in decorator.args)
