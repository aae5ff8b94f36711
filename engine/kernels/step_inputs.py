"""What the compiled decode step is given: a checkpoint's shape, its weights, and shared rows."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

# Columns of ``Weights.matrices``: addresses, a line a layer; the last line holds the head at WQ.
WQ, WKV, GATER, WO, IN, OUT, KEYS, VALUES, DOWN, ROUTER_1, ROUTER_2, ROUTER_3 = range(12)
NUM_MATRICES = 12
# Lines of ``Weights.routers``: biases of the three products that have one, then what they name.
BIAS_DOWN, BIAS_1, BIAS_2, NORM, STATE_SCALE, BALANCE = range(6)
NUM_VECTORS = 6


class Shape(NamedTuple):
    """What a step has to know of a checkpoint; epsilons and ``cap`` are float32."""

    dim: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn_dim: int
    experts: int
    router_dim: int
    layers: int
    max_rows: int  # of a slot
    kind: int  # of the spine's weights
    expert_kind: int
    epsilon: np.float32
    qk_epsilon: np.float32
    cap: np.float32


class Weights(NamedTuple):
    """Addresses of matrices and tables (int64), vectors as float32 arrays."""

    products: np.ndarray  # C functions for the spine, the experts and float32
    matrices: np.ndarray  # [layers + 1, NUM_MATRICES]
    embeddings: np.ndarray  # [columns of a row]
    topks: np.ndarray  # [layers], 0 where a layer has no experts
    norms: np.ndarray  # [2 * layers + 1, dim]: before attention, before experts; last the head's
    tempers: np.ndarray  # [layers, heads]
    turns: np.ndarray  # [rows, 2, head_dim / 2]
    routers: np.ndarray  # [layers, NUM_VECTORS, router_dim or more]
    in_scales: np.ndarray  # [layers, experts, 2 * ffn_dim]
    out_scales: np.ndarray  # [layers, experts, dim]


class Shared(NamedTuple):
    """What all threads read and write, float32; a pair is a row and an expert that it chose."""

    counter: np.ndarray  # [1] int64: how often a thread has come to a meeting, ever
    asked: np.ndarray  # [slots, (heads + 2 * kv_heads) * head_dim + heads]: queries to gates
    attended: np.ndarray  # [slots, heads * head_dim]
    mixed: np.ndarray  # [slots, dim]
    hidden: np.ndarray  # [pairs, 2 * ffn_dim]
    given: np.ndarray  # [pairs, dim]
