"""Tests draw the same inputs in every process: what is drawn never follows the order of a set, which hashes decide.

Invariant: a function that draws random numbers makes no sequence of a set, and goes over none, unless it is sorted
first. Python gives texts and bytes another hash in each process, so a test that forgets this fails once in many runs
and cannot be repeated.

    list(faults(ast.parse("def f(rng, n):\\n    s = {n}\\n    return [x for x in s if rng.random() < 1]")))  ->  [3]
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

FILES = [path for folder in ("tests", "bench") for path in sorted((Path(__file__).parents[1] / folder).glob("*.py"))]
MIXING = (ast.BitOr, ast.BitAnd, ast.Sub, ast.BitXor)
DRAWS = ("rng", "random", "Random")
ORDERED = ("list", "tuple", "enumerate", "zip", "iter", "fromkeys", "join", "pop", "next")
SET_METHODS = ("set", "frozenset", "union", "intersection", "difference", "symmetric_difference", "copy")


def last_name(node: ast.AST | None) -> str:
    """Give the name, or the last one of a chain of attributes; empty for anything else."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def is_set(node: ast.AST | None, known: set[str]) -> bool:
    """Tell whether an expression makes a set, or names one that is known."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, MIXING):
        return is_set(node.left, known) or is_set(node.right, known)
    if isinstance(node, ast.IfExp):
        return is_set(node.body, known) or is_set(node.orelse, known)
    if isinstance(node, ast.Call) and last_name(node.func) in SET_METHODS:
        return isinstance(node.func, ast.Name) or is_set(getattr(node.func, "value", None), known)
    return isinstance(node, (ast.Set, ast.SetComp)) or (isinstance(node, ast.Name) and node.id in known)


def sets_of(function: ast.AST, known: set[str]) -> set[str]:
    """Give the names that are known to be sets, and those that a part of a module binds to sets."""
    more = set(known)
    for node in ast.walk(function):
        hint = ast.unparse(getattr(node, "annotation", None) or ast.Constant(0))
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", node)]
        if hint.startswith(("set", "frozenset")) or is_set(getattr(node, "value", None), more):
            more |= {one.id for one in targets if isinstance(one, ast.Name)}
            more |= {node.arg} if isinstance(node, ast.arg) else set()
    return more if more == known else sets_of(function, more)


def gone_over(node: ast.AST) -> list[ast.expr]:
    """Give what a part of a function takes one by one, in its order."""
    if isinstance(node, (ast.ListComp, ast.GeneratorExp, ast.DictComp, ast.SetComp)):
        return [part.iter for part in node.generators]
    if isinstance(node, (ast.For, ast.Starred)):
        return [node.iter if isinstance(node, ast.For) else node.value]
    if not isinstance(node, ast.Call):
        return []
    by_key = any(keyword.arg == "key" for keyword in node.keywords)  # what is alike stays as it was
    taken = [*node.args, *([node.func.value] if isinstance(node.func, ast.Attribute) else [])]
    return taken if by_key or last_name(node.func) in ORDERED else []


def unordered(function: ast.AST) -> set[ast.AST]:
    """Give what is gone over to make one and the same result in any order: a set, or what sorted() gives."""
    calls = [node for node in ast.walk(function) if isinstance(node, ast.Call) and node.args and not node.keywords]
    taken = [node.args[0] for node in calls if last_name(node.func) in ("sorted", "set", "any", "all", "sum")]
    made = [node for node in ast.walk(function) if isinstance(node, ast.SetComp)]
    parts = [part for node in ast.walk(function) if isinstance(node, ast.Set) for part in node.elts]
    kinds = (ast.GeneratorExp, ast.SetComp, ast.Starred)
    return {node for node in (*taken, *made, *parts) if isinstance(node, kinds) and not draws(node)}


def draws(node: ast.AST) -> bool:
    """Tell whether random numbers are drawn in a part of a module."""
    return any(last_name(part) in DRAWS for part in ast.walk(node))


def faults(tree: ast.Module) -> Iterator[int]:
    """Give the lines where a function that draws goes over a set in its own order."""
    top = sets_of(ast.Module([node for node in tree.body if isinstance(node, (ast.Assign, ast.AnnAssign))], []), set())
    functions = (node for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)))
    for function in filter(draws, functions):
        known, spared = sets_of(function, top), unordered(function)
        for node in ast.walk(function):
            if node not in spared and any(is_set(part, known) for part in gone_over(node)):
                yield getattr(node, "lineno", function.lineno)


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
    "w = list({1, n}); return rng.choice(w)",
    "s = set(n); t = [x for x in s]; return rng.sample(t, 2)",
    "return rng.choice([*{1, n}])",
    "w = sorted({1, n}, key=len); rng.shuffle(w)",
    "return rng.choice(tuple({1}.union(n)))",
    "s = {n}; return rng.choice([s.pop()])",
    "return rng.choice(list(dict.fromkeys({1, n})))",
    "s: set[int] = n; return rng.choice(list(s))",
    "t = s | {2} if n else s; return rng.choice(list(t))",
    "return self.rng.choice(list({n}))",
    "return random.Random(1).choice(list({n}))",
    "return rng.choice(list(TOP))",
    "return rng.choice(list(p))",
]
KEPT = [
    "s = {n}; return [x for x in sorted(s) if rng.random() < 1]",
    "return {rng.random() for x in range(n)}",
    "return [x for x in {n}]",
    "return rng.sample(sorted({1, n}), 1)",
    "s = {n}; return rng.choice(sorted(x for x in s))",
    "s = {n}; t = {x for x in s}; return rng.choice(sorted(t))",
    "return rng.choice([n, 1])",
]


@pytest.mark.parametrize(("line", "found"), [*((line, True) for line in BROKEN), *((line, False) for line in KEPT)])
def test_breach_is_found(line: str, found: bool) -> None:
    """What breaks the rule is found, what keeps it is not."""
    source = f"TOP = {{1, 2}}\n\n\ndef f(self, {'rng, ' * ('rng' in line)}n, s=0, p: set[int] = TOP):\n    {line}"
    source = source if "rng" in line else source.replace("rng, ", "")
    assert bool(list(faults(ast.parse(source)))) == found
