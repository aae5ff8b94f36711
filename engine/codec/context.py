"""How many frames of context a decoder needs, derived from its layers.

An interval of output positions is carried back through the layers, last to first, to the interval
of inputs it depends on. Two kinds of layer cover convolutional codecs: ``Convolution`` (stride 1)
and ``Upsampling`` (transposed convolution, reshape into more steps, overlap-add).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Convolution:
    """Output t reads inputs t - left .. t + right."""

    left: int
    right: int

    def inputs(self, first: int, last: int) -> tuple[int, int]:
        """The inputs that outputs first .. last depend on."""
        return first - self.left, last + self.right


@dataclass(frozen=True)
class Upsampling:
    """Input i writes outputs i * stride - padding .. i * stride - padding + kernel - 1."""

    stride: int
    kernel: int
    padding: int = 0

    def inputs(self, first: int, last: int) -> tuple[int, int]:
        """The inputs that outputs first .. last depend on."""
        lowest = -((self.kernel - 1 - self.padding - first) // self.stride)  # rounded up
        return lowest, (last + self.padding) // self.stride


def context_frames(layers: Sequence[Convolution | Upsampling]) -> tuple[int, int]:
    """Frames of (left, right) context with which one frame decodes as in the whole.

    ``layers`` stand in the order of the forward pass; the product of their strides is the hop.
    """
    hop = 1
    for layer in layers:
        hop *= layer.stride if isinstance(layer, Upsampling) else 1
    first, last = 0, hop - 1
    for layer in reversed(layers):
        first, last = layer.inputs(first, last)
    return max(0, -first), max(0, last)
