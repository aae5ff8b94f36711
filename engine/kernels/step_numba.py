"""One decode step of ZONOS2 as one call, compiled for this CPU by numba.

- Sums, norms, softmax and attention are float32 whatever the weights are; matrices are read where
  they lie by ``product_numba``. A row is computed by the same instructions in the same order beside
  any others and with any number of threads, so it has the same bits.
- All threads execute ``run`` at once, each with its own ``rank``: they share out the outputs of
  products and the groups of heads, meet after each, and do the rest alike, without Python's lock.
- The plain twin is ``Backbone.forward``; ``engine.zonos2.compiled`` fills what is given here.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit

from engine.kernels.basics_numba import (
    ONE,
    OPTIONS,
    TWO,
    add,
    call_product,
    clear,
    exp,
    exps,
    gelu,
    helper,
    meet,
    norm,
    norm_factor,
    share,
    silu,
    store_bfloat16,
)
from engine.kernels.product_numba import (
    BFLOAT16,
    FLOAT32,
    INT8,
    SIZES,
    SOURCES,
    read,
    store_float32,
)
from engine.kernels.step_inputs import (
    BALANCE,
    BIAS_1,
    BIAS_2,
    BIAS_DOWN,
    DOWN,
    GATER,
    IN,
    KEYS,
    NORM,
    OUT,
    ROUTER_1,
    ROUTER_2,
    ROUTER_3,
    STATE_SCALE,
    VALUES,
    WKV,
    WO,
    WQ,
)  # fmt: skip

# Parts of a step ----------------------------------------------------------------------------------


@helper
def _embed(shape, weights, ids, x):  # type: ignore[no-untyped-def]
    """The normalised sum of each row's table entries -> x [n, dim]."""
    square = np.empty(1, np.float32)
    for row in range(len(ids)):
        clear(x[row])
        for column in range(ids.shape[1]):
            table, begin = weights.embeddings[column], ids[row, column] * shape.dim
            for at in range(shape.dim):
                if shape.kind == FLOAT32:
                    x[row, at] += read(FLOAT32, table, begin + at)
                else:
                    x[row, at] += read(BFLOAT16, table, begin + at)
        factor = norm_factor(weights.products[2], x[row], shape.epsilon, square)
        for at in range(shape.dim):
            x[row, at] *= factor


@helper
def _attend(shape, weights, layer, slot, place, group, row, out):  # type: ignore[no-untyped-def]
    """Store the new key and value of one group of heads, and let its queries attend.

    ``row`` holds queries, keys, values and gates; ``out`` takes the group's heads in turn.
    """
    heads, kv_heads, width, matrices = shape.heads, shape.kv_heads, shape.head_dim, weights.matrices
    asking, length, size = heads // kv_heads, place + 1, SIZES[shape.kind]
    square = np.empty(1, np.float32)
    turned = np.empty((asking + 1, width), np.float32)  # queries and the key
    root = ONE / np.float32(math.sqrt(np.float32(width)))
    for part in range(asking + 1):
        head = heads + group if part == asking else group * asking + part
        own = row[head * width : (head + 1) * width]
        factor = norm_factor(weights.products[2], own, shape.qk_epsilon, square)
        if part < asking:
            factor *= weights.tempers[layer, head] * root
        for pair in range(width // 2):
            cos, sin = weights.turns[place, 0, pair], weights.turns[place, 1, pair]
            even, odd = own[2 * pair] * factor, own[2 * pair + 1] * factor
            turned[part, 2 * pair] = even * cos - odd * sin
            turned[part, 2 * pair + 1] = even * sin + odd * cos
    begin = (slot * kv_heads + group) * shape.max_rows * width * size
    keys, values = matrices[layer, KEYS] + begin, matrices[layer, VALUES] + begin
    value = (heads + kv_heads + group) * width
    for at in range(width):
        if shape.kind == FLOAT32:
            store_float32(keys, place * width + at, turned[asking, at])
            store_float32(values, place * width + at, row[value + at])
        else:
            store_bfloat16(keys, place * width + at, turned[asking, at])
            store_bfloat16(values, place * width + at, row[value + at])
    scores = np.empty((asking, length), np.float32)
    call_product(weights.products[0], keys, turned, scores, 0, length, width, asking, length)
    for head in range(asking):
        total = exps(scores[head])
        gate = row[(heads + 2 * kv_heads) * width + group * asking + head]
        factor = ONE / (total * (ONE + exp(-gate)))
        for past in range(length):
            scores[head, past] *= factor
    clear(out)
    one = np.empty(width, np.float32)
    for past in range(length):
        for at in range(width):
            if shape.kind == FLOAT32:
                one[at] = read(FLOAT32, values, past * width + at)
            else:
                one[at] = read(BFLOAT16, values, past * width + at)
        for head in range(asking):
            weight = scores[head, past]
            for at in range(width):
                out[head * width + at] += weight * one[at]


@helper
def _route(shape, weights, layer, rows, state):  # type: ignore[no-untyped-def]
    """The experts that each of ``rows`` chooses [n, k], and their weights; ``state`` moves on."""
    product, matrices, vectors = (
        weights.products[0],
        weights.matrices[layer],
        weights.routers[layer],
    )
    num_rows, width, topk, experts = (
        len(rows),
        shape.router_dim,
        weights.topks[layer],
        shape.experts,
    )
    down = np.empty((num_rows, width), np.float32)
    hidden = np.empty((num_rows, width), np.float32)
    scores = np.empty((num_rows, experts), np.float32)
    call_product(product, matrices[DOWN], rows, down, 0, width, shape.dim, num_rows, width)
    for row in range(num_rows):
        for at in range(width):
            kept = state[row, at] * vectors[STATE_SCALE, at]
            state[row, at] = down[row, at] + vectors[BIAS_DOWN, at] + kept
    norm(weights.products[2], state, vectors[NORM], shape.epsilon, hidden)
    for column, bias in ((ROUTER_1, BIAS_1), (ROUTER_2, BIAS_2)):
        call_product(product, matrices[column], hidden, down, 0, width, width, num_rows, width)
        for row in range(num_rows):
            for at in range(width):
                hidden[row, at] = gelu(down[row, at] + vectors[bias, at])
    call_product(product, matrices[ROUTER_3], hidden, scores, 0, experts, width, num_rows, experts)
    chosen = np.empty((num_rows, topk), np.int64)
    shares = np.empty((num_rows, topk), np.float32)
    for row in range(num_rows):
        total = exps(scores[row])
        for rank in range(topk):
            best, best_at = np.float32(-np.inf), 0
            for expert in range(experts):
                ranking, is_taken = scores[row, expert] / total + vectors[BALANCE, expert], False
                for before in range(rank):
                    is_taken = is_taken or chosen[row, before] == expert
                if not is_taken and ranking > best:
                    best, best_at = ranking, expert
            chosen[row, rank], shares[row, rank] = best_at, scores[row, best_at] / total
    return chosen, shares


@helper
def _mix_dense(rank, world, shape, weights, shared, layer, rows, meeting):  # type: ignore[no-untyped-def]
    """``rows`` through the layer's one feed-forward -> ``shared.given``, and the next meeting."""
    num_rows, dim, ffn_dim = len(rows), shape.dim, shape.ffn_dim
    product, matrices, hidden = weights.products[0], weights.matrices[layer], shared.hidden
    first, last = share(rank, world, 2 * ffn_dim)
    call_product(product, matrices[IN], rows, hidden, first, last, dim, num_rows, 2 * ffn_dim)
    meeting = meet(shared.counter, world, meeting)
    acted = np.empty((num_rows, ffn_dim), np.float32)
    for row in range(num_rows):
        for at in range(ffn_dim):  # up, then gate
            acted[row, at] = hidden[row, at] * silu(hidden[row, ffn_dim + at])
    first, last = share(rank, world, dim)
    call_product(product, matrices[OUT], acted, shared.given, first, last, ffn_dim, num_rows, dim)
    return meet(shared.counter, world, meeting)


@helper
def _by_expert(chosen, shares, experts):  # type: ignore[no-untyped-def]
    """Pairs by expert, then by row: their rows, their shares, and where each expert begins."""
    num_rows, topk = chosen.shape
    rows = np.empty(num_rows * topk, np.int64)
    weights = np.empty(num_rows * topk, np.float32)
    begins = np.empty(experts + 1, np.int64)
    begins[0] = pair = 0
    for expert in range(experts):
        for row in range(num_rows):
            for rank in range(topk):
                if chosen[row, rank] == expert:
                    rows[pair], weights[pair] = row, shares[row, rank]
                    pair += 1
        begins[expert + 1] = pair
    return rows, weights, begins


@helper
def _scale(shape, rows, begin, number, first, last, scales):  # type: ignore[no-untyped-def]
    """Multiply what narrow weights gave by their scales: this thread's outputs only."""
    if shape.expert_kind >= INT8:
        for row in range(begin, begin + number):
            for at in range(first, last):
                rows[row, at] *= scales[at]


@helper
def _mix_experts(rank, world, shape, weights, shared, layer, rows, pairs, begins, meeting):  # type: ignore[no-untyped-def]
    """Each pair's row through its expert -> ``shared.given``, and the next meeting."""
    dim, ffn_dim, size = shape.dim, shape.ffn_dim, SIZES[shape.expert_kind]
    product, matrices, hidden = weights.products[1], weights.matrices[layer], shared.hidden
    gathered = np.empty((len(pairs), dim), np.float32)
    for pair in range(len(pairs)):
        for at in range(dim):
            gathered[pair, at] = rows[pairs[pair], at]
    first, last = share(rank, world, 2 * ffn_dim)
    for expert in range(shape.experts):
        begin, number = begins[expert], begins[expert + 1] - begins[expert]
        if number:
            matrix = matrices[IN] + expert * 2 * ffn_dim * dim * size
            ours, to = gathered[begin:], hidden[begin:]
            call_product(product, matrix, ours, to, first, last, dim, number, 2 * ffn_dim)
            _scale(shape, hidden, begin, number, first, last, weights.in_scales[layer, expert])
    meeting = meet(shared.counter, world, meeting)
    acted = np.empty((len(pairs), ffn_dim), np.float32)
    for pair in range(len(pairs)):
        for at in range(ffn_dim):  # gate and up in turn
            acted[pair, at] = silu(hidden[pair, 2 * at]) * hidden[pair, 2 * at + 1]
    first, last = share(rank, world, dim)
    for expert in range(shape.experts):
        begin, number = begins[expert], begins[expert + 1] - begins[expert]
        if number:
            matrix = matrices[OUT] + expert * ffn_dim * dim * size
            ours, to = acted[begin:], shared.given[begin:]
            call_product(product, matrix, ours, to, first, last, ffn_dim, number, dim)
            _scale(
                shape, shared.given, begin, number, first, last, weights.out_scales[layer, expert]
            )
    return meet(shared.counter, world, meeting)


@helper
def _step(rank, world, meeting, shape, weights, shared, ids, slots, places, logits):  # type: ignore[no-untyped-def]
    dim, asking, num_rows = shape.dim, shape.heads // shape.kv_heads, len(ids)
    x = np.empty((num_rows, dim), np.float32)
    normed = np.empty((num_rows, dim), np.float32)
    state = np.empty((num_rows, shape.router_dim), np.float32)
    for row in range(num_rows):
        clear(state[row])
    _embed(shape, weights, ids, x)
    products = weights.products
    for layer in range(shape.layers):
        matrices = weights.matrices[layer]
        norm(products[2], x, weights.norms[2 * layer], shape.epsilon, normed)
        width, leading, begin = shape.head_dim, shared.asked.shape[1], 0
        for matrix, number in (
            (WQ, shape.heads * width),
            (WKV, 2 * shape.kv_heads * width),
            (GATER, shape.heads),
        ):
            first, last = share(rank, world, number)
            to = shared.asked[:, begin:]
            call_product(
                products[0], matrices[matrix], normed, to, first, last, dim, num_rows, leading
            )
            begin += number
        meeting = meet(shared.counter, world, meeting)
        for task in range(rank, num_rows * shape.kv_heads, world):
            row, group = task // shape.kv_heads, task % shape.kv_heads
            out = shared.attended[row, group * asking * width : (group + 1) * asking * width]
            _attend(shape, weights, layer, slots[row], places[row], group, shared.asked[row], out)
        meeting = meet(shared.counter, world, meeting)
        first, last = share(rank, world, dim)
        ours, to, length = shared.attended, shared.mixed, shape.heads * width
        call_product(products[0], matrices[WO], ours, to, first, last, length, num_rows, dim)
        meeting = meet(shared.counter, world, meeting)
        add(x, shared.mixed)
        norm(products[2], x, weights.norms[2 * layer + 1], shape.epsilon, normed)
        if weights.topks[layer] == 0:
            for row in range(num_rows):
                clear(state[row])
            meeting = _mix_dense(rank, world, shape, weights, shared, layer, normed, meeting)
            add(x, shared.given)
            continue
        chosen, shares = _route(shape, weights, layer, normed, state)
        pairs, shares_of_pairs, begins = _by_expert(chosen, shares, shape.experts)
        meeting = _mix_experts(
            rank, world, shape, weights, shared, layer, normed, pairs, begins, meeting
        )
        for pair in range(len(pairs)):  # a row adds its experts in their order
            for at in range(dim):
                x[pairs[pair], at] += shared.given[pair, at] * shares_of_pairs[pair]
    norm(products[2], x, weights.norms[2 * shape.layers], shape.epsilon, normed)
    number = logits.shape[1]
    first, last = share(rank, world, number)
    head = weights.matrices[shape.layers, WQ]
    call_product(products[0], head, normed, logits, first, last, dim, num_rows, number)
    for row in range(num_rows):
        for at in range(first, last):  # cap * tanh(logit / cap)
            power = exp(logits[row, at] * (TWO / shape.cap))
            logits[row, at] = shape.cap * (ONE - TWO / (ONE + power))
    meet(shared.counter, world, meeting)


def _keeping(sources: int) -> Any:
    """``run``, kept once it is compiled (in 7 s), for these ``sources`` only."""

    def run(rank, world, meeting, shape, weights, shared, ids, slots, places, logits):  # type: ignore[no-untyped-def]
        """One step of ``ids`` [n, columns]; ``logits`` [n, codebooks * vocabulary] takes it."""
        if sources:
            _step(rank, world, meeting, shape, weights, shared, ids, slots, places, logits)

    try:
        return njit(cache=True, **OPTIONS)(run)
    except RuntimeError:  # no folder for it beside the source nor in the user's cache
        return helper(run)


run: Any = _keeping(SOURCES)
unkept: Any = helper(run.py_func)  # for where what was kept cannot be read or written
