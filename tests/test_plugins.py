"""tiktoken's plug-ins and modules: encodings of ``tiktoken_ext`` by name, and numbatok under the name of tiktoken.

Invariant: a plug-in that tiktoken reads gives the same encoding here; an embedded name imports no plug-in; a name that
two define is an error, and then nothing is registered.

    tiktoken_ext/mine.py: ENCODING_CONSTRUCTORS = {"mine": make}  ->  numbatok.get_encoding("mine")
"""

from __future__ import annotations

import importlib
import json
import os
import pickle
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cloudpickle
import pytest
import tiktoken
from cases import JIT_OFF
from tiktoken_ext import openai_public

import numbatok
from numbatok import registry
from numbatok.alphabet import CHARACTERS
from numbatok.split.patterns import GPT2_PATTERNS

GOOD = f"""
from pathlib import Path

with open(Path(__file__).with_suffix(".log"), "a") as log:
    log.write("imported\\n")


def make():
    with open(Path(__file__).with_suffix(".log"), "a") as log:
        log.write("made\\n")
    ranks = {{bytes([byte]): byte for byte in range(256)}} | {{b"ab": 256, b"abc": 300}}
    return {{"name": "mine", "pat_str": r\"\"\"{GPT2_PATTERNS[0]}\"\"\", "mergeable_ranks": ranks,
            "special_tokens": {{"<s>": 301}}}}


ENCODING_CONSTRUCTORS = {{"mine": make}}
"""
TEXT = "abc ab<s> it's"


@pytest.fixture
def plugins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Give a folder for plug-ins, seen by a registry that has read none; everything is put back behind the test."""
    folder = tmp_path / "tiktoken_ext"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(registry, "_plugins", None)
    monkeypatch.setattr(registry, "ENCODINGS", dict(registry.ENCODINGS))
    monkeypatch.setattr(registry, "ENCODING_CONSTRUCTORS", dict(registry.ENCODING_CONSTRUCTORS))
    before = set(sys.modules)
    yield folder
    for name in set(sys.modules) - before:
        if name.startswith("tiktoken_ext."):
            del sys.modules[name]


def log_of(plugin: Path) -> list[str]:
    """Give what the good plug-in has done so far."""
    log = plugin.with_suffix(".log")
    return log.read_text().split() if log.exists() else []


def run(code: str, folder: Path | None = None, *arguments: str) -> Any:
    """Run code in a new process that finds plug-ins below ``folder``; gives the JSON that it prints."""
    paths = [str(folder)] if folder else []
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([*paths, str(Path(numbatok.__file__).parent.parent)])}
    warnings = [] if JIT_OFF else ["-W", "error"]  # uint64 that wraps around warns in plain Python
    command = [sys.executable, *warnings, "-c", textwrap.dedent(code), *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


# ---- plug-ins --------------------------------------------------------------------------------------------------------


def test_plugin_gives_what_it_gives_in_tiktoken(plugins: Path) -> None:
    """Same ids, same name, same object each time; the plug-in is imported once and its constructor called once."""
    (plugins / "mine.py").write_text(GOOD)
    enc = numbatok.get_encoding("mine")
    peer = tiktoken.Encoding(**importlib.import_module("tiktoken_ext.mine").make())
    assert enc.encode(TEXT, allowed_special="all") == peer.encode(TEXT, allowed_special="all")
    assert (enc.name, enc.n_vocab) == (peer.name, peer.n_vocab)
    assert numbatok.get_encoding("mine") is enc is registry.ENCODINGS["mine"]
    assert log_of(plugins / "mine.py") == ["imported", "made", "made"]  # the second time by this test
    assert numbatok.list_encoding_names() == [*registry.EMBEDDED, "mine"]


def test_embedded_names_import_no_plugin(plugins: Path) -> None:
    """Neither loading an embedded encoding nor pickling one looks at plug-ins, however broken they are."""
    (plugins / "broken.py").write_text("raise SystemError('imported')")
    for name in registry.EMBEDDED if not JIT_OFF else ("gpt2",):
        registry.ENCODINGS.pop(name, None)
        assert pickle.loads(pickle.dumps(numbatok.get_encoding(name))) is numbatok.get_encoding(name)
    assert numbatok.encoding_for_model("gpt2") is numbatok.get_encoding("gpt2")
    with pytest.raises(SystemError, match="imported") as caught:
        numbatok.get_encoding("mine")
    assert any("tiktoken_ext.broken" in note for note in caught.value.__notes__)


@pytest.mark.parametrize("name", ["gpt2", "o200k_base"])
def test_plugin_with_a_name_of_ours(plugins: Path, name: str) -> None:
    """An embedded name is not taken over, and nothing of a faulty set of plug-ins is registered, time and again."""
    (plugins / "a_good.py").write_text(GOOD)
    (plugins / "taken.py").write_text(f"ENCODING_CONSTRUCTORS = {{{name!r}: None}}")
    before = dict(registry.ENCODING_CONSTRUCTORS)
    for call in (numbatok.list_encoding_names, lambda: numbatok.get_encoding("mine")) * 2:
        with pytest.raises(ValueError, match=f"Duplicate encoding name {name} in .*tiktoken_ext.taken: numbatok has"):
            call()
    assert before == registry.ENCODING_CONSTRUCTORS
    assert "mine" not in registry.ENCODINGS
    (plugins / "taken.py").unlink()
    assert numbatok.get_encoding("mine").n_vocab == 302


def test_plugins_with_one_name(plugins: Path) -> None:
    """A name that two plug-ins define is refused; both are named."""
    for name in ("first", "second"):
        (plugins / f"{name}.py").write_text(GOOD)
    with pytest.raises(ValueError, match=r"name mine in tiktoken plugin tiktoken_ext.second: tiktoken_ext.first has"):
        numbatok.get_encoding("mine")


def test_plugin_without_constructors(plugins: Path) -> None:
    """The words are tiktoken's."""
    (plugins / "empty.py").write_text("")
    with pytest.raises(ValueError, match=r"^tiktoken plugin tiktoken_ext.empty does not define ENCODING_CONSTRUCTORS$"):
        numbatok.get_encoding("mine")


@pytest.mark.parametrize(
    ("old", "new", "error", "message"),
    [
        (GPT2_PATTERNS[0], r"\w+", ValueError, "no split kernel"),
        ('b"abc": 300', 'b"abc": 256', ValueError, "given twice"),
        ('"name"', '"title"', TypeError, "title"),
    ],
)
def test_plugin_that_cannot_be_made(plugins: Path, old: str, new: str, error: type[Exception], message: str) -> None:
    """The error names the encoding and the plug-in, and the next call tries again."""
    (plugins / "mine.py").write_text(GOOD.replace(old, new))
    for _ in range(2):
        with pytest.raises(error, match=f"encoding 'mine' of tiktoken_ext.mine cannot be made: .*{message}"):
            numbatok.get_encoding("mine")
    assert "mine" in numbatok.list_encoding_names()


def test_unknown_name(plugins: Path) -> None:
    """The error begins like tiktoken's and lists plug-ins and names; tiktoken's own plug-in is not one for us."""
    (plugins / "mine.py").write_text(GOOD)
    with pytest.raises(ValueError, match="Unknown encoding") as caught:
        numbatok.get_encoding("nope")
    assert str(caught.value) == (
        "Unknown encoding nope. Plugins found: ['tiktoken_ext.mine']. "
        f"Available: {', '.join([*registry.EMBEDDED, 'mine'])}"
    )
    peer = run(
        """
        import json
        import tiktoken
        try:
            tiktoken.get_encoding("nope")
        except ValueError as error:
            print(json.dumps(str(error).split("\\n")))
        """,
        plugins.parent,
    )
    assert peer[:2] == ["Unknown encoding nope.", "Plugins found: ['tiktoken_ext.mine', 'tiktoken_ext.openai_public']"]
    for wrong in (None, b"gpt2", ["gpt2"]):
        with pytest.raises(ValueError, match="Expected a string in get_encoding"):
            numbatok.get_encoding(wrong)  # type: ignore[arg-type]


def test_pickles(plugins: Path) -> None:
    """By name what a plug-in gave, by content what the program made or put into the table itself."""
    (plugins / "mine.py").write_text(GOOD)
    enc = numbatok.get_encoding("mine")
    assert len(pickle.dumps(enc)) < 200
    assert pickle.loads(pickle.dumps(enc)) is enc
    arguments = registry.ENCODING_CONSTRUCTORS["mine"]()
    twin = numbatok.Encoding(**arguments)
    registry.ENCODINGS["own"] = own = numbatok.Encoding(**{**arguments, "name": "own"})
    assert numbatok.get_encoding("own") is own
    for made in (twin, own):
        assert len(pickle.dumps(made)) > 1000
        assert pickle.loads(pickle.dumps(made)).encode("abc") == [300]
    function = cloudpickle.dumps(lambda text: enc.encode(text))
    found = run(
        "import pickle, sys, json; print(json.dumps(pickle.loads(bytes.fromhex(sys.argv[1]))('abc')))",
        plugins.parent,
        function.hex(),
    )
    assert found == [300]


def test_pickles_of_other_kinds() -> None:
    """What ranks do not say is kept too: merges and added tokens of a tokenizer.json, and a split without a kernel."""
    tokenizers = pytest.importorskip("tokenizers", reason="one of the peers")
    ids = {character: byte for byte, character in enumerate(CHARACTERS)} | {"ab": 256, "abc": 257}
    peer = tokenizers.Tokenizer(tokenizers.models.BPE(vocab=ids, merges=[("a", "b")], ignore_merges=False))
    peer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=True)
    peer.add_special_tokens(["<s>"])
    ranks = {bytes([byte]): byte for byte in range(256)} | {b"ab": 256}
    slow = {"pat_str": r"\w+|\W", "mergeable_ranks": ranks, "special_tokens": {}, "slow_split": True}
    for enc, text, expected in (
        (numbatok.Encoding.from_huggingface(peer, name="gpt2"), "abc<s>", [32, 256, 99, 258]),
        (numbatok.Encoding("gpt2", **slow), "ab#", [256, 35]),
    ):
        again = pickle.loads(pickle.dumps(enc))
        assert again.name == "gpt2"
        assert again.encode(text, allowed_special="all") == enc.encode(text, allowed_special="all") == expected


def test_constructors_of_ours() -> None:
    """The table has a constructor for each embedded encoding, which makes an encoding with the same ids."""
    assert set(registry.ENCODING_CONSTRUCTORS) == set(registry.EMBEDDED) == set(openai_public.ENCODING_CONSTRUCTORS)
    arguments = registry.ENCODING_CONSTRUCTORS["gpt2"]()
    assert set(arguments) == {"name", "pat_str", "mergeable_ranks", "special_tokens"}
    arguments["special_tokens"]["<s>"] = 50257
    assert numbatok.get_encoding("gpt2").n_vocab == 50257, "the tables of the embedded encoding were changed"
    assert tiktoken.Encoding(**arguments).encode(TEXT, allowed_special="all") == numbatok.Encoding(**arguments).encode(
        TEXT, allowed_special="all"
    )


def test_constructor_of_the_program(plugins: Path) -> None:
    """A constructor that the program puts into the table is called when its name is asked for."""
    (plugins / "mine.py").write_text(GOOD)
    base = registry.ENCODING_CONSTRUCTORS["gpt2"]
    registry.ENCODING_CONSTRUCTORS["chat"] = lambda: {**base(), "name": "chat", "special_tokens": {"<chat>": 50257}}
    assert numbatok.get_encoding("chat").encode("<chat>", allowed_special="all") == [50257]
    assert log_of(plugins / "mine.py") == []
    assert numbatok.list_encoding_names()[-2:] == ["chat", "mine"]


@pytest.mark.skipif(JIT_OFF, reason="uint64 that wraps around warns in plain Python, in each thread anew")
def test_threads_get_one_object(plugins: Path) -> None:
    """However many threads ask at once, the constructor is called once."""
    (plugins / "mine.py").write_text(GOOD.replace("def make():\n", "def make():\n    import time; time.sleep(0.05)\n"))
    found: list[numbatok.Encoding] = []
    threads = [threading.Thread(target=lambda: found.append(numbatok.get_encoding("mine"))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(found) == 8
    assert len(set(map(id, found))) == 1
    assert log_of(plugins / "mine.py") == ["imported", "made"]


# ---- in place of tiktoken --------------------------------------------------------------------------------------------


def test_modules_are_attributes() -> None:
    """After one import, all modules of tiktoken are there; those that the import leaves out come when named."""
    found = run(
        """
        import json, sys
        import numbatok as tiktoken
        late = [name for name in ("numbatok.load", "numbatok.core") if name in sys.modules]
        names = [tiktoken.model.MODEL_TO_ENCODING["gpt-4"], tiktoken.registry.list_encoding_names()[0]]
        same = tiktoken.core.Encoding is tiktoken.Encoding and tiktoken.load is sys.modules["numbatok.load"]
        try:
            tiktoken.nonsense
        except AttributeError as error:
            print(json.dumps([late, names, same, callable(tiktoken.load.load_tiktoken_bpe), str(error)]))
        """
    )
    assert found == [[], ["cl100k_base", "gpt2"], True, True, "module 'numbatok' has no attribute 'nonsense'"]


def test_names_of_the_modules() -> None:
    """Every public name of tiktoken's modules is here, and takes the same arguments by the same names."""
    for name in ("core", "load", "model", "registry"):
        ours, theirs = getattr(numbatok, name), importlib.import_module(f"tiktoken.{name}")
        for public, value in vars(theirs).items():
            if getattr(value, "__module__", None) == theirs.__name__ and not public.startswith("_"):
                assert callable(getattr(ours, public)), f"{name}.{public}"
                assert arguments_of(value) <= arguments_of(getattr(ours, public)), f"{name}.{public}"


def arguments_of(function: Any) -> set[str]:
    """Give the names of the arguments of a function or class."""
    code = getattr(function, "__code__", None) or function.__init__.__code__
    return set(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount])


def test_plugin_that_imports_tiktoken_itself(tmp_path: Path) -> None:
    """With the modules entered under tiktoken's names, as docs/tiktoken.md says, a plug-in finds tiktoken.load here."""
    (tmp_path / "tiktoken_ext").mkdir()
    (tmp_path / "own.tiktoken").write_bytes(b"YQ== 0\nYg== 1\nYWI= 2\n")
    (tmp_path / "tiktoken_ext" / "own.py").write_text(
        "import tiktoken\nfrom tiktoken.load import load_tiktoken_bpe\n\n\ndef make():\n"
        "    arguments = {'name': 'own', 'pat_str': tiktoken.get_encoding('gpt2')._pat_str, 'special_tokens': {}}\n"
        f"    return arguments | {{'mergeable_ranks': load_tiktoken_bpe({str(tmp_path / 'own.tiktoken')!r})}}\n\n\n"
        "ENCODING_CONSTRUCTORS = {'own': make}\n"
    )
    found = run(
        """
        import json, sys
        import numbatok

        sys.modules["tiktoken"] = numbatok
        for name in ("core", "load", "model", "registry"):
            sys.modules[f"tiktoken.{name}"] = getattr(numbatok, name)

        import pickle
        import tiktoken.registry
        from tiktoken.core import Encoding
        enc = tiktoken.get_encoding("own")
        same = isinstance(enc, Encoding) and tiktoken.registry.ENCODINGS["own"] is enc
        print(json.dumps([enc.encode("abba"), same, pickle.loads(pickle.dumps(enc)) is enc]))
        """,
        tmp_path,
    )
    assert found == [[2, 1, 0], True, True]


def test_without_tiktoken(tmp_path: Path) -> None:
    """Without tiktoken there is no ``tiktoken_ext``: all embedded encodings are there, other names are refused."""
    found = run(
        """
        import json, sys
        sys.modules["tiktoken_ext"] = None  # the import fails
        import numbatok
        try:
            numbatok.get_encoding("nope")
        except ValueError as error:
            print(json.dumps([numbatok.list_encoding_names(), str(error)[:42]]))
        """
    )
    assert found == [list(registry.EMBEDDED), "Unknown encoding nope. Plugins found: []. "]
