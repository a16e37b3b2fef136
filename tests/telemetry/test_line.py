"""The facts of one request."""

import asyncio

from seat.meter import MIB
from seat.telemetry import note, note_timings, open_request
from seat.transcript import Timings


def test_the_line_of_a_request_has_its_memory() -> None:
    """Whole MiB, and the first 64 batches of a long file. What it took to decode is noted where that ends, once."""
    line = open_request()
    note_timings(
        Timings(
            audio_s=1,
            queue_s=0,
            inference_s=0,
            windows=1,
            batch_sizes=(1,) * 100,
            peak_nbytes=1500 * MIB + 7,
            rest_nbytes=1200 * MIB,
        )
    )
    assert (line["peak_mib"], line["rest_mib"], len(line["batch_sizes"])) == (1500, 1200, 64)
    assert not line.keys() & {"decode_s", "assemble_s", "render_s"}


async def test_requests_do_not_write_into_each_others_lines() -> None:
    """Each task has its own, and so have the tasks that it starts."""

    async def request(number: int) -> dict[str, object]:
        line = open_request(number=number)
        await asyncio.create_task(work(number))
        return line

    async def work(number: int) -> None:
        await asyncio.sleep(0)
        note(noted=number)

    lines = await asyncio.gather(*(request(number) for number in range(3)))
    assert [{"number": number, "noted": number} for number in range(3)] == lines
