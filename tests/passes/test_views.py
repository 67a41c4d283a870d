"""Views against numpy: after any reshapes and transposes, a view still says where each element lies."""

from __future__ import annotations

from itertools import product
from math import prod

import numpy as np
from dpu.passes.views import View, input_view
from hypothesis import given
from hypothesis import strategies as st
from xdsl.dialects.builtin import TensorType, f32
from xdsl.ir import Block


def canonical(shape: tuple[int, int, int]) -> Block:
    """A block whose argument is a canonical value."""
    return Block(arg_types=[TensorType(f32, list(shape))])


def elements(view: View) -> np.ndarray:
    """The canonical row-major index of each element of the imported tensor."""
    _, tokens, channels = view.size
    weight = {"b": tokens * channels, "t": channels, "c": 1}
    atoms = [a for d in view.dims for a in d]
    indices = [
        sum(i * a.step * weight[a.axis] for i, a in zip(at, atoms, strict=True))
        for at in product(*(range(a.size) for a in atoms))
    ]
    return np.array(indices).reshape(view.shape)


def imported(b: int, h: int, w: int, c: int) -> np.ndarray:
    """An NCHW tensor whose elements are their canonical indices."""
    return np.arange(b * h * w * c).reshape(b, h, w, c).transpose(0, 3, 1, 2)


@st.composite
def shapes(draw: st.DrawFn, total: int) -> tuple[int, ...]:
    """A random shape with `total` elements."""
    dims = []
    while total > 1:
        dims.append(draw(st.sampled_from([d for d in range(2, total + 1) if total % d == 0])))
        total //= dims[-1]
    dims.insert(draw(st.integers(0, len(dims))), 1)
    return tuple(dims)


@given(st.data())
def test_views_follow_numpy(data: st.DataObject) -> None:
    b, h, w, c = (data.draw(st.sampled_from(s)) for s in ((1, 2), (1, 2, 3, 4), (1, 2, 4), (1, 6, 8)))
    block = canonical((b, h * w, c))
    view, array = input_view(block.args[0], (b, c, h, w)), imported(b, h, w, c)
    for _ in range(4):
        if data.draw(st.booleans()):
            perm = data.draw(st.permutations(range(len(view.dims))))
            view, array = view.transpose(perm), array.transpose(perm)
        else:
            shape = data.draw(shapes(prod(view.shape)))
            reshaped = view.reshape(shape)
            if reshaped is None:
                continue  # an atom would be cut unevenly: refused, never wrong
            view, array = reshaped, array.reshape(shape)
        assert view.shape == array.shape
        assert np.array_equal(elements(view), array)


def test_heads_are_a_stretch_of_channels() -> None:
    block = canonical((2, 16, 128))
    view = input_view(block.args[0], (2, 16, 128)).reshape((2, 16, 2, 64))
    assert view is not None and view.transpose((0, 2, 1, 3)).layout() is None
    back = view.reshape((2, 4, 4, 128))
    assert back is not None and back.transpose((0, 3, 1, 2)).layout() == "NCHW"


def test_an_uneven_cut_is_refused() -> None:
    block = canonical((1, 6, 4))
    view = input_view(block.args[0], (1, 6, 4)).transpose((0, 2, 1))
    assert view.reshape((1, 3, 8)) is None
