"""The benchmark is fair and its documents are true: who gives other ids is not timed, and tables come from results.

Invariant: no test here looks at how fast anything is.

    python -m bench run --peers numbatok,tiktoken   # what these tests are about
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from cases import JIT_OFF

import numbatok
from bench import corpora, goals, hostile, performance, record, tables, unseen, vocabulary, works
from bench.child import DIFFERS, ERROR, SAME, UNSUPPORTED, Entry, Stand, difference, flat, offered
from bench.harness import write_section
from bench.peers import PEERS, Numbatok, Peer, Tiktoken, Unsupported, installed_version
from bench.processes import Child, Lost
from bench.study import Study

pytestmark = pytest.mark.skipif(JIT_OFF, reason="the benchmark measures compiled code")

ROOT = Path(__file__).parent.parent


class Fake(Peer):
    """A peer whose ids are all right but the last one."""

    name, package, module = "fake", "no-such-distribution", "none"
    forms: ClassVar[tuple[str, ...]] = ("str",)

    def __init__(self, vocabulary: vocabulary.Vocabulary) -> None:
        enc = numbatok.get_encoding(vocabulary.name)
        self.list = lambda text: [*enc.encode_ordinary(text)[:-1], 0]
        self.decode = lambda ids: enc.decode(ids)[:-1]

    def arrays(self, texts: list[str]) -> np.ndarray:
        """Fail."""
        raise RuntimeError(f"no {len(texts)} texts")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a folder for the files of a run."""
    return tmp_path_factory.mktemp("bench")


@pytest.fixture(scope="module")
def gpt2(folder: Path) -> vocabulary.Vocabulary:
    """Give the files of GPT-2's encoding."""
    return vocabulary.embedded("gpt2", folder)


@pytest.fixture
def stand(gpt2: vocabulary.Vocabulary) -> Stand:
    """Give a stand with two peers that are right, and one that is not."""
    return Stand(gpt2, {"numbatok": Numbatok, "tiktoken": Tiktoken, "fake": Fake})


@pytest.fixture
def case(folder: Path, gpt2: vocabulary.Vocabulary, stand: Stand) -> str:
    """Give the path of a case of two texts with its ids."""
    path = str(record.save_case(folder / "cases", "two", [b"one text", "zwei Wörter".encode()]).path)
    assert stand.obey({"do": "refer", "entry": Entry("tiktoken", "str", "list", path)._asdict()})["verdict"] == SAME
    return path


# ---- ids before time -------------------------------------------------------------------------------------------------


def test_the_same_ids_are_timed_and_other_ids_are_not(stand: Stand, case: str) -> None:
    """Of three entries the two that are right get into the rounds; the other one is marked."""
    entries = [Entry("numbatok", "bytes", "arrays", case), Entry("numbatok", "str", "array", case)]
    assert [stand.add(entry)["verdict"] for entry in entries] == [SAME, SAME]
    wrong = stand.add(Entry("fake", "str", "list", case))
    assert wrong["verdict"] == DIFFERS
    assert "the first other one at" in wrong["detail"]
    assert len(stand.round()["seconds"]) == 2


@pytest.mark.parametrize("op", ["array", "list", "arrays", "lists", "count"])
def test_every_operation_of_the_package_is_compared(stand: Stand, case: str, op: str) -> None:
    """All operations give what the reference gives."""
    answer = stand.obey({"do": "trial", "entry": Entry("numbatok", "bytes", op, case)._asdict()})
    assert (answer["verdict"], answer["op"]) == (SAME, op)


@pytest.mark.parametrize(
    ("entry", "verdict", "detail"),
    [
        (("fake", "str", "arrays"), ERROR, "RuntimeError: no 2 texts"),
        (("fake", "str", "count"), UNSUPPORTED, "has no operation count"),
        (("tiktoken", "str", "arrays"), UNSUPPORTED, "has no operation arrays"),
    ],
)
def test_what_fails_is_an_answer(stand: Stand, case: str, entry: tuple[str, ...], verdict: str, detail: str) -> None:
    """An error of a peer ends nothing."""
    told = stand.obey({"do": "trial", "entry": Entry(*entry, case)._asdict()})
    assert (told["verdict"], told["detail"]) == (verdict, detail)


def test_decoded_text_is_compared(stand: Stand, gpt2: vocabulary.Vocabulary, folder: Path) -> None:
    """A decoder that loses a character is marked."""
    path = str(record.save_case(folder / "cases", "text", [b"some text"]).path)
    stand.refer(Entry("tiktoken", "str", "list", path))
    verdicts = [stand.trial(Entry(peer, "str", "decode", path))["verdict"] for peer in ("numbatok", "tiktoken", "fake")]
    assert verdicts == [SAME, SAME, DIFFERS]


@pytest.mark.parametrize(
    ("op", "result", "same"),
    [
        ("list", [[1, 2], [], [3]], True),
        ("lists", [[1], [2, 3]], True),
        ("array", [np.array([1, 2], np.uint32), np.array([3], np.int32)], True),
        ("arrays", np.array([1, 2, 3]), True),
        ("arrays", np.array([1, 2]), False),
        ("list", [[1, 2, 4]], False),
        ("list", [[1, 2, 3, 3]], False),
        ("count", [1, 2], True),
        ("count", [2], False),
        ("decode", ["abc"], True),
        ("decode", [b"abc"], True),
        ("decode", ["ab"], False),
    ],
)
def test_difference(op: str, result: Any, same: bool) -> None:
    """Results are compared whatever form they have."""
    assert (difference(op, result, np.array([1, 2, 3], np.uint32), b"abc") == "") is same


def test_best_operation(stand: Stand) -> None:
    """The best operation is an array where there is one."""
    assert [offered(stand.peer(name), "best") for name in ("numbatok", "tiktoken", "fake")] == [
        "array",
        "array",
        "list",
    ]
    assert flat([]).tolist() == []
    with pytest.raises(Unsupported, match="has no operation lists"):
        offered(stand.peer("fake"), "lists")


# ---- peers -----------------------------------------------------------------------------------------------------------


def test_peers_have_what_the_harness_asks_for() -> None:
    """Each adapter names itself, its distribution, its module, and the forms of text it takes."""
    for name, cls in PEERS.items():
        assert cls.name == name
        assert cls.package
        assert cls.module
        assert set(cls.forms) <= {"bytes", "str"}
    assert "no-such-distribution" not in {cls.package for cls in PEERS.values()}


def test_missing_peer_is_a_line(monkeypatch: pytest.MonkeyPatch, gpt2: vocabulary.Vocabulary, folder: Path) -> None:
    """A peer that is not installed takes no part, and the report says so."""
    monkeypatch.setitem(PEERS, "fake", Fake)
    assert installed_version(Fake) is None
    run = record.Record(gpt2, record.Settings(folder, ("numbatok", "fake"), (1,)))
    assert run.installed == ["numbatok"]
    section = {"peers": {"numbatok": "1", "fake": None}, "verdicts": []}
    assert performance.verdict_lines(section) == ["* fake is not installed.", ""]


def test_vocabulary_files_hold_the_ranks(gpt2: vocabulary.Vocabulary) -> None:
    """The rank file and the tokenizer.json say what the encoding says, and the way through JSON loses nothing."""
    enc = numbatok.get_encoding("gpt2")
    assert gpt2.ranks is not None
    assert len(gpt2.ranks.read_bytes().splitlines()) == 50256
    model = json.loads(gpt2.json.read_text())["model"]
    assert len(model["merges"]) == 50000
    assert model["merges"][0] == ["Ġ", "t"]
    assert model["vocab"]["Ġt"] == enc.encode_single_token(" t")
    assert vocabulary.Vocabulary.parse(json.loads(json.dumps(gpt2.dump()))) == gpt2
    with pytest.raises(ValueError, match="is no file; give --tokenizer NAME=PATH"):
        vocabulary.given("mine", Path("/no/such/tokenizer.json"))


# ---- a run -----------------------------------------------------------------------------------------------------------


def test_record_of_a_small_run(monkeypatch: pytest.MonkeyPatch, gpt2: vocabulary.Vocabulary, folder: Path) -> None:
    """Two peers, one text, two works: every row has a figure for each round, and nothing differs."""
    settings = record.Settings(folder, ("numbatok", "tiktoken"), (1,), rounds=2, limit=300, slow=300)  # may compile
    run = record.Record(gpt2, settings)
    rows = run.measure(list(works.whole(run, {"prose": b"Some words, and some more.\n" * 50})))
    assert {(row["peer"], row["op"]) for row in rows} == {
        *(("numbatok", op) for op in ("array", "list", "count", "decode")),
        *(("tiktoken", op) for op in ("array", "list", "decode")),
    }
    assert all(len(row["seconds"]) == 2 and min(row["seconds"]) > 0 for row in rows)
    assert run.verdicts == []
    assert run.children == {}


def test_lost_process_is_an_answer(gpt2: vocabulary.Vocabulary) -> None:
    """A process that is gone is told, and so is one that takes too long."""
    with Child(gpt2, 1) as child:
        child.process.kill()
        with pytest.raises(Lost, match="crashed with SIGKILL"):
            child.ask({"do": "round"}, 30)
    with Child(gpt2, 1) as child, pytest.raises(Lost, match="more than 0 s"):
        child.ask({"do": "round"}, 0)


def test_command_line(tmp_path: Path) -> None:
    """A wrong name is refused with those that are right."""
    command = [sys.executable, "-m", "bench", "run", "--works", "nothing", "--folder", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "nothing is none of whole, chunks, " in done.stderr


# ---- texts -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [4, 100, 65_536])
def test_chunks_make_up_the_text(size: int) -> None:
    """No byte is lost; a chunk ends behind a newline where it can, and never within a character."""
    lines, run = "Zeile für Zeile\n".encode() * 9_000, "ü".encode() * 100_000
    chunks = corpora.cut_chunks(lines + run, size)
    assert b"".join(chunks) == lines + run
    assert all(0 < len(chunk) <= size and chunk.decode() for chunk in chunks)
    if size > 17:
        assert all(chunk.endswith(b"\n") for chunk in corpora.cut_chunks(lines, size))


def test_strings_are_whole_characters() -> None:
    """Short strings are text, and as many and as short as they should be."""
    data = "日本語 and words\n".encode() * 20_000
    for size in corpora.STRING_SIZES:
        assert all(0 < len(part) <= size and part.decode() for part in corpora.cut_strings(data, size))
    tiny = corpora.cut_tiny(data)
    assert len(tiny) == corpora.TINY
    assert max(map(len, tiny)) <= corpora.TINY_BYTES


@pytest.mark.parametrize("kind", hostile.KINDS)
def test_hostile_texts_are_text(kind: str) -> None:
    """Each has its size, to within some bytes, comes out the same again, and is another one in another turn."""
    data = hostile.hostile(kind, 5_000, 3)
    assert 4_990 < len(data) <= 5_000
    assert data.decode()
    assert data == hostile.hostile(kind, 5_000, 3)
    assert kind == "'s" or data not in (hostile.hostile(kind, 5_000, turn) for turn in range(3))


def test_hostile_texts_are_met_once(monkeypatch: pytest.MonkeyPatch, gpt2: vocabulary.Vocabulary, folder: Path) -> None:
    """Each peer has a figure for each turn and size, and no text is left behind."""
    monkeypatch.setattr(unseen, "SIZES", {"1 MB": 1_000, "4 MB": 4_000})
    monkeypatch.setattr(unseen, "KINDS", ("digits",))
    settings = record.Settings(folder / "once", ("numbatok", "tiktoken"), (1,), rounds=2, limit=300, slow=300)
    rows = unseen.hostile_rows(record.Record(gpt2, settings), {})
    assert [(row["peer"], row["case"], len(row["seconds"])) for row in rows] == [
        (peer, f"digits, {size}", 2) for size in ("1 MB", "4 MB") for peer in ("numbatok", "tiktoken")
    ]
    assert list((folder / "once" / "cases").iterdir()) == []


def test_folder_without_texts_is_refused(tmp_path: Path) -> None:
    """The error tells the command that makes some."""
    with pytest.raises(ValueError, match="make some with: python -m bench corpora"):
        corpora.read_corpora(tmp_path)
    (tmp_path / "a.txt").write_bytes(b"abc")
    assert corpora.read_corpora(tmp_path) == {"a": b"abc"}
    assert corpora.read_corpora(None).keys() == {"fixtures", "languages", "mobydick-32k", "shakespeare"}


# ---- the report ------------------------------------------------------------------------------------------------------


def rows_of(case: str, op: str, **fields: Any) -> list[dict[str, Any]]:
    """Give the rows of two peers: numbatok takes half of the time."""
    common = {"case": case, "op": op, "threads": 1, "bytes": 1_000_000, "texts": 1, "ids": 250_000, **fields}
    return [
        common | {"peer": "numbatok", "form": "bytes", "seconds": [0.01, 0.02, 0.01]},
        common | {"peer": "tiktoken", "form": "str", "seconds": [0.02, 0.03, 0.02]},
    ]


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """Give a folder with results of one encoding."""
    env = {"cpu": "a processor", "cores": 2, "python": "3", "commit": "abc", "date": "today"}
    env["versions"] = {"numba": "1", "numpy": "2"}
    verdict = {
        "peer": "tokie",
        "verdict": "differs",
        "detail": "2 ids for 1",
        "form": "str",
        "op": "list",
        "case": "prose",
    }
    common = {"environment": env, "peers": {"numbatok": "1", "kitoken": None}, "threads": [1], "rounds": 3}
    whole = common | {"verdicts": [verdict], "rows": rows_of("prose", "array") + rows_of("code", "array")}
    kinds = rows_of("digits, 1 MB", "array") + rows_of("digits, 4 MB", "array", bytes=4_000_000)
    path = tmp_path / "record-gpt2.json"
    write_section(path, "whole", {"replaced": True})
    write_section(path, "whole", whole)
    write_section(path, "hostile", common | {"verdicts": [], "rows": kinds})
    return tmp_path


def test_report_is_made_from_the_results_alone(results: Path) -> None:
    """The same results give the same text, with the figures that stand in them."""
    text = performance.tables(results)
    assert text == performance.tables(results)
    assert "| numbatok | **100 (50.0–100)** | **100 (50.0–100)** |" in text
    assert "* kitoken is not installed." in text
    assert "* tokie gives other ids, or other text: prose (first: 2 ids for 1). Not timed there." in text
    assert "| one thread to NumPy, warm, times the best peer | at least 1.25 | 2.00 | 2.00 (gpt2, prose) |" in text
    assert "| hostile texts of 4 MB, times 1 MB, each | at most 4.6 |  | 1.00 (gpt2, digits, 4 MB) |" in text
    document = f"before\n{performance.START}old\n{performance.END}after\n"
    made = performance.insert(document, results)
    assert performance.insert(made, results) == made
    assert made.startswith("before\n")
    assert made.endswith("after\n")


def test_goal_compares_with_the_best_peer_round_by_round() -> None:
    """A slow peer does not count, and a ratio is one of the same round."""
    slow = {"peer": "kitoken", "form": "str", "seconds": [1.0, 1.0, 1.0]}
    rows = rows_of("prose", "array")
    told = goals.cells("gpt2", [*rows, rows[0] | slow])
    assert told == [goals.Cell("gpt2, prose", 2.0)]


def test_figures_have_three_digits() -> None:
    """Figures are written with three digits, and the spread behind the median."""
    assert [tables.digits(value) for value in (1234.5, 99.96, 12.34, 1.234, 0.01234)] == [
        "1,234",
        "100",
        "12.3",
        "1.23",
        "0.01",
    ]
    assert str(tables.figure([1.0, 2.0, 4.0])) == "2.00 (1.00–4.00)"


def test_document_has_the_figures_of_the_results() -> None:
    """Each figure of docs/performance.md stands in a file of bench/results."""
    document = performance.DOCUMENT.read_text()
    assert performance.insert(document, ROOT / "bench" / "results") == document


@pytest.mark.parametrize("name", ["gpt2", "p50k_base"])
def test_study_variants_give_our_ids(name: str) -> None:
    """Every way to merge that the study times gives the ids of the package, and its stages can be timed."""
    one = Study(numbatok.get_encoding(name), (ROOT / "README.md").read_bytes()[:20_000] + "naïve 中文字 café".encode())
    one.check()
    assert len(one.merges[0]) > 100
