"""The Triton side of ``engine.kernels.experts``; imported on a GPU or by the interpreter only.

A program is (expert and tile, block of columns). Programs of experts that nobody chose end at once.
"""

# mypy: disable-error-code="no-untyped-def"
import triton
import triton.language as tl


@triton.jit
def into(
    rows, w13, scale, order, begins, hidden, dim, ffn_dim,
    TOPK: tl.constexpr, TILES: tl.constexpr, TILE_ROWS: tl.constexpr, COLUMNS: tl.constexpr,
    DEPTH: tl.constexpr, IS_SCALED: tl.constexpr,
):  # fmt: skip
    """hidden [pairs in order, ffn] = silu(gate) * up of each pair's row."""
    expert = (tl.program_id(0) // TILES).to(tl.int64)
    begin = tl.load(begins + expert) + (tl.program_id(0) % TILES) * TILE_ROWS
    end = tl.load(begins + expert + 1)
    if begin < end:
        pairs = begin + tl.arange(0, TILE_ROWS)
        is_pair = pairs < end
        at = tl.load(order + pairs, mask=is_pair, other=0) // TOPK
        columns = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
        is_column = columns < ffn_dim
        gate_rows = expert * 2 * ffn_dim + 2 * columns
        gate = tl.zeros((TILE_ROWS, COLUMNS), tl.float32)
        up = tl.zeros((TILE_ROWS, COLUMNS), tl.float32)
        for first in range(0, dim, DEPTH):
            depth = first + tl.arange(0, DEPTH)
            is_depth = depth < dim
            x = tl.load(
                rows + at[:, None] * dim + depth[None, :],
                mask=is_pair[:, None] & is_depth[None, :],
                other=0.0,
            )
            place = w13 + gate_rows[None, :] * dim + depth[:, None]
            is_inside = is_depth[:, None] & is_column[None, :]
            gate_tile = tl.load(place, mask=is_inside, other=0.0).to(x.dtype)
            up_tile = tl.load(place + dim, mask=is_inside, other=0.0).to(x.dtype)
            gate += tl.dot(x, gate_tile, input_precision="ieee")
            up += tl.dot(x, up_tile, input_precision="ieee")
        if IS_SCALED:
            gate *= tl.load(scale + gate_rows, mask=is_column, other=0.0)[None, :]
            up *= tl.load(scale + gate_rows + 1, mask=is_column, other=0.0)[None, :]
        product = gate * tl.sigmoid(gate) * up
        tl.store(
            hidden + pairs[:, None] * ffn_dim + columns[None, :],
            product.to(hidden.dtype.element_ty),
            mask=is_pair[:, None] & is_column[None, :],
        )


@triton.jit
def out_of(
    hidden, w2, scale, order, begins, weights, out, dim, ffn_dim,
    TILES: tl.constexpr, TILE_ROWS: tl.constexpr, COLUMNS: tl.constexpr,
    DEPTH: tl.constexpr, IS_SCALED: tl.constexpr,
):  # fmt: skip
    """out [pairs as drawn, dim] = each pair's hidden through its expert, times its weight."""
    expert = (tl.program_id(0) // TILES).to(tl.int64)
    begin = tl.load(begins + expert) + (tl.program_id(0) % TILES) * TILE_ROWS
    end = tl.load(begins + expert + 1)
    if begin < end:
        pairs = begin + tl.arange(0, TILE_ROWS)
        is_pair = pairs < end
        at = tl.load(order + pairs, mask=is_pair, other=0)
        columns = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
        is_column = columns < dim
        total = tl.zeros((TILE_ROWS, COLUMNS), tl.float32)
        for first in range(0, ffn_dim, DEPTH):
            depth = first + tl.arange(0, DEPTH)
            is_depth = depth < ffn_dim
            x = tl.load(
                hidden + pairs[:, None] * ffn_dim + depth[None, :],
                mask=is_pair[:, None] & is_depth[None, :],
                other=0.0,
            )
            tile = tl.load(
                w2 + (expert * dim + columns)[None, :] * ffn_dim + depth[:, None],
                mask=is_depth[:, None] & is_column[None, :],
                other=0.0,
            )
            total += tl.dot(x, tile.to(x.dtype), input_precision="ieee")
        if IS_SCALED:
            total *= tl.load(scale + expert * dim + columns, mask=is_column, other=0.0)[None, :]
        total *= tl.load(weights + at, mask=is_pair, other=0.0)[:, None]
        tl.store(
            out + at[:, None] * dim + columns[None, :],
            total.to(out.dtype.element_ty),
            mask=is_pair[:, None] & is_column[None, :],
        )
