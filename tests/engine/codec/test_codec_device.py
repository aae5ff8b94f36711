"""The codec on another device than the model: codes go there, samples come back."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from engine import Engine, SpeechRequest
from engine.codec.base import Codec, open_codec
from engine.codec.nano import NanoCodec
from tests.engine.codec.conftest import NANO
from tests.engine.scripted import ScriptedCodec, ScriptedFamily

AWAY = torch.device("cuda:1")


class There(Tensor):
    """Stands for a tensor on ``AWAY``: like one, it cannot be read from here."""

    def numpy(self, *_: Any, **__: Any) -> Any:
        raise TypeError("it is on another device")

    def cpu(self, *_: Any, **__: Any) -> Tensor:
        return self.as_subclass(Tensor)


class CodecThere(ScriptedCodec):
    device = AWAY

    def __init__(self) -> None:
        self.num_calls = 0

    def decode(self, codes: Tensor) -> Tensor:
        assert type(codes) is There
        self.num_calls += 1
        return super().decode(codes.cpu()).as_subclass(There)


def test_codes_go_to_the_codecs_device_and_samples_come_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    to = Tensor.to

    def moved(tensor: Tensor, *place: Any, **how: Any) -> Tensor:
        return tensor.as_subclass(There) if place == (AWAY,) else to(tensor, *place, **how)

    def spoken(codec: ScriptedCodec) -> np.ndarray:
        family = ScriptedFamily()
        with Engine(family, codec, None, {}, num_slots=2) as engine:  # type: ignore[arg-type]
            text = "Two men stand there. Nobody says a word to them, not one."
            return engine.submit(SpeechRequest(text, seed=1)).read()[0]

    expected = spoken(ScriptedCodec())
    monkeypatch.setattr(Tensor, "to", moved)
    codec = CodecThere()
    assert np.array_equal(spoken(codec), expected)
    assert codec.num_calls > 3


@pytest.mark.parametrize(("asked", "place"), [(None, "cpu"), ("cuda:1", "cuda:1"), ("cpu", "cpu")])
def test_the_codec_is_opened_where_it_is_asked_for(
    asked: str | None, place: str, nano: NanoCodec, monkeypatch: pytest.MonkeyPatch
) -> None:
    places: list[torch.device] = []

    def opened(_folder: object, device: torch.device) -> Codec:
        places.append(device)
        return nano

    monkeypatch.setattr("engine.engine.open_codec", opened)
    with Engine.open(NANO, device="cpu", codec_device=asked) as engine:
        assert engine.family.device == torch.device("cpu")
    assert places == [torch.device(place)]


def test_its_weights_lie_there() -> None:
    assert open_codec(NANO, "meta").device.type == "meta"
