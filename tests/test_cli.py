"""The command line as a program: ids, bytes, rows, errors, pipes, signals, the bar.

Invariant: the ids are those of `encode_ordinary` however the text is cut; stdout holds data alone; what goes wrong is
one line on stderr and an exit status, never a traceback.

    run("encode", "tests/data/shakespeare.txt").stdout  ->  "5962 22307 25 ...\\n"
"""

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from cases import JIT_OFF
from click.testing import CliRunner, Result

import numbatok
from numbatok import cli, files, measure
from numbatok.cli import main

pytestmark = pytest.mark.skipif(JIT_OFF, reason="the command line starts processes and reads long files")

DATA = Path(__file__).parent / "data"
SHAKESPEARE = DATA / "shakespeare.txt"
PROGRAM = [sys.executable, "-m", "numbatok"]
POSIX = pytest.mark.skipif(os.name == "nt", reason="signals, pseudo-terminals and devices of POSIX")
EOT = "<|endoftext|>"

# Sizes so small that every loop over parts, blocks and slices goes round many times.
SMALL_PARTS = "import sys, numbatok.cli as cli; cli.PART_BYTES, cli.BAR_DELAY = 500, 0; cli.main(prog_name='numbatok')"


def run(*arguments: object, stdin: bytes | str | None = None) -> Result:
    """Run the program in this process."""
    return CliRunner().invoke(main, [str(argument) for argument in arguments], input=stdin)


def refused(result: Result, status: int = 1) -> str:
    """Give the one line on stderr of a run that was refused, and check that it is one and that no data came out."""
    assert (result.exit_code, result.stdout_bytes) == (status, b"")
    assert result.stderr.startswith("numbatok: ")
    assert result.stderr.count("\n") == 1
    return result.stderr


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make every loop over parts go round many times."""
    monkeypatch.setattr(cli, "PART_BYTES", 1000)
    monkeypatch.setattr(files, "PART_IDS", 100)
    monkeypatch.setattr(files, "BLOCK_BYTES", 100)
    monkeypatch.setattr(files, "IDS_AS_TEXT", 10)


# ---- encode ----------------------------------------------------------------------------------------------------------


def test_encode_writes_ids_as_text(enc: numbatok.Encoding) -> None:
    """The ids of a file stand on one line with a space between them."""
    ids = enc.encode_ordinary(SHAKESPEARE.read_text())
    result = run("encode", SHAKESPEARE)
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == " ".join(map(str, ids)) + "\n"


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize("file", ["shakespeare.txt", "languages.txt", "mobydick-32k.txt"])
@pytest.mark.parametrize("threads", [1, 2])
def test_encode_in_parts_gives_the_ids_of_the_whole(enc: numbatok.Encoding, file: str, threads: int) -> None:
    """Cutting a file into many parts changes nothing."""
    ids = enc.encode_ordinary((DATA / file).read_bytes())
    assert len(list(cli.parts(np.fromfile(DATA / file, np.uint8)))) > 3
    assert run("encode", DATA / file, "--threads", threads).stdout.split() == list(map(str, ids))


@pytest.mark.parametrize("size", [1, 2, 7, 64, 1000])
def test_parts_cover_the_text_and_give_its_ids(
    enc: numbatok.Encoding, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    """Parts of any size, one after the other, are the text and have its ids."""
    monkeypatch.setattr(cli, "PART_BYTES", size)
    text = np.fromfile(DATA / "languages.txt", np.uint8)
    parts = list(cli.parts(text))
    assert b"".join(part.tobytes() for part in parts) == text.tobytes()
    assert [token for part in parts for token in enc.encode_ordinary(part)] == enc.encode_ordinary(text)


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize("strange", [b"\xff", b"\xe4\xb8", b"two words \xc3 and more words", b"  \n\xf0\x9f\x91 x"])
def test_bytes_that_are_not_utf8_keep_the_rest_whole(enc: numbatok.Encoding, tmp_path: Path, strange: bytes) -> None:
    """From invalid bytes on the text is one piece, in a run of parts as in one call; decoding gives the bytes back."""
    text = b"some words, " * 300 + strange + b" some more words" * 300
    (tmp_path / "text").write_bytes(text)
    result = run("encode", tmp_path / "text")
    assert result.stdout.split() == list(map(str, enc.encode_ordinary(text)))
    assert run("decode", "-", stdin=result.stdout).stdout_bytes == text
    assert run("count", tmp_path / "text").stdout.split()[0] == str(len(result.stdout.split()))


@pytest.mark.parametrize("text", ["", "one", "two words\n", "caf\u00e9 \u4e2d\u6587"])
def test_encode_stdin(enc: numbatok.Encoding, text: str) -> None:
    """A file of - is stdin; no text gives an empty line."""
    result = run("encode", "-", stdin=text.encode())
    assert result.stdout == " ".join(map(str, enc.encode_ordinary(text))) + "\n"


def test_encode_empty_file(tmp_path: Path) -> None:
    """An empty file, which cannot be mapped, has no ids in any form."""
    (tmp_path / "empty").write_bytes(b"")
    assert run("encode", tmp_path / "empty").stdout == "\n"
    for name in ("ids.npy", "ids.bin"):
        assert run("encode", tmp_path / "empty", "-o", tmp_path / name).exit_code == 0
        assert run("decode", tmp_path / name).stdout_bytes == b""
    assert np.load(tmp_path / "ids.npy").shape == (0,)


@pytest.mark.usefixtures("small_parts")
def test_encode_to_npy(enc: numbatok.Encoding, tmp_path: Path) -> None:
    """A .npy file is an array of uint32 that NumPy loads, and nothing goes to stdout or stderr."""
    result = run("encode", SHAKESPEARE, "-o", tmp_path / "ids.NPY")
    assert (result.exit_code, result.output) == (0, "")
    ids = np.load(tmp_path / "ids.NPY")
    assert ids.dtype == np.uint32
    assert ids.tolist() == enc.encode_ordinary(SHAKESPEARE.read_bytes())
    assert [path.name for path in tmp_path.iterdir()] == ["ids.NPY"]


@pytest.mark.usefixtures("small_parts")
def test_encode_to_bin(enc: numbatok.Encoding, tmp_path: Path) -> None:
    """A .bin file holds bare little-endian uint16, as GPT-2's ids fit, and stderr says so."""
    result = run("encode", SHAKESPEARE, "-o", tmp_path / "ids.bin")
    ids = enc.encode_ordinary(SHAKESPEARE.read_bytes())
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == f"numbatok: {tmp_path / 'ids.bin'}: {len(ids)} ids as little-endian uint16\n"
    assert np.fromfile(tmp_path / "ids.bin", "<u2").tolist() == ids


def test_bin_is_wide_where_ids_are_large(tmp_path: Path) -> None:
    """An encoding whose largest id is above 16 bits has .bin files of uint32."""

    class Large:
        max_token_value = 1 << 16

    with files.new_file(str(tmp_path / "ids.bin")) as out:
        assert files.write_bin(out, [np.array([1, 65536], np.uint32)], Large()) == 2  # type: ignore[arg-type]
    assert (tmp_path / "ids.bin").read_bytes() == b"\1\0\0\0\0\0\1\0"


@pytest.mark.parametrize("name", ["ids.txt", "ids", ".npy"])
def test_another_ending_is_refused(tmp_path: Path, name: str) -> None:
    """An ending that does not say what to write is wrong usage; the message has those that do."""
    result = run("encode", SHAKESPEARE, "-o", tmp_path / name)
    assert result.exit_code == 2
    assert ".npy or .bin" in result.stderr
    assert list(tmp_path.iterdir()) == []
    assert list(files.WRITERS) == list(cli.ENDINGS)


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize("text", [EOT, f"a{EOT}b", f"{EOT}{EOT} x", f"{'many words ' * 400}{EOT}\n\n{EOT[:-1]}"])
def test_special_tokens(enc: numbatok.Encoding, text: str) -> None:
    """Special tokens are ordinary text, and with --special they are their id."""
    plain, special = run("encode", "-", stdin=text), run("encode", "-", "--special", stdin=text)
    assert plain.stdout.split() == list(map(str, enc.encode_ordinary(text)))
    assert special.stdout.split() == list(map(str, enc.encode(text, allowed_special="all")))


def test_special_tokens_among_bytes_that_are_not_utf8() -> None:
    """Bytes around a special token come back as they were."""
    text = b"a\xff<|endoftext|>\xfe b"
    ids = run("encode", "-", "--special", stdin=text).stdout
    assert "50256" in ids.split()
    assert run("decode", "-", stdin=ids).stdout_bytes == text


# ---- decode ----------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize("name", ["ids.npy", "ids.bin"])
@pytest.mark.parametrize("file", ["shakespeare.txt", "languages.txt"])
def test_files_come_back(tmp_path: Path, name: str, file: str) -> None:
    """What encode writes, decode reads, byte for byte, to stdout and to a file."""
    assert run("encode", DATA / file, "-o", tmp_path / name).exit_code == 0
    result = run("decode", tmp_path / name)
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout_bytes == (DATA / file).read_bytes()
    assert run("decode", tmp_path / name, "-o", tmp_path / "text").output == ""
    assert (tmp_path / "text").read_bytes() == (DATA / file).read_bytes()


@pytest.mark.usefixtures("small_parts")
def test_text_comes_back(tmp_path: Path) -> None:
    """Ids as text come back too, from a file and from stdin, wherever a block of reading ends."""
    (tmp_path / "ids.txt").write_bytes(run("encode", SHAKESPEARE).stdout_bytes)
    assert run("decode", tmp_path / "ids.txt").stdout_bytes == SHAKESPEARE.read_bytes()
    assert run("decode", "-", stdin=(tmp_path / "ids.txt").read_bytes()).stdout_bytes == SHAKESPEARE.read_bytes()


@pytest.mark.parametrize("ids", ["31373 995", "31373,995\n", " 31373 ,\t995,\r\n", "\n31373\n\n995", "031373 995"])
def test_decode_takes_whitespace_and_commas(ids: str) -> None:
    """Whitespace and commas may stand between ids and around them."""
    assert run("decode", "-", stdin=ids).stdout_bytes == b"hello world"


@pytest.mark.parametrize("ids", ["", " \n", ",", ", \n,"])
def test_decode_of_no_ids(ids: str) -> None:
    """No ids give no bytes."""
    assert run("decode", "-", stdin=ids).stdout_bytes == b""


def test_decode_gives_bytes_that_are_not_text() -> None:
    """Half a character stays half a character."""
    assert run("decode", "-", stdin="41840").stdout_bytes == "\U0001f44d".encode()[:3]


@pytest.mark.parametrize(
    ("ids", "word"),
    [
        ("1 x2 3", "x2"),
        ("1 -2", "-2"),
        ("1.5", "1.5"),
        ("[1, 2]", "[1"),
        ("1_0", "1_0"),
        ("+1", "+1"),
        ("1 \xff", "\xff"),
    ],
)
def test_what_is_not_an_id_is_refused(ids: str, word: str) -> None:
    """Anything but digits is shown and refused, never read as some other number."""
    result = run("decode", "-", stdin=ids)
    assert result.exit_code == 1
    assert f"stdin: {word!r} is not an id; give whole numbers" in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize("number", ["4294967296", "18446744073709551616", "99999999999999999999999"])
def test_too_large_a_number_is_refused(number: str) -> None:
    """A number above 32 bits is refused as it stands there, also where unknown ids are skipped."""
    assert f" {number} is no id" in refused(run("decode", "-", stdin=f"1 {number} 2"))
    assert f" {number} is no id" in refused(run("decode", "-", "--skip-unknown", stdin=f"1 {number} 2"))


def test_unknown_id(tmp_path: Path) -> None:
    """An unknown id is named with its place, and left out on request."""
    np.save(tmp_path / "ids.npy", np.array([31373, 50257, 995, 60000]))
    line = refused(run("decode", tmp_path / "ids.npy"))
    assert "no id 50257, which is number 1" in line
    assert "--skip-unknown" in line
    assert run("decode", tmp_path / "ids.npy", "--skip-unknown").stdout_bytes == b"hello world"


def test_unknown_id_in_a_later_part(monkeypatch: pytest.MonkeyPatch) -> None:
    """The place of an unknown id is counted from the first id of the file."""
    monkeypatch.setattr(files, "BLOCK_BYTES", 16)
    result = run("decode", "-", stdin="995 " * 30 + "50257")
    assert result.exit_code == 1
    assert "no id 50257, which is number 30," in result.stderr


@pytest.mark.parametrize(
    "array", [np.zeros(2), np.zeros((2, 2), np.uint32), np.array(5), np.array(["1"]), np.array([None], object)]
)
def test_arrays_that_are_not_ids_are_refused(tmp_path: Path, array: np.ndarray) -> None:
    """A .npy file of anything but one row of integers is refused by its name."""
    np.save(tmp_path / "ids.npy", array, allow_pickle=True)
    assert str(tmp_path / "ids.npy") in refused(run("decode", tmp_path / "ids.npy"))


@pytest.mark.parametrize("value", [-1, 1 << 32])
def test_array_ids_out_of_range_are_refused(tmp_path: Path, value: int) -> None:
    """Integers that are no ids do not wrap around."""
    np.save(tmp_path / "ids.npy", np.array([1, value]))
    assert f"id {value} is out of range" in refused(run("decode", tmp_path / "ids.npy"))


@pytest.mark.parametrize(("name", "content"), [("a.npy", b""), ("b.npy", b"1 2 3"), ("c.bin", b"abc")])
def test_broken_files_are_refused(tmp_path: Path, name: str, content: bytes) -> None:
    """A file that does not hold what its ending says is refused by its name."""
    (tmp_path / name).write_bytes(content)
    assert str(tmp_path / name) in refused(run("decode", tmp_path / name))


def test_output_may_replace_its_input(tmp_path: Path) -> None:
    """The input is read to its end before the output takes its name, and the mode of the file stays."""
    text = tmp_path / "text.npy"
    text.write_bytes(SHAKESPEARE.read_bytes())
    text.chmod(0o640)
    assert run("encode", text, "-o", text).exit_code == 0
    assert run("decode", text, "-o", text).exit_code == 0
    assert text.read_bytes() == SHAKESPEARE.read_bytes()
    assert os.name == "nt" or text.stat().st_mode & 0o777 == 0o640


def test_failure_keeps_the_old_output(tmp_path: Path) -> None:
    """A run that fails leaves no half file, and the file that was there stays."""
    (tmp_path / "text").write_bytes(b"old")
    refused(run("decode", "-", "-o", tmp_path / "text", stdin="995 50257"))
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("text", b"old")]


# ---- count -----------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("small_parts")
def test_count_is_laid_out_as_wc_does(enc: numbatok.Encoding) -> None:
    """Right-aligned columns of ids and bytes, a name, and a total for several files."""
    other = DATA / "languages.txt"
    ids = [len(enc.encode_ordinary(path.read_bytes())) for path in (SHAKESPEARE, other)]
    sizes = [path.stat().st_size for path in (SHAKESPEARE, other)]
    rows = [*zip(ids, sizes, (str(SHAKESPEARE), str(other)), strict=True), (sum(ids), sum(sizes), "total")]
    result = run("count", SHAKESPEARE, other)
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == "".join(f"{made:6} {size:6} {name}\n" for made, size, name in rows)


def test_count_of_one_file_has_no_total(enc: numbatok.Encoding) -> None:
    """One file makes one row."""
    made = enc.count(SHAKESPEARE.read_bytes())
    assert run("count", SHAKESPEARE).stdout == f"{made} {SHAKESPEARE.stat().st_size} {SHAKESPEARE}\n"


def test_count_stdin() -> None:
    """Of stdin no size is known before it is read: seven places, as in wc."""
    assert run("count", "-", stdin=b"hello world").stdout == "      2      11 -\n"


def test_count_goes_on_after_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    """Each file that cannot be read is one line on stderr, the others are counted, and the exit status is 1."""
    (tmp_path / "good").write_bytes(b"hello world")
    result = run("count", tmp_path / "none", tmp_path / "good", tmp_path)
    assert result.exit_code == 1
    assert result.stdout == f"      2      11 {tmp_path / 'good'}\n      2      11 total\n"
    assert result.stderr.splitlines() == [
        f"numbatok: {tmp_path / 'none'}: No such file or directory",
        f"numbatok: {tmp_path}: Is a directory",
    ]


# ---- errors and usage ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["encode", "decode"])
def test_missing_file(tmp_path: Path, command: str) -> None:
    """A file that is not there is one line with its name."""
    line = refused(run(command, tmp_path / "none"))
    assert line == f"numbatok: {tmp_path / 'none'}: No such file or directory\n"


def test_missing_folder_of_the_output(tmp_path: Path) -> None:
    """The name that the user gave is told, not that of the draft beside it."""
    output = tmp_path / "none" / "ids.npy"
    assert refused(run("encode", SHAKESPEARE, "-o", output)) == f"numbatok: {output}: No such file or directory\n"


@pytest.mark.parametrize("command", ["encode", "decode", "count"])
def test_unknown_encoding(command: str) -> None:
    """An unknown encoding is refused with those that there are."""
    line = refused(run(command, SHAKESPEARE, "--encoding", "no_such"))
    assert "no_such" in line
    assert "gpt2" in line


@pytest.mark.parametrize(
    "arguments", [("encode",), ("count",), ("nonsense",), ("encode", "--threads", "0", "x"), ("encode", "a", "b")]
)
def test_wrong_usage(arguments: tuple[str, ...]) -> None:
    """Wrong usage has exit status 2, and says how it is done."""
    result = run(*arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "Usage: " in result.stderr


def test_out_of_memory_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """So is what else the package may raise."""

    def fail(*_arguments: object) -> None:
        raise MemoryError

    monkeypatch.setattr(files, "read_bytes", fail)
    assert refused(run("encode", SHAKESPEARE)) == "numbatok: out of memory\n"


# ---- encodings of one's own ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a folder with one vocabulary in each form."""
    folder = tmp_path_factory.mktemp("own")
    enc = numbatok.train("hug pug hugs bugs " * 20, 264, special_tokens=["<|end|>"])
    for name, form in (("my.bpe", "bpe"), ("my.json", "huggingface"), ("tokenizer.json", "huggingface")):
        enc.save(folder / name, form)  # type: ignore[arg-type]
    enc.save(folder / "plain", "bpe")
    enc.save(folder / "my.tiktoken", "tiktoken")
    return folder


@pytest.mark.parametrize("name", ["my.bpe", "./my.bpe", "my.json", "./plain", "./"])
def test_own_encoding(own: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """A file of a vocabulary stands where the name of an encoding can: in every command that has one."""
    monkeypatch.chdir(own)
    enc, text = numbatok.Encoding.load("my.bpe"), "hugs pugs<|end|>"
    ids = enc.encode(text, allowed_special="all")
    made = run("encode", "-", "--special", "--encoding", name, stdin=text)
    assert made.stdout.split() == list(map(str, ids))
    assert run("decode", "-", "--encoding", name, stdin=made.stdout).stdout == text
    assert run("count", "-", "--encoding", name, stdin=text).stdout.split()[0] == str(enc.count(text))


def test_bench_of_own_encoding(own: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its speed is measured; peers that know encodings by name do not have it."""
    monkeypatch.setattr(measure, "PEERS", {"tiktoken": measure.PEERS["tiktoken"]})
    (tmp_path / "text").write_text("hugs and pugs " * 100)
    result = run("bench", tmp_path / "text", "--encoding", own / "my.bpe", "--rounds", "1", "--threads", "1")
    assert result.exit_code == 0, result.stderr
    assert "numbatok" in result.stdout


@pytest.mark.parametrize("command", ["encode", "decode", "count", "bench"])
def test_encodings_that_are_no_files(own: Path, command: str) -> None:
    """A rank file lacks the pattern, and is refused with what adds it; a file that is not there is told by its name."""
    line = refused(run(command, SHAKESPEARE, "--encoding", own / "my.tiktoken"))
    assert f"numbatok convert {own / 'my.tiktoken'} --pattern ... -o my.bpe" in line
    for name in ("none.bpe", "none.json", "none"):
        assert f"{own / name}: No such file" in refused(run(command, SHAKESPEARE, "--encoding", own / name))


def test_missing_package_is_one_line(monkeypatch: pytest.MonkeyPatch, own: Path, tmp_path: Path) -> None:
    """A pattern without a kernel needs a package, which may not be there."""
    monkeypatch.setitem(sys.modules, "regex", None)
    options = ["--pattern", r"\w+|\W+", "--slow-split", "-o", tmp_path / "x.bpe"]
    assert 'pip install "numbatok[regex]"' in refused(run("convert", own / "my.tiktoken", *options))
    assert list(tmp_path.iterdir()) == []


# ---- files that appear whole -----------------------------------------------------------------------------------------


def test_drafts_are_apart(tmp_path: Path) -> None:
    """Two files of one name, written at once, do not meet: each is whole, and the one that ends last stays."""
    path = tmp_path / "ids.bin"
    with files.new_file(str(path)) as first, files.new_file(str(path)) as second:
        for part in (b"one", b"two"):
            first.write(part)
            second.write(part.upper())
        assert len(list(tmp_path.iterdir())) == 2
    assert path.read_bytes() == b"onetwo"
    assert list(tmp_path.iterdir()) == [path]


def test_threads_save_to_one_name(tmp_path: Path) -> None:
    """Whoever reads meanwhile finds one file or the other, never a part."""
    path, faults = tmp_path / "x.bpe", []
    small, large = numbatok.train("abab", 257), numbatok.train("hug pug hugs " * 50, 300)
    small.save(path)

    def work(enc: numbatok.Encoding) -> None:
        try:
            for _ in range(20):
                enc.save(path)
                assert numbatok.Encoding.load(path).n_vocab in (small.n_vocab, large.n_vocab)
        except Exception as error:
            faults.append(error)

    threads = [threading.Thread(target=work, args=(enc,)) for enc in (small, large, small)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert faults == []
    assert list(tmp_path.iterdir()) == [path]


@POSIX
@pytest.mark.parametrize("mask", [0o022, 0o077])
def test_mode_of_a_new_file(tmp_path: Path, mask: int) -> None:
    """A new file has the mode that the system gives; one that is replaced keeps its own, also through a link."""
    before = os.umask(mask)
    try:
        with files.new_file(str(tmp_path / "new")) as out:
            out.write(b"1")
        (tmp_path / "old").touch()
        (tmp_path / "old").chmod(0o604)
        (tmp_path / "link").symlink_to("old")
        with files.new_file(str(tmp_path / "link")) as out:
            out.write(b"2")
    finally:
        os.umask(before)
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o666 & ~mask
    assert (tmp_path / "old").stat().st_mode & 0o777 == 0o604
    assert ((tmp_path / "link").is_symlink(), (tmp_path / "old").read_bytes()) == (True, b"2")


@POSIX
def test_drafts_follow_no_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A link that stands where the draft would is refused, and what it leads to stays; so does the link."""
    monkeypatch.setattr(os, "urandom", bytes)  # all drafts have one name
    (tmp_path / "other").write_bytes(b"other")
    draft = tmp_path / f".{bytes(8).hex()}.part"
    draft.symlink_to("other")
    with pytest.raises(FileExistsError), files.new_file(str(tmp_path / "x")) as out:
        out.write(b"x")
    assert (tmp_path / "other").read_bytes() == b"other"
    assert draft.is_symlink()


# ---- bench -----------------------------------------------------------------------------------------------------------


def wrong_peer(enc: numbatok.Encoding, text: str, ids: list[int]) -> measure.Operations:
    """Make a peer whose list is right and whose array lacks the last id."""
    return {"list": lambda: ids, "array": lambda: np.array(ids[:-1])}


def no_peer(enc: numbatok.Encoding, text: str, ids: list[int]) -> measure.Operations:
    """Fail to make a peer."""
    raise ValueError(f"no {enc.name}")


def test_bench_times_what_is_right(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Lines with figures for the package and tiktoken; a reason for a peer that differs, fails, or is not there."""
    peers = {"tiktoken": measure.PEERS["tiktoken"], "numpy": wrong_peer, "click": no_peer, "no-such-one": wrong_peer}
    monkeypatch.setattr(measure, "PEERS", peers)
    path = tmp_path / "text"
    path.write_text("naïve words and 日本語 <|endoftext|>\n" * 30)
    lines = run("bench", path, "--encoding", "cl100k_base", "--rounds", "2", "--threads", "2").stdout.splitlines()
    assert lines[0].split() == ["MB/s", "array", "list", "decode"]
    rows = {line[:21].rstrip(): line[21:] for line in lines[1:]}
    assert [rows[name].count("(") for name in ("numbatok", "numbatok, 2 threads", "tiktoken")] == [3, 1, 3]
    assert rows["numpy"].strip() == measure.OTHER
    assert rows["click"].strip() == "does not load this encoding: no cl100k_base"
    assert rows["no-such-one"].strip() == "not installed"


@pytest.mark.parametrize(
    ("content", "reason"), [(b"", "is empty; give a text"), (b"caf\xe9 au lait", "is not UTF-8 at byte 3;")]
)
def test_bench_refuses_what_is_no_text(tmp_path: Path, content: bytes, reason: str) -> None:
    """An empty file and bytes that other tokenizers do not take are refused."""
    path = tmp_path / "text"
    path.write_bytes(content)
    assert reason in refused(run("bench", path))


# ---- info and warm-up ------------------------------------------------------------------------------------------------


def test_info() -> None:
    """The facts come as lines and as JSON, and are the same."""
    facts = json.loads(run("info", "--json").stdout)
    assert facts["numbatok"] == numbatok.__version__
    assert "gpt2" in facts["encodings"]
    assert {"python", "numba", "numpy", "llvmlite", "cpu", "cores", "threads", "threading_layer"} < set(facts)
    lines = run("info").stdout.splitlines()
    assert len(lines) == len(facts)
    assert f"numba           {facts['numba']}" in lines


def test_info_starts_no_threads() -> None:
    """A fresh process has no threading layer, and asking for it starts none."""
    found = subprocess.run([*PROGRAM, "info"], capture_output=True, text=True, check=True)
    assert "threading layer not started" in found.stdout
    assert found.stderr == ""


EVERY_CALL = """
import numpy as np, numbatok
from numbatok import _jit
enc = numbatok.get_encoding("gpt2")
text = open({path!r}).read()
for threads in (None, 1):
    enc.encode_batch_flat([text] * 5, threads=threads), enc.count_batch([text] * 5, threads=threads)
enc.encode_batch([text, "x<|endoftext|>"], allowed_special="all"), enc.encode_ordinary_batch(["a", b"b"])
ids = enc.encode_to_numpy("ab" * 50_000), enc.encode(text), enc.encode_flat(np.frombuffer(b"a", np.uint8))
enc.encode_ordinary(b"a \\xff"), enc.count(text), enc.split(text), enc.encode_single_token(" the")
enc.decode(ids[0]), enc.decode_batch(ids), enc.decode_tokens_bytes(ids[1]), enc.decode_single_token_bytes(5)
print(sum(sum(one.stats.cache_misses.values()) for one in _jit.KERNELS))
"""


def test_warmup_leaves_nothing_to_compile(tmp_path: Path) -> None:
    """After a warm-up in an empty cache a second process compiles nothing, whatever it calls."""
    environ = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    told = subprocess.run([*PROGRAM, "warmup"], capture_output=True, text=True, check=True, env=environ)
    assert " kernels ready in " in told.stdout
    assert " 0 loaded from the cache" in told.stdout
    assert f"kept in {tmp_path}" in told.stdout
    script = EVERY_CALL.format(path=str(SHAKESPEARE))
    calls = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, env=environ)
    assert calls.stdout == "0\n"
    again = subprocess.run([*PROGRAM, "warmup"], capture_output=True, text=True, check=True, env=environ)
    assert ": 0 compiled, " in again.stdout


# ---- as a process ----------------------------------------------------------------------------------------------------


def test_module_runs_as_the_program(enc: numbatok.Encoding) -> None:
    """`python -m numbatok` reads stdin and calls itself numbatok; without a terminal there is no bar."""
    found = subprocess.run([*PROGRAM, "encode", "-"], input=b"hello world", capture_output=True, check=True)
    assert (found.stdout, found.stderr) == (b"31373 995\n", b"")
    version = subprocess.run([*PROGRAM, "--version"], capture_output=True, text=True, check=True)
    assert version.stdout == f"numbatok {numbatok.__version__}\n"


def test_no_bar_without_a_terminal() -> None:
    """Many parts, a bar without delay, and yet nothing on a stderr that is a pipe."""
    program = [sys.executable, "-c", SMALL_PARTS, "count", str(SHAKESPEARE)]
    found = subprocess.run(program, capture_output=True, check=True)
    assert found.stderr == b""


def read_terminal(terminal: int) -> bytes:
    """Read a pseudo-terminal until the other side has closed it."""
    seen = b""
    while True:
        try:
            block = os.read(terminal, 4096)
        except OSError:  # how Linux says that it is closed
            return seen
        if not block:
            return seen
        seen += block


@POSIX
@pytest.mark.parametrize("command", ["count", "encode"])
def test_bar_on_a_terminal(tmp_path: Path, command: str) -> None:
    """On a terminal the bar moves, on stderr only."""
    import pty
    import termios

    terminal, stderr = pty.openpty()
    termios.tcsetwinsize(stderr, (24, 80))  # a new one has no width, and so no room for a bar
    program = [sys.executable, "-c", SMALL_PARTS, command, str(SHAKESPEARE)]
    with (tmp_path / "out").open("wb") as out, subprocess.Popen(program, stdout=out, stderr=stderr) as process:
        os.close(stderr)
        seen = read_terminal(terminal)
    os.close(terminal)
    assert process.returncode == 0
    assert b"%|" in seen
    assert (tmp_path / "out").read_bytes() == run(command, SHAKESPEARE).stdout_bytes


@POSIX
def test_closed_pipe_ends_quietly(tmp_path: Path) -> None:
    """`| head` gets its bytes, and nobody complains."""
    (tmp_path / "long").write_bytes(SHAKESPEARE.read_bytes() * 20)
    with subprocess.Popen(
        [*PROGRAM, "encode", str(tmp_path / "long")], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        head = subprocess.run(["head", "-c", "10"], stdin=process.stdout, capture_output=True, check=True)
        if process.stdout:
            process.stdout.close()
        _, stderr = process.communicate()
    assert head.stdout == b"5962 22307"
    assert (process.returncode, stderr) == (1, b"")


@POSIX
def test_interrupt_ends_with_one_line(tmp_path: Path) -> None:
    """Ctrl-C in the middle of the work: exit status 130, one line, what was done before stays."""
    (tmp_path / "text").write_bytes(b"hello world")
    with subprocess.Popen(
        [*PROGRAM, "count", str(tmp_path / "text"), "-"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        first = process.stdout.readline() if process.stdout else b""  # now it waits for the rest of stdin
        process.send_signal(signal.SIGINT)
        process.wait(timeout=60)
        stderr = process.stderr.read() if process.stderr else b""
    assert first.split()[:2] == [b"2", b"11"]
    assert (process.returncode, stderr) == (130, b"numbatok: interrupted\n")


@POSIX
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no device that is always full")
@pytest.mark.parametrize("command", ["encode", "count", "info"])
def test_full_disk_is_told(command: str) -> None:
    """Output that cannot be written is an error of one line, not silence."""
    arguments = [] if command == "info" else [str(SHAKESPEARE)]
    with open("/dev/full", "wb") as full:
        found = subprocess.run([*PROGRAM, command, *arguments], stdout=full, stderr=subprocess.PIPE, check=False)
    assert (found.returncode, found.stderr) == (1, b"numbatok: No space left on device\n")


@POSIX
def test_streams_that_are_closed_or_special() -> None:
    """A closed stdout is refused in one line; a device as output and a pipe as input work."""
    shell = f"{sys.executable} -m numbatok"
    closed = subprocess.run(f"{shell} encode {SHAKESPEARE} >&-", shell=True, capture_output=True, check=False)
    assert (closed.returncode, closed.stderr) == (1, b"numbatok: stdout is closed\n")
    device = subprocess.run(f"echo 995 | {shell} decode /dev/stdin -o /dev/null", shell=True, check=False)
    assert device.returncode == 0
