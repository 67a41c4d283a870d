"""Full-size SDXL: the multiply-accumulates in the instruction words are those of the model, layer by layer."""

from __future__ import annotations

import csv
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from dpu.codegen.driver import graph_of
from dpu.codegen.emit import emit
from dpu.frontend.sdxl import SDXL_CONFIGS
from dpu.ir.arch import load_arch
from dpu.ir.cost import mm_macs
from dpu.ir.isa import MM, Opcode
from dpu.passes.quantise import quantise

DATA = Path(__file__).parents[1] / "data" / "sdxl_macs.csv"
TOTALS = {"unet": 3_380_618_199_040, "vae_decoder": 5_235_196_297_216}  # MACs of one sample
EVERY_TOKEN = {"text_projection": 77}  # the host picks the row of the end-of-text token behind it, not before
BATCH = {"unet": 2, "text_encoder": 2, "text_encoder_2": 2, "vae_decoder": 1}  # of the graphs in configs/workload


@dataclass(frozen=True)
class Layer:
    """One row of the table."""

    op: str
    taps: int
    k: int
    n: int
    macs: int

    def executed(self, tile: int, upsampled: bool) -> int:
        """What the array does for it: columns and reduction in whole tiles; an upsampled 3x3 kernel as four of 2x2."""
        k, n = (-(-x // tile) * tile for x in (self.k, self.n))
        found, rest = divmod(self.macs * k * n, self.k * self.n)
        assert not rest
        return found * 4 // 9 if upsampled else found


def layer_of(node: str) -> str:
    """`/down_blocks.0/resnets.0/conv1/Conv` -> `down_blocks.0.resnets.0.conv1`."""
    return node.strip("/").replace("/", ".").rpartition(".")[0].removeprefix("text_model.")


def layers(part: str) -> dict[str, Layer]:
    lines = [line for line in DATA.read_text().splitlines() if not line.startswith("#")]
    return {
        r["layer"]: Layer(
            r["op"], *(int(r[c]) for c in ("taps", "k", "n")), int(r["macs"]) * EVERY_TOKEN.get(r["layer"], 1)
        )
        for r in csv.DictReader(lines)
        if r["part"] == part
    }


def test_the_table_adds_up() -> None:
    for part, total in TOTALS.items():
        assert sum(layer.macs for layer in layers(part).values()) == total
    assert {op: sum(x.op == op for x in layers("unet").values()) for op in ("linear", "conv", "attention")} == {
        "linear": 743,
        "conv": 51,
        "attention": 140,
    }


@pytest.mark.slow
@pytest.mark.parametrize("part", ["text_encoder", "text_encoder_2", "vae_decoder", "unet"])
def test_words_hold_the_macs_of_every_layer(part: str) -> None:
    arch = load_arch("dpu_f2")
    module = graph_of(SDXL_CONFIGS / f"{part}.onnx", part, {}, absent=True)[0]
    quantise(module, arch, None, {}, part)

    def absent(source: str, transform: tuple[str, ...]) -> np.ndarray:
        raise AssertionError("no weight is needed for the words")

    program = emit(module, arch, absent, {}, constants=False).bare
    table, seen = layers(part), set[str]()
    for entry in program.entries:
        executed: dict[int, int] = defaultdict(int)
        for words in program.words[entry.name]:
            mm = words[words["opcode"] == Opcode.MM].view(MM)
            # Attention sums the columns of its values with a row of ones, which is no part of the model.
            attention = [s.tag for s in entry.sources if s.kind == "dpu.q.attention"]
            mm = mm[~(np.isin(mm["tag"], attention) & (mm["sy"] == 0) & (mm["sx"] == 0))]
            for tag, macs in zip(mm["tag"].tolist(), mm_macs(arch, mm).tolist(), strict=True):
                executed[tag] += macs
        for source in entry.sources:
            if not source.macs:  # such as centring the values of an attention, which carries their layer's nodes
                assert executed[source.tag] == 0
                continue
            kind = source.kind.removeprefix("dpu.q.")
            names = {name for name in map(layer_of, source.nodes) if name in table and table[name].op == kind}
            upsampled = any(".upsamplers." in name for name in names)
            meant = sum(table[name].executed(arch.cols, upsampled) for name in names)
            assert executed[source.tag] == BATCH[part] * meant, (source.name, names)
            assert source.macs == BATCH[part] * sum(table[name].macs for name in names), source.name
            assert not names & seen
            seen |= names
    # SDXL reads the first encoder's hidden states before its last layer, which is therefore left out.
    assert set(table) - seen == {name for name in table if part == "text_encoder" and ".layers.11." in name}
