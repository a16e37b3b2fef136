"""Clips come with what is said in them, and as many seconds as are sent."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import soundfile

from seat.ab import clips
from seat.ab.clips import Clip, NothingToCompare, bundled, gathered, joined
from seat.ab.schedule import BINS, bin_of
from seat.recognizer import SAMPLE_RATE
from tests.fakes import speech


def test_the_bundled_clips_fill_every_bin() -> None:
    """So that a first run says something about each length."""
    assert [bin_of(clip.seconds) for clip in bundled()] == [name for name, _ in BINS]


def test_a_folder_gives_what_has_its_words_beside_it(tmp_path: Path) -> None:
    """A sound without a text file is left out."""
    for name in ("b", "a", "alone"):
        soundfile.write(tmp_path / f"{name}.wav", speech((1,)), SAMPLE_RATE)
    (tmp_path / "a.txt").write_text("one\n")
    (tmp_path / "b.txt").write_text("")
    assert [(clip.name, clip.text, clip.seconds) for clip in gathered(tmp_path)] == [
        ("a.wav", "one", 1.6),
        ("b.wav", "", 1.6),
    ]


def test_a_manifest_gives_its_texts(tmp_path: Path) -> None:
    """As NeMo writes them."""
    soundfile.write(tmp_path / "a.wav", speech((1,)), SAMPLE_RATE)
    manifest = tmp_path / "list.json"
    manifest.write_text(json.dumps({"audio_filepath": "a.wav", "text": "one"}))
    assert [clip.text for clip in gathered(manifest)] == ["one"]


def test_a_folder_without_words_is_a_sentence(tmp_path: Path) -> None:
    """That shows both ways to give them."""
    with pytest.raises(NothingToCompare, match=r"a\.txt beside a\.wav"):
        gathered(tmp_path)


def test_joined_clips_keep_their_words_and_seconds() -> None:
    """With silence between them, and none at the ends."""
    one, two = (Clip(name=text, waveform=np.ones(8000, np.int16), text=text) for text in ("one", "two"))
    whole = joined("both", [one, two], gap_s=2)
    assert (whole.text, whole.seconds, clips.silence(3).seconds) == ("one two", 3.0, 3.0)
    assert np.flatnonzero(whole.waveform == 0).tolist() == list(range(8000, 8000 + 2 * SAMPLE_RATE))
    assert len(whole.wav) == 44 + 2 * len(whole.waveform)
