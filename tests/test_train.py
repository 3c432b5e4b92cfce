"""Training: against the naive trainer of the oracle, against `tokenizers`, and what comes out as an encoding.

Invariant: the default rule is that of `oracle.train`, which counts everything anew for each merge; compat="huggingface"
is that of the library itself, which is run beside it. Texts are of few letters, so that ties and overlaps are the rule.

    numbatok.train("aaabdaaabac", 259).encode("aaabdaaabac")  ->  [258, 100, 258, 97, 99]
"""

import doctest
import json
import os
import pickle
import random
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import oracle
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import tiktoken
from cases import JIT_OFF
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

import numbatok
from bench import training as benchmark
from numbatok import counter, learner, sources, training
from numbatok.alphabet import to_text
from numbatok.cli import main
from numbatok.export import _pre_tokenizer, unreached
from numbatok.pattern_names import PATTERNS
from numbatok.split.patterns import CL100K_PATTERN, GPT2_PATTERNS, O200K_PATTERN

DATA = Path(__file__).parent / "data"
ALPHABETS = ["a", "ab", "aab", "abc", "ab ", "aA1 \n.'", "éaü ", "日本a。 ", "😀a😁 "]
Merges = list[tuple[bytes, bytes]]


def train(source: Any, vocab_size: int, **options: Any) -> numbatok.Encoding:
    """Train without a bar."""
    return numbatok.train(source, vocab_size, progress=False, **options)


def merges_of(enc: numbatok.Encoding) -> Merges:
    """Give the merges of an encoding, as bytes."""
    model = enc._model
    pairs = zip(model.merges.lefts.tolist(), model.merges.rights.tolist(), strict=True)
    return [(model.token_bytes(left), model.token_bytes(right)) for left, right in pairs]


def random_texts(draw: random.Random) -> list[str]:
    """Give some texts over one alphabet."""
    alphabet, number = draw.choice(ALPHABETS), draw.choice([0, 1, 3, 20])
    sizes = [draw.choice([0, 1, 2, 5, 30, 300]) for _ in range(number)]
    return ["".join(draw.choices(alphabet, k=size)) for size in sizes]


def draw_seeds(number: int) -> range:
    """Give so many seeds, few with the JIT off."""
    return range(max(number // 20, 2) if JIT_OFF else number)


# ---- the default rule ------------------------------------------------------------------------------------------------


@given(
    st.dictionaries(st.binary(max_size=12) | st.text("ab", max_size=30).map(str.encode), st.integers(1, 5), max_size=8),
    st.integers(0, 30),
    st.sampled_from([1, 2, 5]),
    st.sampled_from([None, 1, 2, 3, 5]),
)
def test_words_train_as_by_hand(words: dict[bytes, int], merges: int, least: int, longest: int | None) -> None:
    """Any words with counts, every limit."""
    enc = train(words, 256 + merges, min_frequency=least, max_token_length=longest)
    expected = oracle.train(words, merges, least=least, longest=longest)
    assert merges_of(enc) == expected
    assert enc.n_vocab == 256 + len(expected)
    assert [enc.decode_single_token_bytes(256 + rank) for rank in range(len(expected))] == [
        left + right for left, right in expected
    ]


@pytest.mark.parametrize("pattern", [GPT2_PATTERNS[0], CL100K_PATTERN, O200K_PATTERN])
@pytest.mark.parametrize("threads", [1, 2])
def test_texts_train_as_by_hand(pattern: str, threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tiny tables, rounds, calls and parts, in any order of the texts."""
    monkeypatch.setattr(counter, "PARALLEL_BYTES", 1)
    for seed in draw_seeds(60):
        draw = random.Random(seed)
        texts, wanted = random_texts(draw), draw.choice([1, 5, 40])
        monkeypatch.setattr(learner, "FIRST_FALL", draw.choice([1, 3, 1024]))
        monkeypatch.setattr(learner, "FALL", draw.choice([2, 3, 32]))
        monkeypatch.setattr(learner, "ENTRY_BITS", draw.choice([2, 4, 16]))
        monkeypatch.setattr(learner, "SLOTS_PER_CALL", draw.choice([1, 3, 50, 1 << 20]))
        monkeypatch.setattr(learner, "PLACES_PER_CALL", draw.choice([1, 2, 10, 1 << 18]))
        monkeypatch.setattr(counter, "CALL_BYTES", draw.choice([1, 1 << 22]))
        monkeypatch.setattr(counter, "HEAVIEST", draw.choice([1, 3, (1 << 32) - 1]))
        monkeypatch.setattr(sources, "GROUP_BYTES", draw.choice([20, 1 << 23]))
        enc = train(iter(texts), 256 + wanted, pattern=pattern, threads=threads)
        assert merges_of(enc) == oracle.train(oracle.count_pieces(texts, pattern), wanted)
        draw.shuffle(texts)
        assert merges_of(train(texts, 256 + wanted, pattern=pattern, threads=threads)) == merges_of(enc)


def test_corpus_trains_as_by_hand() -> None:
    """A real text, many merges, and every way to hand it over."""
    path = DATA / "languages.txt"
    text = path.read_bytes().decode()
    enc = train(path, 356)
    assert merges_of(enc) == oracle.train(oracle.count_pieces([text]), 100)
    for source in (text, text.encode(), [text], np.frombuffer(text.encode(), np.uint8), pa.array([text])):
        assert merges_of(train(source, 356)) == merges_of(enc)


@pytest.mark.skipif(JIT_OFF, reason="a million words take minutes in plain Python")
def test_result_depends_on_the_texts_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads, order, parts and sizes of tables."""
    rows = (DATA / "shakespeare.txt").read_text("utf-8").splitlines()
    expected = merges_of(train(rows, 1500, threads=1))
    assert len(expected) == 1244
    monkeypatch.setattr(counter, "PARALLEL_BYTES", 1)
    monkeypatch.setattr(learner, "FALL", 3)
    monkeypatch.setattr(learner, "ENTRY_BITS", 6)
    for threads in (1, 2, None):
        random.Random(threads).shuffle(rows)
        assert merges_of(train(iter(rows), 1500, threads=threads)) == expected


def test_examples_of_minbpe() -> None:
    """The example of its documentation, which is Wikipedia's."""
    enc = train("aaabdaaabac", 256 + 3)
    assert enc.encode("aaabdaaabac") == [258, 100, 258, 97, 99]
    assert enc.decode([258, 100, 258, 97, 99]) == "aaabdaaabac"


def test_cases_of_the_reference_trainer() -> None:
    """Empty corpus, words of one letter, small targets, early stop, counts as weights, hug and pug."""
    empty: list[Any] = [[], "", {}, pa.array([], pa.string()), {"": 5}]
    assert [train(source, 300).n_vocab for source in empty] == [256] * 5
    assert train(["a", "b", "a"], 300).n_vocab == 256
    assert [train("cat cat", size).n_vocab for size in (1, 255, 256)] == [256] * 3
    early = train("cat", 300)
    assert (early.n_vocab, early.max_token_value, early.encode("cat")) == (258, 257, [257])
    assert train({"to": 5, "top": 2}, 257).encode("to top".replace(" ", "")) == [256, 256, ord("p")]
    assert merges_of(train({"to": 1, "op": 2}, 257)) == [(b"o", b"p")]
    assert train({"to": 1, "op": 2}, 300, min_frequency=2).n_vocab == 257
    assert train({"to": 1, "op": 2}, 300, min_frequency=10**30).n_vocab == 256
    demo = train({"hug": 10, "pug": 5, "hugs": 5, "bugs": 4}, 262)
    assert [demo.decode_single_token_bytes(token) for token in range(256, demo.n_vocab)] == [
        b"ug", b"hug", b"pug", b"hugs", b"bug", b"bugs",
    ]  # fmt: skip
    assert demo.encode("hugs") == [demo.encode_single_token("hugs")]


def test_long_runs_take_no_time() -> None:
    """One piece of a million letters, and many rounds over it: the work is that of the merges."""
    size = 1000 if JIT_OFF else 1 << 20
    start = time.perf_counter()
    enc = train({"a" * size: 1, "bc" * size: 1}, 256 + 19)
    assert time.perf_counter() - start < 20
    sizes = sorted(len(left + right) for left, right in merges_of(enc))
    assert sizes == sorted([*(2 << power for power in range(9)), *(2 << power for power in range(10))])


# ---- Hugging Face ----------------------------------------------------------------------------------------------------


def huggingface(texts: list[str], vocab_size: int, stages: tuple[str, ...], **options: Any) -> Tokenizer:
    """Train with the library."""
    document = json.loads(Tokenizer(models.BPE()).to_str())
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    splits = [
        {"type": "Split", "pattern": {"Regex": stage}, "behavior": "Isolated", "invert": False} for stage in stages
    ]
    several = {"type": "Sequence", "pretokenizers": [*splits, level]}
    document["pre_tokenizer"] = several if len(stages) > 1 else _pre_tokenizer(stages[0])
    made = Tokenizer.from_str(json.dumps(document))
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=vocab_size, initial_alphabet=alphabet, show_progress=False, **options)
    made.train_from_iterator(texts, trainer)
    return made


def same_as_huggingface(texts: list[str], vocab_size: int, name: str, options: Mapping[str, Any]) -> None:
    """Compare vocabulary, merges and ids."""
    theirs = huggingface(texts, vocab_size, PATTERNS[name], **options)
    ours = train(texts, vocab_size, pattern=name, compat="huggingface", **options)
    expected, found = (json.loads(text)["model"] for text in (theirs.to_str(), ours._to_json()))
    what = (texts, vocab_size, name, options)
    assert found["vocab"] == expected["vocab"], what
    assert found["merges"] == expected["merges"], what
    for text in ["".join(texts), "a b  <|e|> é日"]:
        ids = ours.encode(text, allowed_special="all")
        assert ids == theirs.encode(text).ids, what


@pytest.mark.parametrize("name", PATTERNS)
def test_huggingface_gives_the_same(name: str) -> None:
    """Random texts of few letters, every option, every pattern."""
    draw = random.Random(name)
    for _ in draw_seeds(40):
        special = draw.choice([[], ["<|e|>"], ["<|e|>", "<|pad|>"]])
        vocab_size = 256 + len(special) + draw.choice([-1, 0, 1, 5, 30, 100])
        options = {
            "special_tokens": special,
            "min_frequency": draw.choice([0, 1, 2, 5]),
            "max_token_length": draw.choice([None, None, 1, 2, 3, 4, 9]),
        }
        same_as_huggingface(random_texts(draw), vocab_size, name, options)


@pytest.mark.skipif(JIT_OFF, reason="takes minutes in plain Python")
@pytest.mark.parametrize("name", ["gpt2", "cl100k", "o200k"])
@pytest.mark.parametrize("file", ["languages.txt", "shakespeare.txt", "mobydick-32k.txt"])
def test_huggingface_gives_the_same_for_corpora(file: str, name: str) -> None:
    """Real texts, 2,000 merges."""
    same_as_huggingface([(DATA / file).read_bytes().decode()], 2256, name, {"special_tokens": ["<|e|>"]})


def test_special_token_that_merging_makes() -> None:
    """The library gives both one id, which no encoding here has; in the default order there is no such clash."""
    with pytest.raises(ValueError, match=r"special token 'pug' is spelled like a token that merging makes"):
        train("pug pug", 300, special_tokens=["pug"], compat="huggingface")
    with pytest.raises(ValueError, match="special token 'p' is spelled"):
        train("pug pug", 300, special_tokens=["p"], compat="huggingface")
    enc = train("pug pug", 300, special_tokens=["pug"])
    assert enc.encode("pug", allowed_special="all") == [enc.max_token_value]
    assert enc.encode("pug", disallowed_special=()) == [257]


# ---- what comes out --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=[None, "huggingface"])
def trained(request: pytest.FixtureRequest) -> numbatok.Encoding:
    """Give an encoding with special tokens, of each rule."""
    size = 300 if JIT_OFF else 1200
    text = (DATA / "shakespeare.txt").read_text("utf-8")[: 3000 if JIT_OFF else None]
    return train(text, size, special_tokens=["<|end|>", "<|pad|>"], compat=request.param, name="mine")


TEXT = "To be, or not to be: that is the question\n\n  naïve 日本語 123 <|end|> " * 3


def test_trained_is_an_encoding(trained: numbatok.Encoding) -> None:
    """It encodes, decodes, counts, takes Arrow and special tokens, and has a name."""
    ids = trained.encode(TEXT, disallowed_special=())
    assert trained.name == "mine"
    assert trained.decode(ids) == TEXT
    assert trained.count(TEXT) == len(ids)
    assert trained.encode_arrow(pa.array([TEXT])).to_pylist() == [ids]
    assert trained.special_tokens_set == {"<|end|>", "<|pad|>"}
    end = trained.encode_single_token("<|end|>")
    assert trained.encode(TEXT, allowed_special="all").count(end) == 3
    assert end in ((0,) if trained.encode("!") == [2] else (trained.n_vocab - 2,))


def test_ids_are_those_of_the_merges(trained: numbatok.Encoding) -> None:
    """Each piece has the ids that the merges give, applied in their order; every token is reached by merging it."""
    merges = {left + right: rank for rank, (left, right) in enumerate(merges_of(trained))}
    alone = {bytes([byte]): -1 for byte in range(256)}
    for piece in oracle.split(TEXT):
        tokens = [trained.decode_single_token_bytes(token) for token in trained.encode_ordinary(piece)]
        spelled = oracle.merge(piece.encode(), alone | merges)
        assert [merges.get(token, -1) for token in tokens] == spelled
    assert unreached(trained._model, trained._mergeable_ranks) is None


def test_trained_pickles_and_saves(trained: numbatok.Encoding, tmp_path: Path) -> None:
    """The same ids from a pickle, and from every file that the other libraries read."""
    ids = trained.encode(TEXT, allowed_special="all")
    assert pickle.loads(pickle.dumps(trained)).encode(TEXT, allowed_special="all") == ids
    trained.save(tmp_path / "tokenizer.json", format="huggingface")
    theirs = Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    assert theirs.encode(TEXT).ids == ids
    assert numbatok.Encoding.from_huggingface(tmp_path / "tokenizer.json").encode(TEXT, allowed_special="all") == ids
    saved = json.loads((tmp_path / "tokenizer.json").read_text("utf-8"))["model"]
    assert saved["merges"] == [[to_text(left), to_text(right)] for left, right in merges_of(trained)]
    trained.save(tmp_path / "mine.tiktoken", format="tiktoken")
    ranks = oracle.read_tiktoken(tmp_path / "mine.tiktoken")
    special = {name: trained.encode_single_token(name) for name in trained.special_tokens_set}
    made = tiktoken.Encoding("mine", pat_str=GPT2_PATTERNS[0], mergeable_ranks=ranks, special_tokens=special)
    assert made.encode(TEXT, allowed_special="all") == ids
    trained.save(tmp_path / "mine.bpe", format="bpe")
    assert numbatok.Encoding.load(tmp_path / "mine.bpe").encode(TEXT, allowed_special="all") == ids


def test_tiktoken_gives_the_same_for_any_text() -> None:
    """Joining any neighbours that spell a token is no more than the merges, for a trained vocabulary."""
    for seed in draw_seeds(60):
        draw = random.Random(seed)
        texts = random_texts(draw)
        enc = train(texts, 256 + 60, max_token_length=draw.choice([None, None, 3]))
        theirs = tiktoken.Encoding(
            "it", pat_str=GPT2_PATTERNS[0], mergeable_ranks=enc._mergeable_ranks, special_tokens={}
        )
        for text in (*texts, "".join(draw.choices("".join(texts) or "a", k=300))):
            assert enc.encode_ordinary(text) == theirs.encode_ordinary(text), (texts, text)


def test_sequence_of_patterns_is_saved(tmp_path: Path) -> None:
    """What several patterns split is written as a tokenizer.json."""
    enc = train("year 2026, year 2027" * 3, 280, pattern="deepseek", special_tokens=["<|end|>"])
    enc.save(tmp_path / "tokenizer.json", format="huggingface")
    text = "year 20262027<|end|>!"
    ids = enc.encode(text, allowed_special="all")
    assert Tokenizer.from_file(str(tmp_path / "tokenizer.json")).encode(text).ids == ids
    assert pickle.loads(pickle.dumps(enc)).encode(text, allowed_special="all") == ids
    assert ids[-2] == enc.n_vocab - 1


def test_columns_of_other_libraries() -> None:
    """Series and columns train as the list of their texts."""
    rows = ["to the top", "to the", "top"] * 4
    expected = merges_of(train(rows, 270))
    table = datasets.Dataset.from_dict({"text": rows})
    columns = [
        pl.Series("text", rows),
        pd.Series(rows),
        pa.table({"text": rows}),
        table["text"],
        table.with_format("arrow")["text"],
        (batch for batch in pa.table({"text": rows}).to_batches(max_chunksize=5)),
    ]
    for column in columns:
        assert merges_of(train(column, 270)) == expected, type(column)


# ---- arguments -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"vocab_size": 0}, ValueError, "vocab_size is 0; give 1 or more"),
        ({"vocab_size": 300.5}, TypeError, "vocab_size is 300.5; give a whole number"),
        ({"vocab_size": 1 << 22}, ValueError, "vocab_size is 4194304; at most"),
        ({"min_frequency": -1}, ValueError, "min_frequency is -1"),
        ({"min_frequency": True}, TypeError, "min_frequency is True"),
        ({"max_token_length": 0}, ValueError, "max_token_length is 0; give 1 or more"),
        ({"compat": "sentencepiece"}, ValueError, 'compat is .sentencepiece.; give None or "huggingface"'),
        ({"pattern": "gpt-2"}, ValueError, "pattern 'gpt-2' is no name.*names: gpt2, cl100k.*deepseek"),
        ({"pattern": r"\w+"}, ValueError, "none is guessed"),
        ({"pattern": 7}, TypeError, "pattern is 7; give a name"),
        ({"special_tokens": "<|end|>"}, TypeError, r"special_tokens is one text; give a list: \['<|end|>'\]"),
        ({"special_tokens": ["a", "a"]}, ValueError, "special token 'a' is given twice"),
        ({"special_tokens": [""]}, ValueError, "special token '' is empty"),
        ({"special_tokens": [b"a"]}, TypeError, "special token b'a' is bytes; give str"),
        ({"special_tokens": None}, TypeError, "special_tokens is None; give a list of texts"),
        ({"name": 5}, TypeError, "name is 5, of type int; give a str"),
        ({"name": None}, TypeError, "name is None"),
        ({"name": "\ud800"}, ValueError, "half of a surrogate pair"),
        ({"threads": 0}, ValueError, "the number of threads is 0"),
        ({"source": 7}, TypeError, "int is nothing to train on; give a text"),
        ({"source": ["a", 7]}, TypeError, "item 1 is int; give a text"),
        ({"source": [None]}, TypeError, "item 0 is NoneType"),
        ({"source": {"a": 1.5}}, TypeError, "the table has 'a': 1.5"),
        ({"source": {7: 1}}, TypeError, "the table has 7: 1"),
        ({"source": {"a": -1}}, ValueError, "the count of 'a' is -1"),
        ({"source": {"a": 1 << 62}}, OverflowError, "sum up to more than"),
        ({"source": pa.array([1])}, TypeError, "the column is of type int64"),
        ({"source": pa.table({"a": ["x"], "b": ["y"]})}, TypeError, "a table of 2 columns"),
    ],
)
def test_what_is_refused(options: dict[str, Any], error: type[Exception], message: str) -> None:
    """Wrong arguments are told with what was met and what to give."""
    arguments = {"source": "text", "vocab_size": 300, **options}
    with pytest.raises(error, match=message):
        train(arguments.pop("source"), arguments.pop("vocab_size"), **arguments)


def test_full_pattern_and_sequence() -> None:
    """A pattern by its text, or a tuple of texts, is that pattern."""
    text = "year 2026, it's   so" * 3
    assert merges_of(train(text, 290, pattern=CL100K_PATTERN)) == merges_of(train(text, 290, pattern="cl100k_base"))
    assert merges_of(train(text, 290, pattern=PATTERNS["starcoder"])) == merges_of(
        train(text, 290, pattern="starcoder")
    )


# ---- the bar, and Ctrl-C ---------------------------------------------------------------------------------------------


def test_nothing_is_printed_into_a_pipe(capfd: pytest.CaptureFixture[str]) -> None:
    """With the bar asked for, too."""
    numbatok.train("some text " * 1000, 270, progress=True)
    assert capfd.readouterr() == ("", "")


def test_bar_tells_bytes_and_merges(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the bars are moved by sums up to the bytes of the text and to the merges."""
    moved: dict[str, int] = {}
    plain = training._bar

    def watched(progress: bool, total: int | None, what: str, **look: Any) -> Any:
        bar = plain(progress, total, what, **look)
        moved[what] = 0

        def update(size: int) -> None:
            moved[what] += size

        bar.update = update
        return bar

    monkeypatch.setattr(training, "_bar", watched)
    text = "some text of words " * 100
    enc = numbatok.train(text, 280)
    assert moved == {"counting": len(text), "merging": enc.n_vocab - 256}


INTERRUPTED = """
import sys, threading, time, os, signal
import numbatok
numbatok.train("warm up the kernels " * 20000, 300)
def texts():
    while True:
        yield f"some words and number {time.perf_counter_ns()} \\n" * 100
threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
start = time.perf_counter()
try:
    numbatok.train(texts(), 300)
except KeyboardInterrupt:
    print("interrupted", time.perf_counter() - start < 5)
"""


@pytest.mark.skipif(
    JIT_OFF or os.name == "nt", reason="kernels in plain Python are not bounded; no SIGINT to a process"
)
def test_ctrl_c_is_heard() -> None:
    """A training that would never end does."""
    command = [sys.executable, "-c", INTERRUPTED]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout.split() == ["interrupted", "True"], done.stderr


def test_examples_of_the_documentation() -> None:
    """What docs/training.md shows is what happens."""
    page = Path(__file__).parent.parent / "docs" / "training.md"
    found = doctest.testfile(str(page), module_relative=False, encoding="utf-8")
    assert (found.attempted > 2, found.failed) == (True, 0)


def test_benchmark_runs(tmp_path: Path) -> None:
    """The contestants that the tests have installed train the same on a small file."""
    path = tmp_path / "text.txt"
    path.write_bytes((DATA / "languages.txt").read_bytes())
    task = benchmark.make_task(path, "gpt2", 400)
    assert "".join(task.documents()) == "".join(task.lines()).removesuffix("\n") == path.read_text("utf-8")
    runs = {name: [benchmark.one(name, task)] for name in (*benchmark.OURS_IN_ALL_WAYS, "tokenizers")}
    rows = [benchmark.row(name, runs) for name in runs]
    assert [row["merges"] for row in rows] == [144] * 5
    assert [row["same merges"] for row in rows] == [True, True, True, None, True]
    shown = benchmark.table({"text, gpt2": {"trainers": rows}, "environment": {}})
    assert [line.split(" | ")[0] for line in shown.splitlines()[2:]] == [f"| {name}" for name in runs]


# ---- the command -----------------------------------------------------------------------------------------------------


def test_command_writes_each_format(tmp_path: Path) -> None:
    """The ending tells the format; the name of the file is the name of the encoding."""
    text = tmp_path / "text.txt"
    text.write_text("hug pug hugs bugs " * 20, "utf-8")
    expected = train(text, 264, special_tokens=["<|end|>"])
    options = ["--vocab-size", "264", "--special", "<|end|>", "--threads", "1"]
    for ending in ("bpe", "json", "tiktoken"):
        out = str(tmp_path / f"mine.{ending}")
        done = CliRunner().invoke(main, ["train", str(text), "-o", out, *options])
        assert done.exit_code == 0, done.output
        assert f"mine.{ending}: 264 ids, as" in done.stderr
        assert ("pattern and special tokens are not in it" in done.stderr) == (ending == "tiktoken")
    loaded = [
        numbatok.Encoding.load(tmp_path / "mine.bpe"),
        numbatok.Encoding.from_huggingface(tmp_path / "mine.json"),
        numbatok.Encoding.from_tiktoken(tmp_path / "mine.tiktoken", pat_str=GPT2_PATTERNS[0]),
    ]
    for enc in loaded:
        assert enc.encode_ordinary("hugs pugs") == expected.encode_ordinary("hugs pugs")
    assert loaded[0].name == "mine"
    assert loaded[0].encode("<|end|>", allowed_special="all") == [263]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["text.txt", "-o", "x.bpe"], "Missing option '--vocab-size'"),
        (["text.txt", "-o", "x.txt", "--vocab-size", "300"], "none that can be written; use .bpe, .json, .tiktoken"),
        (["text.txt", "-o", "no/x.bpe", "--vocab-size", "300"], "there is no folder 'no'"),
        (["text.txt", "-o", "x.bpe", "--vocab-size", "300", "--pattern", "gpt"], "is no name"),
        (["text.txt", "-o", "folder.bpe", "--vocab-size", "300"], "folder.bpe: Is a directory"),
        (["text.txt", "-o", "x" * 300 + ".bpe", "--vocab-size", "300"], "xx.bpe: File name too long"),
        (["text.txt", "-o", "x.bpe", "--name", "\udcff", "--vocab-size", "300"], "half of a surrogate pair"),
        (["nothing.txt", "-o", "x.bpe", "--vocab-size", "300"], "nothing.txt: No such file"),
        (["bad.txt", "-o", "x.bpe", "--vocab-size", "300"], "bad.txt, byte 4: this is not UTF-8"),
        (["text.txt", "-o", "x.bpe", "--vocab-size", "300", "--pattern", "deepseek"], "deepseek is several; use -o"),
    ],
)
def test_command_refuses(arguments: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One line, and no file."""
    monkeypatch.chdir(tmp_path)
    Path("text.txt").write_bytes(b"text")
    Path("bad.txt").write_bytes(b"text\xff")
    Path("folder.bpe").mkdir()
    done = CliRunner().invoke(main, ["train", *arguments])
    assert done.exit_code != 0
    assert message in done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bad.txt", "folder.bpe", "text.txt"]


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="no folder that nobody can write to")
@pytest.mark.parametrize("out", ["/proc/x.bpe", "x.bpe/x.json"])
def test_bad_outputs_are_told_before_the_work(out: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not a text is read for a file that could not be written; a folder that the system says one may write to, too."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(training, "_train", lambda *_: pytest.fail("the work began"))
    for name in ("text.txt", "x.bpe"):
        Path(name).write_bytes(b"text")
    done = CliRunner().invoke(main, ["train", "text.txt", "-o", out, "--vocab-size", "300"])
    assert done.exit_code in (1, 2), done.output
    assert "Traceback" not in done.output
    assert sorted(path.name for path in tmp_path.iterdir()) == ["text.txt", "x.bpe"]


@pytest.mark.skipif(os.name == "nt" or sys.platform == "darwin", reason="names of files are Unicode there")
def test_output_whose_name_is_not_utf8(tmp_path: Path) -> None:
    """The name of the encoding has a replacement character there; the file has its own name, and loads."""
    text, out = tmp_path / "text.txt", str(tmp_path / os.fsdecode(b"caf\xe9"))
    text.write_text("hug pug " * 20)
    for ending in (".bpe", ".json", ".tiktoken"):
        done = CliRunner().invoke(main, ["train", str(text), "-o", out + ending, "--vocab-size", "260"])
        assert done.exit_code == 0, done.output
        assert f"caf\N{REPLACEMENT CHARACTER}{ending}: 260 ids" in done.stderr
    enc = numbatok.Encoding.load(out + ".bpe")
    assert enc.name == "caf\N{REPLACEMENT CHARACTER}"
    enc.save(out + ".1.bpe", version=1)
    again = numbatok.Encoding.load(out + ".1.bpe", pat_str=GPT2_PATTERNS[0])
    ranks = numbatok.Encoding.from_tiktoken(out + ".tiktoken", pat_str=GPT2_PATTERNS[0])
    for one in (again, ranks, numbatok.Encoding.from_huggingface(out + ".json")):
        one.save(tmp_path / "again.json", "huggingface")
        assert one.encode("hug pugs") == enc.encode("hug pugs")
    ranks.save(tmp_path / "again.bpe")


def test_command_reads_stdin(tmp_path: Path) -> None:
    """A file "-" is the standard input."""
    out = str(tmp_path / "x.bpe")
    done = CliRunner().invoke(main, ["train", "-", "-o", out, "--vocab-size", "259"], input=b"aaabdaaabac")
    assert done.exit_code == 0, done.output
    assert numbatok.Encoding.load(out).encode("aaabdaaabac") == [258, 100, 258, 97, 99]


@pytest.mark.skipif(os.name == "nt", reason="pipes with names are of POSIX")
def test_command_reads_a_pipe(tmp_path: Path) -> None:
    """A pipe is opened once: whoever writes to it would be cut off by a second look."""
    pipe, out = tmp_path / "pipe", str(tmp_path / "x.bpe")
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=(b"aaabdaaabac",))
    writer.start()
    done = CliRunner().invoke(main, ["train", str(pipe), "-o", out, "--vocab-size", "259"])
    writer.join()
    assert done.exit_code == 0, done.output
    assert numbatok.Encoding.load(out).encode("aaabdaaabac") == [258, 100, 258, 97, 99]
