"""The microphone of a machine that may have none."""

import sys

import pytest

from seat import microphone
from seat.microphone import DEVICES, NoMicrophone, listen


def test_a_microphone_that_is_not_there_is_said_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a sentence that says what to do instead; also on a system whose microphones are not known."""
    system, _ = DEVICES.get(sys.platform, ("alsa", ""))
    monkeypatch.setitem(microphone.DEVICES, sys.platform, (system, "no-such-device"))
    with pytest.raises(NoMicrophone, match=r"cannot be opened: .* seat live -"):
        next(iter(listen()))
    monkeypatch.delitem(microphone.DEVICES, sys.platform)
    with pytest.raises(NoMicrophone, match="is not known on"):
        next(iter(listen()))
