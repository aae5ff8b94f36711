"""The decode step of ZONOS2 on a GPU: one row of every slot, replayed as a CUDA graph.

- Embedding, layers, head, guidance, penalty and sampling are one graph over fixed tensors: a step
  costs the host a few copies and one launch, and nothing in it asks the host.
- All slots take part, idle ones with pad rows, so every product has one shape; attention and
  experts are ``engine.kernels``, which read only the rows in use and the experts touched.
- Which filters are needed is known to the host and fixed in a graph: there is one graph for each
  combination that was asked for, few on a GPU (``SamplingRows`` rounds its bounds there).
- Without its graph it is the twin of ``CompiledStep`` on a CPU, and speaks there without numba.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable, Sequence

import torch
from torch import Tensor

from engine.family import Lanes
from engine.sampling.slots import SlotSampler
from engine.zonos2.attention import SlotKv
from engine.zonos2.backbone import Backbone

log = logging.getLogger(__name__)

WARM_UP_STEPS = 3  # before a capture: kernels are compiled, workspaces allocated
MAX_TWINS = 3  # by emotion, voice and prefix


class SlotStep:
    """Decode steps of all slots; ``uses_graph`` is for comparison and has no effect on a CPU."""

    def __init__(
        self, model: Backbone, kv: SlotKv, num_slots: int, *, uses_graph: bool = True
    ) -> None:
        config, device = model.config, model.out_norm.weight.device
        self._model, self._kv = model, kv
        self._uses_graph = uses_graph and device.type == "cuda"
        self._draws_in_graph = self._uses_graph
        self._graphs: dict[Hashable, tuple[torch.cuda.CUDAGraph, Tensor]] = {}
        shape = (num_slots, config.row_width)
        self._rows = torch.full(shape, config.audio_pad_id, dtype=torch.int64, device=device)
        self._rows[:, -1] = config.text_vocab
        self._places = torch.zeros(num_slots, dtype=torch.int64, device=device)
        # Of the slots whose next row is drawn: its number, and the slots that guide it.
        self._is_drawn = torch.zeros(num_slots, dtype=torch.bool, device=device)
        self._frames = torch.zeros(num_slots, dtype=torch.int64, device=device)
        self._twins = torch.zeros(num_slots, MAX_TWINS, dtype=torch.int64, device=device)
        self._scales = torch.zeros(num_slots, MAX_TWINS, device=device)  # scale - 1

    def __call__(self, codes: Tensor, slots: Sequence[int], places: Sequence[int]) -> Tensor:
        """The last ``codes`` [n, C] of ``slots`` at ``places`` -> logits [n, codebooks, vocab]."""
        live, following = self._enter(codes, slots, places)
        logits = self._logits()
        self._places[live] = following
        return logits[live]

    def draw(
        self, sampler: SlotSampler, codes: Tensor, lanes: Sequence[Lanes], places: Sequence[int]
    ) -> Tensor:
        """A step of ``lanes``, and their next codes drawn by ``sampler`` on the device.

        ``codes`` [m, C] and ``places`` are those of all slots in turn, twins included -> [n, C + 1]
        on the device: the codes, and 1 where the logits were finite.
        """
        device = self._places.device
        slots = [slot for lane in lanes for slot in lane.slots]
        live, following = self._enter(codes, slots, places)
        mains, frames = torch.tensor(
            [[lane.slots[0] for lane in lanes], [lane.frame for lane in lanes]]
        ).to(device)
        self._is_drawn.zero_()
        self._is_drawn[mains] = True
        self._frames[mains] = frames
        has_twins = any(lane.scales for lane in lanes)
        if has_twins:
            twins = torch.zeros(len(lanes), MAX_TWINS, dtype=torch.int64)
            scales = torch.zeros(len(lanes), MAX_TWINS)
            for lane, own_twins, own_scales in zip(lanes, twins, scales, strict=True):
                own_twins[: len(lane.scales)] = torch.tensor(lane.slots[1:], dtype=torch.int64)
                own_scales[: len(lane.scales)] = torch.tensor([s - 1.0 for s in lane.scales])
            self._twins[mains], self._scales[mains] = twins.to(device), scales.to(device)

        def run() -> Tensor:
            return self._drawn(sampler, self._run(), has_twins)

        if self._draws_in_graph:
            try:
                drawn = self._replayed((sampler.bounds, has_twins), run)
            except RuntimeError:
                log.exception("sampling cannot be captured here; it stays outside the graph")
                self._draws_in_graph = False
        if not self._draws_in_graph:
            drawn = self._drawn(sampler, self._logits(), has_twins)
        self._places[live] = following
        return drawn[mains]

    def start(self, slot: int, place: int) -> None:
        """Say where ``slot`` will write its next row, after its prompt was stored."""
        self._places[slot] = min(place, self._kv.keys.shape[3] - 1)

    def _enter(
        self, codes: Tensor, slots: Sequence[int], places: Sequence[int]
    ) -> tuple[Tensor, Tensor]:
        """Set the rows of ``slots`` -> them, and where a step in which they idle may write."""
        device, last = self._places.device, self._kv.keys.shape[3] - 1
        following = [min(place + 1, last) for place in places]  # a full slot speaks no more
        live, here, there = torch.tensor([[*slots], [*places], following]).to(device)
        self._rows[live, :-1] = codes.to(device)
        self._places[live] = here
        return live, there

    def _logits(self) -> Tensor:
        return self._replayed("logits", self._run) if self._uses_graph else self._run()

    def _run(self) -> Tensor:
        hidden = self._model(
            self._model.embed(self._rows[:, None]),
            self._places[:, None],
            self._kv.decode(self._places),
            is_step=True,
        )
        return self._model.head(hidden[:, 0])

    def _drawn(self, sampler: SlotSampler, logits: Tensor, has_twins: bool) -> Tensor:
        """Every slot's next codes, and whether its logits were finite [S, C + 1]."""
        guided = logits
        for place in range(MAX_TWINS if has_twins else 0):
            scale, twin = self._scales[:, place, None, None], self._twins[:, place]
            guided = torch.where(scale != 0, guided + scale * (logits - logits[twin]), guided)
        codes = sampler.draw_all(guided, self._frames, self._is_drawn)
        is_sound = torch.isfinite(guided).flatten(1).all(dim=1, keepdim=True)
        return torch.cat([codes, is_sound.to(codes.dtype)], dim=1)

    def _replayed(self, key: Hashable, run: Callable[[], Tensor]) -> Tensor:
        """What ``run`` gives, recorded the first time it is asked for."""
        if key not in self._graphs:
            self._graphs[key] = self._captured(run)
        graph, result = self._graphs[key]
        graph.replay()
        return result

    def _captured(self, run: Callable[[], Tensor]) -> tuple[torch.cuda.CUDAGraph, Tensor]:
        """Record one step. The keys it writes meanwhile the first replay writes again."""
        device = self._places.device
        is_drawn = self._is_drawn.clone()
        self._is_drawn.zero_()  # nothing enters the history before the replay
        side = torch.cuda.Stream(device)
        side.wait_stream(torch.cuda.current_stream(device))
        with torch.cuda.stream(side):
            for _ in range(WARM_UP_STEPS):
                run()
        torch.cuda.current_stream(device).wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        try:
            with (
                torch.cuda.device(device),
                torch.cuda.graph(graph, capture_error_mode="thread_local"),
            ):
                result = run()
        finally:
            self._is_drawn.copy_(is_drawn)
        return graph, result
