"""Tests draw the same inputs in every process: what is drawn never follows the order of a set, which hashes decide.

Invariant: where a test goes over a set that it made and draws by the way, the set is sorted first. Python gives texts
and bytes another hash in each process, so a test that forgets this fails once in many runs and cannot be repeated.

    list(faults(ast.parse("def f(rng, n):\\n    s = {n}\\n    return [x for x in s if rng.random() < 1]")))  ->  [3]
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

FILES = [path for folder in ("tests", "bench") for path in sorted((Path(__file__).parents[1] / folder).glob("*.py"))]
MIXING = (ast.BitOr, ast.BitAnd, ast.Sub, ast.BitXor)
DRAWS = ("rng", "random")


def is_set(node: ast.AST | None, known: set[str]) -> bool:
    """Tell whether an expression makes a set, or names one that the function made."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, MIXING):
        return is_set(node.left, known) or is_set(node.right, known)
    made = isinstance(node, ast.Call) and ast.unparse(node.func) in ("set", "frozenset")
    return made or isinstance(node, (ast.Set, ast.SetComp)) or (isinstance(node, ast.Name) and node.id in known)


def draws(node: ast.AST) -> bool:
    """Tell whether random numbers are drawn in a part of a function."""
    return any(isinstance(part, ast.Name) and part.id in DRAWS for part in ast.walk(node))


def sets_of(function: ast.AST) -> set[str]:
    """Give the names that a function binds to sets."""
    known: set[str] = set()
    for node in ast.walk(function):
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        if is_set(getattr(node, "value", None), known):
            known |= {target.id for target in targets if isinstance(target, ast.Name)}
    return known


def gone_over(node: ast.AST) -> list[ast.expr]:
    """Give what a loop, a comprehension or a call takes one by one."""
    if isinstance(node, (ast.SetComp, ast.ListComp, ast.GeneratorExp, ast.DictComp)):
        return [part.iter for part in node.generators]
    if isinstance(node, ast.For):
        return [node.iter]
    if not isinstance(node, ast.Call):
        return []
    by_key = any(keyword.arg == "key" for keyword in node.keywords)  # what is alike stays as it was
    if ast.unparse(node.func) in ("list", "tuple", "enumerate", "zip") or by_key:
        return node.args
    return [part for argument in node.args for part in gone_over(argument)]


def faults(tree: ast.AST) -> Iterator[int]:
    """Give the lines where a set is gone over in its own order while something is drawn."""
    for function in (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)):
        known = sets_of(function)
        for node in ast.walk(function):
            if draws(node) and any(is_set(part, known) for part in gone_over(node)):
                yield node.lineno


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_no_draw_follows_a_set(path: Path) -> None:
    """No file of the tests or of the benchmark draws in the order of a set."""
    assert list(faults(ast.parse(path.read_text("utf-8")))) == []


BROKEN = [
    "s = {n}; return [x for x in s if rng.random() < 1]",
    "s = {n}; s |= {x for x in s if rng.random() < 1}",
    "for x in {1} | n: rng.choice(x)",
    "return sorted(set(n), key=lambda x: rng.random())",
    "return rng.choice(list({1, n}))",
]
KEPT = [
    "s = {n}; return [x for x in sorted(s) if rng.random() < 1]",
    "return {rng.random() for x in range(n)}",
    "return [x for x in {n}]",
    "return rng.sample(sorted({1, n}), 1)",
]


@pytest.mark.parametrize(("line", "lines"), [*((line, [2]) for line in BROKEN), *((line, []) for line in KEPT)])
def test_breach_is_found(line: str, lines: list[int]) -> None:
    """What breaks the rule is found, what keeps it is not."""
    assert sorted(set(faults(ast.parse(f"def f(rng, n):\n    {line}")))) == lines
