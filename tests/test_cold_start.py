"""The first seconds of a process: import, first compile, the cache on disk, and everything that can be wrong with it.

Invariant: importing compiles nothing and never fails, and the ids are right whatever the state of the cache; a cache is
used when it is whole and fits the sources, and only then. Each test runs new processes on a copy of the package with a
cache folder of its own, so neither the checkout nor the caches of the user are touched.

    broken .nbi and .nbc files  ->  right ids, and the next process has cache hits only
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import tiktoken
from cases import JIT_OFF

import numbatok

pytestmark = pytest.mark.skipif(JIT_OFF, reason="nothing is compiled or cached with NUMBA_DISABLE_JIT=1")

PACKAGE = Path(numbatok.__file__).parent
HANG_SECONDS = 180
TEXTS = ["hello world", "It's 12  o'clock\n\n caf\u00e9 \u4e2d\u6587", "qzjxkvwp" * 40 + " and then", ""]
FIRST_COMPILE = "numbatok: compiling kernels"
HEAVY = ["click", "matplotlib", "pandas", "pyarrow", "tqdm", "IPython", "scipy"]

REPORT = """
import json, sys
from numbatok import _jit
def report(**found):
    stats = [kernel.stats for kernel in _jit.KERNELS]
    found["hits"] = sum(sum(one.cache_hits.values()) for one in stats)
    found["misses"] = sum(sum(one.cache_misses.values()) for one in stats)
    found["compiled"] = sum(bool(kernel.signatures) for kernel in _jit.KERNELS)
    found["folder"] = _jit.cache_folder()
    json.dump(found, sys.stdout)
"""
IMPORT = REPORT + "import numbatok; report(modules=sorted(sys.modules), file=numbatok.__file__)"
# Encodes TEXTS, after running the code in the first argument, if there is any.
ENCODE = (
    REPORT
    + """
import numbatok
exec("".join(sys.argv[2:]))
enc = numbatok.get_encoding("gpt2")
ids = [enc.encode_ordinary(text) for text in json.loads(sys.argv[1])]
report(ids=ids, texts=[enc.decode(row) for row in ids], file=numbatok.__file__)
"""
)
COUNT_PARSED = """
import llvmlite.binding
from numbatok import _cache
parsed, parse = [], llvmlite.binding.parse_bitcode
def parse_bitcode(code):
    parsed.append(len(code))
    return parse(code)
_cache.parse_bitcode = llvmlite.binding.parse_bitcode = parse_bitcode
"""
# Encodes as above, and then compiles a kernel of its own that calls one of the package.
LINK = (
    ENCODE[: ENCODE.index("report(ids=ids")]
    + """
import numba, numpy as np
from numbatok.decoder import decoded_size
before = enc.decode(ids[0]) and len(parsed)
@numba.njit
def twice(tables, at, count):
    return 2 * decoded_size(tables, at, count, 0)
flat = np.array(sum(ids, []), np.uint32)
made = twice(enc._model.address, flat.ctypes.data, len(flat))
report(ids=ids, twice=made, parsed=before, parsed_then=len(parsed), lean=_cache.LEAN_LOADING)
"""
)
# Decodes ids, after running code in the same way: a dozen kernels, which compile in a tenth of the time.
DECODE = (
    REPORT
    + """
import numbatok
exec("".join(sys.argv[2:]))
enc = numbatok.get_encoding("gpt2")
report(texts=[enc.decode(row) for row in json.loads(sys.argv[1])], file=numbatok.__file__)
"""
)
# Splits "1!", which makes two pieces as long as a digit is a number; a few kernels in several files, quick to compile.
SPLIT = (
    REPORT
    + """
import numpy as np
from numbatok.split.scan import split_text
from numbatok.table import TABLES
from numbatok.unicode import load_class_table
classes, text, ends = load_class_table(), np.frombuffer(b"1!", np.uint8), np.empty(66, np.uint64)
tables, at = np.zeros(1, TABLES), text.ctypes.data
tables["classes"] = classes.ctypes.data
report(pieces=split_text(tables.ctypes.data, at, at + 2, ends.ctypes.data, 2))
"""
)
PIPES: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
NUMBER_LINE = "NUMBER_FLAG = np.uint64(NUMBER)"


def start(root: Path, code: str, arguments: Sequence[str] = (), *, settings: dict[str, Any], **pipes: Any) -> Any:
    """Start a new process that finds the package in ``root`` first; a setting of None removes the variable."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("NUMBA_", "XDG_"))}
    environment |= {"PYTHONPATH": str(root)} | {name: str(value) for name, value in settings.items()}
    for name in (name for name, value in settings.items() if value is None):
        del environment[name]
    return subprocess.Popen([sys.executable, "-c", code, *arguments], env=environment, cwd="/", **pipes)


def run(root: Path, code: str, *arguments: str, **settings: Any) -> dict[str, Any]:
    """Run code to its end; gives what it reported."""
    process = start(root, code, arguments, settings=settings, **PIPES)
    try:
        out, errors = process.communicate(timeout=HANG_SECONDS)
    finally:
        process.kill()
    assert process.returncode == 0, errors
    assert FIRST_COMPILE not in errors, "a pipe is no place for a notice"
    found: dict[str, Any] = json.loads(out)
    assert str(root) in found.get("file", str(root)), "another copy of the package was imported"
    return found


def encode(root: Path, *prelude: str, **settings: Any) -> dict[str, Any]:
    """Encode the texts in a new process."""
    return run(root, ENCODE, json.dumps(TEXTS), *prelude, **settings)


def decode(root: Path, ids: list[list[int]], *prelude: str, **settings: Any) -> dict[str, Any]:
    """Decode ids in a new process."""
    return run(root, DECODE, json.dumps(ids), *prelude, **settings)


def copy_package(folder: Path) -> Path:
    """Copy the sources and data of the package, without caches, into a folder; gives the folder."""
    shutil.copytree(PACKAGE, folder / "numbatok", ignore=shutil.ignore_patterns("__pycache__"))
    return folder


def files(cache: Path) -> list[Path]:
    """Give the files of the cache: indices and machine code."""
    return sorted(path for path in cache.rglob("*.nb?") if path.is_file())


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a folder with a copy of the package, which nobody edits meanwhile."""
    return copy_package(tmp_path_factory.mktemp("root"))


@pytest.fixture(scope="module")
def warm(root: Path, tmp_path_factory: pytest.TempPathFactory, expected: list[list[int]]) -> Path:
    """Give a cache folder that one process has filled; to be copied, not changed."""
    cache = tmp_path_factory.mktemp("warm")
    first = encode(root, NUMBA_CACHE_DIR=cache)
    assert (first["ids"], first["texts"]) == (expected, TEXTS)
    assert first["hits"] == 0
    assert first["misses"] > 10
    assert len(files(cache)) == 2 * first["misses"]
    return cache


@pytest.fixture(scope="module")
def expected(oracle_encoding: tiktoken.Encoding) -> list[list[int]]:
    """Give tiktoken's ids of the texts."""
    return [oracle_encoding.encode_ordinary(text) for text in TEXTS]


def test_import_compiles_nothing(root: Path, tmp_path: Path) -> None:
    """After the import no kernel has a signature, the cache is empty, and nothing heavy came along."""
    found = run(root, IMPORT, NUMBA_CACHE_DIR=tmp_path)
    assert (found["compiled"], found["hits"], found["misses"]) == (0, 0, 0)
    assert files(tmp_path) == []
    assert [name for name in HEAVY if name in found["modules"]] == []
    assert "numbatok.encoder" in found["modules"]


def test_warm_start(root: Path, warm: Path, expected: list[list[int]]) -> None:
    """A second process finds every kernel in the cache, compiles none and leaves the folder as it was."""
    before = {path: path.stat().st_mtime_ns for path in warm.rglob("*")}
    found = encode(root, NUMBA_CACHE_DIR=warm)
    assert found["ids"] == expected
    assert found["misses"] == 0
    assert found["hits"] == found["compiled"] > 2
    assert {path: path.stat().st_mtime_ns for path in warm.rglob("*")} == before


def test_kernels_are_loaded_lean(root: Path, warm: Path, expected: list[list[int]]) -> None:
    """Encoding and decoding parse no bitcode; a kernel that calls one of those loaded can be compiled all the same."""
    found = run(root, LINK, json.dumps(TEXTS), COUNT_PARSED, NUMBA_CACHE_DIR=warm)
    assert found["ids"] == expected
    assert found["twice"] == 2 * sum(len(text.encode()) for text in TEXTS)
    assert found["lean"] == (found["parsed"] == 0), "bitcode was parsed for the first call"
    assert found["parsed_then"] > found["parsed"]


def test_extensions_of_numba_are_left_alone(root: Path, warm: Path, tmp_path: Path, expected: list[list[int]]) -> None:
    """What other packages add to Numba is imported for functions of the user, and not for ours."""
    package = tmp_path / "extension"
    (package / "extension-1.dist-info").mkdir(parents=True)
    (package / "extension-1.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: extension\nVersion: 1\n")
    (package / "extension-1.dist-info" / "entry_points.txt").write_text("[numba_extensions]\ninit = extension:init\n")
    (package / "extension.py").write_text("def init():\n    pass\n")
    then = "import numba\nbefore = 'extension' in sys.modules\nnumba.njit(lambda x: x)(1)\n"
    report = "report(ids=ids, before=before, after='extension' in sys.modules)"
    code = ENCODE[: ENCODE.index("report(ids=ids")] + then + report
    found = run(root, code, json.dumps(TEXTS), f"sys.path.insert(0, {str(package)!r})", NUMBA_CACHE_DIR=warm)
    assert (found["ids"], found["before"], found["after"]) == (expected, False, True)


def test_broken_bitcode(root: Path, warm: Path, tmp_path: Path) -> None:
    """Bitcode that cannot be read ends one process, with what to do; the next one has compiled the kernel again."""
    cache = tmp_path / "cache"
    shutil.copytree(warm, cache)
    broken = [path for path in files(cache) if path.name.startswith("decoder.decoded_size") and path.suffix == ".nbc"]
    for path in broken:
        data = path.read_bytes()
        path.write_bytes(data.replace(b"BC\xc0\xde", b"XXXX"))
        assert path.read_bytes() != data
    failed = start(root, LINK, [json.dumps(TEXTS), COUNT_PARSED], settings={"NUMBA_CACHE_DIR": cache}, **PIPES)
    _, errors = failed.communicate(timeout=HANG_SECONDS)
    assert failed.returncode != 0
    assert "decoded_size" in errors
    assert "is broken and has been removed; run the program again" in errors
    assert run(root, LINK, json.dumps(TEXTS), COUNT_PARSED, NUMBA_CACHE_DIR=cache)["misses"] > 0
    assert run(root, LINK, json.dumps(TEXTS), COUNT_PARSED, NUMBA_CACHE_DIR=cache)["misses"] == 0


@pytest.mark.parametrize("home", ["below a file", pytest.param(None, marks=pytest.mark.campaign)])
def test_nothing_is_writable(home: str | None, tmp_path: Path, expected: list[list[int]]) -> None:
    """Without a place that can be written, or a home, kernels live in memory; files in the way stop even root."""
    root, file = copy_package(tmp_path), tmp_path / "file"
    for path in (file, root / "numbatok" / "__pycache__", root / "numbatok" / "split" / "__pycache__"):
        path.write_text("in the way")
    settings = {"HOME": home and file / "home", "XDG_CACHE_HOME": file / "caches"}
    if home:
        settings["NUMBA_CACHE_DIR"] = file / "numba"
    found = decode(root, expected, **settings)
    assert (found["texts"], found["folder"], found["hits"]) == (TEXTS, None, 0)
    assert found["compiled"] > 3
    assert files(tmp_path) == []


def test_folder_vanishes_after_import(root: Path, tmp_path: Path, expected: list[list[int]]) -> None:
    """A cache folder that turns unwritable after the caches were opened costs only the next start."""
    prelude = (
        "import os, shutil; from numbatok._jit import KERNELS; assert all(found._cache.disk for found in KERNELS); "
        "at = os.environ['NUMBA_CACHE_DIR']; shutil.rmtree(at); open(at, 'w').close()"
    )
    assert decode(root, expected, prelude, NUMBA_CACHE_DIR=tmp_path / "cache")["texts"] == TEXTS
    assert (tmp_path / "cache").is_file()


@pytest.mark.parametrize("broken", ["*.nbc", pytest.param("*.nbi", marks=pytest.mark.campaign), "encoder.*"])
def test_broken_cache(broken: str, root: Path, warm: Path, tmp_path: Path, expected: list[list[int]]) -> None:
    """Empty, cut and overwritten files of the cache change no id, beside whole ones too, and are mended by the way."""
    cache = tmp_path / "cache"
    shutil.copytree(warm, cache)
    for number, path in enumerate(sorted(cache.rglob(broken))):
        content = path.read_bytes()
        path.write_bytes((b"", content[: len(content) // 2], b"\x80\x05garbage" * 99, bytes(len(content)))[number % 4])
    found = encode(root, NUMBA_CACHE_DIR=cache)
    assert (found["ids"], found["misses"] > 0, found["hits"] > 0) == (expected, True, broken == "encoder.*")
    again = encode(root, NUMBA_CACHE_DIR=cache)
    assert (again["ids"], again["misses"]) == (expected, 0)


def edit_leaf(root: Path) -> None:
    """Change a constant in one file such that a digit is no number: "1!" becomes one piece, in a kernel elsewhere."""
    leaf = root / "numbatok" / "unicode.py"
    source = leaf.read_text("utf-8")
    assert NUMBER_LINE in source
    leaf.write_text(source.replace(NUMBER_LINE, "NUMBER_FLAG = np.uint64(0)"), "utf-8")


def test_stamp_covers_the_package(tmp_path: Path) -> None:
    """An edit in one file recompiles the kernels of the others too: no old machine code after an upgrade."""
    root, cache = copy_package(tmp_path / "root"), tmp_path / "cache"
    assert run(root, SPLIT, NUMBA_CACHE_DIR=cache)["pieces"] == 2
    unchanged = run(root, SPLIT, NUMBA_CACHE_DIR=cache)
    assert (unchanged["pieces"], unchanged["hits"] > 0, unchanged["misses"]) == (2, True, 0)
    edit_leaf(root)
    edited = run(root, SPLIT, NUMBA_CACHE_DIR=cache)
    assert (edited["pieces"], edited["hits"]) == (1, 0)


def test_upgrade_that_is_cut_short(tmp_path: Path) -> None:
    """A process that dies between the index and the machine code of a new version does not revive the old one."""
    root, settings = copy_package(tmp_path / "root"), {"NUMBA_CACHE_DIR": tmp_path / "cache"}
    assert run(root, SPLIT, **settings)["pieces"] == 2
    edit_leaf(root)
    dying = """
import os
from numba.core.caching import IndexDataCacheFile
save = IndexDataCacheFile._save_data
IndexDataCacheFile._save_data = lambda self, name, data: os._exit(9) if "split_text" in name else save(self, name, data)
"""
    process = start(root, dying + SPLIT, settings=settings, stdout=subprocess.DEVNULL)
    assert process.wait(HANG_SECONDS) == 9
    assert run(root, SPLIT, **settings)["pieces"] == 1


def output_on_terminal(root: Path, cache: Path) -> str:
    """Split on a pseudo-terminal; gives what appears there."""
    pty = pytest.importorskip("pty", reason="no pseudo-terminals on this system")
    ours, theirs = pty.openpty()
    process = start(root, SPLIT, settings={"NUMBA_CACHE_DIR": cache}, stdout=subprocess.DEVNULL, stderr=theirs)
    os.close(theirs)
    shown = b""
    try:
        while part := os.read(ours, 4096):
            shown += part
    except OSError:  # Linux reports the end so
        pass
    finally:
        os.close(ours)
    assert process.wait(HANG_SECONDS) == 0, shown
    return shown.decode()


def test_notice_of_first_compile(root: Path, tmp_path: Path) -> None:
    """A terminal sees one line when compiling begins, and none when everything comes from the cache."""
    assert output_on_terminal(root, tmp_path).count(FIRST_COMPILE) == 1
    assert output_on_terminal(root, tmp_path) == ""


def make_zip(root: Path, archive: Path) -> None:
    """Put the package into a zip file."""
    with zipfile.ZipFile(archive, "w") as packed:
        for path in (path for path in (root / "numbatok").rglob("*") if "__pycache__" not in path.parts):
            packed.write(path, path.relative_to(root))


def test_import_from_zip(root: Path, tmp_path: Path, expected: list[list[int]]) -> None:
    """The package runs from a zip file, as some deployments have it."""
    make_zip(root, tmp_path / "packed.zip")
    assert decode(tmp_path / "packed.zip", expected, XDG_CACHE_HOME=tmp_path, HOME=tmp_path)["texts"] == TEXTS


def test_stamp_covers_a_zip(tmp_path: Path) -> None:
    """A new version in the same zip file runs its own code, not that of the cache."""
    root, archive = copy_package(tmp_path / "root"), tmp_path / "packed.zip"
    settings = {"XDG_CACHE_HOME": tmp_path / "cache", "HOME": tmp_path}
    make_zip(root, archive)
    assert run(archive, SPLIT, **settings)["pieces"] == 2
    edit_leaf(root)
    make_zip(root, archive)
    assert run(archive, SPLIT, **settings)["pieces"] == 1


@pytest.mark.campaign
def test_generic_machine(root: Path, tmp_path: Path, expected: list[list[int]]) -> None:
    """Code for the plainest machine of the architecture gives the same ids."""
    assert encode(root, NUMBA_CACHE_DIR=tmp_path, NUMBA_CPU_NAME="generic", NUMBA_CPU_FEATURES="")["ids"] == expected


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL")
@pytest.mark.parametrize("made", [1, pytest.param(5, marks=pytest.mark.campaign)])
def test_killed_while_compiling(made: int, root: Path, tmp_path: Path, expected: list[list[int]]) -> None:
    """A process that is killed with part of the cache written leaves nothing that harms the next one."""
    settings = {"NUMBA_CACHE_DIR": tmp_path}
    process = start(root, DECODE, [json.dumps(expected)], settings=settings, stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + HANG_SECONDS
    while len(files(tmp_path)) < made and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    assert process.wait(HANG_SECONDS) == -signal.SIGKILL, "the kill came too late to test anything"
    assert len(files(tmp_path)) >= made
    assert decode(root, expected, NUMBA_CACHE_DIR=tmp_path)["texts"] == TEXTS
