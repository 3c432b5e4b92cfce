"""The house rules of the package, read from its sources: what kernels may do, who may import whom, how long things get.

Invariant: each rule is a function from one module to the faults it finds; no module of the package has a fault, and for
each rule there are small sources that break it and are caught, so no rule passes because it looks at nothing.

    list(kernel_body(parse("batch", "@kernel\\ndef f():\\n    raise ValueError")))  ->  ["batch:3: f has Raise", ...]
"""

import ast
import importlib
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import numbatok
from numbatok._jit import KERNELS

PACKAGE = Path(numbatok.__file__).parent

# fmt: off
# Each module may import only modules that stand before it.
ORDER = [
    "_cache", "_jit", "_llvm", "objects", "swar", "unicode", "table", "ring", "cache", "split", "split.cuts",
    "split.masks", "split.gpt2", "split.cl100k", "split.o200k", "split.deepseek", "split.scan", "split.dual",
    "split.patterns", "split.stretch", "split.named", "joins", "merge", "turns", "spread", "windows", "decoder",
    "lookup", "stretches", "encoder", "bpe", "bpe1", "contents", "lists", "ragged", "calls", "text", "chunks", "worker",
    "batch", "room", "counting", "counter", "gathering", "learning", "learner", "ids", "invalid", "names", "special",
    "unstable", "alphabet", "fields", "added", "normalize", "characters", "pieces", "front", "pretokenizer",
    "huggingface", "arguments", "listing", "export", "vocabulary", "files", "load", "embedded", "convert", "flat",
    "framing", "arrays", "columns", "stored", "encoding", "sources", "pattern_names", "trained", "training", "registry",
    "arrow", "polars", "core", "model", "warm", "__init__", "measure", "cli_names", "cli_convert", "cli_train", "cli",
    "__main__",
]
# Who may spell a name (of a variable, attribute or import) or give an option ("name="), and what nobody may.
OWNED = {
    "njit": {"_jit"}, "jit": {"_jit"}, "parallel=": {"_jit", "batch"}, "prange": {"batch"},
    "set_num_threads": {"batch"}, "intrinsic": {"_llvm"}, "regex": {"pieces"}, "unicodedata": {"normalize"},
}
BANNED = {
    "fastmath=", "boundscheck=", "inline=", "forceinline=", "cache=", "vectorize", "guvectorize", "stencil",
    "overload", "set_parallel_chunksize", "jitclass", "objmode", "literal_unroll", "experimental", "cfunc",
}
NODES_BANNED_IN_KERNELS = (
    ast.Raise, ast.Assert, ast.Try, ast.With, ast.List, ast.ListComp, ast.Dict, ast.DictComp, ast.Set, ast.SetComp,
    ast.GeneratorExp, ast.Lambda, ast.Yield, ast.JoinedStr, ast.Import, ast.ImportFrom, ast.Global, ast.FunctionDef,
)
CALLS_BANNED_IN_KERNELS = {"print", "list", "dict", "set", "sorted", "bytes", "bytearray", "str", "open", "getattr"}
METHODS_BANNED_IN_KERNELS = {"copy", "astype", "reshape", "append", "tolist", "fill"}
CASTS = {"uint8", "uint16", "uint32", "uint64", "int64"}
# fmt: on
# Their tables differ from version to version. One module asks, while imported, about ASCII characters only.
PYTHON_CLASSES = {"re", "isspace", "isalpha", "isalnum", "isdigit", "isdecimal", "isnumeric", "isupper", "islower"}
ASCII_TABLE = "split.cuts"
SIGNED = {"decoder.decoded_size", "batch.run_chunk"}  # compute with int64, whose type a literal keeps

FILE_LINES, FUNCTION_LINES, KERNEL_LINES, STATE_MACHINE_LINES = 400, 40, 60, 90
STATE_MACHINES = {"example.machine"}  # no function of the package needs the longest limit yet
ARRAY_BYTES = 1 << 16


class Module(NamedTuple):
    """One source file: its name below the package, its text and its tree."""

    name: str
    source: str
    tree: ast.Module


Faults = Iterator[str]
Rule = Callable[[Module], Faults]


def parse(name: str, source: str) -> Module:
    """Make a module of a source text."""
    return Module(name, source, ast.parse(source))


MODULES = [
    parse(".".join(path.relative_to(PACKAGE).with_suffix("").parts).removesuffix(".__init__"), path.read_text("utf-8"))
    for path in sorted(PACKAGE.rglob("*.py"))
]


def dotted(node: ast.AST) -> str:
    """Spell a name or a chain of attributes; empty for anything else."""
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def at(module: Module, node: ast.AST) -> str:
    """Give the place of a node, to open a message with."""
    return f"{module.name}:{getattr(node, 'lineno', 0)}:"


def functions(module: Module) -> Iterator[ast.FunctionDef]:
    """Give every function and method of a module."""
    return (node for node in ast.walk(module.tree) if isinstance(node, ast.FunctionDef))


def is_kernel(function: ast.FunctionDef) -> bool:
    """Tell whether a function carries ``@kernel`` or ``@kernel(...)``."""
    return any(ast.unparse(mark).split("(")[0].split(".")[-1] == "kernel" for mark in function.decorator_list)


def kernels(module: Module) -> list[ast.FunctionDef]:
    """Give the kernels of a module."""
    return [function for function in functions(module) if is_kernel(function)]


def names_of(node: ast.AST) -> Iterable[str]:
    """Give the identifiers that one node spells itself."""
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        dotted_names = [getattr(node, "module", None) or "", *(alias.name for alias in node.names)]
        return [part for name in dotted_names for part in name.split(".")]
    if isinstance(node, ast.keyword):
        return [f"{node.arg}="]
    return [name for field in ("id", "attr", "name") if isinstance(name := getattr(node, field, None), str)]


def module_values(module: Module) -> dict[str, Any]:
    """Give the globals of a module: of the imported one, or of a source that a test made up."""
    if module in MODULES:
        return vars(importlib.import_module(f"numbatok.{module.name}".removesuffix(".__init__")))
    values: dict[str, Any] = {"np": np, "kernel": lambda function: function}
    exec(compile(module.tree, module.name, "exec"), values)
    return values


# ---- the rules -------------------------------------------------------------------------------------------------------


def spellings(module: Module) -> Faults:
    """Names that one module owns or nobody may use: of Numba, of some machines' LLVM, of Python's character classes."""
    python_classes = PYTHON_CLASSES if kernels(module) and module.name != ASCII_TABLE else ()
    for node in ast.walk(module.tree):
        for name in names_of(node):
            if name in BANNED or name in python_classes or module.name not in OWNED.get(name, {module.name}):
                yield f"{at(module, node)} spells {name}"
        typed_import = isinstance(node, (ast.Import, ast.ImportFrom)) and "typed" in names_of(node)
        if typed_import or dotted(node) == "numba.typed":
            yield f"{at(module, node)} typed containers"
    for found in re.finditer(r"llvm\.(x86|aarch64|arm|ppc|riscv)\b", module.source):
        yield f"{module.name}: names {found.group()}"


def kernel_body(module: Module) -> Faults:
    """Kernels have a contract, and do not raise, print, allocate or make Python objects."""
    for function in kernels(module):
        if not ast.get_docstring(function):
            yield f"{at(module, function)} {function.name} has no docstring"
        for node in (part for statement in function.body for part in ast.walk(statement)):
            called = dotted(node.func) if isinstance(node, ast.Call) else ""
            owner, _, last = called.rpartition(".")
            numpy_call = owner in ("np", "numpy") and last not in CASTS
            if isinstance(node, NODES_BANNED_IN_KERNELS):
                yield f"{at(module, node)} {function.name} has {type(node).__name__}"
            if called in CALLS_BANNED_IN_KERNELS or numpy_call or (owner and last in METHODS_BANNED_IN_KERNELS):
                yield f"{at(module, node)} {function.name} calls {called}"


def literals(module: Module) -> Faults:
    """Words meet words: in a kernel no bare integer is an operand, nor (except to compare) the name of a plain one."""
    plain = {name for name, value in module_values(module).items() if type(value) is int}
    for function in kernels(module):
        for node in ast.walk(function) if f"{module.name}.{function.name}" not in SIGNED else ():
            for operand in operands(node):
                literal = operand.operand if isinstance(operand, ast.UnaryOp) else operand
                bare = isinstance(literal, ast.Constant) and isinstance(literal.value, int)
                if bare or (dotted(literal) in plain and not isinstance(node, ast.Compare)):
                    yield f"{at(module, node)} {ast.unparse(node)} has a bare integer"


def operands(node: ast.AST) -> list[ast.expr]:
    """Give the operands of a binary operation, a comparison or an augmented assignment."""
    combines = isinstance(node, (ast.BinOp, ast.AugAssign, ast.Compare))
    return [child for child in ast.iter_child_nodes(node) if combines and isinstance(child, ast.expr)]


def process_state(module: Module) -> Faults:
    """Numba's settings and the environment belong to the user; the number of threads is put back."""
    tries = (node for node in ast.walk(module.tree) if isinstance(node, ast.Try))
    restoring = (tried for tried in tries if any("set_num_threads" in ast.unparse(last) for last in tried.finalbody))
    guarded = {id(node) for tried in restoring for node in ast.walk(tried)}
    for node in ast.walk(module.tree):
        owner = dotted(node.value) if isinstance(node, (ast.Attribute, ast.Subscript)) else ""
        changed = not isinstance(getattr(node, "ctx", None), (ast.Load, type(None)))
        if changed and owner.split(".")[-1] in ("config", "environ"):
            yield f"{at(module, node)} changes {owner}"
        called = dotted(node.func) if isinstance(node, ast.Call) else ""
        if called == "setattr" or called.endswith(("environ.update", "environ.setdefault", "environ.pop", "putenv")):
            yield f"{at(module, node)} calls {called}"
        if called.endswith("set_num_threads") and id(node) not in guarded:
            yield f"{at(module, node)} set_num_threads outside try/finally"


def imported(node: ast.AST) -> list[str]:
    """Give the modules that a node imports, by their full names."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if not isinstance(node, ast.ImportFrom):
        return []
    source = "." * node.level + (node.module or "")
    inner = [f"{source}.{alias.name}" for alias in node.names]
    return [name if name.removeprefix("numbatok.") in ORDER else source for name in inner]


def layering(module: Module) -> Faults:
    """Imports go to earlier modules only, wherever in the file they stand."""
    if module.name not in ORDER:
        yield f"{module.name}: has no place in ORDER"
    earlier = ORDER[: ORDER.index(module.name)] if module.name in ORDER else ORDER
    for node in ast.walk(module.tree):
        for name in imported(node):
            inner = "__init__" if name == "numbatok" else name.removeprefix("numbatok.")
            if name.startswith(".") or (inner != name and inner not in earlier):
                yield f"{at(module, node)} imports {name}"


def docstrings(module: Module) -> Faults:
    """Modules, and what is public in them, say what they do."""
    classes = [node for node in module.tree.body if isinstance(node, ast.ClassDef)]
    members = [node for owner in (module.tree, *classes) for node in owner.body]
    named = [node for node in members if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and node.name[0] != "_"]
    yield from (f"{at(module, node)} no docstring" for node in (module.tree, *named) if not ast.get_docstring(node))


def sizes(module: Module) -> Faults:
    """Files and functions can be read in one go; arrays are small, as they are frozen into kernels."""
    for name, value in module_values(module).items():
        if isinstance(value, np.ndarray) and value.nbytes > ARRAY_BYTES:
            yield f"{module.name}: {name} has {value.nbytes} bytes"
    if (lines := len(module.source.splitlines())) > FILE_LINES:
        yield f"{module.name}: {lines} lines"
    for function in functions(module):
        limit = KERNEL_LINES if is_kernel(function) else FUNCTION_LINES
        limit = STATE_MACHINE_LINES if f"{module.name}.{function.name}" in STATE_MACHINES else limit
        if (lines := (function.end_lineno or 0) - function.lineno + 1) > limit:
            yield f"{at(module, function)} {function.name} has {lines} lines, more than {limit}"


# ---- the tests -------------------------------------------------------------------------------------------------------

RULES = (spellings, kernel_body, literals, process_state, layering, docstrings, sizes)
KERNEL = '"""Doc."""\nU1, TEN = np.uint64(1), 10\n\n@kernel\ndef f(x, y):\n    """Contract."""\n    '

# fmt: off
# Rule, module name -> sources that break it; those for kernel rules are statements of a kernel.
BROKEN: dict[tuple[Rule, str], tuple[str, ...]] = {
    (spellings, "swar"): (
        "from numba import njit", "numba.jit(f)", "from numba import prange", "from numba import literal_unroll as u",
        "kernel(f, parallel=True)", "from numba.experimental import jitclass", "from numba.extending import intrinsic",
        "from numba import typed", "numba.typed.List()", "import numba.typed", "import regex", "import unicodedata",
        "with objmode(): pass", "numba.set_num_threads(1)", "'llvm.x86.sse42.crc32.32.8'", "'llvm.aarch64.neon.addv'",
        KERNEL + "x.isspace()", KERNEL + "x\nimport re",
    ),
    (spellings, "_jit"): tuple(f"numba.njit({name}=1)" for name in ("fastmath", "boundscheck", "inline", "cache")),
    (kernel_body, "swar"): (
        "raise ValueError", "assert x", "print(x)", "x = [y]", "{x: y}", "z = np.empty(3)", "np.zeros(x)", "x.copy()",
        "lambda: x", "[i for i in x]", "list(x)", "x\n\n@kernel(parallel=True)\ndef g(x):\n    x",
    ),
    (literals, "swar"): (
        "x + 1", "1 << x", "x & -1", "x * TEN", "x == 0", "0 < x", "x += 1", "x |= TEN", "while x > 0: x = y",
    ),
    (process_state, "batch"): (
        "numba.config.OPT = 1", "config.OPT = 1", "setattr(config, 'OPT', 1)", "os.environ['NUMBA_OPT'] = '1'",
        "del os.environ['X']", "os.environ.setdefault('X', '1')", "if x: numba.set_num_threads(1)",
        "try:\n    x\nexcept X:\n    numba.set_num_threads(1)",
    ),
    (layering, "swar"): (
        "from numbatok.table import x", "from numbatok import x", "import numbatok", "from numbatok import table",
        "from .table import x", "def f():\n    from numbatok.encoder import x",
    ),
    (layering, "unheard"): ("x",),
    (docstrings, "swar"): ("", "'A'\ndef f(): x", "'A'\nclass A:\n    'A'\n    def f(self): x", "'A'\nclass A: x"),
    (sizes, "swar"): (
        "\n" * 401, "def f():\n" + "    x\n" * 40, "@kernel\ndef f():\n" + "    x\n" * 60,
        "BIG = np.zeros(65537, np.uint8)",
    ),
    (sizes, "example"): ("def machine():\n" + "    x\n" * 90,),
}
# fmt: on
BREACHES = [(rule, name, source) for (rule, name), sources in BROKEN.items() for source in sources]


@pytest.mark.parametrize("rule", RULES)
def test_package_keeps(rule: Rule) -> None:
    """No module of the package breaks the rule."""
    assert [fault for module in MODULES for fault in rule(module)] == []


@pytest.mark.parametrize(("rule", "name", "source"), BREACHES)
def test_breach_is_found(rule: Rule, name: str, source: str) -> None:
    """Each rule finds the breach, and nothing in a source without it."""
    whole = KERNEL + source if rule in (kernel_body, literals) else source
    assert list(rule(parse(name, whole))) != []
    assert list(rule(parse("swar", KERNEL + "return (x + U1) * y if x < y else np.uint64(TEN)"))) == []


def plainly_used(module: Module) -> Iterator[Any]:
    """Give the kernels that code outside of kernels names."""
    values = vars(importlib.import_module(f"numbatok.{module.name}"))

    def names(node: ast.AST) -> Iterator[str]:
        if isinstance(node, ast.FunctionDef) and is_kernel(node):
            return
        if isinstance(node, ast.Name):
            yield node.id
        for child in ast.iter_child_nodes(node):
            yield from names(child)

    yield from (values[name] for name in names(module.tree) if any(values.get(name) is one for one in KERNELS))


def test_what_python_calls_is_an_entry() -> None:
    """Kernels are entries if code outside of kernels names them, and refuse to be called if not."""
    used = {f"{one.__module__}.{one.__name__}" for module in MODULES for one in plainly_used(module)}
    entries = set()
    for one in KERNELS:
        if one.targetoptions.get("no_cpython_wrapper"):
            with pytest.raises(TypeError, match=f"{one.__name__} is called by kernels only"):
                one(*[np.uint64(1)] * one.py_func.__code__.co_argcount)
        else:
            entries.add(f"{one.__module__}.{one.__name__}")
    assert entries == used


def test_all_kernels_are_seen() -> None:
    """The rules look at all kernels that the package compiles, and the lists above name nothing that is gone."""
    named = {f"{module.name}.{function.name}" for module in MODULES for function in kernels(module)}
    assert len(named) > 50
    assert named >= SIGNED
    assert {module.name for module in MODULES} == set(ORDER)
    assert {f"numbatok.{name}" for name in named} >= {f"{found.__module__}.{found.__name__}" for found in KERNELS}
