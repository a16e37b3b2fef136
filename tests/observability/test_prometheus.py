"""Every expression of rules and dashboard is asked of a real Prometheus that scraped real seats under load.

One seat has the bundled model and computes; the other has a fake one, and everything is done to it that can go wrong.
`just test-observability` installs what this needs.
"""

from __future__ import annotations

import asyncio
import json
import math
import re
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from seat.child import free_port
from tests.observability.queries import CONTAINERS, PAGES, RULES, queries
from tests.process.callers import TALK, plain, rest, say
from tests.process.conftest import CLIPS
from tests.process.seats import MODEL_PATIENCE_S, FakeSeat, Seat, said, until

pytestmark = [pytest.mark.observability, pytest.mark.timeout(300)]

SCRAPES = 15
"""Seconds, and scrapes, that there must be of each seat: half of them under load."""

STAND_INS = {"$__rate_interval": "1m", "$instance": ".+", "$stage": "decode|queue|inference|assemble|render"}
"""What Grafana puts in for its variables; a panel repeated for every stage is asked for all of them at once."""

Ask = Callable[[str], list[float]]


def _run(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def test_rules_fire_on_injected_faults() -> None:
    """As promtool computes them, and on nothing else; the file itself is sound."""
    _run("promtool", "check", "rules", str(PAGES / "rules" / "seat.yaml"))
    assert "SUCCESS" in _run("promtool", "test", "rules", str(PAGES / "rules" / "seat.test.yaml"))


def test_configurations_are_read_by_their_programs() -> None:
    """Prometheus' by promtool, the compose files by their schema."""
    _run("promtool", "check", "config", "--syntax-only", str(CONTAINERS / "prometheus.yaml"))
    files = [option for name in ("compose.yaml", "compose.gpu.yaml") for option in ("-f", str(CONTAINERS / name))]
    _run("docker-compose", *files, "config", "--quiet")


def _load(bundled: Seat, fake: FakeSeat) -> None:
    """Ask both, for some seconds; let the fake one fail, stall, be left, and be asked for nonsense."""
    caught = fake.begin(said(9))
    until(lambda: fake.log_lines(event="stalled"), what="the fake seat stalls")
    assert fake.post(said(1)).status_code == 503
    caught.hang_up()
    until(lambda: fake.log_lines(event="request", status=499), what="it is left")
    fake.sign("nine")
    until(lambda: fake.status("/health/ready") == 200, what="it is back")
    asyncio.run(_speak(fake))
    clips = [path.read_bytes() for path in sorted(CLIPS.glob("*.flac"))]
    files: list[tuple[Seat, bytes]] = []
    for number in range(150):
        files += [(bundled, clips[number % len(clips)]), (fake, said(number % 5, 2)), (fake, said(4))]
        files += [(fake, said(7)), (fake, b"no audio")] if number % 10 == 0 else []
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda pair: pair[0].post(pair[1]).status_code, files))


async def _speak(seat: Seat) -> None:
    """Be heard live, and ask for nonsense."""
    async with plain(seat, "?sample_rate=1") as socket:
        await rest(socket)
    async with plain(seat) as socket:
        await say(socket, TALK)
        await socket.send(json.dumps({"type": "close"}))
        await rest(socket)


@pytest.fixture(scope="module")
def ask(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ask]:
    """Ask a Prometheus for the values that an expression has now; it has our rules, to fire at once."""
    folder = tmp_path_factory.mktemp("prometheus")
    with ExitStack() as stack:
        bundled = stack.enter_context(
            Seat(tmp_path_factory.mktemp("seat"), ["-m", "seat", "serve"], {"SEAT_MEM_CAP_MIB": "4000"})
        )
        fake = stack.enter_context(FakeSeat(folder, SEAT_MEM_CAP_MIB="2000", SEAT_STALL_S="0.3"))
        bundled.wait_for("/health/ready", within_s=MODEL_PATIENCE_S)
        fake.wait_for("/health/ready")
        targets = [seat.url.removeprefix("http://") for seat in (bundled, fake)]
        rules = [rule | {"for": "0s"} for rule in RULES]
        (folder / "rules.yaml").write_text(yaml.safe_dump({"groups": [{"name": "seat", "rules": rules}]}))
        jobs = [{"job_name": "seat", "static_configs": [{"targets": targets}]}]
        config = {
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": ["rules.yaml"],
            "scrape_configs": jobs,
        }
        (folder / "prometheus.yaml").write_text(yaml.safe_dump(config))
        url = stack.enter_context(_prometheus(folder))
        client = stack.enter_context(httpx.Client(base_url=url, trust_env=False))

        def ask(expression: str) -> list[float]:
            answer: dict[str, Any] = client.get("/api/v1/query", params={"query": expression}).json()
            assert answer["status"] == "success", f"{expression}: {answer.get('error')}"
            return [float(series["value"][1]) for series in answer["data"]["result"]]

        until(lambda: ask('up{job="seat"}') == [1, 1], what="both are scraped")
        _load(bundled, fake)
        until(lambda: min(ask('count_over_time(up{job="seat"}[2m])')) >= SCRAPES, what="there are enough samples")
        yield ask


@contextmanager
def _prometheus(folder: Path) -> Iterator[str]:
    """Run one, and give its address."""
    address = f"127.0.0.1:{free_port()}"
    options = {"config.file": "prometheus.yaml", "storage.tsdb.path": "data", "web.listen-address": address}
    command = ["prometheus", *(f"--{name}={value}" for name, value in options.items())]
    with (folder / "prometheus.log").open("wb") as log, subprocess.Popen(command, cwd=folder, stderr=log) as process:
        try:
            until(lambda: _ready(address), what="Prometheus is ready")
            yield f"http://{address}"
        finally:
            process.terminate()


def _ready(address: str) -> bool:
    try:
        return httpx.get(f"http://{address}/-/ready", trust_env=False).status_code == httpx.codes.OK
    except httpx.TransportError:
        return False


@pytest.mark.parametrize("query", sorted(set(queries())))
def test_every_panel_shows_something(ask: Ask, query: str) -> None:
    """At least one series with a number in it."""
    for variable, stand_in in STAND_INS.items():
        query = query.replace(f'="{variable}"', f'=~"{stand_in}"').replace(variable, stand_in)
    values = ask(query)
    assert any(map(math.isfinite, values)), (query, values)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_every_rule_compares_something(ask: Ask, rule: dict[str, Any]) -> None:
    """Its left side has a value on a seat at work, and it is evaluated as a whole."""
    side, _limit = re.fullmatch(r"(.*) [<>] ([\d.]+)", rule["expr"]).groups()
    assert any(map(math.isfinite, ask(side))), side
    ask(rule["expr"])


def test_faults_of_the_fake_seat_are_alerts(ask: Ask) -> None:
    """What was done to it fires here too: it computes on the processor, it stalled, it refused, it failed."""
    firing = {"SeatOnWrongDevice", "SeatStalled", "SeatFailing"}
    for alert in firing:
        assert ask(f'ALERTS{{alertname="{alert}",alertstate="firing"}}'), alert
    assert not ask('ALERTS{alertname=~"SeatDown|SeatOverCap|SeatOutOfMemory",alertstate="firing"}')
