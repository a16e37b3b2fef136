"""Reading the environment."""

import pytest
from pydantic import SecretStr

from seat import settings
from seat.errors import InvalidSettings


def test_an_empty_environment_gives_the_defaults() -> None:
    """Nothing needs to be set."""
    read = settings.read({})
    assert ("127.0.0.1", 8300, "demo", "auto", 3600.0) == (
        read.host,
        read.port,
        read.model,
        read.device,
        read.max_audio_s,
    )


@pytest.mark.parametrize(
    "name, value, field, expected",
    [
        ("SEAT_PORT", "9000", "port", 9000),
        ("SEAT_WINDOW_CONTEXT_S", "8,4", "window_context_s", (8.0, 4.0)),
        ("SEAT_WARMUP_SECONDS", "1,8,", "warmup_seconds", (1.0, 8.0)),
        ("SEAT_MODEL_ALIASES", "a, b", "model_aliases", ("a", "b")),
        ("SEAT_API_KEYS", "k1,k2", "api_keys", (SecretStr("k1"), SecretStr("k2"))),
        ("SEAT_MAX_AUDIO_S", "0", "max_audio_s", 0.0),
        ("PARAKEET_MODEL", "x.nemo", "model", "x.nemo"),
        ("PARAKEET_DEVICE", "cuda:1", "device", "cuda:1"),
        ("WINDOW_S", "20", "window_s", 20.0),
        ("WARMUP_SECONDS", "2", "warmup_seconds", (2.0,)),
        ("PARAKEET_MAX_FILE_DURATION", "60", "max_audio_s", 60.0),
        ("PARAKEET_ATTENTION_MODE", "auto", "attention", "auto"),
        ("PARAKEET_AUTO_ATTN_THRESHOLD", "120", "auto_attention_s", 120.0),
        ("PARAKEET_LOCAL_ATTN_CONTEXT", "64,32", "local_context", (64, 32)),
        ("MEM_CAP_MIB", "2000", "mem_cap_mib", 2000),
        ("SEAT_MEM_CAP_MIB", "0", "mem_cap_mib", 0),
        ("CUDA_GRAPHS", "0", "cuda_graphs", False),
        ("SEAT_CUDA_GRAPHS_BATCH", "8", "cuda_graphs_batch", 8),
        ("PARAKEET_TORCH_COMPILE", "1", "torch_compile", True),
        ("SEAT_MEM_RETURN", "0", "mem_return", False),
        ("SEAT_IDLE_RELEASE_S", "600", "idle_release_s", 600.0),
        ("SEAT_PORT", "", "port", 8300),
    ],
)
def test_a_variable_sets_its_field(name: str, value: str, field: str, expected: object) -> None:
    """Lists are written with commas, older names work, an empty value is none."""
    assert getattr(settings.read({name: value}), field) == expected


@pytest.mark.parametrize(
    "value, named",
    [
        ("", []),
        ("k1,k2", [("key1", "k1"), ("key2", "k2")]),
        ("ann:k1, k2 ,ann:k3", [("ann", "k1"), ("key2", "k2"), ("ann", "k3")]),
        ("ann:k:1", [("ann", "k:1")]),
        ("1:k,:k,1:", [("key1", "1:k"), ("key2", ":k"), ("key3", "1:")]),
    ],
)
def test_a_key_has_a_name_for_the_log(value: str, named: list[tuple[str, str]]) -> None:
    """The one before its colon, where that can be one, or its place; two keys of one client may share theirs."""
    keys = settings.read({"SEAT_API_KEYS": value}).named_keys
    assert [(name, key.get_secret_value()) for name, key in keys] == named


def test_our_own_name_wins_over_an_older_one() -> None:
    """SEAT_WINDOW_S beside WINDOW_S decides, whichever comes first."""
    assert settings.read({"SEAT_WINDOW_S": "20", "WINDOW_S": "40"}).window_s == 20.0


def test_what_is_handed_in_wins_over_the_environment() -> None:
    """Command line arguments win; None means that none was given."""
    assert settings.read({"SEAT_PORT": "1", "SEAT_HOST": "::1"}, port=2, host=None).model_dump(
        include={"port", "host"}
    ) == {
        "port": 2,
        "host": "::1",
    }


@pytest.mark.parametrize(
    "environment, sentence",
    [
        ({"SEAT_WINDWO_S": "3"}, "SEAT_WINDWO_S is not a setting; did you mean SEAT_WINDOW_S?"),
        ({"SEAT_DEVICE": "gpu"}, "SEAT_DEVICE='gpu'"),
        ({"SEAT_PORT": "many"}, "SEAT_PORT='many'"),
        ({"SEAT_WINDOW_CONTEXT_S": "inf,5"}, "SEAT_WINDOW_CONTEXT_S='inf,5': Input should be a finite number"),
        ({"SEAT_WINDOW_CONTEXT_S": "3"}, "SEAT_WINDOW_CONTEXT_S='3': There is a value too few"),
        ({"SEAT_WINDOW_CONTEXT_S": "3,2,1"}, "SEAT_WINDOW_CONTEXT_S='3,2,1': There are values too many"),
        ({"SEAT_MODEL_SHA256": "abc"}, "SEAT_MODEL_SHA256"),
    ],
)
def test_what_is_not_understood_stops_the_start(environment: dict[str, str], sentence: str) -> None:
    """A misspelt name or an impossible value is named, with the nearest name."""
    with pytest.raises(InvalidSettings) as caught:
        settings.read(environment)
    assert sentence in str(caught.value)


def test_all_problems_are_named_at_once() -> None:
    """Nobody mends a compose file one restart per mistake."""
    with pytest.raises(InvalidSettings) as caught:
        settings.read({"SEAT_NOPE": "1", "SEAT_PORT": "-1", "SEAT_DTYPE": "int8"})
    assert len(str(caught.value).splitlines()) == 1 + 3


@pytest.mark.parametrize("host, url", [("127.0.0.1", "http://127.0.0.1:8300"), ("::1", "http://[::1]:8300")])
def test_the_address_can_be_pasted(host: str, url: str) -> None:
    """Also where it is one of IPv6."""
    assert settings.read({"SEAT_HOST": host}).url == url


def test_a_key_is_not_printed() -> None:
    """Settings can be logged without showing keys."""
    assert "hush" not in repr(settings.read({"SEAT_API_KEYS": "hush"}))


@pytest.mark.parametrize(
    "keys, name", [("right,ann:schlüssel", "ann"), ("right,schlüssel", "key2"), ("a\u200bb", "key1"), ("a\tb", "key1")]
)
def test_a_key_that_no_client_could_send_stops_the_start(keys: str, name: str) -> None:
    """The openai SDK refuses to, others send other bytes; the sentence has the key's name, and not the key."""
    with pytest.raises(InvalidSettings) as caught:
        settings.read({"SEAT_API_KEYS": keys})
    assert f"SEAT_API_KEYS: '{name}' holds more than printable ASCII" in str(caught.value)
    assert keys[-3:] not in str(caught.value)


@pytest.mark.parametrize(
    "keys, said",
    [
        ("ann:", "there is no key behind 'ann:'"),
        ("right, ann: ", "there is no key behind 'ann:'"),
        (",", "SEAT_API_KEYS=',': There is a value too few"),
        (" ", "SEAT_API_KEYS=' ': There is a value too few"),
    ],
)
def test_a_key_that_was_left_out_stops_the_start(keys: str, said: str) -> None:
    """As where a variable that should hold it is not set: the seat would be open to all, or to who knows the name."""
    with pytest.raises(InvalidSettings) as caught:
        settings.read({"SEAT_API_KEYS": keys})
    assert said in str(caught.value)


@pytest.mark.parametrize(
    "model, served",
    [
        ("demo", ("demo", "whisper-1", "ext-stt")),
        ("/models/parakeet.nemo", ("parakeet", "whisper-1", "ext-stt")),
        ("nvidia/parakeet-tdt-0.6b-v2@" + "0" * 40, ("nvidia/parakeet-tdt-0.6b-v2", "whisper-1", "ext-stt")),
    ],
)
def test_a_model_is_served_under_its_name_and_its_aliases(model: str, served: tuple[str, ...]) -> None:
    """The revision and the folder are not part of the name."""
    assert settings.read({"SEAT_MODEL": model}).served_models == served


def test_a_live_window_fits_what_may_wait_and_what_is_captured() -> None:
    """Else a session would wait for audio that is not let in, or capture graphs anew with every chunk."""
    with pytest.raises(InvalidSettings, match="SEAT_MAX_LIVE_WAIT_S must hold"):
        settings.read({"SEAT_LIVE_WINDOW_S": "5,1,1", "SEAT_MAX_LIVE_WAIT_S": "1.5"})
    graphs = {"SEAT_CUDA_GRAPHS": "1", "SEAT_MEM_RETURN": "0"}
    with pytest.raises(InvalidSettings, match="SEAT_LIVE_WINDOW_S must not be longer"):
        settings.read({**graphs, "SEAT_WINDOW_S": "4", "SEAT_WINDOW_CONTEXT_S": "1,1"})


@pytest.mark.parametrize("others", [{}, {"SEAT_MEM_RETURN": "0", "SEAT_IDLE_RELEASE_S": "60"}])
def test_graphs_and_the_return_of_memory_exclude_each_other(others: dict[str, str]) -> None:
    """The sentence says why, and which setting to change."""
    with pytest.raises(InvalidSettings, match=r"SEAT_MEM_RETURN=0 .* the next replay is an illegal access"):
        settings.read({"CUDA_GRAPHS": "1", **others})


def test_graphs_need_a_cap() -> None:
    """Without one, the allocator itself gives memory back to the driver of a full card."""
    with pytest.raises(InvalidSettings, match=r"SEAT_CUDA_GRAPHS=1 needs a cap, not SEAT_MEM_CAP_MIB=0"):
        settings.read({"SEAT_CUDA_GRAPHS": "1", "SEAT_MEM_RETURN": "0", "MEM_CAP_MIB": "0"})


def test_graphs_are_allowed_where_memory_is_kept() -> None:
    """Nothing goes back to the driver then."""
    assert settings.read({"SEAT_CUDA_GRAPHS": "1", "SEAT_MEM_RETURN": "0"}).cuda_graphs


def test_a_deprecated_name_comes_with_the_one_to_write() -> None:
    """The old names of a model family work and are told; those of earlier services that say what they set are not."""
    environment = {"PARAKEET_MAX_FILE_DURATION": "60", "WINDOW_S": "20", "PARAKEET_MODEL": "", "PATH": "/bin"}
    assert settings.deprecated(environment) == {"PARAKEET_MAX_FILE_DURATION": "SEAT_MAX_AUDIO_S"}
