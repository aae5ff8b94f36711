"""The Triton side of ``engine.kernels.attention``; imported on a GPU or by the interpreter only.

``part`` is a program per slot, key head and stretch of rows; ``join`` one per slot and key head.
Products are elementwise: a step reads each key once, so there is nothing for tensor cores to win.
"""

# mypy: disable-error-code="no-untyped-def"
import triton
import triton.language as tl


@triton.jit
def part(
    q, keys, values, places, sums, heights, slot_stride, head_stride, row_stride,
    num_kv, num_parts, scale,
    GROUP: tl.constexpr, HEAD_DIM: tl.constexpr, STRETCH_ROWS: tl.constexpr,
):  # fmt: skip
    """Scores of one stretch, their exponentials below its largest score, and the summed values."""
    slot, head, stretch = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    num_rows = tl.load(places + slot) + 1
    if stretch * STRETCH_ROWS < num_rows:
        rows = stretch * STRETCH_ROWS + tl.arange(0, STRETCH_ROWS)
        is_row = rows < num_rows
        width = tl.arange(0, HEAD_DIM)
        begin = slot.to(tl.int64) * slot_stride + head * head_stride
        at = begin + rows[:, None] * row_stride + width[None, :]
        key = tl.load(keys + at, mask=is_row[:, None], other=0.0).to(tl.float32)
        value = tl.load(values + at, mask=is_row[:, None], other=0.0).to(tl.float32)
        for member in tl.static_range(GROUP):
            place = (slot * num_kv + head) * GROUP + member
            asked = tl.load(q + place * HEAD_DIM + width).to(tl.float32)
            scores = tl.sum(key * asked[None, :], axis=1) * scale
            scores = tl.where(is_row, scores, float("-inf"))
            highest = tl.max(scores, axis=0)
            shares = tl.exp(scores - highest)
            kept = ((slot * num_kv + head) * num_parts + stretch) * GROUP + member
            tl.store(heights + 2 * kept, highest)
            tl.store(heights + 2 * kept + 1, tl.sum(shares, axis=0))
            summed = tl.sum(shares[:, None] * value, axis=0)
            tl.store(sums + kept.to(tl.int64) * HEAD_DIM + width, summed)


@triton.jit
def join(
    sums, heights, places, out, num_kv, num_parts,
    GROUP: tl.constexpr, HEAD_DIM: tl.constexpr, STRETCH_ROWS: tl.constexpr,
):  # fmt: skip
    """One slot's stretches in order, each scaled to the highest score so far."""
    slot, head = tl.program_id(0), tl.program_id(1)
    num_used = tl.load(places + slot) // STRETCH_ROWS + 1
    width = tl.arange(0, HEAD_DIM)
    for member in tl.static_range(GROUP):
        first = (slot * num_kv + head) * num_parts * GROUP + member
        highest = tl.load(heights + 2 * first)
        mass = tl.load(heights + 2 * first + 1)
        total = tl.load(sums + first.to(tl.int64) * HEAD_DIM + width)
        for stretch in range(1, num_used):
            kept = first + stretch * GROUP
            height = tl.load(heights + 2 * kept)
            higher = tl.maximum(highest, height)
            old, new = tl.exp(highest - higher), tl.exp(height - higher)
            mass = mass * old + tl.load(heights + 2 * kept + 1) * new
            part_sum = tl.load(sums + kept.to(tl.int64) * HEAD_DIM + width)
            total = total * old + part_sum * new
            highest = higher
        place = (slot * num_kv + head) * GROUP + member
        tl.store(out + place * HEAD_DIM + width, (total / mass).to(out.dtype.element_ty))
