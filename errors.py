"""Errors that a user meets: located, coded, with a reason and a way out.

Every refusal of bad input is a `DpuError`. The commands print it without a traceback and exit with 2.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

CODES: dict[str, str] = {
    # E1xx: files and models
    "E101": "An output cannot be written: the folder is missing, is a file, or is not writable.",
    "E102": "A file is no readable ONNX model.",
    "E103": "The ONNX opset is not supported.",
    "E104": "An ONNX node, or the type of a tensor, cannot be imported.",
    "E105": "An input of the model has an open dimension, or was given a shape that it cannot have.",
    "E106": "An input file or folder does not exist, or is of another kind than the command reads.",
    "E107": "A text cannot be read: no such file, a folder, or not UTF-8.",
    "E110": "A JSON file, manifest or tokenizer of the pipeline is not readable, or lacks an entry.",
    "E111": "A part or a file of the pipeline is missing, or lies outside the model's folder.",
    "E112": "A weight file is cut off, not readable, or of another size than the model says.",
    "E113": "A weight has no value, or has another type or shape than the graph needs.",
    "E114": "A weight is not finite.",
    "E115": "The weight store has no parameter of this name.",
    "E116": "A file of the pipeline is not the one that its manifest names: the digests differ.",
    # E2xx: graph and passes
    "E201": "A text is no module of the intermediate representation.",
    "E202": "There is no such pass, or it has no such option.",
    "E203": "An operation has no canonical form.",
    "E204": "A module breaks a rule of one of its operations.",
    "E205": "A pass cannot handle this module: it meets what the passes before it never leave.",
    "E206": "An operation would take more instruction words than a program can hold.",
    "E220": "An operation has no quantised form.",
    "E221": "A GroupNorm has no producer that leaves channel statistics.",
    "E222": "A LayerNorm is read by something else than a linear.",
    "E223": "An operand of attention is not what its epilogue can quantise.",
    "E224": "Causal attention has more tokens than one block of keys holds.",
    "E225": "A function has no return, returns a value twice, or has tensors that are not samples x tokens x channels.",
    "E226": "An operation has no rule in the quantised graph: it was not quantised.",
    "E227": "A function uses more gate tables than a tile holds.",
    "E228": "A tensor is read as another type than it is stored in.",
    "E229": "A fused form is not supported: GEGLU or GroupNorm with an epilogue that it has not.",
    "E230": "One row of an operation does not fit the scratchpads.",
    "E231": "The head dimension does not fit the columns of the array.",
    "E232": "One block of keys does not fit the scratchpads.",
    "E233": "A buffer does not fit its scratchpad beside those in use.",
    "E240": "The calibration has no statistic for an operation.",
    "E241": "A file is no readable calibration.",
    "E242": "A calibration statistic is not finite.",
    "E243": "No calibration was given.",
    "E244": "The calibration was made for another model or other weights.",
    # E3xx: programs and containers
    "E301": "A file is no DPU program, or is cut off.",
    "E302": "A program has another ABI or format version than this build reads.",
    "E303": "A checksum of the program differs.",
    "E304": "A program was compiled for another arch.",
    "E305": "A program cannot be written: entries and words do not belong together.",
    "E310": "An instruction word has an illegal opcode, buffer or reserved field.",
    "E311": "An operand leaves its scratchpad.",
    "E312": "An operand leaves its memory region.",
    "E313": "The streams of a program do not fit the tiles, or do not end in END.",
    "E320": "A word waits for a token that no earlier word signals.",
    "E321": "A semaphore would hold more tokens than it can.",
    "E322": "A semaphore still holds tokens when the entry ends.",
    "E323": "The tiles wait for each other forever.",
    "E324": "A field is too large for an instruction word.",
    "E330": "A line of assembly is not readable.",
    "E340": "The global order is not one of the streams.",
    "E360": "The record of what a program's operands mean is missing or differs from its words.",
    "E361": "An operand leaves the buffer or tensor that it means.",
    "E362": "An operand reads what nobody wrote.",
    "E363": "A word reads before the write that it needs is certain to be done.",
    "E364": "A word overwrites before a read is certain to be done.",
    "E365": "A word overwrites before an earlier write is certain to be done.",
    "E366": "A word reads what may still be in the pipeline of its own engine.",
    "E367": "An operand reads what another word wrote than the one that was meant.",
    "E368": "An output of an entry is not written as it was meant when the entry ends.",
    # E4xx: devices and runs
    "E401": "There is no such entry or function, or an input is missing.",
    "E402": "A parameter has another shape in the weight store than in the graph.",
    "E403": "An input or a request has another size than the program was compiled for.",
    "E404": "The float interpreter has no rule for an operation.",
    "E405": "The model or program does not hold what making an image needs.",
    "E406": "ONNX Runtime cannot load or run a model on the host.",
    "E407": "A token id is outside the vocabulary.",
    "E410": "A field of an instruction word has no meaning (simulator).",
    "E411": "A word touches cells outside a scratchpad (simulator).",
    "E412": "A word touches memory outside its region, or writes constants (simulator).",
    "E413": "A token is missing, one too many, or left over (simulator).",
    "E414": "The tiles wait for each other forever (simulator).",
    "E415": "A word met data that it cannot compute with, or its trap fired (simulator).",
    "E420": "The device has another arch than the program.",
    "E421": "The device has another ABI than the program.",
    "E422": "The program does not fit the device's memory.",
    "E423": "The device has no program with this handle.",
    "E424": "A ticket is unknown or was waited for already.",
    "E425": "An access to device memory is outside every allocation, or would write read-only memory.",
    "E426": "A tensor of an entry lies outside the memory bound for it.",
    "E427": "The compiled DRAM model cannot be built or loaded.",
    "E430": "There is no such target, or it has no driver in this version.",
    "E441": "An input for the check is missing or has another shape.",
    # E5xx: configuration
    "E501": "An option has a value that it cannot have, or does not go together with another.",
    "E502": "A field of an arch or DRAM description is wrong, or the file is no JSON.",
    "E503": "There is no such precision.",
    "E504": "The image size does not fit the model.",
    "E505": "There is no such arch or DRAM description.",
    "E506": "There is nothing to reduce: the module does not fail as --when says.",
    "E510": "There is no golden of this name.",
    "E511": "A golden is to change without a reason.",
}
"""Every code with its meaning in a user's words; `docs/errors.md` is made from it. No code gets a new meaning."""

GROUPS: dict[str, str] = {
    "E1": "Files and models",
    "E2": "Graph and passes",
    "E3": "Programs and containers",
    "E4": "Devices and runs",
    "E5": "Configuration",
}
"""The first characters of a code -> what its errors are about."""


class DpuError(Exception):
    """One located error.

    Args:
        where: the file, ONNX node or graph operation at fault.
        what: what is wrong, with the shape or value seen.
        why: why that cannot be accepted. May be empty.
        hint: what to do about it. May be empty.
        code: a stable code of `CODES`.
    """

    def __init__(self, where: str, what: str, why: str = "", hint: str = "", *, code: str) -> None:
        assert code in CODES, f"code {code} is not in dpu.errors.CODES"
        self.where, self.what, self.why, self.hint, self.code = where, what, why, hint, code
        super().__init__(self.text())

    def text(self) -> str:
        """The message as printed: `error[CODE]: where: what`, then `why` and `try` lines."""
        lines = [f"error[{self.code}]: {self.where}: {self.what}"]
        if self.why:
            lines.append(f"  why: {self.why}")
        if self.hint:
            lines.append(f"  try: {self.hint}")
        return "\n".join(lines)


def reason(error: BaseException) -> str:
    """What an exception of a library says, in one line: its first cause, and the type where the text says little."""
    while error.__cause__ is not None:
        error = error.__cause__
    text = " ".join(str(error).split())[:300]
    named = isinstance(error, KeyError | AssertionError | IndexError | AttributeError | StopIteration) or not text
    return f"{type(error).__name__}: {text}".removesuffix(": ") if named else text


@contextmanager
def refusing(where: str, what: str, why: str = "", hint: str = "", *, code: str) -> Iterator[None]:
    """Turn any exception but a `DpuError` into one: `what` and, in brackets, the reason.

    Raises:
        DpuError: something was raised.
    """
    try:
        yield
    except DpuError:
        raise
    except Exception as e:
        raise DpuError(where, f"{what} ({reason(e)})", why, hint, code=code) from e
