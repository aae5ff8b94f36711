"""The decode step of ZONOS2 on a CPU: weights laid out once, and only rows that live.

- A decode step multiplies few rows by large matrices, so it is as fast as its weights are read.
  oneDNN's own layout reads them up to four times as fast as the layout they are stored in.
- A row's result does not depend on its neighbours: every product has at least ``min_rows`` rows,
  the number from which on this machine gives a row the same bits beside any number of others.
  ``least_rows`` finds it by comparing them when the step is made; where nothing else holds, it is
  the number of slots, and every product has one shape.
- The same numbers as ``Backbone.forward``, its plain twin, within rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from engine.zonos2.attention import QK_NORM_EPS, Attention, SlotKv
from engine.zonos2.backbone import Backbone, Layer
from engine.zonos2.moe import DenseFeedForward, Experts, MoeFeedForward, Router

# In float32, below this many numbers, the call itself costs more than reading them: 17 us against
# 3 us. In bfloat16 the plain call is never faster.
PACKED_MIN_NUMBERS = {torch.float32: 1 << 15, torch.bfloat16: 0}

# So many numbers of experts are packed when the step is made, in 2 s. Those of larger models are
# packed when a row first chooses them: a model that is mapped from its file should open at once.
PACKED_AT_ONCE_MAX_NUMBERS = 1_000_000_000

Product = Callable[[Tensor], Tensor]  # rows [n, in] -> [n, out]


def product(weight: Tensor, bias: Tensor | None = None) -> Product:
    """The product with ``weight`` [out, in] for few rows, packed where that is faster."""
    if not _packs(weight):
        return lambda rows: F.linear(rows, weight, bias)
    packed = torch.ops.mkldnn._reorder_linear_weight(weight.contiguous())
    multiply = torch.ops.mkldnn._linear_pointwise.default
    return lambda rows: multiply(rows, packed, bias, "none", [], "")


def _packs(weight: Tensor) -> bool:
    if weight.dtype not in PACKED_MIN_NUMBERS or not torch.backends.mkldnn.is_available():
        return False
    if weight.dtype is torch.bfloat16 and not torch.ops.mkldnn._is_mkldnn_bf16_supported():
        return False
    return weight.numel() >= PACKED_MIN_NUMBERS[weight.dtype]


def least_rows(shapes: Iterable[torch.Size], num_slots: int, dtype: torch.dtype) -> int:
    """The least number of rows from which on a row's product has the same bits up to num_slots."""
    threads = torch.get_num_threads()
    return max(_least_rows(tuple(shape), num_slots, dtype, threads) for shape in set(shapes))


@lru_cache(maxsize=256)
def _least_rows(shape: tuple[int, int], num_slots: int, dtype: torch.dtype, _threads: int) -> int:
    generator = torch.Generator().manual_seed(0)
    rows = torch.randn(num_slots, shape[1], generator=generator)
    rows = rows if dtype is torch.int8 else rows.to(dtype)
    weight = torch.randn(shape, generator=generator)
    if dtype is torch.int8:
        rows, scale = rows.bfloat16(), torch.full(shape[:1], shape[1] ** -0.5 / 32)
        multiply = narrow_product((weight * 32).to(dtype), scale)
    else:
        multiply = product((weight * shape[1] ** -0.5).to(dtype))
    full = multiply(rows)
    for count in reversed(range(1, num_slots)):
        if not torch.equal(multiply(rows[:count]), full[:count]):
            return count + 1
    return 1


def narrow_product(weight: Tensor, scale: Tensor) -> Product:
    """The product with int8 ``weight`` [out, in] times ``scale`` [out], for bfloat16 rows."""
    ones = torch.ones(len(weight), dtype=torch.bfloat16)
    multiply = torch._weight_int8pack_mm
    return lambda rows: (multiply(rows, weight, ones) * scale).to(rows.dtype)


class PackedExperts:
    """The experts of one layer, each packed when a row first chooses it, or by ``pack``.

    int8 experts stay int8 under a bfloat16 spine: half the memory, and as fast at one or two rows.
    """

    def __init__(self, experts: Experts, dtype: torch.dtype) -> None:
        self._experts = experts
        self._dtype = dtype
        self._packed: dict[int, tuple[Product, Product]] = {}

    def one(self, expert: int, rows: Tensor) -> Tensor:
        """Rows [n, dim] through one expert -> [n, dim]."""
        self.pack(expert)
        into, out_of = self._packed[expert]
        gate, up = into(rows).chunk(2, dim=-1)
        return out_of(F.silu(gate) * up)

    def pack(self, expert: int) -> None:
        """Lay one expert out, unless that was done before."""
        if expert not in self._packed:
            self._packed[expert] = self._products(expert)

    def _products(self, expert: int) -> tuple[Product, Product]:
        experts = self._experts
        if self.stays_narrow:
            assert experts.scale13 is not None and experts.scale2 is not None
            return (
                narrow_product(_parted(experts.w13[expert]), _parted(experts.scale13[expert])),
                narrow_product(experts.w2[expert], experts.scale2[expert]),
            )
        into, out_of = experts.weights_of(expert, self._dtype)
        return product(_parted(into)), product(out_of)

    @property
    def stays_narrow(self) -> bool:
        """Whether weights are read as the int8 numbers they are."""
        return self._experts.w13.dtype is torch.int8 and self._dtype is torch.bfloat16


def _parted(rows: Tensor) -> Tensor:
    """Gate and up, stored in turn (spec 1.3), as two blocks."""
    return rows.unflatten(0, (-1, 2)).transpose(0, 1).flatten(0, 1).contiguous()


class Norm:
    """RMS norm over the last dimension in four operations; ``nn.RMSNorm`` takes nine on a CPU."""

    def __init__(self, weight: Tensor | None, width: int, eps: float) -> None:
        # x / sqrt(mean(x^2) + eps) = x * sqrt(width) / hypot(|x|, sqrt(width * eps))
        self._floor = torch.tensor((width * eps) ** 0.5)
        ones = torch.ones(()) if weight is None else weight.float()
        self._weight = ones * width**0.5

    def __call__(self, x: Tensor) -> Tensor:
        length = torch.linalg.vector_norm(x, dim=-1, keepdim=True, dtype=torch.float32)
        return (x / torch.hypot(length, self._floor) * self._weight).to(x.dtype)


class PackedRouter:
    """The same scores as ``Router``, without oneDNN's slow call for a tiny GELU."""

    def __init__(self, router: Router, eps: float) -> None:
        self._router = router
        linear = [part for part in router.router_mlp if isinstance(part, nn.Linear)]
        self._down, *self._mlp = (
            product(part.weight, part.bias) for part in (router.down_proj, *linear)
        )
        self._norm = Norm(router.rmsnorm_eda.weight, len(router.rmsnorm_eda.weight), eps)
        self._bias = router.bias_sign * router.balancing_biases.float()

    def __call__(self, rows: Tensor, state: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        """Rows [m, dim], last state [m, r] -> chosen [m, k], weights [m, k], state [m, r]."""
        router = self._router
        hidden = self._down(rows)
        if state is not None and router.router_states_scale is not None:
            hidden = torch.addcmul(hidden, state, router.router_states_scale)
        first, second, last = self._mlp
        scores = last(_gelu(second(_gelu(first(self._norm(hidden))))))
        probabilities = scores.float().softmax(dim=-1)
        chosen = (probabilities + self._bias).topk(router.topk, dim=-1).indices
        return chosen, probabilities.gather(-1, chosen), hidden


def _gelu(x: Tensor) -> Tensor:
    return x * torch.erf(x * 0.5**0.5).add_(1.0).mul_(0.5)


class PackedLayer:
    """One layer's weights in the order in which a decode step reads them."""

    def __init__(self, layer: Layer, eps: float) -> None:
        attention, feed_forward = layer.attention, layer.feed_forward
        assert isinstance(attention, Attention)
        width = len(layer.attention_norm.weight)
        self.attention_norm = Norm(layer.attention_norm.weight, width, eps)
        self.ffn_norm = Norm(layer.ffn_norm.weight, width, eps)
        parts = attention.wq.weight, *attention.wkv.weight, attention.gater.weight
        self.qkv_gate = product(torch.cat(parts))
        self.out = product(attention.wo.weight)
        head_dim = attention.head_dim
        num_kv_heads = attention.wkv.weight.shape[1] // head_dim
        temper = attention.temp[0].abs()  # [H, 1]
        temper = torch.cat([temper, temper.new_ones(num_kv_heads, 1)])
        self.qk_norm = Norm(temper, head_dim, QK_NORM_EPS)
        self.router: PackedRouter | None = None
        if isinstance(feed_forward, MoeFeedForward):
            self.router = PackedRouter(feed_forward.router, eps)
            self.experts = PackedExperts(feed_forward.experts, attention.wq.weight.dtype)
        else:
            assert isinstance(feed_forward, DenseFeedForward)
            self._up_gate = product(feed_forward.w_in.weight.flatten(0, 1))
            self._down = product(feed_forward.w_out.weight)

    def dense(self, rows: Tensor) -> Tensor:
        """The feed-forward of a layer without experts: rows [m, dim] -> [m, dim]."""
        up, gate = self._up_gate(rows).chunk(2, dim=-1)
        return self._down(up * F.silu(gate))


class PackedStep:
    """Decode steps of any of ``num_slots`` sequences whose keys and values lie in ``kv``."""

    def __init__(self, model: Backbone, kv: SlotKv, num_slots: int) -> None:
        config, dtype = model.config, model.out_norm.weight.dtype
        self._model, self._kv = model, kv
        self._heads, self._kv_heads = config.n_heads, config.n_kv_heads
        self._head_dim, self._text_pad = config.head_dim, config.text_vocab
        self._layers = [
            PackedLayer(layer, config.norm_eps)  # type: ignore[arg-type]
            for layer in model.layers
        ]
        num_numbers = config.moe_num_experts * 3 * config.dim * config.ffn_dim
        mixing = [layer.experts for layer in self._layers if layer.router is not None]
        if num_numbers * len(mixing) <= PACKED_AT_ONCE_MAX_NUMBERS:
            for experts in mixing:
                for expert in range(config.moe_num_experts):
                    experts.pack(expert)
        self._norm = Norm(None, config.dim, config.norm_eps)
        self._head = product(model.multi_output.weight)
        tables: list[Tensor] = [e.weight for e in model.multi_embedder.embedders]  # type: ignore[misc]
        self._embeddings = torch.cat(tables)
        self._first_ids = torch.tensor([0, *map(len, tables[:-1])]).cumsum(0)  # of each column
        cos, sin = model.rope.unbind(1)
        self._turns = torch.complex(cos, sin)[:, None]  # [rows, 1, hd / 2]
        shapes = [p.shape[-2:] for p in model.layers.parameters() if p.dim() > 1]
        num_parts = self._heads + 2 * self._kv_heads
        shapes += [
            torch.Size([num_parts * self._head_dim + self._heads, config.dim]),
            torch.Size([2 * config.ffn_dim, config.dim]),
            model.multi_output.weight.shape,
        ]
        self.min_rows = least_rows(shapes, num_slots, dtype)
        if any(experts.stays_narrow for experts in mixing):
            sizes = [(2 * config.ffn_dim, config.dim), (config.dim, config.ffn_dim)]
            narrow = least_rows(map(torch.Size, sizes), num_slots, torch.int8)
            self.min_rows = max(self.min_rows, narrow)

    def start(self, slot: int, place: int) -> None:
        """Nothing to do: slots that do not live take no part in a step."""

    def __call__(self, codes: Tensor, slots: Sequence[int], places: Sequence[int]) -> Tensor:
        """The last ``codes`` [n, C] of ``slots`` at ``places`` -> logits [n, codebooks, vocab]."""
        num_live = len(slots)
        num_padding = max(0, self.min_rows - num_live)
        all_places = torch.tensor([*places, *[0] * num_padding])
        where = torch.tensor(slots), all_places[:num_live]
        rows = F.pad(codes, (0, 1), value=self._text_pad)  # [n, W]
        if num_padding:
            rows = torch.cat([rows, rows[:1].expand(num_padding, -1)])
        # m rows from here on: those that live and the padding.
        x = self._norm(F.embedding(rows + self._first_ids, self._embeddings).sum(1))  # [m, dim]
        turns = self._turns[all_places]  # [m, 1, hd / 2]
        router_state: Tensor | None = None
        for index, layer in enumerate(self._layers):
            qkv_gate = layer.qkv_gate(layer.attention_norm(x))
            x = x + layer.out(self._attended(qkv_gate, index, turns, where))
            normed = layer.ffn_norm(x)
            if layer.router is None:
                router_state = None
                x = x + layer.dense(normed)
            else:
                chosen, weights, router_state = layer.router(normed, router_state)
                x = x + self._mixed(layer.experts, normed, num_live, chosen, weights.to(x.dtype))
        return self._model.capped(self._head(self._model.out_norm(x))[:num_live])

    def _attended(
        self, qkv_gate: Tensor, layer: int, turns: Tensor, where: tuple[Tensor, Tensor]
    ) -> Tensor:
        """Gated attention [m, H * hd] of the new rows, each over exactly its own slot's past."""
        heads, kv_heads = self._heads, self._kv_heads
        by_head = qkv_gate[:, :-heads].unflatten(-1, (-1, self._head_dim))  # [m, H + 2 KV, hd]
        qk, v = by_head.tensor_split([heads + kv_heads], dim=1)
        pairs = torch.view_as_complex(
            self._layers[layer].qk_norm(qk).float().unflatten(-1, (-1, 2))
        )
        qk = torch.view_as_real(pairs * turns).flatten(-2).to(v.dtype)
        q, k = qk.tensor_split([heads], dim=1)
        keys, values = self._kv.keys[layer], self._kv.values[layer]  # [S, KV, R, hd]
        slots, places = where
        keys[slots, :, places] = k[: len(slots)]
        values[slots, :, places] = v[: len(slots)]
        grouped = q.unflatten(1, (kv_heads, -1))  # [m, KV, G, hd]
        parts = []
        for row, (slot, place) in enumerate(zip(slots.tolist(), places.tolist(), strict=True)):
            # The G heads of a group ask the same keys, as G query rows of one head.
            past = slice(slot, slot + 1), slice(None), slice(place + 1)
            asked = grouped[row : row + 1]
            parts.append(F.scaled_dot_product_attention(asked, keys[past], values[past]))
        parts += parts[:1] * (len(grouped) - len(parts))  # nobody reads what padding attends to
        out = torch.cat(parts)
        gates = torch.sigmoid(qkv_gate[:, -heads:])
        return (out.flatten(1, 2) * gates[..., None]).flatten(1)

    def _mixed(
        self, experts: PackedExperts, rows: Tensor, num_live: int, chosen: Tensor, weights: Tensor
    ) -> Tensor:
        """Every live row through the experts it chose, weighted; rows [m, dim] -> [m, dim]."""
        members: dict[int, list[tuple[int, int]]] = {}
        for row, own in enumerate(chosen[:num_live].tolist()):
            for rank, expert in enumerate(own):
                members.setdefault(expert, []).append((row, rank))
        if len(members) == 1:
            return experts.one(next(iter(members)), rows) * weights
        out = torch.zeros_like(rows)
        for expert, entries in sorted(members.items()):  # each row adds its experts in this order
            at, rank = torch.tensor(entries).T
            padded = F.pad(at, (0, max(0, self.min_rows - len(at))))
            out.index_add_(
                0, at, experts.one(expert, rows[padded])[: len(at)] * weights[at, rank, None]
            )
        return out
