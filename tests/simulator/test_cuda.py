"""The GPU's kernels, compiled for the CPU: the same bytes, counters and faults as the CPU's machine."""

import shutil

import numpy as np
import pytest
import torch
from dpu.bench.blocks import resnet_convs, transformer_block
from dpu.bench.functional import compiled
from dpu.errors import DpuError
from dpu.ir.arch import load_arch
from dpu.ir.isa import Buffer, DmaFormat, Opcode, word
from dpu.ir.numerics import table_image
from dpu.runtime.cuda_device import CudaDevice
from dpu.runtime.session import Session
from dpu.runtime.sim_device import SimDevice
from dpu.runtime.targets import check_device
from dpu.simulator import vpu
from dpu.simulator.cuda.machine import CudaMachine, CudaTile
from dpu.simulator.machine import Machine

from .test_vpu_kernel import GATES, draw, fill

TINY = load_arch("dpu_tiny")
END = word(Opcode.END)

pytestmark = pytest.mark.skipif(not shutil.which("c++"), reason="no C++ compiler")


class Pair:
    """A machine of each kind in the same state."""

    def __init__(self, rng: np.random.Generator, style: int = 0) -> None:
        self.regions = {b: rng.integers(0, 256, 1 << 16, np.uint8) for b in range(3)}
        self.one, self.two = Machine(TINY, {b: m.copy() for b, m in self.regions.items()}), None
        tile = self.one.tiles[0]
        fill(tile, rng, style)
        np.maximum(tile.wgt, -127, out=tile.wgt)
        self.two = CudaMachine(TINY, self.regions, "cpu")
        twin = self.two.memories[0]
        twin.twin.tables = list(tile.tables)
        for b, m in tile.memory.items():
            twin.twin.memory[b][:] = m
        twin.up()
        for slot in range(2):
            twin.set_table(3 + slot, vpu.coefficients(tile, 4 | slot << 4))

    def same(self, w: np.ndarray) -> None:
        results = []
        for m in (self.one, self.two):
            try:
                results.append(m.run([np.concatenate([w, END])]).total)
            except DpuError as e:
                results.append(str(e))
        assert results[0] == results[1], w
        twin = self.two.memories[0].down()
        for b, m in self.one.tiles[0].memory.items():
            assert m.tobytes() == twin.memory[b].tobytes(), (Buffer(b), w)
        for b, m in self.one.regions.items():
            assert m.tobytes() == self.two.regions[b].numpy().tobytes(), (b, w)


@pytest.mark.parametrize("style", range(4))
def test_vector_words(style: int) -> None:
    for seed in range(4):
        rng = np.random.default_rng((seed, style, 5))
        pair = Pair(rng, style)
        for _ in range(40):
            pair.same(draw(rng, pair.one.tiles[0]))


def test_matrix_words() -> None:
    rng = np.random.default_rng(0)
    pair = Pair(rng)
    for _ in range(120):
        nx, ny, nc, nn = (int(x) for x in rng.integers(1, 8, 4))
        nkx, nky = (int(x) for x in rng.integers(1, 4, 2))
        f = {"nx": nx, "ny": ny, "nc": nc, "nn": nn, "nkx": nkx, "nky": nky, "sc": 1, "sx": nc, "skx": nc}
        f |= {"sy": nc * (nx + nkx), "sky": nc * (nx + nkx), "wn": nc * nkx * nky * TINY.rows, "an": nx * ny + 1}
        f |= {"act": int(rng.integers(0, 200)), "wgt": int(rng.integers(0, 40)), "acc": int(rng.integers(0, 100))}
        f |= {
            "mode": int(rng.integers(0, 3)),
            "rowmax": int(rng.integers(0, 3)),
            "rowmax_at": int(rng.integers(0, 500)),
        }
        f |= {"init_at": int(rng.integers(600, 900)), "valid": int(rng.integers(1, nn * TINY.cols + 1))}
        pair.same(word(Opcode.MM, **f))


def test_transfers() -> None:
    rng = np.random.default_rng(0)
    pair = Pair(rng)
    for _ in range(200):
        n, buffer = rng.integers(1, 5, 3), int(rng.choice([0, 1, 3, 4]))
        inner = int(rng.integers(1, 40)) * int(rng.choice([1, 4, 8]))
        unit = {0: 8, 1: 8, 3: 16, 4: 4}[buffer]
        words = -(-inner // unit)
        pad = rng.integers(0, 3, 4) * int(rng.random() < 0.5)
        cells = (n[0] + pad[0] + pad[1], n[1] + pad[2] + pad[3])
        f = {
            "base": int(rng.integers(0, 3)),
            "buffer": buffer,
            "inner": inner,
            "n": n,
            "fill": int(rng.integers(-128, 128)),
        }
        f |= {"offset": int(rng.integers(0, 400)) * int(rng.choice([1, 8])), "sram": int(rng.integers(0, 50))}
        f |= {"sstride": [words, words * cells[0], words * cells[0] * cells[1]], "pad": pad}
        f |= {"dstride": [inner, inner * n[0], inner * n[0] * n[1]]}
        if rng.random() < 0.1:
            f["sstride"] = rng.integers(0, 4, 3)
        kind = rng.random()
        if kind < 0.4 and buffer != Buffer.WGT:
            pair.same(word(Opcode.STORE, **(f | {"pad": 0, "base": int(rng.integers(1, 3))})))
            continue
        if kind > 0.8:
            f |= {"buffer": Buffer.WGT, "format": DmaFormat.TRANSPOSE, "n": np.minimum(n, 8), "inner": min(inner, 8)}
            f |= {"pad": 0, "sstride": [0, 8, 8 * int(n[1])]}
        elif kind > 0.7:
            f["format"] = DmaFormat.FILL
        pair.same(word(Opcode.LOAD, **f))


def test_gate_tables_are_loaded() -> None:
    rng = np.random.default_rng(0)
    pair = Pair(rng)
    image = table_image(GATES[2])
    pair.one.regions[0][: len(image)] = image
    pair.two.write(0, 0, image)
    pair.same(word(Opcode.LOAD, base=0, buffer=Buffer.TABLE, sram=1, inner=len(image), n=[1, 1, 1]))
    for _ in range(20):
        pair.same(draw(rng, pair.one.tiles[0]))


def test_a_weight_of_minus_128_is_found() -> None:
    pair = Pair(np.random.default_rng(0))
    twin = pair.two.memories[0]
    twin.down().wgt[5] = -128
    twin.up()
    with pytest.raises(DpuError, match="a weight is -128"):
        pair.two.run([np.concatenate([word(Opcode.MM, nx=1, ny=1, nc=1, nkx=1, nky=1, nn=1), END])])


def test_blocks_stay_on_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    program = compiled(transformer_block(1, 24, 32, 2), TINY)
    copies, down = [], CudaTile.down
    monkeypatch.setattr(CudaTile, "down", lambda tile: copies.append(tile) or down(tile))
    machine = CudaMachine(TINY, {b: np.zeros(n, np.uint8) for b, n in program.base_bytes.items()}, "cpu")
    machine.write(0, 0, program.constants)
    total = machine.run(program.words["block"], entry="block").total
    assert total.words > 200
    assert not copies


def test_a_device_that_is_not_there_is_refused() -> None:
    with pytest.raises(DpuError, match="no such device"):
        check_device("tpu", "sim")
    with pytest.raises(DpuError, match="target rtl has none"):
        check_device("cuda", "rtl")


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_gpu_that_is_not_there_is_refused() -> None:
    with pytest.raises(DpuError, match="torch finds no CUDA device here"):
        CudaMachine(TINY, {})


@pytest.mark.parametrize(
    "text", [transformer_block(1, 24, 32, 2), resnet_convs(1, 4, 32)], ids=["transformer", "convs"]
)
def test_compiled_blocks(text: str) -> None:
    program = compiled(text, TINY)
    (entry,) = program.entries
    x = np.random.default_rng(3).standard_normal(entry.inputs[0].shape).astype(np.float16)
    found = []
    for device in (SimDevice(TINY), CudaDevice(TINY, device="cpu")):
        with Session(program, device) as session:
            outputs = session.run(entry.name, {"x": x})
            found.append(({n: y.tobytes() for n, y in outputs.items()}, vars(device.counters())))
    assert found[0] == found[1]
