"""Products of few float32 rows with a matrix read once, compiled for this CPU through LLVM.

- Few rows are multiplied as fast as the matrix is read. It is read where it lies, in the layout of
  the checkpoint: one stream in the order of memory, sixteen numbers at a time, widened to float32.
- A row's result has the same bits beside any others and however the outputs are shared out: every
  sum is made of the same numbers in the same order, which LLVM may not change.
- The plain twin is ``torch.nn.functional.linear``.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from llvmlite import ir
from numba import cfunc, extending, njit, types
from numba.core import cgutils

FLOAT32, BFLOAT16, INT8, FLOAT8 = range(4)  # kinds of weights
SIZES = 4, 2, 1, 1  # bytes

# A tile takes so many numbers of each row at a time, in two sums.
LANES, SUMS = 16, 2
STRIDE = LANES * SUMS
# Prefetched into L2 so far ahead: without it, two rows of weights read side by side come at half
# the speed of one.
PREFETCH_BYTES = 8192

intrinsic: Any = extending.intrinsic  # untyped, as what it makes is called in other ways
F32, I32, I64, I8 = ir.FloatType(), ir.IntType(32), ir.IntType(64), ir.IntType(8)
VECTOR, WIDE_INTS = ir.VectorType(F32, LANES), ir.VectorType(I32, LANES)


# So many outputs are made for one group of rows before the next group has its turn.
BLOCK = 32

ZERO = np.float32(0.0)
# weights, rows, out: addresses; the outputs from first to last; numbers of a row; rows; and numbers
# from one row of out to the next.
SIGNATURE = types.void(*[types.int64] * 8)

# Vectors in LLVM's own language -------------------------------------------------------------------


def _constant(kind: Any, value: int) -> Any:
    return ir.Constant(kind, [value] * LANES if isinstance(kind, ir.VectorType) else value)


def _loaded(builder: Any, address: Any, index: Any, kind: int) -> Any:
    """Sixteen weights from number ``index`` on, as float32."""
    stored = (F32, ir.IntType(16), I8, I8)[kind]
    place = builder.gep(builder.inttoptr(address, stored.as_pointer()), [index])
    place = builder.bitcast(place, ir.VectorType(stored, LANES).as_pointer())
    loaded = builder.load(place, align=SIZES[kind])
    if kind == FLOAT32:
        return loaded
    if kind == INT8:
        return builder.sitofp(builder.sext(loaded, WIDE_INTS), VECTOR)
    wide = builder.zext(loaded, WIDE_INTS)
    if kind == BFLOAT16:
        return builder.bitcast(builder.shl(wide, _constant(WIDE_INTS, 16)), VECTOR)
    sign = builder.shl(builder.and_(wide, _constant(WIDE_INTS, 0x80)), _constant(WIDE_INTS, 24))
    rest = builder.shl(builder.and_(wide, _constant(WIDE_INTS, 0x7F)), _constant(WIDE_INTS, 20))
    small = builder.bitcast(builder.or_(sign, rest), VECTOR)  # an exponent 120 too small
    return builder.fmul(small, ir.Constant(VECTOR, [2.0**120] * LANES))


def _total(builder: Any, vector: Any) -> Any:
    """The sum of sixteen lanes, halves first: an order that no optimiser may change."""
    width = LANES
    while width > 1:
        width //= 2
        halves = [
            builder.shuffle_vector(
                vector, vector, ir.Constant(ir.VectorType(I32, width), list(range(at, at + width)))
            )
            for at in (0, width)
        ]
        vector = builder.fadd(*halves)
    return builder.extract_element(vector, ir.Constant(I32, 0))


def _tile(kind: int, num_rows: int, num_outputs: int) -> Any:
    """``num_rows`` rows times ``num_outputs`` rows of weights, over a multiple of ``STRIDE``.

    (weights, rows, out, length, count, leading): addresses; numbers of a row, and those of them
    that are summed here; numbers from one row of ``out`` to the next.
    """

    @intrinsic
    def tile(
        _: Any, weights: Any, rows: Any, out: Any, length: Any, count: Any, leading: Any
    ) -> Any:
        def generate(context: Any, builder: Any, signature: Any, given: Any) -> Any:
            weights, rows, out, length, count, leading = given
            fma = cgutils.get_or_insert_function(
                builder.module, ir.FunctionType(VECTOR, [VECTOR] * 3), f"llvm.fma.v{LANES}f32"
            )
            prefetch = cgutils.get_or_insert_function(
                builder.module,
                ir.FunctionType(ir.VoidType(), [I8.as_pointer(), I32, I32, I32]),
                "llvm.prefetch.p0",
            )

            def offset(address: Any, count: int, size: int) -> Any:
                return builder.add(address, builder.mul(ir.Constant(I64, count * size), length))

            size = SIZES[kind]
            weight_rows = [offset(weights, o, size) for o in range(num_outputs)]
            our_rows = [offset(rows, r, 4) for r in range(num_rows)]
            before = builder.block
            loop = builder.append_basic_block("products")
            after = builder.append_basic_block("sums")
            builder.branch(loop)
            builder.position_at_end(loop)
            at = builder.phi(I64)
            at.add_incoming(ir.Constant(I64, 0), before)
            places = [
                (o, r, s) for o in range(num_outputs) for r in range(num_rows) for s in range(SUMS)
            ]
            sums = {place: builder.phi(VECTOR) for place in places}
            added = {}
            for s in range(SUMS):
                here = builder.add(at, ir.Constant(I64, s * LANES))
                ours = [_loaded(builder, row, here, FLOAT32) for row in our_rows]
                for o, row in enumerate(weight_rows):
                    numbers = _loaded(builder, row, here, kind)
                    for r, own in enumerate(ours):
                        added[o, r, s] = builder.call(fma, [numbers, own, sums[o, r, s]])
            step_bytes = num_outputs * STRIDE * size
            ahead = builder.add(weights, builder.mul(at, ir.Constant(I64, num_outputs * size)))
            for line in range(0, step_bytes, 64):
                place = builder.add(ahead, ir.Constant(I64, PREFETCH_BYTES + line))
                place = builder.inttoptr(place, I8.as_pointer())
                builder.call(prefetch, [place, *(ir.Constant(I32, n) for n in (0, 2, 1))])
            following = builder.add(at, ir.Constant(I64, STRIDE))
            at.add_incoming(following, loop)
            builder.cbranch(builder.icmp_signed("<", following, count), loop, after)
            for place, phi in sums.items():
                phi.add_incoming(ir.Constant(VECTOR, [0.0] * LANES), before)
                phi.add_incoming(added[place], loop)
            builder.position_at_end(after)
            for o in range(num_outputs):
                for r in range(num_rows):
                    total = _total(builder, builder.fadd(added[o, r, 0], added[o, r, 1]))
                    index = builder.add(
                        builder.mul(leading, ir.Constant(I64, r)), ir.Constant(I64, o)
                    )
                    place = builder.inttoptr(out, F32.as_pointer())
                    builder.store(total, builder.gep(place, [index]))
            return context.get_dummy_value()

        return types.void(*[types.int64] * 6), generate

    return tile


def reader(kind: int) -> Any:
    """One number at an address, as float32."""

    @intrinsic
    def read(_: Any, address: Any, index: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, given: Any) -> Any:
            stored = (F32, ir.IntType(16), I8, I8)[kind]
            place = builder.gep(builder.inttoptr(given[0], stored.as_pointer()), [given[1]])
            number = builder.load(place, align=SIZES[kind])
            if kind == FLOAT32:
                return number
            if kind == INT8:
                return builder.sitofp(number, F32)
            number = builder.zext(number, I32)
            if kind == BFLOAT16:
                return builder.bitcast(builder.shl(number, ir.Constant(I32, 16)), F32)
            sign = builder.shl(builder.and_(number, ir.Constant(I32, 0x80)), ir.Constant(I32, 24))
            rest = builder.shl(builder.and_(number, ir.Constant(I32, 0x7F)), ir.Constant(I32, 20))
            small = builder.bitcast(builder.or_(sign, rest), F32)
            return builder.fmul(small, ir.Constant(F32, 2.0**120))

        return types.float32(types.int64, types.int64), generate

    return read


@intrinsic
def store_float32(_: Any, address: Any, index: Any, number: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        place = builder.inttoptr(given[0], F32.as_pointer())
        builder.store(given[2], builder.gep(place, [given[1]]))
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.float32), generate


@lru_cache(maxsize=len(SIZES))
def product(kind: int) -> Any:
    """The product for weights of ``kind``, as a C function of ``SIGNATURE``."""
    one = _tile(kind, 1, 1)  # one row reads fastest in one stream
    two, three, four = (_tile(kind, rows, 2) for rows in (2, 3, 4))
    read, read_float32, size = reader(kind), reader(FLOAT32), SIZES[kind]

    @njit(nogil=True)
    def add_rest(weights, rows, out, count, length):  # type: ignore[no-untyped-def]
        total = ZERO if count == 0 else read_float32(out, 0)
        for at in range(count, length):
            total += read(weights, at) * read_float32(rows, at)
        store_float32(out, 0, total)

    @cfunc(SIGNATURE)
    def multiply(weights, rows, out, first, last, length, num_rows, leading):  # type: ignore[no-untyped-def]
        count = length - length % STRIDE
        for begin in range(first, last, BLOCK):
            end = min(begin + BLOCK, last)
            row = 0
            while row < num_rows and count:
                ours, left = rows + row * length * 4, num_rows - row
                pairs = left > 1 and end - first > 1
                output = begin
                while output < end:
                    if pairs:  # an odd last one goes once more with the one before
                        output = min(output, end - 2)
                    here, to = weights + output * length * size, out + (row * leading + output) * 4
                    if not pairs:
                        one(here, ours, to, length, count, leading)
                    elif left >= 4:
                        four(here, ours, to, length, count, leading)
                    elif left == 3:
                        three(here, ours, to, length, count, leading)
                    else:
                        two(here, ours, to, length, count, leading)
                    output += 2 if pairs else 1
                row += min(4, left) if pairs else 1
        if count < length:
            for row in range(num_rows):
                for output in range(first, last):
                    here, ours = weights + output * length * size, rows + row * length * 4
                    add_rest(here, ours, out + (row * leading + output) * 4, count, length)

    return multiply
