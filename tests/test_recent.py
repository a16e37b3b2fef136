"""What is remembered of a request: numbers, and only so many of them."""

from dataclasses import asdict

from seat.web.recent import Recent

LINE = {
    "status": 200,
    "total_s": 0.2,
    "audio_s": 3.6,
    "queue_s": 0.01,
    "inference_s": 0.1,
    "peak_mib": 900,
}
"""What the page shows of a canonical line."""


def test_the_ring_is_bounded_and_the_count_is_not() -> None:
    """The oldest goes; who polls sees by the count that there is something new."""
    recent = Recent(kept=3)
    for number in range(5):
        recent.add(LINE | {"total_s": float(number)})
    assert [answered.total_s for answered in recent] == [2.0, 3.0, 4.0]
    assert recent.count == 5


def test_only_numbers_and_codes_of_a_line_are_kept() -> None:
    """Whatever else the line says: no path, no name of a client's, no id."""
    recent = Recent()
    recent.add(LINE | {"path": "/v1/audio/secret", "model": "whisper-1", "request_id": "secret", "windows": 1})
    (answered,) = recent
    assert {name: value for name, value in asdict(answered).items() if name != "at"} == LINE | {"error": None}


def test_a_refused_request_has_a_code_and_no_audio() -> None:
    """As its line."""
    recent = Recent()
    recent.add({"status": 401, "total_s": 0.0, "error": "invalid_api_key"})
    (answered,) = recent
    assert (answered.status, answered.error, answered.audio_s) == (401, "invalid_api_key", None)
