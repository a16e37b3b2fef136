"""Memory of a card, as far as that is arithmetic; `tests/gpu` asks a real one."""

from __future__ import annotations

import pytest

from seat.meter import MIB, Outside

pytestmark = pytest.mark.model


@pytest.mark.parametrize(
    "ours, taken, others, reserved, expected",
    [
        (1700, 9000, 7000, 1300, Outside(nbytes=400 * MIB, source="nvml")),
        (None, 9000, 7300, 1300, Outside(nbytes=400 * MIB, source="unknown: difference")),
        (12, 9000, 7300, 1300, Outside(nbytes=400 * MIB, source="unknown: difference")),
        (None, 7000, 7300, 1300, Outside(nbytes=600 * MIB, source="unknown: assumed")),
        (None, 18000, 7300, 1300, Outside(nbytes=600 * MIB, source="unknown: assumed")),
        (None, None, None, 1300, Outside(nbytes=600 * MIB, source="unknown: assumed")),
    ],
    ids=[
        "seen",
        "not seen in a container",
        "our number is another's",
        "a neighbour left",
        "a neighbour came",
        "no NVML",
    ],
)
def test_what_lies_outside_the_allocator_is_known_as_well_as_can_be(
    ours: int | None, taken: int | None, others: int | None, reserved: int, expected: Outside
) -> None:
    """By NVML's figure for this process, else by what the card lost, else by a guess; it says which."""
    from seat.gpu.device import outside

    def in_bytes(mib: int | None) -> int | None:
        return None if mib is None else mib * MIB

    assert outside(in_bytes(ours), in_bytes(taken), in_bytes(others), reserved * MIB) == expected


def test_the_processor_is_counted_by_what_is_resident() -> None:
    """And there is no card to read."""
    from seat.gpu import device
    from seat.resident import ResidentMeter

    target, meter = device.choose("cpu")
    assert (str(target), type(meter)) == ("cpu", ResidentMeter)
    assert device.card("cpu") is None
    reported = meter.reported()
    assert reported.process is not None
    assert reported.taken is not None
    assert reported.total is not None
    assert 0 < reported.process < reported.taken < reported.total
