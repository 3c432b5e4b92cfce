"""Run tiktoken's own tests with numbatok in its place: the tests of the source package, an import hook, pytest.

    python tools/run_tiktoken_tests.py

Invariant: the tests are those that tiktoken publishes, unchanged; nothing of them is kept. They need the extra ``test``
and the package index, so they are a command and not a part of the suite.
"""

from __future__ import annotations

import subprocess
import sys
import tarfile
import tempfile
from importlib.metadata import version
from pathlib import Path

HOOK = """
import sys

import numbatok

sys.modules["tiktoken"] = numbatok
for name in ("core", "load", "model", "registry"):
    sys.modules[f"tiktoken.{name}"] = getattr(numbatok, name)
"""


def fetch(folder: Path) -> Path:
    """Fetch the source package of the installed version of tiktoken; the path of its folder."""
    wanted = f"tiktoken=={version('tiktoken')}"
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", "tiktoken", wanted]
    subprocess.run([*command, "--dest", str(folder)], check=True)
    with tarfile.open(next(folder.glob("tiktoken-*.tar.gz"))) as archive:
        archive.extractall(folder, filter="data")
    return next(path for path in folder.glob("tiktoken-*") if path.is_dir())


def main() -> int:
    """Fetch the tests, put the hook before them, and give pytest's exit code."""
    with tempfile.TemporaryDirectory() as name:
        tests = fetch(Path(name)) / "tests"
        (tests / "conftest.py").write_text(HOOK)
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--import-mode=importlib", "."]
        return subprocess.run(command, cwd=tests, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
