"""What is written for containers agrees with the code, and with itself."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from seat import __version__
from seat.serve import CLOSE_WITHIN_S
from seat.settings import ALIASES, DEPRECATED, PREFIX, Settings, read
from seat.telemetry.providers import FLUSH_S
from seat.web.underway import EACH_S, TRIES
from tests.test_readme import README, written

CONTAINERS = Path(__file__).parent.parent / "containers"
CONTAINERFILE = (CONTAINERS / "Containerfile").read_text()
COMPOSE: dict[str, Any] = yaml.safe_load((CONTAINERS / "compose.yaml").read_text())
SEAT = COMPOSE["services"]["seat"]


class _Loader(yaml.SafeLoader):
    """Reads '!reset', with which a compose file takes away what another says."""


_Loader.add_constructor("!reset", lambda _loader, _node: None)
CPU: dict[str, Any] = yaml.load((CONTAINERS / "compose.cpu.yaml").read_text(), _Loader)["services"]["seat"]  # noqa: S506  a safe one

OTHERWISE = {
    "host": "0.0.0.0",  # noqa: S104  what a container publishes, the host decides
    "device": "cuda",  # a container without its card must not serve from the processor
    "log_format": "json",  # no terminal reads it
}
"""Defaults that are others in a container."""


def interpolated(value: str, shell: dict[str, str]) -> str:
    """A value as compose fills it in: '${NAME:-default}', nested in defaults, too."""
    found = re.fullmatch(r"\$\{(\w+):-(.*)\}", value)
    return value if found is None else shell.get(found[1]) or interpolated(found[2], shell)


def environment(**shell: str) -> dict[str, str]:
    """What the seat in the container finds in its environment."""
    return {name: interpolated(str(value), shell) for name, value in SEAT["environment"].items()}


def test_compose_names_every_setting_with_its_default() -> None:
    """In the order of the settings, and none that a seat does not know; README's table is held elsewhere."""
    expected = {
        PREFIX + name.upper(): OTHERWISE.get(name, written(field.default))
        for name, field in Settings.model_fields.items()
    }
    found = {name: value for name, value in environment().items() if name.startswith(PREFIX)}
    assert list(expected.items()) == list(found.items())
    assert set(found) == set(re.findall(r"^\| `(SEAT_\w+)`", README, re.MULTILINE))


def test_compose_starts_a_seat() -> None:
    """Its defaults contradict neither each other nor a rule."""
    assert read(environment()) == Settings(**OTHERWISE)


@pytest.mark.parametrize("alias", [name for name in ALIASES if name not in DEPRECATED])
def test_compose_knows_the_names_of_earlier_services(alias: str) -> None:
    """Those that say what they set; the new name wins where both are set."""
    name = PREFIX + ALIASES[alias].upper()
    assert environment(**{alias: "7"})[name] == "7"
    assert environment(**{alias: "7", name: "8"})[name] == "8"


def test_the_image_is_tagged_with_the_version() -> None:
    """As /health tells it: a rollback names a tag, and can be seen to be true."""
    assert interpolated(SEAT["image"].removeprefix("seat:"), {}) == __version__
    assert f'org.opencontainers.image.version="{__version__}"' in CONTAINERFILE
    assert f"-t seat:{__version__} ." in CONTAINERFILE


def test_without_a_card_the_processor_computes() -> None:
    """On top of the other file: nothing asks for a card, and the image has no CUDA and a tag of its own."""
    assert CPU["deploy"] is None
    assert CPU["environment"] == {"SEAT_DEVICE": "cpu"}
    assert CPU["build"] == {"args": {"ACCELERATOR": "cpu"}}
    assert interpolated(CPU["image"].removeprefix("seat:"), {}) == f"{__version__}-cpu"
    assert CPU.keys() == {"image", "build", "environment", "deploy"}


def test_an_older_tag_is_one_variable() -> None:
    """A rollback names it, with a card and without one."""
    for service in (SEAT, CPU):
        assert interpolated(service["image"].removeprefix("seat:"), {"IMAGE_TAG": "0.0.9"}) == "0.0.9"


def test_compose_asks_for_health_as_the_image_does() -> None:
    """An image in OCI's format has no health check of its own."""
    command = re.search(r"^HEALTHCHECK .* CMD (\[.*?\])$", CONTAINERFILE, re.MULTILINE | re.DOTALL)[1]
    assert ["CMD", *json.loads(command.replace("\\\n", ""))] == SEAT["healthcheck"]["test"]


def test_the_container_can_write_nothing_but_temporary_files() -> None:
    """Neither its root nor the weights; it runs as nobody in particular, and asks no hub."""
    weights, temporary = SEAT["volumes"]
    assert SEAT["read_only"] is True
    assert (weights["target"], weights["read_only"]) == ("/models", True)
    assert temporary == "/tmp"  # noqa: S108  it is the container's
    assert environment()["HF_HUB_OFFLINE"] == "1"
    assert re.search(r"^USER 1000:1000$", CONTAINERFILE, re.MULTILINE)
    assert re.search(r"^VOLUME /tmp$", CONTAINERFILE, re.MULTILINE)


STOPS_S = Settings().drain_s + TRIES * EACH_S + CLOSE_WITHIN_S + FLUSH_S
"""Seconds from the signal to the end of the process at most: drain, cutting off, closing, sending the last spans."""


def test_the_stop_takes_longer_than_the_drain() -> None:
    """Else what runs is killed before its end."""
    assert int(interpolated(SEAT["stop_grace_period"], {}).removesuffix("s")) > STOPS_S


def test_one_card_is_given_by_its_number() -> None:
    """And no other is visible inside."""
    (device,) = SEAT["deploy"]["resources"]["reservations"]["devices"]
    assert device == {"driver": "nvidia", "device_ids": ["${GPU_ID:-0}"], "capabilities": ["gpu"]}


POD: dict[str, Any] = yaml.safe_load((CONTAINERS / "kubernetes" / "base" / "deployment.yaml").read_text())["spec"][
    "template"
]["spec"]


def test_a_pod_gets_no_variables_that_are_not_settings() -> None:
    """Kubernetes makes SEAT_PORT=tcp://... of a Service that is called 'seat', unless it is told not to."""
    (container,) = POD["containers"]
    assert POD["enableServiceLinks"] is False
    names = [each["name"] for each in container["env"] if each["name"].startswith(PREFIX)]
    assert read({each["name"]: each["value"] for each in container["env"]}).device == "cuda", names


def test_a_pod_is_asked_three_questions() -> None:
    """Started once it is ready for the first time; dead where only a new one helps; else, ready or not."""
    (container,) = POD["containers"]
    paths = {kind: container[f"{kind}Probe"]["httpGet"]["path"] for kind in ("startup", "liveness", "readiness")}
    assert paths == {"startup": "/health/ready", "liveness": "/health/live", "readiness": "/health/ready"}
    sleeps = int(container["lifecycle"]["preStop"]["exec"]["command"][1])
    assert POD["terminationGracePeriodSeconds"] > sleeps + STOPS_S


def test_the_manifests_name_the_version() -> None:
    """The image of a card, and that of a processor."""
    tags = {
        folder: yaml.safe_load((CONTAINERS / "kubernetes" / folder / "kustomization.yaml").read_text())["images"]
        for folder in ("base", "cpu")
    }
    assert tags == {
        "base": [{"name": "seat", "newTag": __version__}],
        "cpu": [{"name": "seat", "newTag": f"{__version__}-cpu"}],
    }


def test_the_gateway_does_not_multiply_uploads() -> None:
    """A seat that fails is set aside, one that refuses costs no upload, and the SDK below does not try by itself."""
    gateway = yaml.safe_load((CONTAINERS / "litellm.yaml").read_text())
    assert [each["litellm_params"]["max_retries"] for each in gateway["model_list"]] == [0, 0]
    assert len({each["litellm_params"]["api_base"] for each in gateway["model_list"]}) == 2
    assert {each["model_info"]["mode"] for each in gateway["model_list"]} == {"audio_transcription"}
    router = gateway["router_settings"]
    assert (router["num_retries"], router["allowed_fails"], router["routing_strategy"]) == (5, 1, "simple-shuffle")


@pytest.mark.parametrize("accelerator", ["cuda", "cpu"])
def test_every_dependency_is_locked(accelerator: str) -> None:
    """With digests, in a version that the project allows; torch's build for the processor comes by its version."""
    lock = (CONTAINERS / "lock" / f"{accelerator}.txt").read_text()
    locked = dict(re.findall(r"^([\w.-]+)==(\S+) \\$", lock, re.MULTILINE))
    assert len(locked) == len(re.findall(r"^\S+ \\\n    --hash=sha256:[0-9a-f]{64}", lock, re.MULTILINE)) > 100
    project = tomllib.loads((CONTAINERS.parent / "pyproject.toml").read_text())["project"]
    asked = {re.split(r"[\[<>=]", each)[0].replace("_", "-"): each for each in project["dependencies"]}
    torch = asked["torch"].removeprefix("torch==")
    assert f"ARG TORCH={torch}\n" in CONTAINERFILE
    assert set(asked) - set(locked) == ({"torch"} if accelerator == "cpu" else set())
    assert accelerator == "cpu" or locked["torch"] == torch
    assert "setuptools" in locked
