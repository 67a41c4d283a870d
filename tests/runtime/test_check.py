"""The interpreter of `docs/numerics.md` agrees with the simulator bit for bit, and a wrong word is found and named."""

from __future__ import annotations

import ast
import copy
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from dpu.codegen.emit import Emitted, emit
from dpu.errors import DpuError
from dpu.ir import graph as g
from dpu.ir.arch import load_arch
from dpu.ir.dialects import parse_module
from dpu.ir.isa import DTYPE, Opcode
from dpu.ir.naming import op_names
from dpu.ir.signature import argument_names
from dpu.passes.quantise import fetcher, quantise
from dpu.runtime.check import functions as fn
from dpu.runtime.check.compare import check, entry_order
from dpu.runtime.float_interpreter import run_float

CHECK = Path(fn.__file__).parent


# -- graphs ------------------------------------------------------------------------------------------------------------


class Weights:
    """Seeded parameters, made as the text of a graph asks for them."""

    def __init__(self, seed: int = 0) -> None:
        self.rng = np.random.default_rng(seed)
        self.arrays: dict[str, np.ndarray] = {}

    def normal(self, *shape: int) -> np.ndarray:
        return self.rng.standard_normal(shape).astype(np.float32)

    def param(self, name: str, *shape: int) -> str:
        """The line that declares a parameter; vectors are near one, matrices keep the size of what they multiply."""
        reduced = int(np.prod(shape[1:])) if len(shape) == 4 else shape[0]
        array = self.normal(*shape) / reduced**0.5 if len(shape) > 1 else 1 + 0.3 * self.normal(*shape)
        self.arrays[name] = array.astype(np.float32)
        return f'%{name} = dpu.param "{name}" : {tensor(*shape)}\n'

    def get(self, source: str, transform: tuple[str, ...] = ()) -> np.ndarray:
        return self.arrays[source]


def tensor(*shape: int) -> str:
    return f"tensor<{'x'.join(map(str, shape))}xf16>"


@dataclass
class Observed:
    """Statistics of one float run."""

    values: dict[str, np.ndarray] = field(default_factory=dict)

    def __contains__(self, key: object) -> bool:
        return key in self.values

    def absmax(self, key: str) -> float:
        return float(np.abs(self.values[key]).max())

    def channel_absmax(self, key: str) -> np.ndarray:
        return np.abs(self.values[key]).max(axis=(0, 1)).astype(np.float32)

    def centred_absmax(self, key: str) -> np.ndarray:
        x = self.values[key]
        return np.abs(x - x.mean(axis=1, keepdims=True)).max(axis=(0, 1)).astype(np.float32)


@dataclass
class Compiled:
    emitted: Emitted
    fetch: Callable[[str, tuple[str, ...]], np.ndarray]
    inputs: dict[str, np.ndarray]


def compiled(text: str, weights: Weights, inputs: dict[str, np.ndarray], arch: str) -> Compiled:
    """Calibrated on the very inputs, quantised and emitted."""
    module = parse_module(text)
    names, seen, known = op_names(module), Observed(), dict(inputs)
    for f in module.ops:
        values: dict[Any, np.ndarray] = {}

        def observe(op: Any, results: Any, *_: Any, values: dict[Any, np.ndarray] = values) -> None:
            values.update((r, np.asarray(v)) for r, v in zip(op.results, results, strict=True))

        arguments = argument_names(f)
        known |= run_float(module, f.sym_name.data, {n: known[n] for n in arguments}, weights, observe)
        values.update((a, known[n]) for a, n in zip(f.body.block.args, arguments, strict=True))
        for op in f.body.block.ops:
            for role in ("x", "x2", "q", "k", "v"):
                value = getattr(op, role, None)
                if value in values and not isinstance(op, g.ParamOp):
                    seen.values[f"{names[op]}:{role}"] = np.asarray(values[value], np.float32)
    derived: dict[str, Any] = {}
    description = load_arch(arch)
    quantise(module, description, seen, derived)
    fetch = fetcher(weights.get, derived)
    return Compiled(emit(module, description, fetch, {}), fetch, inputs)


def transformer(arch: str, b: int, t: int, c: int, heads: int, bits: int = 8, block: int = 1024) -> Compiled:
    """LayerNorm, attention, GEGLU, as in the UNet."""
    w = Weights()
    x, v = tensor(b, t, c), tensor(c)
    text = f"func.func @f(%x: {x}) -> {x} {{\n"
    text += "".join(w.param(n, c, c) for n in ("wi", "wq", "wk", "wv", "wo"))
    text += w.param("w1", c, 8 * c) + w.param("w2", 4 * c, c) + w.param("b1", 8 * c)
    text += "".join(w.param(n, c) for n in ("g", "b"))
    linear = f"{x}, {tensor(c, c)} -> {x}\n"
    text += f"%h = dpu.linear %x, %wi bias %b : {v} : {linear}"
    text += f"%n = dpu.layer_norm %h, %g, %b eps 1.0e-5 : f64 : {x}, {v}, {v} -> {x}\n"
    text += "".join(f"%{r} = dpu.linear %n, %w{r} : {linear}" for r in "qkv")
    text += f"%a = dpu.attention %q, %k, %v heads {heads} scale 0.125 key_block {block} prob_bits {bits} : i64 : "
    text += f"{x}, {x}, {x} -> {x}\n"
    text += f"%o = dpu.linear %a, %wo bias %b : {v} residual %h : {x} : {linear}"
    text += f"%m = dpu.layer_norm %o, %g, %b eps 1.0e-5 : f64 : {x}, {v}, {v} -> {x}\n"
    text += f"%f = dpu.linear %m, %w1 bias %b1 : {tensor(8 * c)} geglu : {x}, {tensor(c, 8 * c)} -> "
    text += f"{tensor(b, t, 4 * c)}\n"
    text += f"%z = dpu.linear %f, %w2 bias %b : {v} residual %o : {x} : "
    text += f"{tensor(b, t, 4 * c)}, {tensor(4 * c, c)} -> {x}\nfunc.return %z : {x}\n}}"
    return compiled(text, w, {"x": w.normal(b, t, c)}, arch)


def text_encoder(arch: str, b: int, t: int, c: int, heads: int) -> Compiled:
    """A layer of a text encoder: causal attention, quick GELU, two residuals; the input is the embedded text."""
    w = Weights()
    x, v, h = tensor(b, t, c), tensor(c), tensor(b, t, 4 * c)
    text = f"func.func @f(%x: {x}) -> {x} {{\n" + "".join(w.param(n, c, c) for n in ("wq", "wk", "wv", "wo"))
    text += w.param("w1", c, 4 * c) + w.param("w2", 4 * c, c) + w.param("b1", 4 * c)
    text += "".join(w.param(n, c) for n in ("g", "b"))
    linear = f"{x}, {tensor(c, c)} -> {x}\n"
    text += f"%n = dpu.layer_norm %x, %g, %b eps 1.0e-5 : f64 : {x}, {v}, {v} -> {x}\n"
    text += "".join(f"%{r} = dpu.linear %n, %w{r} bias %b : {v} : {linear}" for r in "qkv")
    text += f"%a = dpu.attention %q, %k, %v heads {heads} scale 0.125 key_block 1024 prob_bits 8 : i64 causal : "
    text += f"{x}, {x}, {x} -> {x}\n"
    text += f"%o = dpu.linear %a, %wo bias %b : {v} residual %x : {x} : {linear}"
    text += f"%m = dpu.layer_norm %o, %g, %b eps 1.0e-5 : f64 : {x}, {v}, {v} -> {x}\n"
    text += f'%f = dpu.linear %m, %w1 bias %b1 : {tensor(4 * c)} act "quick_gelu" : {x}, {tensor(c, 4 * c)} -> {h}\n'
    text += f"%z = dpu.linear %f, %w2 bias %b : {v} residual %o : {x} : {h}, {tensor(4 * c, c)} -> {x}\n"
    return compiled(text + f"func.return %z : {x}\n}}", w, {"x": w.normal(b, t, c)}, arch)


def convolutions(arch: str, b: int, h: int, w: int, c: int, n: int) -> Compiled:
    """Every form of convolution and GroupNorm, a time embedding, linears of GroupNorm and of two sources."""
    p = Weights(1)
    h2, w2, e = (h + 1) // 2, (w + 1) // 2, 24
    even = (2 * h2, 2 * w2) == (h, w)
    x, y, d, u = tensor(b, h * w, c), tensor(b, h * w, n), tensor(b, h2 * w2, n), tensor(b, 4 * h2 * w2, c)
    one, cat = tensor(b, 1, n), tensor(b, h * w, c + n)
    pad, none = "{pad = array<i64: 1, 1, 1, 1>}", "{pad = array<i64: 0, 0, 0, 0>}"
    text = f"func.func @f(%x: {x}, %e: {tensor(b, 1, e)}) -> ({y}, {y}) {{\n"
    text += p.param("w0", c, c, 3, 3) + p.param("w1", n, c, 3, 3) + p.param("wd", n, n, 3, 3)
    text += p.param("wu", c, n, 3, 3) + p.param("w2", n, c + n, 3, 3) + p.param("w3", n, c + n, 1, 1)
    text += p.param("wt", e, n) + p.param("wl", n, n) + p.param("wm", c + n, n)
    text += p.param("bc", c) + p.param("bn", n) + p.param("bx", c + n)
    size = f"size {h} x {w}"
    text += f"""
%se = dpu.silu %e : {tensor(b, 1, e)} -> {tensor(b, 1, e)}
%t = dpu.linear %se, %wt bias %bn : {tensor(n)} : {tensor(b, 1, e)}, {tensor(e, n)} -> {one}
%c0 = dpu.conv %x, %w0 bias %bc : {tensor(c)} {size} stride 1 {pad} : {x}, {tensor(c, c, 3, 3)} -> {x}
%n0 = dpu.group_norm %c0, %bc, %bc groups 4 eps 1.0e-5 act "silu" : {x}, {tensor(c)}, {tensor(c)} -> {x}
%c1 = dpu.conv %n0, %w1 temb %t : {one} {size} stride 1 {pad} : {x}, {tensor(n, c, 3, 3)} -> {y}
%d = dpu.conv %c1, %wd bias %bn : {tensor(n)} {size} stride 2 {pad} : {y}, {tensor(n, n, 3, 3)} -> {d}
%u = dpu.conv %d, %wu size {h2} x {w2} stride 1 upsample {pad} : {d}, {tensor(c, n, 3, 3)} -> {u}
"""
    if even:
        text += f"""
%gg = dpu.group_norm %u concat %c1 : {y}, %bx, %bx groups 16 eps 1.0e-6 act "silu" : {x}, {tensor(c + n)}, """
        text += f"""{tensor(c + n)} -> {cat}
%c2 = dpu.conv %gg, %w2 {size} stride 1 {pad} : {cat}, {tensor(n, c + n, 3, 3)} -> {y}
"""
    else:
        text += f"%c2 = dpu.conv %c1, %wd {size} stride 1 {pad} : {y}, {tensor(n, n, 3, 3)} -> {y}\n"
    side = "%u" if even else "%c0"
    text += f"""
%c3 = dpu.conv {side} concat %c1 : {y}, %w3 bias %bn : {tensor(n)} residual %c2 : {y} {size} stride 1 {none} : {x}, """
    text += f"""{tensor(n, c + n, 1, 1)} -> {y}
%n3 = dpu.group_norm %c3, %bn, %bn groups 8 eps 1.0e-6 : f64 : {y}, {tensor(n)}, {tensor(n)} -> {y}
%l = dpu.linear %n3, %wl bias %bn : {tensor(n)} act "gelu" : {y}, {tensor(n, n)} -> {y}
%m = dpu.linear {side} concat %l : {y}, %wm residual %c3 : {y} act "silu" : {x}, {tensor(c + n, n)} -> {y}
func.return %m, %l : {y}, {y}
}}"""
    return compiled(text, p, {"x": p.normal(b, h * w, c), "e": p.normal(b, 1, e)}, arch)


def entries(arch: str, b: int = 2, t: int = 36, s: int = 21, c: int = 16, heads: int = 2) -> Compiled:
    """Cross-attention keys and values and a time embedding that other entries leave."""
    w = Weights(2)
    x, k, one, e = tensor(b, t, c), tensor(b, s, c), tensor(b, 1, c), 24
    square = tensor(c, c)
    text = f"func.func @step(%x: {x}, %emb: {one}, %to_k: {k}, %to_v: {k}) -> {x} {{\n"
    text += w.param("wc", c, c, 3, 3) + w.param("wq", c, c) + w.param("wo", c, c) + w.param("g", c)
    text += f"""
%c = dpu.conv %x, %wc temb %emb : {one} size 6 x {t // 6} stride 1 {{pad = array<i64: 1, 1, 1, 1>}} : {x}, """
    text += f"""{tensor(c, c, 3, 3)} -> {x}
%q = dpu.linear %c, %wq : {x}, {square} -> {x}
%a = dpu.attention %q, %to_k, %to_v heads {heads} scale 0.3 key_block 1024 prob_bits 8 : i64 : {x}, {k}, {k} -> {x}
%o = dpu.linear %a, %wo residual %c : {x} : {x}, {square} -> {x}
func.return %o : {x}
}}
func.func @context(%text: {k}) -> ({k} {{dpu.name = "to_k"}}, {k} {{dpu.name = "to_v"}}) {{
"""
    text += w.param("kk", c, c) + w.param("vv", c, c)
    text += f"""
%k = dpu.linear %text, %kk : {k}, {square} -> {k}
%v = dpu.linear %text, %vv : {k}, {square} -> {k}
func.return %k, %v : {k}, {k}
}}
func.func @time(%t: {tensor(b, 1, e)}) -> ({one} {{dpu.name = "emb"}}) {{
"""
    text += w.param("t1", e, c) + w.param("t2", c, c)
    text += f"""
%y = dpu.linear %t, %t1 act "silu" : {tensor(b, 1, e)}, {tensor(e, c)} -> {one}
%z = dpu.linear %y, %t2 : {one}, {square} -> {one}
func.return %z : {one}
}}"""
    # The float run needs producers first; the program keeps the order of the text.
    functions = text.split("func.func ")
    ordered = "func.func ".join([functions[0], functions[2], functions[3], functions[1]])
    inputs = {"x": w.normal(b, t, c), "text": w.normal(b, s, c), "t": w.normal(b, 1, e)}
    return compiled(ordered, w, inputs, arch)


# -- equal -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arch", "b", "t", "c", "heads", "bits", "block"),
    [
        ("dpu_tiny", 2, 64, 64, 2, 8, 1024),
        ("dpu_tiny", 1, 77, 64, 1, 15, 24),
        ("dpu_tiny", 2, 77, 32, 2, 8, 24),
        ("dpu_tiny", 2, 4, 32, 2, 8, 1024),
        ("dpu_tiny", 2, 1, 32, 2, 8, 1024),
        ("dpu_f2", 2, 130, 128, 2, 8, 64),
        ("dpu_f2", 1, 101, 64, 1, 15, 1024),
        ("dpu_32tops", 1, 101, 128, 2, 8, 1024),
    ],
)
def test_transformers_are_equal(arch: str, b: int, t: int, c: int, heads: int, bits: int, block: int) -> None:
    p = transformer(arch, b, t, c, heads, bits, block)
    report = check(p.emitted, p.fetch, p.inputs)
    assert report.ok, report.text()
    assert len(report.rows) == 7
    assert "7 of 7 operations equal" in report.text()


@pytest.mark.parametrize(
    ("arch", "b", "t", "c", "heads"),
    [("dpu_tiny", 2, 77, 32, 2), ("dpu_f2", 1, 77, 128, 2), ("dpu_32tops", 2, 77, 32, 1), ("dpu_f2", 1, 5, 64, 1)],
)
def test_text_encoders_are_equal(arch: str, b: int, t: int, c: int, heads: int) -> None:
    p = text_encoder(arch, b, t, c, heads)
    report = check(p.emitted, p.fetch, p.inputs)
    assert report.ok, report.text()
    assert "6 of 6 operations equal" in report.text()


@pytest.mark.parametrize(
    ("arch", "b", "h", "w", "c", "n"),
    [
        ("dpu_tiny", 2, 8, 6, 32, 48),
        ("dpu_tiny", 1, 7, 5, 12, 24),
        ("dpu_tiny", 1, 32, 34, 16, 16),
        ("dpu_f2", 2, 8, 8, 80, 96),
        ("dpu_f2", 1, 9, 13, 80, 72),
        ("dpu_32tops", 1, 38, 40, 32, 64),
    ],
)
def test_convolutions_are_equal(arch: str, b: int, h: int, w: int, c: int, n: int) -> None:
    p = convolutions(arch, b, h, w, c, n)
    report = check(p.emitted, p.fetch, p.inputs)
    assert report.ok, report.text()
    kinds = {r.kind.removeprefix("dpu.q.") for r in report.rows}
    assert kinds == {"conv", "linear", "group_norm", "quantise", "silu"}


@pytest.mark.parametrize("arch", ["dpu_tiny", "dpu_f2"])
def test_entries_that_leave_values_for_others_are_equal(arch: str) -> None:
    p = entries(arch, c=16 if arch == "dpu_tiny" else 128)
    assert [e.name for e in entry_order(p.emitted)][-1] == "step"
    report = check(p.emitted, p.fetch, p.inputs)
    assert report.ok, report.text()
    assert [r.entry for r in report.rows if r.kind == "dpu.q.centre"] == ["context"]
    assert {r.entry for r in report.rows} == {"step", "context", "time"}


def test_producers_come_first_whatever_the_order_of_the_program() -> None:
    p = entries("dpu_tiny")
    p.emitted.program.entries.reverse()
    assert [e.name for e in entry_order(p.emitted)][-1] == "step"
    assert check(p.emitted, p.fetch, p.inputs).ok


def test_missing_and_misshapen_inputs_are_refused() -> None:
    p = entries("dpu_tiny")
    with pytest.raises(DpuError, match=r"'text' of entry 'context': is missing"):
        check(p.emitted, p.fetch, {k: v for k, v in p.inputs.items() if k != "text"})
    with pytest.raises(DpuError) as e:
        check(p.emitted, p.fetch, p.inputs | {"x": p.inputs["x"][:1]})
    assert str(e.value) == (
        "error[E441]: input 'x': has shape (1, 36, 16), expected (2, 36, 16)\n"
        "  try: give every input in the shape that the graph has"
    )
    with pytest.raises(DpuError, match="run the entry that leaves it first"):
        check(p.emitted, p.fetch, p.inputs, order=["step"])


# -- different ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def block() -> Compiled:
    return transformer("dpu_tiny", 2, 16, 32, 2)


def _words(p: Compiled, tag: int, opcode: Opcode) -> Iterator[tuple[int, np.ndarray]]:
    """(index, the word's record in place) of an operation's words of tile 0."""
    (stream,) = next(iter(p.emitted.program.words.values()))
    for i in np.flatnonzero((stream["tag"] == tag) & (stream["opcode"] == int(opcode))).tolist():
        yield i, stream[i : i + 1].view(DTYPE[opcode])


def _broken(p: Compiled, tag: int, opcode: Opcode, change: Callable[[np.ndarray], bool]) -> Compiled:
    """A copy with the first word that `change` changes (and returns true for)."""
    emitted = copy.copy(p.emitted)
    emitted.program = copy.copy(p.emitted.program)
    emitted.program.words = {k: [s.copy() for s in v] for k, v in p.emitted.program.words.items()}
    broken = Compiled(emitted, p.fetch, p.inputs)
    assert any(change(r) for _, r in _words(broken, tag, opcode)), "no word to break"
    return broken


def _immediate(r: np.ndarray) -> bool:
    if not r["imm"][0, 0]:
        return False
    r["imm"][0, 0] *= 2
    return True


def _add(name: str, amount: int) -> Callable[[np.ndarray], bool]:
    def change(r: np.ndarray) -> bool:
        r[name] += amount
        return True

    return change


def _fewer(r: np.ndarray) -> bool:
    if r["n"][0, 0] < 2:
        return False
    r["n"][0, 0] -= 1
    return True


@pytest.mark.parametrize(
    ("kind", "opcode", "change"),
    [
        ("dpu.q.linear", Opcode.STORE, _add("offset", 64)),
        ("dpu.q.linear", Opcode.STORE, _fewer),
        ("dpu.q.linear", Opcode.LOAD, _add("offset", 2)),
        ("dpu.q.linear", Opcode.MM, _add("wgt", 1)),
        ("dpu.q.centre", Opcode.VEC, _immediate),
        ("dpu.q.attention", Opcode.VEC, _immediate),
        ("dpu.q.attention", Opcode.MM, _add("act", 1)),
    ],
)
def test_a_wrong_word_is_found_and_its_operation_named(
    block: Compiled, tmp_path: Path, kind: str, opcode: Opcode, change: Callable[[np.ndarray], bool]
) -> None:
    target = next(o for o in block.emitted.entries[0].ops if o.kind == kind)
    p = _broken(block, target.tag, opcode, change)
    report = check(p.emitted, p.fetch, p.inputs, bisect=tmp_path / "found")
    assert not report.ok
    assert report.first is not None
    assert (report.first.tag, report.first.name) == (target.tag, target.name)
    # Later operations are judged on the inputs they had, so the mistake is not counted twice.
    assert [r.tag for r in report.rows if not r.ok] == [target.tag]
    folder = Path(report.folder)
    summary = (folder / "summary.txt").read_text()
    assert f"{kind} {target.name}" in summary
    assert f"tag {target.tag} " in (folder / "instructions.txt").read_text()
    wrong = next(i for i, t in enumerate(report.first.tensors) if not t.ok)
    expected, actual = (np.load(folder / f"{wrong}.{n}.npy") for n in ("expected", "actual"))
    row = report.first.tensors[wrong]
    assert row.first is not None
    assert "stored by tile 0, word" in summary or row.unwritten
    assert int((expected != actual).sum()) == row.differing
    assert (float(expected[row.first]), float(actual[row.first])) == (row.expected, row.actual)


def test_a_program_that_stops_is_reported_with_what_it_did_before(block: Compiled) -> None:
    target = next(o for o in block.emitted.entries[0].ops if o.kind == "dpu.q.attention")
    p = _broken(block, target.tag, Opcode.STORE, _add("offset", 1 << 30))
    report = check(p.emitted, p.fetch, p.inputs)
    assert not report.ok
    assert "E412" in report.error
    assert report.error in report.text()
    assert report.first is report.rows[-1]
    assert report.first.tag == target.tag


def test_a_wrong_constant_is_found(block: Compiled) -> None:
    emitted = copy.copy(block.emitted)
    emitted.program = copy.copy(block.emitted.program)
    emitted.program.constants = block.emitted.program.constants.copy()
    target = next(o for o in block.emitted.entries[0].ops if o.kind == "dpu.q.attention")
    load = next(r for _, r in _words(block, target.tag, Opcode.LOAD) if (r["base"], r["format"]) == (0, 0))
    emitted.program.constants[int(load["offset"][0]) + 3] ^= 1  # exponent of the first value scale
    report = check(emitted, block.fetch, block.inputs)
    assert [r.tag for r in report.rows if not r.ok] == [target.tag]


# -- the interpreter's own arithmetic ----------------------------------------------------------------------------------


def _crc(function: Callable[[np.ndarray], np.ndarray], blocks: Iterator[np.ndarray]) -> str:
    crc = 0
    for x in blocks:
        crc = zlib.crc32(function(x).astype("<f4").tobytes(), crc)
    return f"{crc:08x}"


def _blocks(low: int, high: int) -> Iterator[np.ndarray]:
    for a in range(low, high, 1 << 20):
        yield np.arange(a, min(high, a + (1 << 20)))


def test_the_functions_give_the_published_checksums() -> None:
    one = 0x3F800000
    bits = lambda n: (k.astype(np.uint32).view(np.float32) for k in _blocks(one, one + n))  # noqa: E731
    assert _crc(fn.exp2, ((-k / 2.0**24).astype(np.float32) for k in _blocks(1, 1 << 24))) == "e56ef3c1"
    assert _crc(fn.recip, bits(1 << 23)) == "0d6e4287"
    assert _crc(fn.rsqrt, bits(2 << 23)) == "16f7ed5b"


def test_the_special_values_are_those_of_the_table() -> None:
    inf, nan = np.inf, np.nan
    x = np.array([0, -0.0, inf, -inf, nan, 1e-40, -1e-40, -126.5, 128, 2.0**126, -(2.0**126), 2.0**126.5], np.float32)
    half = float(fn.table("sigmoid").c0[0]) * 2.0**-24
    end = (2.0**24 - 2) / 2.0**24
    expected = {
        fn.exp2: [1, 1, inf, 0, nan, 1, 1, 0, inf, inf, 0, inf],
        fn.recip: [inf, -inf, 0, -0.0, nan, inf, -inf, None, None, 2.0**-126, -(2.0**-126), 0],
        fn.rsqrt: [inf, inf, 0, nan, nan, inf, inf, nan, None, 2.0**-63, nan, None],
    }
    for function, values in expected.items():
        for given, value in zip(x, values, strict=True):
            if value is not None:
                result = function(given)
                assert result.view(np.uint32) == fn.settle(value).view(np.uint32), (function.__name__, given, result)
    assert fn.gate(x[:4], "sigmoid").tolist() == [half, 1 - half, end, 1 - end]
    products = fn.gated(x[:4], "sigmoid")
    assert products.tolist() == [0, 0, inf, 0]
    assert np.signbit(products).tolist() == [False, True, False, False]


def test_conversions_and_rules_of_float32() -> None:
    assert fn.to_int8(np.array([0.5, 1.5, -300, np.inf, np.nan], np.float32)).tolist() == [0, 2, -127, 127, 0]
    assert fn.to_offset(np.array([-300, 300], np.float32)).tolist() == [-128, 127]
    high, low = fn.to_planes(np.array([16319, -16400, 63.5, -64.5], np.float32))
    assert (high.astype(int) * 128 + low).tolist() == [16319, -16319, 64, -64]
    half = fn.to_half(np.array([65519.9, 65520, -np.inf, np.nan, 2.0**-24, -1e-9], np.float32))
    assert half.view(np.uint16).tolist() == [0x7BFF, 0x7BFF, 0xFBFF, 0x7E00, 1, 0x8000]
    least = np.float32(2.0**-126)
    assert fn.mul(least, np.float32(0.5)) == 0
    assert fn.mul(np.float32(1 - 2.0**-24), least) == least  # rounds up to a normal number first
    assert np.signbit(fn.add(np.float32(-1e-40), np.float32(-1e-40)))
    assert not np.signbit(fn.larger(np.float32(-0.0), np.float32(0)))
    for result in (fn.add(np.float32(np.inf), np.float32(-np.inf)), fn.mul(np.float32(0), np.float32(np.inf))):
        assert result.view(np.uint32) == 0x7FC00000


# -- independence ------------------------------------------------------------------------------------------------------


def _imports(path: Path) -> set[str]:
    """Modules and names that a file imports, as paths inside the package."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {a.name for a in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = ["runtime", "check"][: 3 - node.level] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            found |= {f"{module}.{a.name}" for a in node.names}
    return found


@pytest.mark.parametrize("name", ["functions.py", "interpreter.py"])
def test_the_interpreter_shares_no_arithmetic(name: str) -> None:
    forbidden = ("simulator", "ir.numerics", "ir.functions", "passes.lower", "codegen")
    names = _imports(CHECK / name)
    assert not [n for n in names if any(n.removeprefix("dpu.").startswith(f) for f in forbidden)]
    # From inside the package, only what describes programs and what is fixed before they run.
    own = {n for n in names if n.split(".")[0] in ("dpu", "ir", "passes", "runtime", "errors")}
    weights = ("passes.weights.", "passes.int4.")  # integers and scales of weights
    allowed = ("errors.", "ir.graph.", "ir.qgraph.", "ir.locations.", *weights, "runtime.check.")
    assert not [n for n in own if not n.startswith(allowed)]


def test_the_cuts_take_plans_from_the_lowering_and_nothing_else() -> None:
    taken = {n for n in _imports(CHECK / "cuts.py") if n.startswith("passes")}
    plans = {"context.stat_parts", "conv.plan_conv", "linear.plan_linear", "rowwise.stat_chunk"}
    assert taken == {f"passes.lower.{n}" for n in plans}
