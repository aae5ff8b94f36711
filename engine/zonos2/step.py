"""The decode step of ZONOS2 on a GPU: one row of every slot, replayed as a CUDA graph.

- Embedding, layers and head are one graph over fixed tensors: a step costs the host a few
  copies and one launch, and nothing in it asks the host.
- All slots take part, idle ones with pad rows, so every product has one shape; attention and
  experts are ``engine.kernels``, which read only the rows in use and the experts touched.
- Without its graph it is the twin of ``CompiledStep`` on a CPU, and speaks there without numba.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from engine.zonos2.attention import SlotKv
from engine.zonos2.backbone import Backbone

WARM_UP_STEPS = 3  # before a capture: kernels are compiled, workspaces allocated


class SlotStep:
    """Decode steps of all slots; ``uses_graph`` is for comparison and has no effect on a CPU."""

    def __init__(
        self, model: Backbone, kv: SlotKv, num_slots: int, *, uses_graph: bool = True
    ) -> None:
        config, device = model.config, model.out_norm.weight.device
        self._model, self._kv = model, kv
        self._uses_graph = uses_graph and device.type == "cuda"
        self._graph: torch.cuda.CUDAGraph | None = None
        shape = (num_slots, config.row_width)
        self._rows = torch.full(shape, config.audio_pad_id, dtype=torch.int64, device=device)
        self._rows[:, -1] = config.text_vocab
        self._places = torch.zeros(num_slots, dtype=torch.int64, device=device)
        self._logits = torch.empty(0, device=device)

    def __call__(self, codes: Tensor, slots: Sequence[int], places: Sequence[int]) -> Tensor:
        """The last ``codes`` [n, C] of ``slots`` at ``places`` -> logits [n, codebooks, vocab]."""
        device, last = self._places.device, self._kv.keys.shape[3] - 1
        following = [min(place + 1, last) for place in places]  # a full slot speaks no more
        live, here, there = torch.tensor([[*slots], [*places], following]).to(device)
        self._rows[live, :-1] = codes.to(device)
        self._places[live] = here
        if not self._uses_graph:
            logits = self._run()
        else:
            if self._graph is None:
                self._capture()
            assert self._graph is not None
            self._graph.replay()
            logits = self._logits
        self._places[live] = there  # where a step in which these slots idle may write
        return logits[live]

    def start(self, slot: int, place: int) -> None:
        """Say where ``slot`` will write its next row, after its prompt was stored."""
        self._places[slot] = min(place, self._kv.keys.shape[3] - 1)

    def _run(self) -> Tensor:
        hidden = self._model(
            self._model.embed(self._rows[:, None]),
            self._places[:, None],
            self._kv.decode(self._places),
            is_step=True,
        )
        return self._model.head(hidden[:, 0])

    def _capture(self) -> None:
        """Record one step. What it writes meanwhile, the first replay writes again."""
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(WARM_UP_STEPS):
                self._run()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, capture_error_mode="thread_local"):
            self._logits = self._run()
        self._graph = graph
