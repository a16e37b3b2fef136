"""The arithmetic of shared cards, on the figures of real ones."""

from dataclasses import asdict, replace

import pytest

from seat.memory import Governor
from seat.meter import MIB
from seat.room import NEIGHBOUR_CONTEXT_NBYTES, Card, Room, Seat, Tenant, as_json, room, told
from tests.fakes import FakeMeter

CARDS = {
    "NVIDIA GeForce RTX 3090": (24_210, 24_576),
    "NVIDIA L4": (22_563, 23_034),
    "NVIDIA H100 80GB HBM3": (81_009, 81_559),
    "NVIDIA H200": (143_167, 143_771),
}
"""Total MiB: CUDA's and nvidia-smi's. The latter of the L4 and H100 are in modal-client#2797; the former of the H100 is
in vllm#27508 (79.11 GiB), of the L4 and the H200 not confirmed."""

SEAT = Seat(cap=3840 * MIB, rest=1900 * MIB, peak=2600 * MIB, on_card=True)


def _card(name: str, *, others_mib: int = 0, seat_mib: int = 0) -> Card:
    cuda, smi = CARDS[name]
    tenants = [Tenant(pid=41, name="python", nbytes=seat_mib * MIB)] if seat_mib else []
    if others_mib:
        tenants.append(Tenant(pid=977, name="VLLM::EngineCore", nbytes=others_mib * MIB))
    free = (cuda - others_mib - seat_mib) * MIB
    return Card(name=name, cuda_total=cuda * MIB, smi_total=smi * MIB, free=free, tenants=tuple(tenants))


@pytest.mark.parametrize(
    "name, before, after, always",
    [
        ("NVIDIA GeForce RTX 3090", 0.97, 0.89, 0.81),
        ("NVIDIA L4", 0.97, 0.88, 0.80),
        ("NVIDIA H100 80GB HBM3", 0.99, 0.96, 0.94),
        ("NVIDIA H200", 0.99, 0.98, 0.96),
    ],
)
def test_a_neighbours_share_depends_on_the_card(name: str, before: float, after: float, always: float) -> None:
    """Alone with the default cap: before the seat starts, beside it at rest, and whatever it does."""
    left = room(_card(name, seat_mib=1900), SEAT, SEAT.cap)
    assert left == Room(others=0, before=before, after=after, always=always)


@pytest.mark.parametrize("name", CARDS)
@pytest.mark.parametrize("others_mib", [0, 500, 9000])
def test_what_is_named_passes_vllms_check_and_a_hundredth_more_does_not(name: str, others_mib: int) -> None:
    """Free >= utilization x total, once the neighbour's own context is there."""
    card = _card(name, others_mib=others_mib, seat_mib=1900)
    left = room(card, SEAT, SEAT.cap)
    assert left is not None
    assert card.free is not None
    for utilization, seat_nbytes in ((left.before, 0), (left.after, SEAT.rest), (left.always, 3840 * MIB)):
        free = card.free + SEAT.rest - seat_nbytes - NEIGHBOUR_CONTEXT_NBYTES
        assert free >= utilization * card.cuda_total
        assert free < (utilization + 0.01) * card.cuda_total


def test_a_neighbour_on_a_3090_that_takes_ninety_per_cent_leaves_no_room_for_the_default_cap() -> None:
    """Its default of 0.9 does not boot beside the seat, and one that boots first leaves the seat too little."""
    left = room(_card("NVIDIA GeForce RTX 3090"), None, 3840 * MIB)
    assert left is not None
    assert left.always < 0.9
    crowded = room(_card("NVIDIA GeForce RTX 3090", others_mib=22_000), None, 3840 * MIB)
    assert crowded is not None
    assert (crowded.before, crowded.after, crowded.always) == (0.06, 0.0, 0.0)


def test_without_a_cap_nothing_is_certain() -> None:
    """A seat without a limit promises nothing."""
    left = room(_card("NVIDIA L4", seat_mib=1900), SEAT, None)
    assert left is not None
    assert (left.after, left.always) == (0.88, 0.0)


def test_where_nothing_tells_what_is_free_there_is_no_answer() -> None:
    """Rather than a wrong one."""
    card = Card(name="x", cuda_total=100, smi_total=None, free=None, tenants=())
    assert room(card, SEAT, SEAT.cap) is None
    assert "NVML does not tell what is free." in told(card, SEAT, SEAT.cap)


def test_it_is_told_in_a_table() -> None:
    """Totals, who takes what, and the three fractions."""
    assert told(_card("NVIDIA GeForce RTX 3090", others_mib=9000, seat_mib=1900), SEAT, SEAT.cap).splitlines() == [
        "NVIDIA GeForce RTX 3090",
        "total, CUDA               24,210 MiB",
        "total, nvidia-smi         24,576 MiB",
        "free                      13,310 MiB",
        "        41  python             1,900 MiB",
        "       977  VLLM::EngineCore   9,000 MiB",
        "seat at rest               1,900 MiB",
        "seat at most               2,600 MiB",
        "seat's cap                 3,840 MiB",
        "others                     9,000 MiB",
        "highest --gpu-memory-utilization for a vLLM neighbour:",
        "  before the seat starts        0.60",
        "  beside the seat at rest       0.52",
        "  beside the seat at its cap    0.44",
    ]


def test_without_a_card_it_says_so_and_tells_of_the_process() -> None:
    """The seat's figures are resident memory then."""
    assert told(None, SEAT, None).splitlines() == [
        "There is no NVIDIA card that this process can use.",
        "seat at rest               1,900 MiB",
        "seat at most               2,600 MiB",
        "seat's cap                      none",
    ]


def test_a_seat_on_the_processor_takes_nothing_of_the_card() -> None:
    """Its figures are resident memory."""
    beside = room(_card("NVIDIA L4"), replace(SEAT, on_card=False), SEAT.cap)
    assert beside == room(_card("NVIDIA L4"), None, SEAT.cap)


def test_a_seat_is_known_by_its_health() -> None:
    """As `/health` tells its memory."""
    governor = Governor(FakeMeter(), cap=400 * MIB, returns="always")
    governor.settle(16)
    expected = Seat(cap=400 * MIB, rest=150 * MIB, peak=150 * MIB, on_card=True)
    assert Seat.of_health(asdict(governor.statistics())) == expected


def test_programs_get_bytes() -> None:
    """Everything that the table has."""
    answer = as_json(_card("NVIDIA L4", others_mib=10), None, SEAT.cap)
    assert (answer["cap"], answer["seat"], answer["card"]["name"]) == (3840 * MIB, None, "NVIDIA L4")
    assert answer["room"]["others"] == 10 * MIB
    assert as_json(None, SEAT, None) == {"card": None, "seat": asdict(SEAT), "cap": None, "room": None}


@pytest.mark.model
def test_the_command_tells_what_it_found() -> None:
    """No card for 'cpu', and nobody where a seat would be, with a key or not; at an address, somebody must be."""
    from typer.testing import CliRunner

    from seat.cli import app

    asked, nobody = ["room", "--device", "cpu"], CliRunner(env={"SEAT_PORT": "9", "SEAT_API_KEY": "k"})
    assert nobody.invoke(app, asked).stdout.splitlines()[0] == "There is no NVIDIA card that this process can use."
    assert '"seat": null' in nobody.invoke(app, [*asked, "--json"]).stdout
    refused = nobody.invoke(app, [*asked, "--url", "http://127.0.0.1:9"])
    assert refused.exit_code == 1
    assert "No server answers at http://127.0.0.1:9" in refused.output
