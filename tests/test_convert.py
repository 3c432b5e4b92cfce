"""``numbatok convert``: every format to every other one, read by the libraries that the formats belong to.

Invariant: the ids never change. What a format cannot say, what could be read in two ways, and what would have to be
guessed is refused in one line, and nothing is written.

    run("convert", "gpt2", "-o", "gpt2.tiktoken")  ->  the file that OpenAI published
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import hf
import pytest
import tiktoken
import tiktoken.load
from cases import JIT_OFF
from click.testing import CliRunner, Result
from test_encodings import HASHES, reference
from tokenizers import AddedToken, Tokenizer, models, normalizers, pre_tokenizers

import numbatok
from numbatok import Encoding
from numbatok.cli import main
from numbatok.split.named import PATTERNS, name_of
from numbatok.split.patterns import CL100K_ONIGURUMA, CL100K_PATTERN

pytestmark = pytest.mark.skipif(JIT_OFF, reason="large vocabularies, and thousands of merges in plain Python")

EOT = "<|endoftext|>"
ENCODER_JSON = "196139668be63f3b5d6574427317ae82f612a97c5d1cdaf36ed2256dbf636783"
VOCAB_BPE = "1ce1664773c50f3e0cc8842619a93edc4624525b728b188a9e0be33b7726adc5"
NAMES = ("gpt2", "p50k_base", "cl100k_base", pytest.param("o200k_base", marks=pytest.mark.campaign))
TEXTS = [
    *(path.read_bytes().decode() for path in sorted(hf.DATA.glob("*.txt"))),
    *hf.sample_texts(),
    *hf.random_texts(70, 300),
]


def run(*arguments: object) -> Result:
    """Run the command in this process."""
    return CliRunner().invoke(main, ["convert", *map(str, arguments)])


def convert(*arguments: object) -> str:
    """Run the command, which must do it; gives what it says."""
    result = run(*arguments)
    assert (result.exit_code, result.stdout) == (0, ""), result.stderr
    return result.stderr


def refused(*arguments: object) -> str:
    """Run the command, which must refuse it in one line; gives that line."""
    result = run(*arguments)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith("numbatok: ")
    assert result.stderr.count("\n") == 1
    return result.stderr


def ids(enc: Encoding | tiktoken.Encoding) -> list[list[int]]:
    """Give the ids of all texts."""
    return enc.encode_ordinary_batch(TEXTS)


def pre_tokenizer(pattern: str) -> Any:
    """Give the pre-tokenizer for a pattern, as people write it."""
    if name_of(pattern) == "gpt2":
        return pre_tokenizers.ByteLevel(add_prefix_space=False)
    return hf.split_sequence(CL100K_ONIGURUMA if pattern == CL100K_PATTERN else pattern)


@pytest.fixture(scope="module")
def gpt2(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a folder with GPT-2 in each format."""
    folder = tmp_path_factory.mktemp("gpt2")
    (folder / "folder").mkdir()
    convert("gpt2", "-o", folder / "gpt2.bpe")
    convert("gpt2", "-o", folder / "v1.bpe", "--to", "bpe-v1")
    convert("gpt2", "-o", folder / "gpt2.tiktoken")
    convert("gpt2", "-o", folder / "tokenizer.json")
    convert("gpt2", "-o", folder / "folder", "--to", "merges")
    convert("gpt2", "-o", folder / "folder", "--to", "gpt2")
    return folder


# ---- the libraries read what is written ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_around_the_formats(name: str, tmp_path: Path) -> None:
    """One encoding through all formats and back: each library gives tiktoken's ids from its file."""
    peer, pattern = reference(name), numbatok.get_encoding(name)._pat_str
    expected, special = ids(peer), [f"{text}={number}" for text, number in peer._special_tokens.items()]
    given = ["--pattern", name_of(pattern), "--name", name, *(part for one in special for part in ("--special", one))]
    convert(name, "-o", tmp_path / "1.bpe")
    convert(tmp_path / "1.bpe", "-o", tmp_path / "tokenizer.json")
    convert(tmp_path / "tokenizer.json", "-o", tmp_path / "2.bpe", "--name", name)
    convert(tmp_path / "2.bpe", "-o", tmp_path / "3.tiktoken")
    files = tmp_path / "vocab.json", tmp_path / "merges.txt"
    convert(tmp_path / "3.tiktoken", "-o", files[0], "-o", files[1], "--special", special[0])
    convert(*files, "-o", tmp_path / "v1.bpe", "--to", "bpe-v1")
    convert(tmp_path / "v1.bpe", "-o", tmp_path / "4.bpe", *given)

    tokenizer = Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    assert hf.reference_ids(tokenizer, TEXTS, ordinary=True) == expected
    assert hf.reference_ids(tokenizer, [f"a{EOT}"]) == [peer.encode(f"a{EOT}", allowed_special="all")]
    ranks = tiktoken.load.load_tiktoken_bpe(str(tmp_path / "3.tiktoken"))
    made = tiktoken.Encoding("x", pat_str=peer._pat_str, mergeable_ranks=ranks, special_tokens=peer._special_tokens)
    assert ids(made) == expected
    pair = Tokenizer(models.BPE.from_file(*map(str, files)))
    pair.pre_tokenizer = pre_tokenizer(pattern)
    assert hf.reference_ids(pair, TEXTS, ordinary=True) == expected
    for path in ("1.bpe", "2.bpe", "4.bpe"):
        enc = Encoding.load(tmp_path / path)
        assert ids(enc) == expected
        assert (enc.name, enc._special_tokens) == (name, peer._special_tokens)
    assert (tmp_path / "4.bpe").read_bytes() == (tmp_path / "1.bpe").read_bytes()
    if name != "gpt2":
        assert hashlib.sha256((tmp_path / "3.tiktoken").read_bytes()).hexdigest() == HASHES[name]


def test_published_files(gpt2: Path) -> None:
    """GPT-2 comes out as the very files that OpenAI published, and tiktoken reads them."""
    found = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in (gpt2 / "folder").iterdir()}
    assert found == {
        **{"vocab.json": ENCODER_JSON, "encoder.json": ENCODER_JSON},
        **{"merges.txt": VOCAB_BPE, "vocab.bpe": VOCAB_BPE},
    }
    assert hashlib.sha256((gpt2 / "gpt2.tiktoken").read_bytes()).hexdigest() == HASHES["r50k_base"]
    files = [str(gpt2 / "folder" / name) for name in ("vocab.bpe", "encoder.json")]
    ranks = tiktoken.load.data_gym_to_mergeable_bpe_ranks(*files)
    assert ranks == numbatok.get_encoding("gpt2")._mergeable_ranks


@pytest.mark.parametrize(
    "source",
    [
        ["gpt2.bpe"],
        ["gpt2.tiktoken", "--special", f"{EOT}=50256"],
        ["tokenizer.json"],
        ["folder/vocab.json", "folder/merges.txt"],
        ["folder/vocab.bpe", "folder/encoder.json"],
        ["folder", "--from", "gpt2"],
        ["folder", "--from", "merges"],
        ["v1.bpe", "--pattern", "gpt2", "--special", f"{EOT}=50256"],
        ["v1.bpe", "--pattern", PATTERNS["gpt2"], "--special", f"{EOT}=50256", "--from", "bpe"],
    ],
    ids=" ".join,
)
def test_every_way_leads_to_the_same_file(source: list[str], gpt2: Path, tmp_path: Path) -> None:
    """GPT-2 from each format is one BPE1 file, byte for byte; published files need no pattern."""
    here = [str(gpt2 / part) if (gpt2 / part).exists() else part for part in source]
    more = [] if source == ["gpt2.bpe"] else ["--name", "gpt2"]
    convert(*here, "-o", tmp_path / "my.bpe", *more)
    assert (tmp_path / "my.bpe").read_bytes() == (gpt2 / "gpt2.bpe").read_bytes()


def test_folder_of_huggingface(gpt2: Path, tmp_path: Path) -> None:
    """A folder with one reading needs no option; one with several does."""
    (tmp_path / "tokenizer.json").write_bytes((gpt2 / "tokenizer.json").read_bytes())
    convert(tmp_path, "-o", tmp_path / "my.bpe", "--name", "gpt2")
    assert (tmp_path / "my.bpe").read_bytes() == (gpt2 / "gpt2.bpe").read_bytes()
    convert("gpt2", "-o", tmp_path, "--to", "merges")
    assert "holds huggingface and merges: choose with --from" in refused(tmp_path, "-o", tmp_path / "x.bpe")
    convert(tmp_path, "-o", tmp_path / "again.bpe", "--from", "huggingface", "--name", "gpt2")
    (tmp_path / "out").mkdir()
    convert(tmp_path / "my.bpe", "-o", tmp_path / "out", "--to", "huggingface")
    assert (tmp_path / "out" / "tokenizer.json").read_bytes() == (tmp_path / "tokenizer.json").read_bytes()


# ---- own vocabularies ------------------------------------------------------------------------------------------------


def own(tmp_path: Path, **more: Any) -> tuple[Path, Path, Tokenizer]:
    """Write a small vocab.json and merges.txt whose ids are in no order; gives them as a tokenizer, too."""
    tokenizer = hf.build(**more)
    fields = json.loads(tokenizer.to_str())["model"]
    mixed = {text: (number * 7) % 601 for text, number in fields["vocab"].items()}
    vocabulary, merges = tmp_path / "vocab.json", tmp_path / "merges.txt"
    vocabulary.write_text(json.dumps(mixed), "utf-8")
    merges.write_text("\n".join(" ".join(pair) for pair in fields["merges"]), "utf-8")
    made = Tokenizer(models.BPE.from_file(str(vocabulary), str(merges)))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    return vocabulary, merges, made


def test_ids_in_any_order(tmp_path: Path) -> None:
    """The order of merges decides, not that of ids; what only ranks could say is refused."""
    vocabulary, merges, tokenizer = own(tmp_path)
    expected = hf.reference_ids(tokenizer, TEXTS)
    assert "does not say" not in refused(vocabulary, merges, "-o", tmp_path / "own.bpe")
    assert "or --pattern on the command line" in refused(vocabulary, merges, "-o", tmp_path / "own.bpe")
    convert(merges, vocabulary, "-o", tmp_path / "own.bpe", "--pattern", "gpt2", "--special", f"{EOT}=700")
    enc = Encoding.load(tmp_path / "own.bpe")
    assert ids(enc) == expected
    assert enc.encode(f"a{EOT}", allowed_special="all")[-1] == 700
    assert ids(Encoding.from_merges(vocabulary, merges, pat_str=PATTERNS["gpt2"])) == expected
    convert(tmp_path / "own.bpe", "-o", tmp_path / "own.json")
    written = Tokenizer.from_file(str(tmp_path / "own.json"))
    assert hf.reference_ids(written, TEXTS) == expected
    assert hf.reference_ids(written, [EOT]) == [[700]]
    convert(tmp_path / "own.bpe", "-o", tmp_path / "v1.bpe", "--to", "bpe-v1")
    convert(tmp_path / "v1.bpe", "-o", tmp_path / "a.json", "-o", tmp_path / "a.txt")
    again = Tokenizer(models.BPE.from_file(str(tmp_path / "a.json"), str(tmp_path / "a.txt")))
    again.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    assert hf.reference_ids(again, TEXTS) == expected
    line = refused(tmp_path / "own.bpe", "-o", tmp_path / "own.tiktoken")
    assert 'order of the ids that they make, and here they do not; save it with format="bpe"' in line
    assert not (tmp_path / "own.tiktoken").exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda ids, lines: ids.pop("he"), r"merges\.txt, line \d+: the token b'he' is not in .*vocab\.json"),
        (lambda ids, lines: lines.append(lines[5]), r"merges\.txt, line \d+: .* are merged by a line before, too"),
        (lambda ids, lines: lines.append("a"), r"merges\.txt, line \d+: 'a' is not a merge"),
        (lambda ids, lines: ids.update({"a": ids["b"]}), r"vocab\.json: '.' has id \d+, which is the id of '.' too"),
        (lambda ids, lines: ids.update({EOT: -1}), "has -1; expected an id, 0 or greater"),
        (lambda ids, lines: ids.update({EOT: 2**21}), "vocab.json: .*too large|ids are 0 to"),
    ],
)
def test_faulty_pair(change: Any, message: str, tmp_path: Path) -> None:
    """Faults are told by file and line."""
    vocabulary, merges, _ = own(tmp_path)
    found, lines = json.loads(vocabulary.read_text("utf-8")), merges.read_text("utf-8").split("\n")
    change(found, lines)
    vocabulary.write_text(json.dumps(found), "utf-8")
    merges.write_text("\n".join(lines), "utf-8")
    with pytest.raises(ValueError, match=message):
        Encoding.from_merges(vocabulary, merges, pat_str=PATTERNS["gpt2"])


def test_foreign_tokens(tmp_path: Path) -> None:
    """Tokens that are not spelled in the byte alphabet decode, through every format that has texts or bytes."""
    vocabulary, merges, _ = own(tmp_path)
    found = json.loads(vocabulary.read_text("utf-8")) | {"\u4e2d \u6587": 800}
    vocabulary.write_text(json.dumps(found), "utf-8")
    convert(vocabulary, merges, "-o", tmp_path / "1.bpe", "--pattern", "gpt2")
    convert(tmp_path / "1.bpe", "-o", tmp_path / "a.json", "-o", tmp_path / "a.txt")
    convert(tmp_path / "a.json", tmp_path / "a.txt", "-o", tmp_path / "2.bpe", "--pattern", "gpt2", "--name", "x")
    for path in ("1.bpe", "2.bpe"):
        enc = Encoding.load(tmp_path / path)
        assert enc.decode([800]) == "\u4e2d \u6587"
        assert (enc.special_tokens_set, 800 in enc.encode("\u4e2d \u6587")) == (set(), False)


def test_default_special_token(tmp_path: Path) -> None:
    """``<|endoftext|>`` is a special token where vocab.json has it, as in GPT-2's release."""
    vocabulary, merges, _ = own(tmp_path)
    vocabulary.write_text(json.dumps(json.loads(vocabulary.read_text("utf-8")) | {EOT: 900}), "utf-8")
    assert Encoding.from_merges(vocabulary, merges, pat_str=PATTERNS["gpt2"])._special_tokens == {EOT: 900}
    ordinary = Encoding.from_merges(vocabulary, merges, pat_str=PATTERNS["gpt2"], special_tokens={})
    assert ordinary._special_tokens == {}
    assert ordinary.decode([900]) == EOT


def test_slow_split(tmp_path: Path) -> None:
    """A pattern without a kernel needs the option, on the way in and out."""
    path, pattern = tmp_path / "my.tiktoken", r"[a-z]+|[^a-z]+"
    path.write_bytes(b"".join(base64.b64encode(bytes([byte])) + b" %d\n" % byte for byte in range(256)))
    assert "is no name of a pattern (gpt2, cl100k" in refused(path, "-o", tmp_path / "my.bpe", "--pattern", pattern)
    convert(path, "-o", tmp_path / "my.bpe", "--pattern", pattern, "--slow-split")
    assert "there is no split kernel" in refused(tmp_path / "my.bpe", "-o", tmp_path / "my.json")
    convert(tmp_path / "my.bpe", "-o", tmp_path / "my.json", "--slow-split")
    assert Tokenizer.from_file(str(tmp_path / "my.json")).encode("ab1").ids == [97, 98, 49]


# ---- refused ---------------------------------------------------------------------------------------------------------


def test_what_a_format_cannot_hold(tmp_path: Path) -> None:
    """It is told with the format that can."""
    path = tmp_path / "tokenizer.json"
    hf.build(normalizer=normalizers.NFC(), added=[AddedToken("<s>", **hf.SPECIAL)]).save(str(path))
    for target in ("bpe", "bpe-v1", "tiktoken", "merges", "gpt2"):
        line = refused(path, "-o", tmp_path / "out", "--to", target)
        assert "a normalizer" in line
        assert 'save it with format="huggingface"' in line
    assert list(tmp_path.iterdir()) == [path]
    convert(path, "-o", tmp_path / "copy.json")
    assert json.loads((tmp_path / "copy.json").read_bytes())["normalizer"] == {"type": "NFC"}


def test_lists_that_do_not_say_it(tmp_path: Path) -> None:
    """Tokens that merging misses, two names of one id, names that are tokens: refused for a list of merges."""
    comment = (b"#v", b"er", b"#ver", b"si", b"on", b"sion", b"#version", b"#version1")
    for special, more, message in (
        ({}, [b"abc"], "a list of merges does not say that a piece that is a token is that token"),
        ({"<a>": 300, "<b>": 300}, [], "two special tokens have the same id, which a vocabulary of texts cannot hold"),
        ({"\u0120": 300}, [], "special token '\u0120' is spelled like another token"),
        ({}, comment, "would be read as a comment"),
    ):
        ranks = {token: rank for rank, token in enumerate([*(bytes([byte]) for byte in range(256)), *more])}
        enc = Encoding("x", pat_str=PATTERNS["gpt2"], mergeable_ranks=ranks, special_tokens=special)
        with pytest.raises(ValueError, match=message):
            enc.save(tmp_path, "merges")
    assert list(tmp_path.iterdir()) == []


def test_sources_that_are_not_clear(gpt2: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is guessed."""
    out = ("-o", tmp_path / "x.bpe")
    folder, noise = gpt2 / "folder", tmp_path / "noise"
    noise.write_bytes(b"\0\1\2")
    (tmp_path / "empty").mkdir()
    (tmp_path / "broken.json").write_text("{")
    assert "holds merges and gpt2: choose with --from" in refused(folder, *out)
    assert "none of these is in it: tokenizer.json (huggingface)" in refused(tmp_path / "empty", *out)
    assert "a vocabulary without merges; give the file of merges, too" in refused(folder / "vocab.json", *out)
    assert "merges without a vocabulary; give that, too" in refused(folder / "vocab.bpe", *out)
    assert "the first line is not that of a rank file" in refused(noise, *out)
    assert "broken.json: not a JSON file" in refused(tmp_path / "broken.json", *out)
    assert "no such file, and no such encoding (gpt2, " in refused("gpt3", *out)
    assert "takes two files" in refused(folder / "vocab.json", "--from", "merges", *out)
    pair = folder / "vocab.json", folder / "merges.txt"
    assert "--from tiktoken takes one" in refused(*pair, "--from", "tiktoken", *out)
    assert "magic" in refused(gpt2 / "gpt2.tiktoken", "--from", "bpe", *out)
    assert "or --pattern on the command line" in refused(gpt2 / "v1.bpe", *out)
    assert "says its own pattern" in refused("gpt2", "--pattern", "gpt2", *out)
    assert "says its own pattern" in refused(gpt2 / "tokenizer.json", "--special", "<s>=1", *out)
    assert "says its own name; leave out --name" in refused("gpt2", "--name", "x", *out)
    monkeypatch.chdir(tmp_path)
    Path("gpt2").write_bytes(noise.read_bytes())
    assert "is a file and the name of an encoding: write ./gpt2, or --from name" in refused("gpt2", *out)
    assert not (tmp_path / "x.bpe").exists()
    convert("gpt2", "--from", "name", *out)


@pytest.mark.skipif(os.name == "nt", reason="pipes with names are of POSIX")
def test_sources_that_are_pipes(gpt2: Path, tmp_path: Path) -> None:
    """A source is opened several times, which a pipe does not bear: refused, alone, in a pair, and in a folder."""
    out, pipe, merges = ("-o", tmp_path / "x.bpe"), tmp_path / "pipe", gpt2 / "folder" / "merges.txt"
    os.mkfifo(pipe)
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "folder" / "tokenizer.json")
    why = "a pipe cannot be read twice; write it to a file first"
    for form in ((), ("--from", "tiktoken"), ("--from", "bpe")):
        assert why in refused(pipe, "--pattern", "gpt2", *form, *out)
        assert why in refused("-", *form, *out)
    assert why in refused(pipe, merges, *out)
    assert why in refused(gpt2 / "folder" / "vocab.json", "-", *out)
    assert why in refused(tmp_path / "folder", *out)
    command = f"cat {gpt2 / 'gpt2.tiktoken'} | {sys.executable} -m numbatok convert /dev/stdin -o {tmp_path / 'x.bpe'}"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
    assert (done.returncode, why in done.stderr) == (1, True)
    assert not (tmp_path / "x.bpe").exists()


def test_outputs_that_are_one_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two names for one file are refused before anything is written, however they are spelled."""
    monkeypatch.chdir(tmp_path)
    Path("old").write_bytes(b"old")
    spelled = ["old", "./old", str(tmp_path / "old")]
    if os.name != "nt":
        Path("link").symlink_to("old")
        spelled.append("link")
    for name in spelled:
        assert "are one file" in refused("gpt2", "-o", "old", "-o", name)
        with pytest.raises(ValueError, match="are one file"):
            numbatok.get_encoding("gpt2").save(("old", name), "gpt2")
    assert "are one file" in refused("gpt2", "-o", "new.json", "-o", "new.json")
    assert not Path("new.json").exists()
    assert Path("old").read_bytes() == b"old"


@pytest.mark.parametrize("name", ["x", "x.txt", "vocab.bpe", "encoder.json", "vocab.json"])
def test_targets_that_are_not_clear(name: str, tmp_path: Path) -> None:
    """Names of halves, and those without a known ending."""
    assert "the name does not tell what to write; choose with --to" in refused("gpt2", "-o", tmp_path / name)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["gpt2"], "Missing option '-o'"),
        (["-o", "x.bpe"], "Missing argument"),
        (["a", "b", "c", "-o", "x.bpe"], "give one SOURCE or a vocabulary and its merges"),
        (["gpt2", "-o", "x.bpe", "--to", "json"], "'json' is not one of"),
        (["gpt2", "-o", "x.bpe", "--special", "<s>"], "'<s>' is not NAME=ID"),
        (["gpt2", "-o", "x.bpe", "--special", "<s>=1" + "0" * 5000], "0' is not NAME=ID"),
        (["gpt2", "-o", "x.bpe", "--special", "<s>=-1"], "'<s>=-1' is not NAME=ID"),
        (["gpt2", "-o", "x.bpe", "--special", "<s>=1", "--special", "<s>=2"], "'<s>' has two ids, 1 and 2"),
    ],
)
def test_wrong_usage(arguments: list[str], message: str) -> None:
    """Exit status 2."""
    result = run(*arguments)
    assert result.exit_code == 2
    assert message in result.stderr


def test_two_names_for_one_file(tmp_path: Path) -> None:
    """A format of one file takes one -o."""
    line = refused("gpt2", "-o", tmp_path / "a", "-o", tmp_path / "b", "--to", "tiktoken")
    assert 'format "tiktoken" is 1 file(s), and 2 name(s) were given' in line


def test_special_token_with_an_equals_sign(gpt2: Path, tmp_path: Path) -> None:
    """The last one parts name and id."""
    convert(gpt2 / "v1.bpe", "-o", tmp_path / "x.bpe", "--pattern", "gpt2", "--special", "<a=b>=60000")
    assert Encoding.load(tmp_path / "x.bpe")._special_tokens == {"<a=b>": 60000}


def test_program(tmp_path: Path) -> None:
    """The program itself, in a process of its own; it may replace its source."""
    path = tmp_path / "gpt2.bpe"
    for source in ("gpt2", str(path)):
        command = [sys.executable, "-m", "numbatok", "convert", source, "-o", str(path)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        assert (done.stdout, done.stderr) == ("", f"numbatok: {path}: gpt2, 50257 ids, as bpe\n")
    assert os.listdir(tmp_path) == ["gpt2.bpe"]
    assert Encoding.load(path).encode("hello world") == [31373, 995]
