"""Which files are meant by what a user names."""

import json
from pathlib import Path

import pytest

from seat.inputs import STDIN, InvalidManifest, Item, expand


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Sound at two depths, beside what is none."""
    for name in ("b.WAV", "deep/a.flac", "deep/notes.txt", "cover.jpg", "deep.wav/x"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.touch()
    return tmp_path


def test_a_folder_is_what_looks_like_sound_in_it(folder: Path) -> None:
    """At any depth and in any case of letters, in order, called by where it lies below the folder."""
    names = [item.name for item in expand([folder])]
    assert names == [Path("b.WAV"), Path("deep/a.flac")]


def test_a_file_that_is_named_is_taken_whatever_its_ending(folder: Path) -> None:
    """Sound is told by its bytes; a missing one is reported later."""
    named = [folder / "cover.jpg", folder / "gone", STDIN]
    assert [(item.path, item.name) for item in expand(named)] == [
        (folder / "cover.jpg", Path("cover.jpg")),
        (folder / "gone", Path("gone")),
        (STDIN, Path("stdin")),
    ]


def test_a_manifest_lists_files_and_what_is_known_of_them(folder: Path) -> None:
    """Relative names are below the manifest's folder; empty lines are none."""
    elsewhere = folder / "deep" / "a.flac"
    manifest = folder / "list.json"
    lines = [{"audio_filepath": "b.WAV", "text": "hello"}, {"audio_filepath": str(elsewhere), "duration": 1}]
    manifest.write_text("\n\n".join(map(json.dumps, lines)))
    assert expand([manifest]) == [
        Item(path=folder / "b.WAV", name=Path("b.WAV"), facts={"text": "hello"}),
        Item(path=elsewhere, name=Path("a.flac"), facts={"duration": 1}),
    ]


def test_a_part_of_a_file_is_not_taken_for_the_whole(tmp_path: Path) -> None:
    """NeMo's manifests may list segments; that whole files only are transcribed is said before any is."""
    manifest = tmp_path / "list.jsonl"
    manifest.write_text('{"audio_filepath": "a.wav", "offset": 0.0}\n{"audio_filepath": "a.wav", "offset": 4.5}\n')
    with pytest.raises(InvalidManifest, match=r"list.jsonl, line 2: It has an 'offset'"):
        expand([manifest])


@pytest.mark.parametrize(
    "line", [b"no json", b"[]", b"{}", b'{"audio_filepath": 1}', b'"text"', b'{"audio_filepath": "caf\xe9.wav"}']
)
def test_a_line_that_names_no_file_is_pointed_at(line: bytes, tmp_path: Path) -> None:
    """By its number, counting empty lines; one in another encoding than UTF-8, too."""
    manifest = tmp_path / "list.jsonl"
    manifest.write_bytes(b"\n" + line + b"\n")
    with pytest.raises(InvalidManifest, match=r"list.jsonl, line 2: "):
        expand([manifest])
