"""What a sequence remembers: keys and values of its attention layers, matrices of its delta layers.

- A slot is one lane: it is started by ``prefill``, carried on by ``decode``, copied by ``fork``.
- A recurrent state cannot be rewound: whoever wants to return takes a ``snapshot`` before.
- Slots that do not take part in a step keep their state to the bit.
- Source: spec/zonos3.md 4.1 and section 7, point 5.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from engine.zonos2.attention import Attend, SlotKv
from engine.zonos3.config import Zonos3Config, like_zonos2


@dataclass(frozen=True)
class Memory:
    """How the layers of one forward pass reach what came before.

    Layers are counted within their kind. ``read`` gives a delta layer's matrix [B, H, K, V] and
    convolution tail [B, kernel - 1, channels], ``write`` takes the new ones.
    """

    attend: Attend
    read: Callable[[int], tuple[Tensor, Tensor]]
    write: Callable[[int, Tensor, Tensor], None]


@dataclass(frozen=True, eq=False)
class Snapshot:
    """A copy of one slot; ``keys`` and ``values`` hold its ``num_rows`` rows only."""

    num_rows: int
    keys: Tensor  # [attention layers, KV, rows, hd]
    values: Tensor
    matrices: Tensor  # [delta layers, H, K, V] float32
    tails: Tensor  # [delta layers, kernel - 1, channels]


class SequenceState:
    """The memory of ``num_slots`` sequences, of one size whatever their length."""

    def __init__(
        self,
        config: Zonos3Config,
        num_slots: int,
        device: torch.device | str,
        dtype: torch.dtype,
    ) -> None:
        attention = replace(config, n_layers=len(config.attention_layers))
        self._kv = SlotKv(like_zonos2(attention), num_slots, config.max_rows, device, dtype)
        heads, tail_rows = config.delta_value_heads, config.delta_conv_kernel - 1
        layers = len(config.delta_layers)
        self._matrices = torch.zeros(
            (layers, num_slots, heads, config.delta_key_dim, config.delta_value_dim), device=device
        )
        self._tails = torch.zeros(
            (layers, num_slots, tail_rows, config.delta_channels), device=device, dtype=dtype
        )
        self.num_rows = [0] * num_slots

    def prefill(self, slot: int, num_rows: int) -> Memory:
        """The memory of a pass over the first ``num_rows`` rows of ``slot``, [1, ...]."""
        self.num_rows[slot] = num_rows
        lane = slice(slot, slot + 1)

        def read(layer: int) -> tuple[Tensor, Tensor]:
            matrix, tail = self._matrices[layer, lane], self._tails[layer, lane]
            return torch.zeros_like(matrix), torch.zeros_like(tail)

        def write(layer: int, matrix: Tensor, tail: Tensor) -> None:
            self._matrices[layer, lane] = matrix
            self._tails[layer, lane] = tail

        return Memory(self._kv.prefill(slot), read, write)

    def decode(self, slots: Sequence[int]) -> Memory:
        """The memory of a pass over one new row of every slot, of which only ``slots`` count."""
        live = torch.tensor(slots, device=self._matrices.device)

        def read(layer: int) -> tuple[Tensor, Tensor]:
            return self._matrices[layer], self._tails[layer]

        def write(layer: int, matrix: Tensor, tail: Tensor) -> None:
            self._matrices[layer, live] = matrix[live]
            self._tails[layer, live] = tail[live]

        last = self._kv.keys.shape[3] - 1  # where a full slot, which speaks no more, may write
        places = torch.tensor([min(rows, last) for rows in self.num_rows], device=live.device)
        memory = Memory(self._kv.decode(places), read, write)
        for slot in slots:
            self.num_rows[slot] += 1
        return memory

    def snapshot(self, slot: int) -> Snapshot:
        """A copy of everything ``slot`` remembers."""
        num_rows = self.num_rows[slot]
        return Snapshot(
            num_rows,
            self._kv.keys[:, slot, :, :num_rows].clone(),
            self._kv.values[:, slot, :, :num_rows].clone(),
            self._matrices[:, slot].clone(),
            self._tails[:, slot].clone(),
        )

    def restore(self, slot: int, snapshot: Snapshot) -> None:
        """Make ``slot`` what it was, or what another slot was, at the time of ``snapshot``."""
        num_rows = self.num_rows[slot] = snapshot.num_rows
        self._kv.keys[:, slot, :, :num_rows] = snapshot.keys
        self._kv.values[:, slot, :, :num_rows] = snapshot.values
        self._matrices[:, slot] = snapshot.matrices
        self._tails[:, slot] = snapshot.tails

    def fork(self, source: int, target: int) -> None:
        """Make ``target`` a second sequence with the past of ``source``."""
        self.restore(target, self.snapshot(source))
