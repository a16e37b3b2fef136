"""The command line: what it prints where, what it exits with, and that errors are sentences."""

from __future__ import annotations

import io
import json
import math
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest
import soundfile
from typer.testing import CliRunner
from websockets.sync.server import serve

from seat import __version__
from seat.bars import Bars
from seat.budget import Budget
from seat.captions import captions
from seat.cli import app
from seat.client import Client, NoAddress, Refused, TooSlow, Unintelligible, Wish, authorization, base_url
from seat.errors import DeviceUnavailable, ModelNotFound, ModelUnavailable, QueueFull
from seat.files import OutputFormat, by_model, by_server, each
from seat.formats import FORMATS
from seat.inputs import expand
from seat.order import LOCAL_LIMITS
from seat.outputs import Lines, Screen
from seat.recognizer import SAMPLE_RATE, Recognizer, Waveform
from seat.sentences import sentence
from seat.settings import Settings, read
from tests.fakes import FakeRecognizer, speech

SETTINGS = Settings(window_s=4, window_context_s=(1, 1), warmup_seconds=())
WISH = Wish(model="demo", response_format="text")
ANSWER = "Hello.\n"


def clip(folder: Path, name: str = "clip.wav", digits: tuple[int, ...] = (1, 2, 3)) -> Path:
    """A file in which the fake recognizer hears these digits."""
    path = folder / name
    soundfile.write(path, speech(digits), SAMPLE_RATE)
    return path


def run(*arguments: str | Path, given: bytes | None = None, **environment: str) -> tuple[int, str, str]:
    """Run a command in this process: exit code, standard output, standard error."""
    result = CliRunner().invoke(app, list(map(str, arguments)), input=given, env=environment)
    assert result.exception is None or isinstance(result.exception, SystemExit)
    return result.exit_code, result.stdout, result.stderr


@pytest.fixture
def silent() -> Iterator[Bars]:
    """Bars that nobody sees, as off a terminal."""
    with Bars(1) as bars:
        yield bars


class SpeechServer(BaseHTTPRequestHandler):
    """A server of another make: one model, one key, always the same answer."""

    def do_GET(self) -> None:
        """List the models."""
        self.answer(200, json.dumps({"data": [{"id": "the-model"}]}))

    def do_POST(self) -> None:
        """Transcribe, for whom shows the key and asks in the right form."""
        body = self.rfile.read(int(self.headers["content-length"]))
        if self.headers["authorization"] != "Bearer secret":
            self.answer(401, json.dumps({"error": {"message": "Who are you?", "code": None}}))
        elif b"the-model" in body and b'name="response_format"\r\n\r\ntext' in body and b'filename="' in body:
            self.answer(200, ANSWER)
        else:
            self.answer(400, json.dumps({"error": {"message": "What is that?"}}))

    def answer(self, status: int, body: str) -> None:
        """Send one answer."""
        self.send_response(status)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_facts: object) -> None:
        """Say nothing."""


@pytest.fixture
def server_url() -> Iterator[str]:
    """Where a `SpeechServer` answers."""
    with ThreadingHTTPServer(("127.0.0.1", 0), SpeechServer) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def client(
    answer: Callable[[httpx.Request], httpx.Response], wait: Callable[[str, float], None] = lambda *_: None
) -> Client:
    """A client whose requests are answered by a function."""
    return Client("http://seat", transport=httpx.MockTransport(answer), wait=wait)


def refusal(status: int, code: str | None, message: str = "No.", **headers: str) -> httpx.Response:
    """OpenAI's error object."""
    return httpx.Response(status, json={"error": {"message": message, "code": code}}, headers=headers)


def test_the_version_is_printed() -> None:
    """`seat --version` says which seat it is, and leaves."""
    assert run("--version") == (0, f"seat {__version__}\n", "")


def test_help_names_every_command() -> None:
    """`seat --help` is where a user learns what there is."""
    exit_code, out, _ = run("--help")
    assert exit_code == 0
    assert all(command in out for command in ("serve", "transcribe", "demo"))


def test_help_imports_nothing_heavy() -> None:
    """Asking for help costs a fraction of a second: no framework, no array, no model is imported for it."""
    code = """if True:
        import sys
        from typer.testing import CliRunner
        from seat.cli import app
        assert CliRunner().invoke(app, ["transcribe", "--help"]).exit_code == 0
        print(*sorted({"torch", "nemo", "litestar", "granian", "httpx", "numpy"} & set(sys.modules)))
    """
    result = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert result.stdout.strip() == ""


def test_the_formats_are_those_of_the_server() -> None:
    """The command line offers what `seat.formats` writes, and nothing else."""
    assert set(FORMATS) == {each.value for each in OutputFormat}


@pytest.mark.parametrize(
    "arguments",
    [
        ("transcribe",),
        ("transcribe", "a.wav", "--format", "docx"),
        ("transcribe", "a.wav", "--url", "http://seat", "--model", "demo"),
        ("transcribe", "a.wav", "--model-name", "demo"),
        ("transcribe", "a.wav", "--output-dir", "out", "--jsonl", "out.jsonl"),
        ("transcribe", "a.wav", "--jobs", "2"),
        ("transcribe", "a.wav", "--jsonl", "out.jsonl", "--format", "srt"),
        ("doctor", "--url", "http://seat", "--device", "cpu"),
        ("listen",),
    ],
    ids=" ".join,
)
def test_a_wrong_command_is_a_usage_error(arguments: tuple[str, ...]) -> None:
    """What cannot be meant exits with 2, and nothing is done."""
    exit_code, out, err = run(*arguments)
    assert (exit_code, out) == (2, "")
    assert "Traceback" not in err


def test_a_missing_file_is_a_sentence(tmp_path: Path) -> None:
    """A file that is not there is told before a model is loaded for it, with what to check."""
    path = tmp_path / "nothing.wav"
    assert run("transcribe", path) == (
        1,
        "",
        f"{path}: There is no such file. Check its name; '-' reads standard input.\n",
    )


def test_an_empty_folder_is_nothing_to_do(tmp_path: Path) -> None:
    """No model is loaded for it."""
    expected = "There is nothing to transcribe: the folders hold no sound, the manifests no lines.\n"
    assert run("transcribe", tmp_path) == (0, "", expected)


def test_a_manifest_that_is_none_is_a_sentence(tmp_path: Path) -> None:
    """With the line, and what it should look like."""
    manifest = tmp_path / "list.jsonl"
    manifest.write_text('{"audio_filepath": "a.wav"}\n[1]\n')
    expected = f'{manifest}, line 2: It is no object with a file\'s name, such as {{"audio_filepath": "clip.wav"}}.\n'
    assert run("transcribe", manifest) == (1, "", expected)


def test_two_files_for_one_place_are_refused(server_url: str, tmp_path: Path) -> None:
    """Before anything is written."""
    files = [tmp_path / name / "a.wav" for name in ("b", "c")]
    exit_code, _, err = run("transcribe", *files, "--output-dir", tmp_path / "out", "--url", server_url)
    assert exit_code == 1
    assert err == f"Two of the files have the same name: both would be written to {tmp_path / 'out' / 'a.txt'}.\n"


def bad_manifest(folder: Path) -> tuple[list[str | Path], str]:
    """One that another program wrote in Latin-1."""
    path = folder / "bad.json"
    path.write_bytes(b'{"audio_filepath": "caf\xe9.wav"}\n')
    return ["transcribe", path], f"{path}, line 1: It is no object with a file's name"


def lines_into_sound(folder: Path) -> tuple[list[str | Path], str]:
    """The wrong file behind the option."""
    return ["transcribe", clip(folder), "--jsonl", clip(folder)], f"{folder / 'clip.wav'} is no text in UTF-8."


def lines_into_a_folder(folder: Path) -> tuple[list[str | Path], str]:
    """A folder behind it."""
    expected = f"Is a directory. Check the name and the permissions of {folder}."
    return ["transcribe", clip(folder), "--jsonl", folder], expected


def lines_below_a_file(folder: Path) -> tuple[list[str | Path], str]:
    """A place that cannot be made."""
    path = clip(folder) / "out.jsonl"
    return ["transcribe", path.parent, "--jsonl", path], f"Check the name and the permissions of {path.parent}."


def clips_that_are_not_there(folder: Path) -> tuple[list[str | Path], str]:
    """A manifest that names a missing file."""
    manifest = folder / "list.json"
    manifest.write_text('{"audio_filepath": "gone.wav", "text": "x"}')
    expected = f"No such file or directory. Check the name and the permissions of {folder / 'gone.wav'}."
    return ["ab", "seat", "seat", "--clips", manifest], expected


def clips_in_another_encoding(folder: Path) -> tuple[list[str | Path], str]:
    """Words beside a sound, in Latin-1."""
    clip(folder).with_suffix(".txt").write_bytes(b"caf\xe9")
    return ["ab", "seat", "seat", "--clips", folder], f"{folder / 'clip.txt'} is no text in UTF-8."


def half_a_quote(_folder: Path) -> tuple[list[str | Path], str]:
    """Settings that no shell would read."""
    return ["ab", "SEAT_MODEL='x", "seat"], "'SEAT_MODEL='x' is neither an address"


@pytest.mark.parametrize(
    "mistake",
    [
        bad_manifest,
        lines_into_sound,
        lines_into_a_folder,
        lines_below_a_file,
        clips_that_are_not_there,
        clips_in_another_encoding,
        half_a_quote,
    ],
    ids=lambda made: made.__name__,
)
def test_a_mistake_with_a_file_is_a_sentence(
    mistake: Callable[[Path], tuple[list[str | Path], str]], tmp_path: Path
) -> None:
    """Before a model is loaded or a server is asked, and never a traceback."""
    command, expected = mistake(tmp_path)
    exit_code, out, err = run(*command)
    assert (exit_code, out) == (1, "")
    assert expected in err


@pytest.mark.parametrize("url", ["http://h:99999", "http://[::1", "http://", "http://a..b", "ftp://h"])
@pytest.mark.parametrize("command", ["transcribe CLIP --url", "live CLIP --url", "ab"])
def test_what_is_no_address_is_a_sentence(command: str, url: str, tmp_path: Path) -> None:
    """The same one, whatever is asked of it."""
    arguments = [str(clip(tmp_path)) if each == "CLIP" else each for each in command.split()]
    exit_code, out, err = run(*arguments, url, *(["seat"] if command == "ab" else []))
    assert (exit_code, out) == (1, "")
    assert err.startswith(f"'{url}' is no address: ")
    assert err.endswith(" Write it as http://HOST:PORT.\n")


def test_an_address_without_a_server_is_a_sentence(tmp_path: Path) -> None:
    """Nothing at the address: the sentence says the address and how to start a seat."""
    exit_code, out, err = run("transcribe", clip(tmp_path), "--url", "http://127.0.0.1:1")
    assert (exit_code, out) == (1, "")
    assert err.startswith("No server answers at http://127.0.0.1:1/v1 (")
    assert "'seat serve'" in err


def test_a_wrong_setting_is_an_event_of_the_log() -> None:
    """Where no terminal reads it; `cannot_start`, as every other reason."""
    exit_code, out, err = run("serve", SEAT_HSOT="0.0.0.0")  # noqa: S104  nothing is served
    assert (exit_code, out) == (1, "")
    told = json.loads(err)
    assert (told["event"], told["level"]) == ("cannot_start", "error")
    assert "SEAT_HSOT is not a setting; did you mean SEAT_HOST?" in told["reason"]


def test_a_wrong_setting_is_a_sentence() -> None:
    """A misspelt variable is named with the one that was meant."""
    exit_code, out, err = run("room", SEAT_HSOT="0.0.0.0")  # noqa: S104  nothing is served
    assert (exit_code, out) == (1, "")
    assert err.splitlines() == [
        "The settings are not usable:",
        "  SEAT_HSOT is not a setting; did you mean SEAT_HOST?",
        "Correct these options or variables, or leave them out.",
    ]


def test_the_key_for_servers_is_no_wrong_setting(tmp_path: Path) -> None:
    """SEAT_API_KEY belongs to the command line: a model in this process does not stumble over it."""
    exit_code, _, err = run("transcribe", clip(tmp_path), SEAT_API_KEY="secret", SEAT_DEVICE="abacus")
    assert exit_code == 1
    assert "SEAT_DEVICE='abacus'" in err
    assert "SEAT_API_KEY" not in err


def test_the_key_for_servers_is_no_wrong_setting_of_live(tmp_path: Path) -> None:
    """Without an address, those of the settings are asked, with the key."""
    exit_code, _, err = run("live", clip(tmp_path), SEAT_API_KEY="secret", SEAT_PORT="1")
    assert exit_code == 1
    assert err.startswith("No server answers at http://127.0.0.1:1 (")


def test_a_server_transcribes(server_url: str, tmp_path: Path) -> None:
    """Standard output holds the transcript and nothing else; the key comes from the environment."""
    assert run("transcribe", clip(tmp_path), "--url", server_url, SEAT_API_KEY="secret") == (0, ANSWER, "")


def test_standard_input_is_a_file(server_url: str, tmp_path: Path) -> None:
    """'-' is read, and written to a file named after where it came from."""
    given = clip(tmp_path).read_bytes()
    server = ("--url", server_url, "--api-key", "secret")
    assert run("transcribe", "-", "--output-dir", tmp_path / "out", *server, given=given) == (0, "", "")
    assert (tmp_path / "out" / "stdin.txt").read_text() == ANSWER


def test_several_files_go_into_a_folder(server_url: str, tmp_path: Path) -> None:
    """With a folder to write to, each input has a file of its own there; a missing one costs only itself."""
    out = tmp_path / "deep" / "out"
    exit_code, stdout, err = run(
        *("transcribe", tmp_path / "gone.wav", clip(tmp_path), "--output-dir", out),
        *("--url", server_url, "--api-key", "secret"),
    )
    assert (exit_code, stdout) == (1, "")
    assert "gone.wav: There is no such file." in err
    assert {path.name: path.read_text() for path in out.iterdir()} == {"clip.txt": ANSWER}


def test_a_missing_file_has_a_line_that_says_so(tmp_path: Path) -> None:
    """As what failed in any other way has; one that an earlier run has done need not be there."""
    done, lines, manifest = tmp_path / "done.wav", tmp_path / "out.jsonl", tmp_path / "list.jsonl"
    lines.write_text(before := json.dumps({"audio_filepath": str(done), "pred_text": "one"}) + "\n")
    manifest.write_text('{"audio_filepath": "done.wav"}\n{"audio_filepath": "gone.wav", "text": "x"}\n')
    assert run("transcribe", manifest, "--jsonl", lines)[0] == 1
    assert lines.read_text().startswith(before)
    reason = "There is no such file. Check its name; '-' reads standard input."
    gone = {"audio_filepath": str(tmp_path / "gone.wav"), "text": "x", "error": reason}
    assert json.loads(lines.read_text().removeprefix(before)) == gone


def test_several_transcripts_are_told_apart(server_url: str, tmp_path: Path) -> None:
    """On standard output come the transcripts alone; whose they are is said on standard error."""
    path = clip(tmp_path)
    expected = (0, ANSWER * 2, f"==> {path} <==\n" * 2)
    assert run("transcribe", path, path, "--url", server_url, "--api-key", "secret") == expected


def test_a_server_that_wants_a_key_says_how(server_url: str, tmp_path: Path) -> None:
    """A 401 ends in how to give the key, whatever the server calls it."""
    path = clip(tmp_path)
    exit_code, _, err = run("transcribe", path, "--url", server_url, SEAT_API_KEY="", OPENAI_API_KEY="")
    expected = f"{path}: Who are you? Give the key with --api-key, or in SEAT_API_KEY.\n"
    assert (exit_code, err) == (1, expected)


@pytest.mark.parametrize(
    "output_format, begins",
    [
        (OutputFormat.TEXT, "one two three\n"),
        (OutputFormat.JSON, '{"text":"one two three","usage":{"type":"duration","seconds":4}}\n'),
        (OutputFormat.SRT, "1\n00:00:00,"),
        (OutputFormat.VTT, "WEBVTT\n\n00:00:00."),
        (OutputFormat.VERBOSE_JSON, '{"task":"transcribe","language":"en","duration":3.6,"text":"one two three",'),
    ],
)
def test_a_model_in_this_process_writes_every_format(
    output_format: OutputFormat, begins: str, tmp_path: Path, silent: Bars
) -> None:
    """Without a server, the same service answers in the same forms."""
    with clip(tmp_path).open("rb") as file, by_model(SETTINGS, FakeRecognizer, output_format) as hear:
        text = hear(file, "clip.wav", silent)
    assert text.startswith(begins)
    assert text.endswith("\n")


def test_a_file_that_finds_no_room_here_waits_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Decoded audio is bounded here, too; beside a clip that is being heard, a long file would be too much."""
    loaded, begun, refused = threading.Event(), threading.Event(), threading.Event()

    class Watched(Budget):
        @contextmanager
        def share(self) -> Iterator[Callable[[int], None]]:
            with super().share() as draw:

                def watched(amount: int) -> None:
                    try:
                        draw(amount)
                    except QueueFull:
                        refused.set()
                        raise

                yield watched

    def wait(_waveforms: Sequence[Waveform]) -> None:
        if loaded.is_set():
            begun.set()
            assert refused.wait(30)

    def heard(path: Path) -> str:
        with path.open("rb") as file:
            return hear(file, path.name, Bars(2, jobs=2))

    monkeypatch.setattr("seat.transcriber.Budget", Watched)
    settings = SETTINGS.model_copy(update={"max_decoded_mib": 1})
    short, long = clip(tmp_path, "short.wav"), clip(tmp_path, "long.wav", (4,) * 60)
    with (
        by_model(settings, partial(FakeRecognizer, before=wait), OutputFormat.TEXT) as hear,
        ThreadPoolExecutor() as pool,
    ):
        loaded.set()
        first = pool.submit(heard, short)
        assert begun.wait(30)
        second = pool.submit(heard, long)
        assert first.result() == "one two three\n"
        assert second.result() == " ".join(["four"] * 60) + "\n"


def test_more_files_than_may_be_inside_are_all_heard(tmp_path: Path, silent: Bars) -> None:
    """One by one where need be, whoever comes first."""
    settings = SETTINGS.model_copy(update={"max_requests": 1})
    paths = [clip(tmp_path, f"{number}.wav", (number,)) for number in range(5)]
    with (
        by_model(settings, FakeRecognizer, OutputFormat.JSON) as hear,
        Lines(tmp_path / "out.jsonl", again=False) as lines,
    ):
        assert each(expand(paths), hear, lines, silent, jobs=5) == 0
    heard = {json.loads(line)["pred_text"] for line in (tmp_path / "out.jsonl").read_text().splitlines()}
    assert heard == {"zero", "one", "two", "three", "four"}


def test_a_model_in_this_process_has_no_limits_but_memory() -> None:
    """Those of a server keep strangers apart; decoded audio is memory here, too."""
    here, there = read(LOCAL_LIMITS), Settings()
    assert (here.max_audio_s, here.max_queue_audio_s) == (0, math.inf)
    assert min(here.deadline_s, here.stall_s) == 7 * 24 * 3600
    assert here.max_requests > 1000 * there.max_requests
    assert here.max_decoded_mib == there.max_decoded_mib


def test_verbose_json_holds_words_and_segments(tmp_path: Path, silent: Bars) -> None:
    """A command line has no use for half of it."""
    with clip(tmp_path).open("rb") as file, by_model(SETTINGS, FakeRecognizer, OutputFormat.VERBOSE_JSON) as hear:
        answer = json.loads(hear(file, "clip.wav", silent))
    assert [word["word"] for word in answer["words"]] == ["one", "two", "three"]
    assert len(answer["segments"]) == 1


def test_the_bar_follows_the_audio(tmp_path: Path) -> None:
    """From nothing, over every window, to all of it: the bar shows seconds of audio, never more than there are."""

    class Watched(Bars):
        def heard(self, done_s: float, all_s: float) -> None:
            seen.append((done_s, all_s))

    seen: list[tuple[float, float]] = []
    path = clip(tmp_path, digits=(1,) * 12)
    with path.open("rb") as file, by_model(SETTINGS, FakeRecognizer, OutputFormat.TEXT) as hear:
        hear(file, "clip.wav", Watched(1))
    done = [done_s for done_s, _ in seen]
    assert [all_s for _, all_s in seen] == pytest.approx([12.6] * len(seen))
    assert done == sorted(set(done))
    assert (done[0], done[-1]) == (0, pytest.approx(12.6))
    assert len(done) > 3


def test_a_bad_file_costs_only_itself(tmp_path: Path, silent: Bars, capsys: pytest.CaptureFixture[str]) -> None:
    """What is no audio is told with what to check, and the files after it are transcribed."""
    noise = tmp_path / "noise.wav"
    noise.write_bytes(b"no audio at all")
    got: list[str] = []
    with by_model(SETTINGS, FakeRecognizer, OutputFormat.TEXT) as hear:
        screen = Screen(silent.say, got.append, several=False)
        failed = each(expand([noise, clip(tmp_path)]), hear, screen, silent)
    assert (failed, got) == (1, ["one two three\n"])
    err = capsys.readouterr().err
    assert f"{noise}: The audio file could not be decoded: " in err
    assert "'ffprobe'" in err


def _raising(fault: Exception) -> Callable[[], Recognizer]:
    def load() -> Recognizer:
        raise fault

    return load


@pytest.mark.parametrize(
    "fault, expected",
    [
        (ModelUnavailable(model="x.nemo", reason="there is no such file"), "there is no such file. Name one with"),
        (DeviceUnavailable(device="cuda", reason="CUDA finds no card"), "set SEAT_DEVICE=cpu"),
        (OSError("the disk is gone"), "The model 'demo' cannot be loaded: OSError: the disk is gone. Name one with"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_model_that_does_not_load_is_a_sentence(fault: Exception, expected: str) -> None:
    """Whatever keeps a model from loading is told with a next step."""
    with (
        pytest.raises((ModelUnavailable, DeviceUnavailable)) as caught,
        by_model(SETTINGS, _raising(fault), OutputFormat.TEXT),
    ):
        pass
    assert expected in sentence(caught.value)


def test_a_server_that_loads_is_asked_again() -> None:
    """A 503 is waited out for as long as the server says, and why is told."""
    answers = [refusal(503, "model_loading", "Loading.", **{"retry-after": "7"}), httpx.Response(200, text=ANSWER)]
    waits: list[tuple[str, float]] = []
    with client(lambda _: answers.pop(0), wait=lambda *facts: waits.append(facts)) as asking:
        assert asking.transcribe(io.BytesIO(b"audio"), "a.wav", WISH) == ANSWER
    assert waits == [("Loading.", 7.0)]


def test_a_server_that_wants_no_waiting_is_given_up_too() -> None:
    """Each try is the whole file; 'at once' is a second."""
    waits: list[float] = []
    later = refusal(503, "queue_full", **{"retry-after": "0"})
    with (
        client(lambda _: later, wait=lambda _, seconds: waits.append(seconds)) as asking,
        pytest.raises(Refused),
    ):
        asking.transcribe(io.BytesIO(b"audio"), "a.wav", WISH)
    assert waits == [1.0] * 120


@pytest.mark.parametrize("key", ["s\u00e9cret", "sec\0ret", "sec\nret"])
def test_a_key_that_no_header_could_hold_is_not_repeated(key: str) -> None:
    """Neither by us nor by whoever would try to send it."""
    with pytest.raises(Refused) as caught:
        Client("http://127.0.0.1:1", api_key=key)
    with pytest.raises(Refused):
        next(captions("http://127.0.0.1:1", [], api_key=key))
    assert sentence(caught.value) == (
        "The key holds more than printable ASCII, and no header can hold that. "
        "Give the key with --api-key, or in SEAT_API_KEY."
    )


def test_a_key_from_a_file_ends_where_its_line_does() -> None:
    """With the line ends of Windows, too."""
    assert authorization("secret\r\n") == {"Authorization": "Bearer secret"}
    assert authorization(" ") == authorization(None) == {}


@pytest.mark.parametrize("said", ["hello", "{}", "[1]"])
def test_live_sound_needs_a_seat(said: str) -> None:
    """Who says something else is no seat; that is a sentence."""
    with serve(lambda socket: socket.send(said), "127.0.0.1", 0) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"HTTP://127.0.0.1:{server.socket.getsockname()[1]}"
        with pytest.raises(Unintelligible, match="it says what no seat says"):
            next(captions(address, []))
        server.shutdown()


def test_a_server_that_never_gets_ready_is_given_up() -> None:
    """Patience ends: after two minutes of 'later' the user is told so."""
    waits: list[float] = []
    with (
        client(lambda _: refusal(503, "model_loading"), wait=lambda _, seconds: waits.append(seconds)) as asking,
        pytest.raises(Refused) as caught,
    ):
        asking.transcribe(io.BytesIO(b"audio"), "a.wav", WISH)
    assert sum(waits) == 120
    assert sentence(caught.value) == "No. Try again in a minute."


def test_an_unknown_model_is_answered_with_the_names_there_are(silent: Bars) -> None:
    """A 404 about the model ends in the names that would work."""

    def answer(request: httpx.Request) -> httpx.Response:
        models = {"data": [{"id": "one"}, {"id": "two"}]}
        return httpx.Response(200, json=models) if request.method == "GET" else refusal(404, "404")

    with (
        by_server(client(answer), "three", OutputFormat.TEXT) as hear,
        pytest.raises(ModelNotFound, match=r"'three' does not exist .* 'one', 'two'"),
    ):
        hear(io.BytesIO(b"audio"), "a.wav", silent)


@pytest.mark.parametrize(
    "answer",
    [
        httpx.Response(200, text="<html>"),
        httpx.Response(200, json=["demo"]),
        httpx.Response(200, json={"data": []}),
        httpx.Response(200, json={"models": []}),
        httpx.Response(404, text="nothing here"),
    ],
    ids=["html", "list", "empty", "other", "404"],
)
def test_what_is_no_speech_server_is_said(answer: httpx.Response) -> None:
    """A web server of another kind at the address is no traceback."""
    with client(lambda _: answer) as asking, pytest.raises(Unintelligible, match="http://seat/v1 is not the address"):
        asking.models()


@pytest.mark.parametrize("told", [{}, {"status": "ok"}, {"state": "ready", "model": None}], ids=json.dumps)
def test_what_is_no_seat_has_no_health(told: Mapping[str, Any]) -> None:
    """Servers of other makes have a /health, too."""
    with (
        client(lambda _: httpx.Response(200, json=told)) as asking,
        pytest.raises(Unintelligible, match="its /health has no "),
    ):
        asking.health()


def test_a_seat_that_loads_has_a_health() -> None:
    """Without figures yet."""
    told = {"state": "loading", "model": None, "memory": None}
    with client(lambda _: httpx.Response(200, json=told)) as asking:
        assert told == asking.health()


@pytest.mark.parametrize("body", ["Hello.", "", "[1]", "{}", '{"text":null}'])
@pytest.mark.parametrize("asked", ["json", "verbose_json"])
def test_a_transcript_is_json_where_json_was_asked_for(asked: str, body: str) -> None:
    """Some servers answer with bare text whatever the format; that is no transcript."""
    wish = Wish(model="demo", response_format=asked)
    with client(lambda _: httpx.Response(200, text=body)) as asking, pytest.raises(Unintelligible):
        asking.transcribe(io.BytesIO(b"audio"), "a.wav", wish)


def test_an_answer_that_is_no_json_costs_only_its_file(tmp_path: Path, silent: Bars) -> None:
    """It has a line that says so, and the next file has its words."""
    answers = [httpx.Response(200, text="Hello."), httpx.Response(200, json={"text": "Hello."})]
    asking = client(lambda _: answers.pop(0))
    items = expand([clip(tmp_path, "a.wav"), clip(tmp_path, "b.wav")])
    with by_server(asking, "demo", OutputFormat.JSON) as hear, Lines(tmp_path / "out.jsonl", again=False) as lines:
        assert each(items, hear, lines, silent) == 1
    failed, heard = map(json.loads, (tmp_path / "out.jsonl").read_text().splitlines())
    assert "it does not answer in JSON" in failed["error"]
    assert heard["pred_text"] == "Hello."


def test_a_server_that_does_not_answer_in_time_is_a_sentence() -> None:
    """An answer is waited for with patience, not for ever."""

    def answer(request: httpx.Request) -> httpx.Response:
        raise httpx.ReadTimeout(str(request.url))

    with client(answer) as asking, pytest.raises(TooSlow, match="within 3600 seconds"):
        asking.models()


@pytest.mark.parametrize(
    "body, expected",
    [
        ({"error": {"message": "Bad.", "code": "invalid_audio"}}, "Bad. See with a player"),
        ({"error": "Bad."}, "Bad."),
        ({"detail": "Bad."}, "Bad."),
        ({}, "The server answered 400 Bad Request."),
    ],
    ids=["openai", "string", "detail", "nothing"],
)
def test_every_dialect_of_errors_is_read(body: Mapping[str, Any], expected: str) -> None:
    """Servers of other makes have other bodies; what they say reaches the user."""
    with client(lambda _: httpx.Response(400, json=body)) as asking, pytest.raises(Refused) as caught:
        asking.transcribe(io.BytesIO(b"audio"), "a.wav", WISH)
    assert sentence(caught.value).startswith(expected)


@pytest.mark.parametrize(
    "given",
    ["http://h:1", "http://h:1/", "http://h:1/v1", "http://h:1/v1/", "h:1", "h:1/v1"],
)
def test_an_address_is_completed(given: str) -> None:
    """Users write addresses with and without scheme, '/v1' and slash."""
    assert base_url(given) == "http://h:1/v1"


@pytest.mark.parametrize("given", ["http://h:-1", "h:x", "http://h\nh", "wss://h", "", f"http://{'h' * 64}"])
def test_no_client_is_made_for_what_is_no_address(given: str) -> None:
    """Else whoever connects would raise what nobody translates."""
    with pytest.raises(NoAddress):
        Client(given)
    with pytest.raises(NoAddress):
        next(captions(given, []))


def test_the_upload_is_counted(tmp_path: Path) -> None:
    """The bar over an upload ends at its last byte."""
    sent: list[tuple[int, int]] = []
    path = clip(tmp_path)
    with client(lambda _: httpx.Response(200, text=ANSWER)) as asking, path.open("rb") as file:
        asking.transcribe(file, "a.wav", WISH, lambda *facts: sent.append(facts))
    nbytes = path.stat().st_size
    assert sent[-1] == (nbytes, nbytes)
