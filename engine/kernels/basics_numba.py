"""What the compiled decode step is made of: numbers, rows, and how its threads meet.

Functions of float32 that numba compiles into whatever calls them; ``step_numba`` does.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils

from engine.kernels.product_numba import F32, I32, I64, ZERO, intrinsic

ONE, HALF, TWO = (np.float32(number) for number in (1.0, 0.5, 2.0))
OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy"}  # no checks of divisors
helper = njit(**OPTIONS)


# What Python cannot say ---------------------------------------------------------------------------


# What works on an array takes the array: numba lets go of one after the last line that names it, so
# whoever holds no more than its address reads what another thread has made of that memory.


def _data(context: Any, builder: Any, signature: Any, given: Any, at: int) -> Any:
    """A pointer to the first number of the array that is argument ``at``."""
    return context.make_array(signature.args[at])(context, builder, given[at]).data


@intrinsic
def call_product(
    _: Any, function: Any, weights: Any, rows: Any, out: Any, first: Any, last: Any,
    length: Any, num_rows: Any, leading: Any,
) -> Any:  # fmt: skip
    """Call the product at address ``function``: matrix at an address times an array's rows."""

    def generate(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        kind = ir.FunctionType(ir.VoidType(), [I64] * 8)
        arrays = (_data(context, builder, signature, given, at) for at in (2, 3))
        ours, to = (builder.ptrtoint(pointer, I64) for pointer in arrays)
        place = builder.inttoptr(given[0], kind.as_pointer())
        builder.call(place, [given[1], ours, to, *given[4:]])
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, rows, out, *[types.int64] * 5), generate


@intrinsic
def store_bfloat16(_: Any, address: Any, index: Any, number: Any) -> Any:
    """Write a float32 as bfloat16, rounded to nearest, ties to even."""

    def generate(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        bits = builder.bitcast(given[2], I32)
        odd = builder.and_(builder.lshr(bits, ir.Constant(I32, 16)), ir.Constant(I32, 1))
        bits = builder.add(bits, builder.add(odd, ir.Constant(I32, 0x7FFF)))
        short = builder.trunc(builder.lshr(bits, ir.Constant(I32, 16)), ir.IntType(16))
        place = builder.inttoptr(given[0], ir.IntType(16).as_pointer())
        builder.store(short, builder.gep(place, [given[1]]))
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.float32), generate


@intrinsic
def _rounded(_: Any, number: Any) -> Any:
    """The nearest whole number, as float32."""

    def generate(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        kind = ir.FunctionType(F32, [F32])
        rint = cgutils.get_or_insert_function(builder.module, kind, "llvm.rint.f32")
        return builder.call(rint, given)

    return types.float32(types.float32), generate


@intrinsic
def _power_of_two(_: Any, exponent: Any) -> Any:
    """2 to a whole float32 between -126 and 127."""

    def generate(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        biased = builder.add(builder.fptosi(given[0], I32), ir.Constant(I32, 127))
        return builder.bitcast(builder.shl(biased, ir.Constant(I32, 23)), F32)

    return types.float32(types.float32), generate


@intrinsic
def _arrive(_: Any, counter: Any) -> Any:
    """Add one to a counter [1], for all threads to see."""

    def generate(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        place = _data(context, builder, signature, given, 0)
        builder.atomic_rmw("add", place, ir.Constant(I64, 1), "acq_rel")
        return context.get_dummy_value()

    return types.void(counter), generate


@intrinsic
def _arrived(_: Any, counter: Any) -> Any:
    """How many have arrived."""

    def generate(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        return builder.load_atomic(_data(context, builder, signature, given, 0), "acquire", 8)

    return types.int64(counter), generate


# Functions of numbers and rows --------------------------------------------------------------------

# exp within 2 units of the last place: x = n ln 2 + r, and the polynomial of Cephes' expf for r.
EXP_LEAST, EXP_MOST = np.float32(-87.0), np.float32(88.0)
LOG2_E, LN2_HIGH, LN2_LOW = (
    np.float32(number) for number in (1.44269504088896341, 0.693359375, -2.12194440e-4)
)
P0, P1, P2, P3, P4 = (
    np.float32(number)
    for number in (
        1.9875691500e-4,
        1.3981999507e-3,
        8.3334519073e-3,
        4.1665795894e-2,
        0.16666665459,
    )
)
ROOT_HALF = np.float32(0.5**0.5)


@helper
def exp(x):  # type: ignore[no-untyped-def]
    """e to the power of a float32; of one that is not finite, no number."""
    x = min(max(x, EXP_LEAST), EXP_MOST) + (x - x)
    whole = _rounded(x * LOG2_E)
    x = x - whole * LN2_HIGH - whole * LN2_LOW
    power = ((((P0 * x + P1) * x + P2) * x + P3) * x + P4) * x + HALF
    return (power * x * x + x + ONE) * _power_of_two(whole)


@helper
def silu(x):  # type: ignore[no-untyped-def]
    return x / (ONE + exp(-x))


@helper
def gelu(x):  # type: ignore[no-untyped-def]
    return x * HALF * (ONE + np.float32(math.erf(x * ROOT_HALF)))


@helper
def norm_factor(product, row, epsilon, square):  # type: ignore[no-untyped-def]
    """1 / root mean square of a contiguous row; ``square`` [1] is scratch."""
    length = len(row)
    call_product(product, row.ctypes.data, row, square, 0, 1, length, 1, 1)
    return ONE / np.float32(math.sqrt(square[0] / np.float32(length) + epsilon))


@helper
def norm(product, rows, weight, epsilon, out):  # type: ignore[no-untyped-def]
    square = np.empty(1, np.float32)
    for row in range(len(rows)):
        factor = norm_factor(product, rows[row], epsilon, square)
        for at in range(rows.shape[1]):
            out[row, at] = rows[row, at] * factor * weight[at]


@helper
def exps(row):  # type: ignore[no-untyped-def]
    """Make ``row`` the powers of e to its numbers less the largest -> their sum."""
    top, total = row[0], ZERO
    for at in range(len(row)):
        top = max(top, row[at])
    for at in range(len(row)):
        row[at] = exp(row[at] - top)
    for at in range(len(row)):
        total += row[at]
    return total


@helper
def clear(row):  # type: ignore[no-untyped-def]
    for at in range(len(row)):  # numba takes seconds to compile an assignment to a slice
        row[at] = ZERO


@helper
def add(rows, others):  # type: ignore[no-untyped-def]
    for row in range(len(rows)):
        for at in range(rows.shape[1]):
            rows[row, at] += others[row, at]


# Threads ------------------------------------------------------------------------------------------

_yield = types.ExternalFunction("sched_yield", types.int32())
SPINS = 500  # before a thread that waits offers its core to others


@helper
def meet(counter, world, meeting):  # type: ignore[no-untyped-def]
    """Wait until all threads have come to this place -> the number of the next meeting."""
    if world > 1:
        _arrive(counter)
        spins = 0
        while _arrived(counter) < meeting * world:
            spins += 1
            if spins > SPINS:
                _yield()
    return meeting + 1


@helper
def share(rank, world, number):  # type: ignore[no-untyped-def]
    """The first and last of ``number`` outputs that are this thread's."""
    part = (number + 2 * world - 1) // (2 * world) * 2
    return min(number, rank * part), min(number, (rank + 1) * part)
