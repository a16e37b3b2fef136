"""The configurations around a seat fit together: what one of them names, another has."""

from __future__ import annotations

from typing import Any

import yaml

from seat import __version__
from seat.settings import PREFIX, Settings
from seat.telemetry.providers import PROTOCOLS
from tests.observability.queries import CONTAINERS, DASHBOARD


def _read(name: str) -> dict[str, Any]:
    return dict(yaml.safe_load((CONTAINERS / name).read_text()))


SERVICES: dict[str, Any] = _read("compose.yaml")["services"]


def test_every_file_that_is_mounted_is_there() -> None:
    """Docker would make an empty folder in its place, and the service would read that."""
    for service in SERVICES.values():
        for source in (volume.split(":")[0] for volume in service.get("volumes", ())):
            assert not source.startswith(".") or (CONTAINERS / source).exists(), source
    assert (CONTAINERS / SERVICES["seat"]["build"]["context"] / SERVICES["seat"]["build"]["dockerfile"]).exists()


def test_every_pipeline_of_the_collector_leads_somewhere() -> None:
    """OTLP comes in by both protocols; traces go to Tempo, metrics to where Prometheus looks."""
    collector = _read("collector.yaml")
    for pipeline in collector["service"]["pipelines"].values():
        for kind in ("receivers", "processors", "exporters"):
            assert set(pipeline[kind]) <= collector[kind].keys()
    assert collector["receivers"]["otlp"]["protocols"].keys() == {"grpc", "http"}
    tempo = _read("tempo.yaml")["distributor"]["receivers"]["otlp"]["protocols"]["grpc"]["endpoint"]
    assert collector["exporters"]["otlp/tempo"]["endpoint"] == "tempo:" + tempo.split(":")[1]
    targets = [
        target for job in _read("prometheus.yaml")["scrape_configs"] for target in job["static_configs"][0]["targets"]
    ]
    port = collector["exporters"]["prometheus"]["endpoint"].split(":")[1]
    assert targets == [f"seat:{Settings().port}", f"collector:{port}"]
    assert {target.split(":")[0] for target in targets} <= SERVICES.keys()


def test_the_seat_is_told_what_it_understands() -> None:
    """Its settings exist, and it speaks the protocol of the port that it is given."""
    environment = SERVICES["seat"]["environment"] | _read("compose.gpu.yaml")["services"]["seat"]["environment"]
    ours = {name.removeprefix(PREFIX).lower() for name in environment if name.startswith(PREFIX)}
    assert ours <= Settings.model_fields.keys()
    assert environment["OTEL_EXPORTER_OTLP_PROTOCOL"] in PROTOCOLS
    endpoints = _read("collector.yaml")["receivers"]["otlp"]["protocols"]
    assert environment["OTEL_EXPORTER_OTLP_ENDPOINT"].rsplit(":", 1)[1] == endpoints["grpc"]["endpoint"].split(":")[1]


def test_the_seat_computes_where_it_is_told_to() -> None:
    """On the processor, or with the other file on a card; an image for each, tagged as elsewhere."""
    card = _read("compose.gpu.yaml")["services"]["seat"]
    assert [
        (seat["environment"]["SEAT_DEVICE"], seat["build"]["args"]["ACCELERATOR"], seat["image"])
        for seat in (SERVICES["seat"], card)
    ] == [
        ("cpu", "cpu", f"seat:${{IMAGE_TAG:-{__version__}-cpu}}"),
        ("cuda", "cuda", f"seat:${{IMAGE_TAG:-{__version__}}}"),
    ]


def test_nothing_is_told_to_its_makers() -> None:
    """Tempo and Grafana report their use unless they are asked not to."""
    assert _read("tempo.yaml")["usage_report"] == {"reporting_enabled": False}
    said = {name: value for name, value in SERVICES["grafana"]["environment"].items() if "_ANALYTICS_" in name}
    assert len(said) == 3
    assert set(said.values()) == {"false"}


def test_grafana_finds_both_sources() -> None:
    """Of the kinds that the dashboard's variables choose from, at ports that their services listen on."""
    sources = _read("grafana/datasources.yaml")["datasources"]
    kinds = {v["query"] for v in DASHBOARD["templating"]["list"] if v["type"] == "datasource"}
    assert kinds == {source["type"] for source in sources}
    assert sources[1]["url"].endswith(f":{_read('tempo.yaml')['server']['http_listen_port']}")
    (provider,) = _read("grafana/dashboards.yaml")["providers"]
    assert any(provider["options"]["path"] in volume for volume in SERVICES["grafana"]["volumes"])
