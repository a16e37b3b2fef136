"""Where transcripts go, and that a run which was cut short goes on where it was."""

import json
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from seat.bars import Bars
from seat.errors import UndecodableAudio
from seat.files import each, left_to_do
from seat.inputs import Item, NotText, expand
from seat.outputs import Folder, Lines, Output, SameTarget

ANSWER = '{"text":"hello","duration":1.5}\n'


@pytest.fixture
def items(tmp_path: Path) -> list[Item]:
    """Six files in two folders."""
    for name in ("a", "b", "deep/a", "deep/b", "deep/c", "deep/d"):
        path = tmp_path / "in" / f"{name}.wav"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    return expand([tmp_path / "in"])


class Ears:
    """Hear a file's content, fail on some, and remember what was heard."""

    def __init__(self, fails: str = "") -> None:
        self.fails = fails
        self.heard: list[str] = []

    def __call__(self, file: BinaryIO, _name: str, _bars: Bars) -> str:
        """Hear one."""
        said = file.read().decode()
        self.heard.append(said)
        if said == self.fails:
            raise UndecodableAudio(reason="it is noise")
        return json.dumps({"text": said, "duration": 1.5}) + "\n"


def carry_out(items: Sequence[Item], output: Output, ears: Ears, jobs: int = 1) -> int:
    """What a run does once it has something that hears."""
    with Bars(len(items), jobs=jobs) as bars:
        return each(left_to_do(items, output, bars), ears, output, bars, jobs)


def lines_of(path: Path) -> list[dict[str, Any]]:
    """The objects in a file of lines."""
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_folder_mirrors_the_one_the_files_came_from(items: list[Item], tmp_path: Path) -> None:
    """And holds nothing else when it is done."""
    assert carry_out(items, Folder(tmp_path / "out", ".json", items, again=False), Ears(), jobs=3) == 0
    written = {str(path.relative_to(tmp_path / "out")) for path in (tmp_path / "out").rglob("*") if path.is_file()}
    assert written == {str(item.name.with_suffix(".json")) for item in items}


def test_a_second_run_does_what_the_first_has_not(items: list[Item], tmp_path: Path) -> None:
    """A file that failed has no transcript, and is tried again; with `again`, all are."""
    first, second, third = Ears(fails="b"), Ears(), Ears()
    folder = Folder(tmp_path / "out", ".json", items, again=False)
    assert (carry_out(items, folder, first), carry_out(items, folder, second)) == (1, 0)
    assert (len(first.heard), second.heard) == (6, ["b"])
    carry_out(items, Folder(tmp_path / "out", ".json", items, again=True), third)
    assert third.heard == first.heard


def test_two_items_never_share_a_place(items: list[Item], tmp_path: Path) -> None:
    """One would overwrite the other."""
    with pytest.raises(SameTarget, match=r"both would be written to .*a\.txt"):
        Folder(tmp_path, ".txt", [*items, items[0]], again=False)


def test_a_line_holds_what_was_known_and_what_was_heard(tmp_path: Path) -> None:
    """NeMo's names: what is said is `text`, what was heard `pred_text`; all that the manifest said stays as it was."""
    item = Item(path=Path("a.wav"), name=Path("a.wav"), facts={"text": "hallo", "speaker": 3, "duration": 1.4})
    with Lines(tmp_path / "out.jsonl", again=False) as lines:
        lines.deliver(item, ANSWER)
    expected = {"audio_filepath": "a.wav", "text": "hallo", "speaker": 3, "pred_text": "hello", "duration": 1.4}
    assert lines_of(tmp_path / "out.jsonl") == [expected]


def test_lines_go_on_after_half_a_line(items: list[Item], tmp_path: Path) -> None:
    """A run that was killed while writing loses that line and no other; failures are tried again."""
    path = tmp_path / "out" / "lines.jsonl"
    first, second = Ears(fails="b"), Ears()
    with Lines(path, again=False) as lines:
        assert carry_out(items[:4], lines, first) == 1
    whole = path.read_text()
    path.write_text(whole[:-10])
    with Lines(path, again=False) as lines:
        assert carry_out(items, lines, second) == 0
    cut_off = whole.splitlines()[-1]
    assert sorted(second.heard) == sorted(["b", json.loads(cut_off)["pred_text"], "deep/c", "deep/d"])
    told = [json.loads(line) for line in path.read_text().splitlines() if line != cut_off[:-9]]
    assert {line["pred_text"] for line in told if "pred_text" in line} == {str(i.name)[:-4] for i in items}


def test_lines_are_only_added(items: list[Item], tmp_path: Path) -> None:
    """With `again` nothing counts as done, and what is there stays: a run that is cut off has cost nothing."""
    path, ears = tmp_path / "out.jsonl", Ears()
    with Lines(path, again=False) as lines:
        carry_out(items, lines, ears)
    before = path.read_text()
    with Lines(path, again=True) as lines:
        assert before == path.read_text()
        assert carry_out(items[:2], lines, ears) == 0
    assert ears.heard[6:] == ears.heard[:2]
    assert lines_of(path)[6:] == lines_of(path)[:2]
    assert path.read_text().startswith(before)


@pytest.mark.parametrize("fails, again", [(("", "a"), ["a"]), (("a", ""), []), (("", ""), [])], ids=str)
def test_the_last_line_of_a_file_counts(
    fails: tuple[str, str], again: list[str], items: list[Item], tmp_path: Path
) -> None:
    """Where a file that had words fails when it is heard anew, the next run tries it again; where not, it is done."""
    path, third = tmp_path / "out.jsonl", Ears()
    for said in fails:
        with Lines(path, again=True) as lines:
            carry_out(items[:1], lines, Ears(fails=said))
    with Lines(path, again=False) as lines:
        carry_out(items[:1], lines, third)
    assert again == third.heard


@pytest.mark.parametrize("said", ["one\u2028two", "one\u2029two", "one\u0085two"], ids=ascii)
def test_only_a_line_feed_ends_a_line(said: str, tmp_path: Path) -> None:
    """JSON leaves these as they are, and Python's `splitlines` would cut there."""
    item = Item(path=Path("a.wav"), name=Path("a.wav"))
    with Lines(tmp_path / "out.jsonl", again=False) as lines:
        lines.deliver(item, json.dumps({"text": said}))
    with Lines(tmp_path / "out.jsonl", again=False) as lines:
        assert lines.has(item)


def test_half_a_character_is_half_a_line(tmp_path: Path) -> None:
    """A disk that was full cuts anywhere; the file stays text."""
    item, path = Item(path=Path("a.wav"), name=Path("a.wav")), tmp_path / "out.jsonl"
    path.write_bytes('{"audio_filepath": "b.wav", "pred_text": "é'.encode()[:-1])
    with Lines(path, again=False) as lines:
        lines.deliver(item, ANSWER)
    half, whole, rest = path.read_text().split("\n")
    assert (half, rest) == ('{"audio_filepath": "b.wav", "pred_text": "', "")
    assert json.loads(whole)["pred_text"] == "hello"


def test_lines_are_not_added_to_what_is_no_text(tmp_path: Path) -> None:
    """A sound that was named by mistake stays whole."""
    path = tmp_path / "song.wav"
    path.write_bytes(b"RIFF\xff\xfe\n\xff")
    with pytest.raises(NotText, match=r"song\.wav is no text in UTF-8"), Lines(path, again=True):
        pass
    assert path.read_bytes() == b"RIFF\xff\xfe\n\xff"


def test_a_line_can_hold_every_name(tmp_path: Path) -> None:
    """Names of files are bytes, and need not be text."""
    item, path = Item(path=Path("caf\udce9.wav"), name=Path("caf\udce9.wav")), tmp_path / "out.jsonl"
    with Lines(path, again=False) as lines:
        lines.deliver(item, ANSWER)
    with Lines(path, again=False) as lines:
        assert lines.has(item)


def test_lines_of_an_earlier_run_are_a_manifest(tmp_path: Path) -> None:
    """Such as those with an error: what a file was heard to say, or why not, is not known of it beforehand."""
    facts = {"text": "hallo", "pred_text": "", "error": "it is noise"}
    item = Item(path=Path("a.wav"), name=Path("a.wav"), facts=facts)
    with Lines(tmp_path / "out.jsonl", again=False) as lines:
        lines.deliver(item, '{"text":"hello"}')
        lines.lament(item, "no")
    heard, failed = lines_of(tmp_path / "out.jsonl")
    assert heard == {"audio_filepath": "a.wav", "text": "hallo", "pred_text": "hello"}
    assert failed == {"audio_filepath": "a.wav", "text": "hallo", "error": "no"}


def test_jobs_hear_at_the_same_time_and_no_line_is_torn(items: list[Item], tmp_path: Path) -> None:
    """Three files wait for one another here: with fewer threads this would not end."""
    together = threading.Barrier(3, timeout=30)

    class Waiting(Ears):
        def __call__(self, file: BinaryIO, name: str, bars: Bars) -> str:
            together.wait()
            return super().__call__(file, name, bars)

    with Lines(tmp_path / "out.jsonl", again=False) as lines:
        assert carry_out(items, lines, Waiting(), jobs=3) == 0
    assert sorted(line["pred_text"] for line in lines_of(tmp_path / "out.jsonl")) == sorted(
        str(item.name)[:-4] for item in items
    )
