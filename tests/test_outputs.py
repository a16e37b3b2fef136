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
from seat.inputs import Item, expand
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
