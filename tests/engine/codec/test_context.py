"""Context derived from layers by interval propagation."""

from __future__ import annotations

from itertools import accumulate

import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.codec.context import Convolution, Upsampling, context_frames
from engine.codec.nano import NanoCodec, NanoCodecConfig

DAC_STRIDES = (8, 8, 4, 2)


def test_nano_needs_20_frames_on_the_left_and_3_on_the_right(nano_config: NanoCodecConfig) -> None:
    assert context_frames(nano_config.layers) == (20, 3) == nano_config.declared_context


def test_dac_44_khz_needs_10_frames_on_both_sides() -> None:
    layers: list[Convolution | Upsampling] = [Convolution(3, 3)]
    for stride in DAC_STRIDES:
        layers.append(Upsampling(stride, 2 * stride, (stride + 1) // 2))
        layers += [Convolution(3 * dilation, 3 * dilation) for dilation in (1, 3, 9)]
    layers.append(Convolution(3, 3))
    assert list(accumulate(DAC_STRIDES, int.__mul__))[-1] == 512
    assert context_frames(layers) == (10, 10)


def test_one_frame_of_nano_reaches_exactly_as_far_as_the_layers_say(nano: NanoCodec) -> None:
    codes = torch.zeros(1, 60, nano.num_codebooks, dtype=torch.int64)
    changed = codes.clone()
    changed[0, 30] = 500
    # float64: the touch at the far ends is too faint for float32.
    decoder = nano.decoder.double()
    difference = decoder(nano.quantizer(changed).double()) - decoder(nano.quantizer(codes).double())
    nano.decoder.float()
    touched = difference[0].view(60, nano.hop).abs().amax(1).nonzero().flatten().tolist()
    # Frame 30 is in the right context of the 3 frames before it, the left one of the 20 after it.
    assert touched == list(range(30 - nano.context_right, 30 + nano.context_left + 1))


convolutions = st.builds(Convolution, st.integers(0, 4), st.integers(0, 4))
upsamplings = st.integers(1, 3).flatmap(
    lambda stride: st.integers(0, stride).map(
        lambda padding: Upsampling(stride, stride + 2 * padding, padding)
    )
)


@settings(deadline=None)
@given(st.lists(st.one_of(convolutions, upsamplings), min_size=1, max_size=5))
def test_context_is_that_of_real_layers(layers: list[Convolution | Upsampling]) -> None:
    num_frames, middle = 121, 60
    impulse = torch.zeros(1, 1, num_frames, dtype=torch.float64)
    impulse[0, 0, middle] = 1.0
    y = impulse
    for layer in layers:
        if isinstance(layer, Convolution):
            kernel = torch.ones(1, 1, layer.left + layer.right + 1, dtype=torch.float64)
            y = F.conv1d(F.pad(y, (layer.left, layer.right)), kernel)
        else:
            kernel = torch.ones(1, 1, layer.kernel, dtype=torch.float64)
            y = F.conv_transpose1d(y, kernel, stride=layer.stride, padding=layer.padding)
    hop = y.shape[-1] // num_frames
    touched = y[0, 0].view(num_frames, hop).amax(1).nonzero().flatten()
    left, right = context_frames(layers)
    assert middle - int(touched.min()) == right
    assert int(touched.max()) - middle == left
