"""The compiled products of a CPU: the plain twin's numbers, and bits that hang on nothing else."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from engine.kernels import basics_numba, product_numba

KINDS = {
    torch.float32: product_numba.FLOAT32,
    torch.bfloat16: product_numba.BFLOAT16,
    torch.int8: product_numba.INT8,
    torch.float8_e4m3fn: product_numba.FLOAT8,
}


def weights(dtype: torch.dtype, outputs: int, length: int, seed: int) -> Tensor:
    numbers = torch.randn(outputs, length, generator=torch.Generator().manual_seed(seed))
    return (numbers * 40).round().to(dtype) if dtype is torch.int8 else numbers.to(dtype)


def product(matrix: Tensor, rows: Tensor, first: int, last: int, leading: int) -> Tensor:
    """Rows [n, length] times the outputs from first to last; the others stay NaN."""
    out = torch.full((len(rows), leading), torch.nan)
    multiply = product_numba.product(KINDS[matrix.dtype]).ctypes
    multiply(
        matrix.data_ptr(),
        rows.data_ptr(),
        out.data_ptr(),
        first,
        last,
        matrix.shape[1],
        len(rows),
        leading,
    )
    return out


@given(
    dtype=st.sampled_from([*KINDS]),
    outputs=st.integers(1, 70),
    length=st.integers(1, 130),
    num_rows=st.integers(1, 9),
    seed=st.integers(0, 99),
    data=st.data(),
)
@settings(max_examples=150, deadline=None)
def test_a_product_is_the_plain_one_and_a_row_keeps_its_bits(
    dtype: torch.dtype, outputs: int, length: int, num_rows: int, seed: int, data: st.DataObject
) -> None:
    matrix = weights(dtype, outputs, length, seed)
    rows = torch.randn(num_rows, length, generator=torch.Generator().manual_seed(seed + 1))
    leading = outputs + data.draw(st.integers(0, 3))
    found = product(matrix, rows, 0, outputs, leading)
    expected = torch.nn.functional.linear(rows.double(), matrix.double()).float()
    torch.testing.assert_close(
        found[:, :outputs], expected, atol=1e-5 * float(expected.abs().max() + 1), rtol=1e-5
    )
    assert found[:, outputs:].isnan().all()
    # Alone, in another company, and with its outputs shared out, a row is the same.
    some = data.draw(st.permutations(range(num_rows)))[: data.draw(st.integers(1, num_rows))]
    beside = product(matrix, rows[some].contiguous(), 0, outputs, outputs)
    assert torch.equal(beside, found[some, :outputs])
    world = data.draw(st.integers(1, 4))
    for rank in range(world):
        first, last = basics_numba.share.py_func(rank, world, outputs)
        part = product(matrix, rows, first, last, outputs)
        assert torch.equal(part[:, first:last], found[:, first:last])
        assert part[:, :first].isnan().all() and part[:, last:].isnan().all()


@given(number=st.integers(0, 5000), world=st.integers(1, 9))
def test_shares_are_all_outputs_once(number: int, world: int) -> None:
    shares = [basics_numba.share.py_func(rank, world, number) for rank in range(world)]
    assert [at for first, last in shares for at in range(first, last)] == [*range(number)]


@pytest.mark.parametrize("dtype", [torch.int8, torch.float8_e4m3fn])
def test_every_number_of_one_byte_is_read_as_what_it_is(dtype: torch.dtype) -> None:
    every = torch.arange(256, dtype=torch.uint8).view(dtype)
    every = torch.where(every.float().isnan(), torch.zeros(()), every.float()).to(dtype)
    picks = torch.eye(256)
    found = product(every[None].repeat(2, 1), picks, 0, 2, 2)
    assert torch.equal(found[:, 0], every.float()) and torch.equal(found[:, 1], every.float())


def test_exp_is_within_two_units_of_the_last_place() -> None:
    from numba import njit

    @njit
    def every(given, out):  # type: ignore[no-untyped-def]
        for at in range(len(given)):
            out[at] = basics_numba.exp(given[at])

    given = np.concatenate(
        [np.linspace(-86.9, 87.9, 100_001), np.array([0.0, -0.0, 1e-30, -200.0, np.inf, np.nan])]
    ).astype(np.float32)
    out = np.empty_like(given)
    every(given, out)
    exact = np.exp(given.astype(np.float64))
    assert (np.abs(out[:-3] - exact[:-3]) <= 2 * np.spacing(exact[:-3].astype(np.float32))).all()
    assert out[-3] < 1e-37  # as good as nothing
    assert np.isnan(out[-2:]).all()  # what cannot be used is told, not hidden


def test_where_nothing_can_be_kept_a_product_is_compiled_anew(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    cfunc = product_numba.cfunc

    def fails(signature: object, cache: bool = False) -> object:
        if cache:
            raise OSError(28, "No space left on device")
        return cfunc(signature)

    monkeypatch.setattr(product_numba, "cfunc", fails)
    anew = product_numba.product.__wrapped__(product_numba.FLOAT32).ctypes
    assert "No space left" in caplog.text
    matrix, rows, out = torch.randn(5, 40), torch.randn(2, 40), torch.empty(2, 5)
    anew(matrix.data_ptr(), rows.data_ptr(), out.data_ptr(), 0, 5, 40, 2, 5)
    assert torch.equal(out, product(matrix, rows, 0, 5, 5))
