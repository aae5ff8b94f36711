"""The decode step of ZONOS2 on a CPU: one compiled call over the weights where they lie.

- Nothing is copied or laid out anew: a checkpoint that is mapped from its file stays mapped.
- A row's bits do not depend on its neighbours or on the number of threads, by construction
  (``engine.kernels.product_numba``). The numbers are ``Backbone.forward``'s within rounding; under
  bfloat16 weights they are nearer to float32, since only weights, keys and values are rounded.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from engine.kernels import step_inputs as step
from engine.zonos2.attention import QK_NORM_EPS, SlotKv
from engine.zonos2.backbone import Backbone, Layer
from engine.zonos2.moe import DenseFeedForward, MoeFeedForward

log = logging.getLogger(__name__)

SPINES = {torch.float32, torch.bfloat16}


def can_compile(model: Backbone) -> bool:
    """Whether this model's precision has compiled products and numba is installed."""
    if model.out_norm.weight.dtype not in SPINES:
        return False
    try:
        import numba  # noqa: F401
    except ImportError:
        return False
    return True


class CompiledStep:
    """Decode steps of any of ``num_slots`` sequences whose keys and values lie in ``kv``.

    ``num_threads`` of them work on each step; torch's own number where it is None.
    """

    def __init__(
        self, model: Backbone, kv: SlotKv, num_slots: int, num_threads: int | None = None
    ) -> None:
        from engine.kernels import step_numba

        self._config = config = model.config
        self._num_threads = num_threads or torch.get_num_threads()
        self._threads = ThreadPoolExecutor(max(1, self._num_threads - 1), "decode")
        self._kept: list[Any] = [kv]  # whatever an address points to
        self._run: Any = step_numba.run
        self._shape, self._weights = self._read(model, kv)
        asked = (config.n_heads + 2 * config.n_kv_heads) * config.head_dim + config.n_heads
        pairs = num_slots * max(1, *config.moe_topk)
        self._shared = step.Shared(
            counter=np.zeros(1, np.int64),
            asked=np.empty((num_slots, asked), np.float32),
            attended=np.empty((num_slots, config.n_heads * config.head_dim), np.float32),
            mixed=np.empty((num_slots, config.dim), np.float32),
            hidden=np.empty((pairs, 2 * config.ffn_dim), np.float32),
            given=np.empty((pairs, config.dim), np.float32),
        )
        # Compiled now, not in the first request: a step of no rows.
        nothing = torch.empty(0, config.num_codebooks, dtype=torch.int64)
        try:
            self(nothing, [], [])
        except Exception as error:
            log.warning("what is compiled cannot be kept or read (%s); compiling anew", error)
            self._run = step_numba.unkept
            self(nothing, [], [])

    def _read(self, model: Backbone, kv: SlotKv) -> tuple[step.Shape, step.Weights]:
        """Shape and weights as the compiled step takes them."""
        from engine.kernels import product_numba as products

        kinds = {
            torch.float32: products.FLOAT32,
            torch.bfloat16: products.BFLOAT16,
            torch.int8: products.INT8,
            torch.float8_e4m3fn: products.FLOAT8,
        }
        config, num_layers = model.config, len(model.layers)
        num_experts = max(1, config.moe_num_experts)
        kind = expert_kind = kinds[model.out_norm.weight.dtype]
        matrices = np.zeros((num_layers + 1, step.NUM_MATRICES), np.int64)
        topks = np.zeros(num_layers, np.int64)
        norms = np.empty((2 * num_layers + 1, config.dim), np.float32)
        tempers = np.empty((num_layers, config.n_heads), np.float32)
        width = max(config.moe_router_dim, num_experts)
        routers = np.zeros((num_layers, step.NUM_VECTORS, width), np.float32)
        in_scales = np.zeros((num_layers, num_experts, 2 * config.ffn_dim), np.float32)
        out_scales = np.zeros((num_layers, num_experts, config.dim), np.float32)
        for index, layer in enumerate(model.layers):
            assert isinstance(layer, Layer)
            attention, feed_forward, line = layer.attention, layer.feed_forward, matrices[index]
            norms[2 * index] = _numbers(layer.attention_norm.weight)
            norms[2 * index + 1] = _numbers(layer.ffn_norm.weight)
            tempers[index] = _numbers(attention.temp.abs().flatten())
            line[step.WQ] = self._address(attention.wq.weight)
            line[step.WKV] = self._address(attention.wkv.weight)
            line[step.GATER] = self._address(attention.gater.weight)
            line[step.WO] = self._address(attention.wo.weight)
            line[step.KEYS] = kv.keys[index].data_ptr()
            line[step.VALUES] = kv.values[index].data_ptr()
            if isinstance(feed_forward, DenseFeedForward):
                line[step.IN] = self._address(feed_forward.w_in.weight)
                line[step.OUT] = self._address(feed_forward.w_out.weight)
                continue
            assert isinstance(feed_forward, MoeFeedForward)
            experts, router = feed_forward.experts, feed_forward.router
            expert_kind, topks[index] = kinds[experts.w13.dtype], router.topk
            line[step.IN] = self._address(experts.w13)
            line[step.OUT] = self._address(experts.w2)
            if experts.scales is not None:
                in_scales[index], out_scales[index] = map(_numbers, experts.scales)
            first, second, third = (p for p in router.router_mlp if isinstance(p, nn.Linear))
            line[step.DOWN] = self._address(router.down_proj.weight)
            line[step.ROUTER_1] = self._address(first.weight)
            line[step.ROUTER_2] = self._address(second.weight)
            line[step.ROUTER_3] = self._address(third.weight)
            vectors = {
                step.BIAS_DOWN: router.down_proj.bias,
                step.BIAS_1: first.bias,
                step.BIAS_2: second.bias,
                step.NORM: router.rmsnorm_eda.weight,
                step.STATE_SCALE: router.router_states_scale,  # None: there is no last state
                step.BALANCE: router.bias_sign * router.balancing_biases.float(),
            }
            for at, vector in vectors.items():
                if vector is not None:
                    routers[index, at, : len(vector)] = _numbers(vector)
        norms[-1] = _numbers(model.out_norm.weight)
        matrices[-1, step.WQ] = self._address(model.multi_output.weight)
        functions = [products.product(each) for each in (kind, expert_kind, products.FLOAT32)]
        self._kept.append(functions)
        tables = [embedder.weight for embedder in model.multi_embedder.embedders]
        shape = step.Shape(
            dim=config.dim,
            heads=config.n_heads,
            kv_heads=config.n_kv_heads,
            head_dim=config.head_dim,
            ffn_dim=config.ffn_dim,
            experts=num_experts,
            router_dim=config.moe_router_dim,
            layers=num_layers,
            max_rows=kv.keys.shape[3],
            kind=kind,
            expert_kind=expert_kind,
            epsilon=np.float32(config.norm_eps),
            qk_epsilon=np.float32(QK_NORM_EPS),
            cap=np.float32(config.loss_softcap),
        )
        weights = step.Weights(
            products=np.array([function.address for function in functions]),
            matrices=matrices,
            embeddings=np.array([self._address(table) for table in tables]),  # type: ignore[arg-type]
            topks=topks,
            norms=norms,
            tempers=tempers,
            turns=_numbers(model.rope),
            routers=routers,
            in_scales=in_scales,
            out_scales=out_scales,
        )
        return shape, weights

    def _address(self, matrix: Tensor) -> int:
        kept = matrix.detach().contiguous()
        self._kept.append(kept)
        return kept.data_ptr()

    def start(self, slot: int, place: int) -> None:
        """Nothing to do: slots that do not live take no part in a step."""

    def __call__(self, codes: Tensor, slots: Sequence[int], places: Sequence[int]) -> Tensor:
        """The last ``codes`` [n, C] of ``slots`` at ``places`` -> logits [n, codebooks, vocab]."""
        config, num_rows = self._config, len(slots)
        ids = np.full((num_rows, config.row_width), config.text_vocab, np.int64)
        ids[:, : config.num_codebooks] = codes.numpy()
        logits = torch.empty(num_rows, config.num_codebooks * config.audio_vocab)
        world = self._num_threads
        # The last step's meetings are over, though a thread may not have left the last one yet.
        meeting = int(self._shared.counter[0]) // world + 1
        given: tuple[Any, ...] = (
            world,
            meeting,
            self._shape,
            self._weights,
            self._shared,
            ids,
            np.array(slots, np.int64),
            np.array(places, np.int64),
            logits.numpy(),
        )
        for rank in range(1, world):
            self._threads.submit(self._run, rank, *given)
        self._run(0, *given)
        return logits.unflatten(-1, (config.num_codebooks, config.audio_vocab))


def _numbers(tensor: Tensor) -> np.ndarray:
    numbers: np.ndarray = tensor.detach().float().contiguous().numpy()
    return numbers
