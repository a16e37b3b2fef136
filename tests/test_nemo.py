"""The direct path equals NeMo's own transcribe(), and leaves nothing of NeMo's habits behind."""

from __future__ import annotations

import hashlib
import io
import json
import logging
import subprocess
import sys
import tarfile
import threading
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import soxr

from seat.errors import ChecksumMismatch, DeviceUnavailable, ModelUnavailable
from seat.recognizer import SAMPLE_RATE, Chunk, Recognition, Waveform
from seat.transcript import Transcript
from seat.windows import WindowLimits, plan
from seat.words import sentences, spoken_words
from tests import tiny
from tests.stitched import stitch
from tests.tiny import build, chirps

if TYPE_CHECKING:
    from seat.gpu.nemo import NemoRecognizer

pytestmark = pytest.mark.model

CONFIDENCE_NOISE = 1e-4
"""How far a probability may move with the shape of its batch: floating-point sums in another order."""

REVISION = "0123456789abcdef0123456789abcdef01234567"


def _reference(model: Path, waveforms: list[Waveform], folder: Path) -> dict[str, list[dict[str, Any]]]:
    archive = folder / "audio.npz"
    np.savez(archive, *waveforms)
    command = [sys.executable, "-m", "tests.reference", str(model), str(archive)]
    result = subprocess.run(command, check=True, capture_output=True, text=True, timeout=110)
    answers: dict[str, list[dict[str, Any]]] = json.loads(result.stdout.splitlines()[-1])
    return answers


def _compare(
    recognizer: NemoRecognizer, recognition: Recognition, waveform: Waveform, expected: dict[str, Any]
) -> None:
    """Text, words, times, confidences and segments are those of NeMo."""
    seconds = len(waveform) / SAMPLE_RATE
    words = spoken_words(recognition, recognizer.vocabulary, offset_s=0, audio_s=seconds)
    frame_s = recognizer.vocabulary.frame_s
    assert [word for word, _, _ in expected["words"]] == [word.text for word in words]
    assert expected["text"] == " ".join(word.text for word in words)
    for (_, start_s, end_s), word in zip(expected["words"], words, strict=True):
        assert word.start_s == pytest.approx(start_s, abs=1e-6)
        assert word.end_s == pytest.approx(min(max(end_s, start_s + frame_s), seconds), abs=1e-6)
    assert recognition.confidences == pytest.approx(expected["token_confidence"], abs=CONFIDENCE_NOISE)
    assert [word.confidence for word in words] == pytest.approx(expected["word_confidence"], abs=CONFIDENCE_NOISE)
    assert [text for text, _, _ in expected["segments"]] == [segment.text for segment in sentences(words)]


def _clips_of_1_5_and_20_seconds(clips: dict[str, tuple[Waveform, str]]) -> list[Waveform]:
    by_length = sorted((waveform for waveform, _ in clips.values()), key=len)
    speech = np.concatenate(by_length * 5)
    return [speech[: seconds * SAMPLE_RATE].copy() for seconds in (1, 5, 20)]


def test_the_demo_model_hears_what_nemos_transcribe_hears(
    demo: NemoRecognizer, clips: dict[str, tuple[Waveform, str]], tmp_path: Path
) -> None:
    """One, five and twenty seconds, alone and as one batch: same text, words, times, confidences and segments."""
    from seat.gpu.checkpoint import DEMO

    waveforms = _clips_of_1_5_and_20_seconds(clips)
    expected = _reference(DEMO, waveforms, tmp_path)
    assert any(answer["text"] for answer in expected["alone"])
    for waveform, answer in zip(waveforms, expected["alone"], strict=True):
        _compare(demo, demo.recognize([waveform])[0], waveform, answer)
    for waveform, recognition, answer in zip(waveforms, demo.recognize(waveforms), expected["batched"], strict=True):
        _compare(demo, recognition, waveform, answer)


def test_clips_below_a_second_are_heard_as_by_nemo(
    demo: NemoRecognizer, clips: dict[str, tuple[Waveform, str]], tmp_path: Path
) -> None:
    """Both put silence on both sides of them: `transcribe()` itself, and the one window that we plan."""
    from seat.gpu.checkpoint import DEMO

    hello = min((waveform for waveform, _ in clips.values()), key=len)
    waveforms = [hello[-round(seconds * SAMPLE_RATE) :].copy() for seconds in (0.4, 0.7, 0.95)]
    answers = _reference(DEMO, waveforms, tmp_path)["alone"]
    assert any(answer["text"] for answer in answers)
    for waveform, answer in zip(waveforms, answers, strict=True):
        (window,) = plan(len(waveform), WindowLimits.of_seconds(20, (6, 4)), lambda _, last: last)
        padded = window.cut(waveform)
        _compare(demo, demo.recognize([padded])[0], padded, answer)


def test_a_tdt_model_hears_in_a_batch_what_nemo_hears_alone(
    load_nemo: Callable[..., NemoRecognizer], tmp_path: Path
) -> None:
    """NeMo 3.0.0 mixes up token durations within a batch, so word ends move with their neighbours; ours do not."""
    path = build(tmp_path, "tdt")
    recognizer = load_nemo(str(path))
    waveforms = [(chirps(seconds, seed) * 32767).astype(np.int16) for seed, seconds in enumerate((1, 5, 20))]
    expected = _reference(path, waveforms, tmp_path)["alone"]
    assert recognizer.vocabulary.predicts_durations
    alone = [recognizer.recognize([waveform])[0] for waveform in waveforms]
    assert len({duration for recognition in alone for duration in recognition.durations}) > 2
    for recognitions in (alone, recognizer.recognize(waveforms)):
        for waveform, recognition, answer in zip(waveforms, recognitions, expected, strict=True):
            _compare(recognizer, recognition, waveform, answer)


def test_a_tiny_rnnt_model_with_regular_attention_is_heard_alike(
    load_nemo: Callable[..., NemoRecognizer], tmp_path: Path
) -> None:
    """Not only the demo model's kind of encoder."""
    path = build(tmp_path, "rnnt")
    recognizer = load_nemo(str(path))
    waveforms = [(chirps(seconds, seed) * 32767).astype(np.int16) for seed, seconds in enumerate((1, 5))]
    for waveform, recognition, answer in zip(
        waveforms, recognizer.recognize(waveforms), _reference(path, waveforms, tmp_path)["batched"], strict=True
    ):
        _compare(recognizer, recognition, waveform, answer)


@pytest.mark.parametrize("kind", ["rnnt", "tdt"])
def test_a_decoder_that_goes_on_hears_what_one_pass_hears(
    load_nemo: Callable[..., NemoRecognizer], tmp_path: Path, kind: str
) -> None:
    """Two files chunk by chunk, in batches with one that begins: same tokens, frames, durations and confidences."""
    recognizer = load_nemo(str(build(tmp_path, kind)))  # type: ignore[arg-type]
    files = [(chirps(seconds, seed) * 32767).astype(np.int16) for seed, seconds in enumerate((9, 5))]
    expected = recognizer.recognize(files)
    pieces: list[list[Recognition]] = [[], []]
    carried: list[object] = [None, None]
    for first, stop in ((0, 7), (7, 32), (32, 33), (33, None)):
        chunks = [
            Chunk(waveform=waveform, first=first, stop=stop, carried=state)
            for waveform, state in zip(files, carried, strict=True)
        ]
        beginner = Chunk(waveform=files[0], first=0, stop=None)
        *proceeded, (begun, _) = recognizer.proceed([*chunks, beginner])
        assert begun.tokens == expected[0].tokens
        for number, (recognition, state) in enumerate(proceeded):
            pieces[number].append(recognition)
            carried[number] = state
    for heard, whole in zip(pieces, expected, strict=True):
        assert tuple(token for piece in heard for token in piece.tokens) == whole.tokens
        assert tuple(frame for piece in heard for frame in piece.frames) == whole.frames
        assert tuple(duration for piece in heard for duration in piece.durations) == whole.durations
        confidences = [confidence for piece in heard for confidence in piece.confidences]
        assert confidences == pytest.approx(whole.confidences, abs=CONFIDENCE_NOISE)


@pytest.mark.parametrize("kind", ["rnnt", "tdt"])
def test_what_is_decoded_ahead_changes_nothing_that_is_carried(
    kind: str, load_nemo: Callable[..., NemoRecognizer], tmp_path: Path
) -> None:
    """The tokens before a chunk's stop, and those of the next chunk, are the same; a file beside it is heard alike."""
    recognizer = load_nemo(str(build(tmp_path, kind)))  # type: ignore[arg-type]
    sound = (chirps(9, 0) * 32767).astype(np.int16)
    (whole,) = recognizer.recognize([sound])
    file = Chunk(waveform=sound, first=0, stop=None)
    carried: object = None
    firm: list[int] = []
    for first, stop in ((0, 20), (20, 45), (45, None)):
        chunk = Chunk(waveform=sound, first=first, stop=stop, carried=carried, ahead=True)
        (heard, carried), (beside, _) = recognizer.proceed([chunk, file])
        last = len(sound) if stop is None else stop
        firm += [token for token, frame in zip(heard.tokens, heard.frames, strict=True) if frame < last]
        ahead = tuple(token for token, frame in zip(heard.tokens, heard.frames, strict=True) if frame >= last)
        assert (*firm, *ahead) == whole.tokens
        assert beside.tokens == whole.tokens
    assert tuple(firm) == whole.tokens


def test_what_comes_out_of_a_batch_is_what_comes_out_alone(
    demo: NemoRecognizer, clips: dict[str, tuple[Waveform, str]], noise: Waveform
) -> None:
    """Any mix of lengths, silence and noise among them: same tokens at the same frames."""
    mix = [*(waveform for waveform, _ in clips.values()), noise, np.zeros(SAMPLE_RATE, np.int16)]
    for waveform, batched in zip(mix, demo.recognize(mix), strict=True):
        (alone,) = demo.recognize([waveform])
        assert (batched.tokens, batched.frames, batched.durations) == (alone.tokens, alone.frames, alone.durations)
        assert batched.confidences == pytest.approx(alone.confidences, abs=CONFIDENCE_NOISE)


def test_padding_ahead_on_another_thread_changes_nothing(
    demo: NemoRecognizer, clips: dict[str, tuple[Waveform, str]]
) -> None:
    """Nor does it leave anything of a longer batch behind a shorter waveform."""
    waveforms = [waveform for waveform, _ in clips.values()]
    with ThreadPoolExecutor(1) as pool:
        padded = [pool.submit(demo.pad, some).result() for some in (waveforms, waveforms[:2], waveforms)]
    assert demo.recognize(waveforms, padded[2]) == demo.recognize(waveforms)
    assert demo.recognize(waveforms[:2], padded[1]) == demo.recognize(waveforms[:2])


def test_the_same_call_twice_gives_the_same_numbers(
    demo: NemoRecognizer, clips: dict[str, tuple[Waveform, str]]
) -> None:
    """No dropout, no dither, no statistics that move."""
    waveform = next(iter(clips.values()))[0]
    assert demo.recognize([waveform]) == demo.recognize([waveform])


def _hear(demo: NemoRecognizer, waveform: Waveform) -> Transcript:
    windows = plan(len(waveform), WindowLimits.of_seconds(30, (10, 5)), lambda _, last: last)
    recognitions = demo.recognize([window.cut(waveform) for window in windows])
    return stitch(windows, recognitions, demo.vocabulary, samples=len(waveform), language="en")


def test_the_demo_model_has_the_right_words(demo: NemoRecognizer, clips: dict[str, tuple[Waveform, str]]) -> None:
    """Every bundled clip, to the last full stop."""
    assert {name: _hear(demo, waveform).text for name, (waveform, _) in clips.items()} == {
        name: text for name, (_, text) in clips.items()
    }


@pytest.mark.parametrize("scale", [0.05, 0.3])
def test_loudness_does_not_change_the_words(
    demo: NemoRecognizer, clips: dict[str, tuple[Waveform, str]], scale: float
) -> None:
    """A quiet microphone says the same."""
    for waveform, text in clips.values():
        assert _hear(demo, np.round(waveform * scale).astype(np.int16)).text == text


def test_a_telephone_line_does_not_change_the_words(
    demo: NemoRecognizer, clips: dict[str, tuple[Waveform, str]]
) -> None:
    """At 8 kHz nothing above 4 kHz is left."""
    for waveform, text in clips.values():
        narrow = soxr.resample(soxr.resample(waveform, SAMPLE_RATE, 8000), 8000, SAMPLE_RATE)
        assert _hear(demo, narrow).text == text


@pytest.mark.parametrize("seconds", [0.4, 3.0])
def test_digital_silence_behind_speech_swallows_nothing(
    demo: NemoRecognizer, clips: dict[str, tuple[Waveform, str]], seconds: float
) -> None:
    """Parakeet models have come back empty from that."""
    for waveform, text in clips.values():
        silence = np.zeros(round(seconds * SAMPLE_RATE), np.int16)
        assert _hear(demo, np.concatenate([waveform, silence])).text == text


def test_what_is_not_speech_has_no_words(demo: NemoRecognizer, noise: Waveform) -> None:
    """Silence of several lengths, a tone, white noise."""
    time = np.arange(3 * SAMPLE_RATE) / SAMPLE_RATE
    tone = (8000 * np.sin(2 * np.pi * 440 * time)).astype(np.int16)
    silences = [np.zeros(round(seconds * SAMPLE_RATE), np.int16) for seconds in (0.05, 0.1, 1, 10)]
    for waveform in [tone, noise, *silences, np.ones(1, np.int16)]:
        assert _hear(demo, waveform).text == ""


def test_the_encoder_alone_is_cast_to_bfloat16(
    load_nemo: Callable[..., NemoRecognizer], clips: dict[str, tuple[Waveform, str]]
) -> None:
    """Front end, decoder and joint keep their precision; the words are the same."""
    import torch

    recognizer = load_nemo(dtype="bfloat16")
    model = recognizer._model
    assert {parameter.dtype for parameter in model.encoder.parameters()} == {torch.bfloat16}
    for module in (model.preprocessor, model.decoder, model.joint):
        assert {tensor.dtype for tensor in module.state_dict().values() if tensor.is_floating_point()} <= {
            torch.float32
        }
    assert recognizer.info.dtype == "bfloat16"
    for waveform, text in clips.values():
        assert _hear(recognizer, waveform).text == text


def test_nothing_trains_and_nothing_dithers(demo: NemoRecognizer) -> None:
    """Evaluation mode throughout, frozen weights, no random noise, no padding to multiples of frames."""
    model = demo._model
    assert not any(module.training for module in model.modules())
    assert not any(parameter.requires_grad for parameter in model.parameters())
    assert (model.preprocessor.featurizer.dither, model.preprocessor.featurizer.pad_to) == (0.0, 0)


def test_weights_are_those_that_nemo_restores(demo: NemoRecognizer) -> None:
    """Adopting mapped tensors instead of copying changes no bit."""
    import torch
    from nemo.collections.asr.models import ASRModel

    from seat.gpu.checkpoint import DEMO

    restored = ASRModel.restore_from(str(DEMO), map_location="cpu").state_dict()
    adopted = demo._model.state_dict()
    assert set(restored) == set(adopted)
    assert all(torch.equal(restored[name], adopted[name]) for name in restored)


def test_nemo_hoards_no_log_records(demo: NemoRecognizer) -> None:  # noqa: ARG001  loading it is what brings NeMo in
    """Its handlers are gone, its warnings reach the root logger, and Python's own warnings are Python's again."""
    from nemo.utils import lightning_logger_patch

    assert logging.getLogger("nemo_logger").handlers == []
    assert logging.getLogger("nemo_logger").propagate
    assert lightning_logger_patch.HANDLERS == {}
    assert logging.getLogger("lightning.pytorch").handlers == []
    assert "nemo" not in getattr(warnings.showwarning, "__module__", "")


def test_inference_mode_is_entered_on_the_thread_that_calls(demo: NemoRecognizer, noise: Waveform) -> None:
    """It belongs to a thread; a recognizer made on one works on another and keeps no gradient."""
    import torch

    seen: list[bool] = []

    def call() -> None:
        demo.recognize([noise])
        seen.append(torch.is_inference_mode_enabled())

    thread = threading.Thread(target=call)
    thread.start()
    thread.join()
    assert seen == [False]


@pytest.mark.parametrize("asked", ["cuda", "cuda:7"])
def test_cuda_by_name_refuses_where_cuda_does_not_answer(asked: str) -> None:
    """A silent fall-back gives the right text, slowly, for hours; the sentence says what to do."""
    import torch

    from seat.gpu import device

    if asked == "cuda" and torch.cuda.is_available():
        pytest.skip("a card is here")
    with pytest.raises(DeviceUnavailable, match=f"SEAT_DEVICE={asked} .* SEAT_DEVICE=cpu"):
        device.choose(asked)


def test_a_pinned_digest_must_be_the_files(tmp_path: Path) -> None:
    """Verified before anything is loaded; both digests are named."""
    from seat.gpu import checkpoint

    path = tmp_path / "x.nemo"
    path.write_bytes(b"weights")
    digest = hashlib.sha256(b"weights").hexdigest()
    assert checkpoint.verify(path, digest.upper()) == digest
    with pytest.raises(ChecksumMismatch, match=digest):
        checkpoint.verify(path, "0" * 64)


@pytest.mark.parametrize(
    "model, reason",
    [
        ("/nowhere/x.nemo", "there is no such file"),
        ("nonsense", "neither 'demo'"),
        ("a/b/c", "neither 'demo'"),
        ("owner/name@main", "neither 'demo'"),
    ],
)
def test_a_model_that_cannot_be_found_is_said_so(model: str, reason: str) -> None:
    """A sentence, not a traceback."""
    from seat.gpu import checkpoint

    with pytest.raises(ModelUnavailable, match=reason):
        checkpoint.locate(model)


def test_a_checkpoint_writes_nothing_outside_its_folder(tmp_path: Path) -> None:
    """Only its plain files are unpacked: no link, and no name that leads elsewhere."""
    from seat.gpu import checkpoint

    names = ["./model_config.yaml", "nested/weights", "../climbed", "nested/../../climbed", str(tmp_path / "absolute")]
    with tarfile.open(tmp_path / "model.nemo", "w") as archive:
        for name in names:
            member = tarfile.TarInfo(name)
            member.size = 4
            archive.addfile(member, io.BytesIO(b"four"))
        for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE):
            link = tarfile.TarInfo(f"link{kind.decode()}")
            link.type, link.linkname = kind, "/etc/hostname"
            archive.addfile(link)
    with tarfile.open(tmp_path / "model.nemo") as archive:
        checkpoint.unpack(archive, tmp_path / "inside")
        checkpoint.unpack(archive, tmp_path / "one", [archive.getmember("nested/weights")])
    written = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if not path.is_dir()}
    assert written == {"model.nemo", "inside/model_config.yaml", "inside/nested/weights", "one/nested/weights"}
    assert (tmp_path / "inside" / "model_config.yaml").read_bytes() == b"four"


def test_a_model_with_a_prompt_is_refused(
    load_nemo: Callable[..., NemoRecognizer], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It puts the language between encoder and decoder; without that the words would be wrong, and nobody told."""
    from nemo.collections.asr import models
    from nemo.collections.asr.models.rnnt_bpe_models_prompt import EncDecRNNTBPEModelWithPrompt

    plain = tiny._configuration
    prompts = {"initialize_prompt_feature": True, "num_prompts": 4, "prompt_dictionary": {"en": 0, "de": 1}}

    def with_prompts(*arguments: Any) -> dict[str, Any]:
        configuration = plain(*arguments)
        return configuration | {"model_defaults": configuration["model_defaults"] | prompts}

    monkeypatch.setattr(tiny, "_configuration", with_prompts)
    monkeypatch.setattr(models, "EncDecRNNTBPEModel", EncDecRNNTBPEModelWithPrompt)
    with pytest.raises(ModelUnavailable, match="puts a prompt between encoder and decoder"):
        load_nemo(str(tiny.build(tmp_path, "rnnt")))


@pytest.mark.parametrize(
    "change, reason",
    [
        ({"joint": SimpleNamespace(num_extra_outputs=2)}, "has outputs that are neither tokens nor durations"),
        ({"decoding": SimpleNamespace(durations=[0, 1])}, "has outputs that are neither tokens nor durations"),
        ({"tokenizer": SimpleNamespace(tokenizers_dict={})}, "has no single SentencePiece tokenizer"),
    ],
)
def test_what_would_be_decoded_into_wrong_words_is_refused(change: dict[str, Any], reason: str) -> None:
    """Big blanks, durations without a place, tokenizers of several languages: as far as a model tells of them."""
    from seat.gpu import checkpoint

    pieces = SimpleNamespace(tokenizer=SimpleNamespace(id_to_piece=str))
    model = {
        "joint": SimpleNamespace(num_extra_outputs=0),
        "decoding": SimpleNamespace(durations=None),
        "tokenizer": pieces,
    }
    assert checkpoint._unknown(SimpleNamespace(**model)) is None
    assert checkpoint._unknown(SimpleNamespace(**model | change)) == reason


def test_a_file_that_is_no_checkpoint_is_said_so(load_nemo: Callable[..., NemoRecognizer], tmp_path: Path) -> None:
    """Whatever NeMo raises about it."""
    path = tmp_path / "broken.nemo"
    path.write_bytes(b"not a tar")
    with pytest.raises(ModelUnavailable, match=r"broken\.nemo.*NeMo cannot read"):
        load_nemo(str(path))


def test_a_cached_model_is_found_without_the_hub(tmp_path: Path) -> None:
    """HF_HUB_OFFLINE=1: by name and by pinned revision from the cache; another revision is said to be missing."""
    cache = tmp_path / "hub" / "models--owner--name"
    (cache / "refs").mkdir(parents=True)
    (cache / "refs" / "main").write_text(REVISION)
    snapshot = cache / "snapshots" / REVISION
    snapshot.mkdir(parents=True)
    (snapshot / "name.nemo").write_bytes(b"weights")
    code = f"""
from seat.gpu import checkpoint
from seat.errors import ModelUnavailable
for model in ("owner/name", "owner/name@{REVISION}"):
    found = checkpoint.locate(model)
    print(found.path.name, found.revision)
try:
    checkpoint.locate("owner/name@" + "f" * 40)
except ModelUnavailable as fault:
    print(fault)
"""
    environment = {"HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
    result = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, env=environment, cwd=Path.cwd()
    )
    *found, missing = result.stdout.splitlines()
    assert found == [f"name.nemo {REVISION}"] * 2
    assert missing.startswith("The model 'owner/name' cannot be loaded: 'name.nemo' is not in the local cache")


def test_a_model_finds_where_each_of_its_weights_lies(demo: NemoRecognizer) -> None:
    """All of them, in bytes; where there is no card, nothing is told of one."""
    found = demo.examine()
    ((place, nbytes),) = found.weights.items()
    assert place == demo.info.device == "cpu"
    assert nbytes >= 4 * demo.info.parameters
    assert (found.process_nbytes, found.driver) == (None, None)
    assert found.matrix_flop_per_s > 0
