"""Products of few float32 rows with a matrix read once, compiled for this CPU through LLVM.

- Few rows are multiplied as fast as the matrix is read. It is read where it lies, in the layout of
  the checkpoint: one stream in the order of memory, sixteen numbers at a time, widened to float32.
- A row's result has the same bits beside any others and however the outputs are shared out: every
  sum is made of the same numbers in the same order, which LLVM may not change.
- The plain twin is ``torch.nn.functional.linear``.
"""

from __future__ import annotations

import logging
import zlib
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from llvmlite import ir
from numba import cfunc, extending, types
from numba.core import cgutils

log = logging.getLogger(__name__)

FLOAT32, BFLOAT16, INT8, FLOAT8 = range(4)  # kinds of weights
SIZES = 4, 2, 1, 1  # bytes

# A tile takes so many numbers of each row at a time, in two sums.
LANES, SUMS = 16, 2
STRIDE = LANES * SUMS
# So many outputs are made for one group of rows before the next group has its turn.
BLOCK = 32
# Prefetched into L2 so far ahead: without it, two rows of weights read side by side come at half
# the speed of one.
PREFETCH_BYTES = 8192

intrinsic: Any = extending.intrinsic  # untyped, as what it makes is called in other ways
F32, I32, I64, I8 = ir.FloatType(), ir.IntType(32), ir.IntType(64), ir.IntType(8)
STORED = F32, ir.IntType(16), I8, I8
VECTOR = ir.VectorType(F32, LANES)
ZERO = np.float32(0.0)
# weights, rows, out: addresses; the outputs from first to last; numbers of a row; rows; and numbers
# from one row of out to the next.
SIGNATURE = types.void(*[types.int64] * 8)

# What is compiled is kept beside its source, where a folder for that can be written. numba asks
# whether that one file is the same, and what a function encloses; so it encloses a sum of them all.
SOURCES = 1 + zlib.crc32(
    b"".join(path.read_bytes() for path in sorted(Path(__file__).parent.glob("*_numba.py")))
)

# In LLVM's own language; kinds and numbers of rows are literals where they are called ------------


def _loaded(builder: Any, address: Any, index: Any, kind: int, lanes: int) -> Any:
    """So many weights from number ``index`` on, as float32."""

    def several(element: Any) -> Any:
        return ir.VectorType(element, lanes) if lanes > 1 else element

    def constant(element: Any, value: float) -> Any:
        return ir.Constant(several(element), [value] * lanes if lanes > 1 else value)

    place = builder.gep(builder.inttoptr(address, STORED[kind].as_pointer()), [index])
    place = builder.bitcast(place, several(STORED[kind]).as_pointer())
    loaded = builder.load(place, align=SIZES[kind])
    if kind == FLOAT32:
        return loaded
    if kind == INT8:
        return builder.sitofp(builder.sext(loaded, several(I32)), several(F32))
    wide = builder.zext(loaded, several(I32))
    if kind == BFLOAT16:
        return builder.bitcast(builder.shl(wide, constant(I32, 16)), several(F32))
    sign = builder.shl(builder.and_(wide, constant(I32, 0x80)), constant(I32, 24))
    rest = builder.shl(builder.and_(wide, constant(I32, 0x7F)), constant(I32, 20))
    small = builder.bitcast(builder.or_(sign, rest), several(F32))  # an exponent 120 too small
    return builder.fmul(small, constant(F32, 2.0**120))


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


@intrinsic(prefer_literal=True)
def tile(
    _: Any, kind: Any, num_rows: Any, num_outputs: Any, weights: Any, rows: Any, out: Any,
    length: Any, count: Any, leading: Any,
) -> Any:  # fmt: skip
    """``num_rows`` rows times ``num_outputs`` rows of weights, over a multiple of ``STRIDE``.

    weights, rows, out: addresses; length: numbers of a row; count: those of them that are summed
    here; leading: numbers from one row of ``out`` to the next.
    """
    signature = types.void(kind, num_rows, num_outputs, *[types.int64] * 6)
    kind, num_rows, num_outputs = (
        literal.literal_value for literal in (kind, num_rows, num_outputs)
    )

    def generate(context: Any, builder: Any, _: Any, given: Any) -> Any:
        *_, weights, rows, out, length, count, leading = given
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
            ours = [_loaded(builder, row, here, FLOAT32, LANES) for row in our_rows]
            for o, row in enumerate(weight_rows):
                numbers = _loaded(builder, row, here, kind, LANES)
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
                index = builder.add(builder.mul(leading, ir.Constant(I64, r)), ir.Constant(I64, o))
                place = builder.inttoptr(out, F32.as_pointer())
                builder.store(total, builder.gep(place, [index]))
        return context.get_dummy_value()

    return signature, generate


@intrinsic(prefer_literal=True)
def read(_: Any, kind: Any, address: Any, index: Any) -> Any:
    """One number at an address, as float32."""

    def generate(context: Any, builder: Any, _: Any, given: Any) -> Any:
        return _loaded(builder, given[1], given[2], kind.literal_value, 1)

    return types.float32(kind, types.int64, types.int64), generate


@intrinsic
def store_float32(_: Any, address: Any, index: Any, number: Any) -> Any:
    """Write a float32 to an address."""

    def generate(context: Any, builder: Any, _: Any, given: Any) -> Any:
        place = builder.inttoptr(given[0], F32.as_pointer())
        builder.store(given[2], builder.gep(place, [given[1]]))
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.float32), generate


@lru_cache(maxsize=len(SIZES))
def product(kind: int) -> Any:
    """The product for weights of ``kind``, as a C function of ``SIGNATURE``."""
    function = _multiplier(SOURCES, kind, SIZES[kind])
    try:
        return cfunc(SIGNATURE, cache=True)(function)
    except Exception as error:  # nowhere to keep it, a full disk, or damage
        log.warning("what is compiled cannot be kept or read (%s); compiling anew", error)
        return cfunc(SIGNATURE)(function)


def _multiplier(sources: int, kind: int, size: int) -> Callable[..., None]:
    def multiply(weights, rows, out, first, last, length, num_rows, leading):  # type: ignore[no-untyped-def]
        count = length - length % STRIDE if sources else 0
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
                    if not pairs:  # one row reads fastest in one stream
                        tile(kind, 1, 1, here, ours, to, length, count, leading)
                    elif left >= 4:
                        tile(kind, 4, 2, here, ours, to, length, count, leading)
                    elif left == 3:
                        tile(kind, 3, 2, here, ours, to, length, count, leading)
                    else:
                        tile(kind, 2, 2, here, ours, to, length, count, leading)
                    output += 2 if pairs else 1
                row += min(4, left) if pairs else 1
        if count < length:
            for row in range(num_rows):
                for output in range(first, last):
                    here, ours = weights + output * length * size, rows + row * length * 4
                    to = out + (row * leading + output) * 4
                    total = read(FLOAT32, to, 0) if count else ZERO
                    for at in range(count, length):
                        total += read(kind, here, at) * read(FLOAT32, ours, at)
                    store_float32(to, 0, total)

    return multiply
