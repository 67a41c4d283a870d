"""The machine's order of execution: semaphores, tiles that wait for each other, and the errors verbatim."""

import numpy as np
import pytest
from dpu.errors import DpuError
from dpu.ir.arch import Arch, load_arch
from dpu.ir.isa import Buffer, Engine, Opcode, empty, signal_bit, wait_bit, word
from dpu.simulator.machine import Machine

TINY = load_arch("dpu_tiny")
TWO = Arch.model_validate(TINY.model_dump() | {"name": "dpu_two", "tiles": 2})
END = word(Opcode.END)


def program(*words: np.ndarray) -> np.ndarray:
    return np.concatenate([*words, END])


def load(**f: object) -> np.ndarray:
    return word(Opcode.LOAD, **({"base": 1, "buffer": Buffer.ACT, "inner": 8, "n": [1, 1, 1]} | f))


def store(**f: object) -> np.ndarray:
    return word(Opcode.STORE, **({"base": 1, "buffer": Buffer.ACT, "inner": 8, "n": [1, 1, 1]} | f))


def machine(arch: Arch = TINY) -> Machine:
    return Machine(arch, {1: 1024})


def refused(streams: list[np.ndarray], arch: Arch = TINY) -> str:
    with pytest.raises(DpuError) as e:
        machine(arch).run(streams, entry="unet")
    return str(e.value)


_VERIFY = "  try: dpuc verify names the word at fault; compile the model again"


def test_tokens_are_taken_in_stream_order() -> None:
    a = load(signal=signal_bit(Engine.STORE, 2))
    b = store(wait=wait_bit(Engine.LOAD, 2))
    assert machine().run([program(a, b)]).words[Engine.STORE] == 1
    assert refused([program(b, a)]) == (
        "error[E413]: entry 'unet' tile 0 word 0 (STORE, tag 0): field 'wait': "
        "no token of LOAD->STORE[2] in stream order\n"
        f"{_VERIFY}"
    )


def test_a_semaphore_holds_255_tokens() -> None:
    assert refused([program(*[load(tag=4, signal=signal_bit(Engine.MXU, 1))] * 256)]) == (
        "error[E413]: entry 'unet' tile 0 word 255 (LOAD, tag 4): "
        "field 'signal': LOAD->MXU[1] already holds 255 tokens\n"
        f"{_VERIFY}"
    )


def test_tokens_must_be_used_up() -> None:
    assert refused([program(load(signal=signal_bit(Engine.MXU)), load(signal=signal_bit(Engine.MXU)))]) == (
        "error[E413]: entry 'unet' tile 0: tokens left at END: 2 of LOAD->MXU[0]\n"
        "  why: the next program would start with them\n"
        f"{_VERIFY}"
    )


def test_a_cleared_word_is_no_instruction() -> None:
    assert refused([program(empty(1))]) == (
        "error[E410]: entry 'unet' tile 0 word 0 (opcode 0, tag 0): field 'opcode': 0 is no instruction\n"
        "  try: legal are LOAD 1, MM 2, VEC 3, STORE 4, END 5"
    )


def test_a_stream_needs_an_end() -> None:
    assert refused([load()]) == (
        "error[E410]: entry 'unet' tile 0: the stream of 1 words has no END\n"
        f"  why: CTRL would fetch past the program\n{_VERIFY}"
    )


def test_words_after_end_are_not_executed() -> None:
    assert machine().run([program(load(), END, empty(3))]).total.words == 2


def test_one_stream_a_tile() -> None:
    assert refused([END, END]) == (
        "error[E410]: entry 'unet': 2 streams for the 1 tiles of arch 'dpu_tiny'\n"
        f"  why: a program has one stream a tile\n{_VERIFY}"
    )


def test_tiles_exchange_data_through_dram() -> None:
    """Tile 0 stores and signals tile 1, which loads, adds nothing, stores elsewhere and signals back."""
    m = machine(TWO)
    m.tiles[0].act[:8] = np.arange(8)
    there = program(store(offset=0, remote=0b10), load(offset=64, sram=5, remote=0b10))
    back = program(
        load(offset=0, sram=3, remote=0b01, signal=signal_bit(Engine.STORE)),
        store(offset=64, sram=3, remote=0b01, wait=wait_bit(Engine.LOAD)),
    )
    m.run([there, back])
    assert m.tiles[0].act[40:48].tolist() == list(range(8))


def test_a_deadlock_names_every_tile() -> None:
    wait0 = program(load(tag=1, remote=0b10), store(remote=0b10))
    wait1 = program(load(tag=2, remote=0b01), store(remote=0b01))
    assert refused([wait0, wait1], TWO) == (
        "error[E414]: entry 'unet': deadlock: "
        "entry 'unet' tile 0 word 0 (LOAD, tag 1) waits for a token of tile 1; "
        "entry 'unet' tile 1 word 0 (LOAD, tag 2) waits for a token of tile 0\n"
        f"  why: no tile can advance, so the tokens never come\n{_VERIFY}"
    )


def test_a_remote_token_of_a_tile_that_is_not_there() -> None:
    assert "field 'remote': names tile 2, the arch has 2" in refused([program(load(remote=0b100)), END], TWO)


def test_a_tile_stalls_when_a_remote_semaphore_is_full() -> None:
    """Tile 0 stores 255 times, then tile 1 has taken all tokens before it stores once more."""
    order = []
    one = program(*[store(remote=0b10)] * 256)
    other = program(*[load(remote=0b01)] * 255, store(), load(remote=0b01))
    machine(TWO).run([one, other], on_store=lambda tile, index, tag: order.append(tile))
    assert order == [0] * 255 + [1, 0]


def test_on_store_sees_each_store_when_its_bytes_are_in_dram() -> None:
    m = machine()
    m.tiles[0].act[:8] = 9
    seen = []
    m.run([program(load(sram=100), store(tag=7))], on_store=lambda *x: seen.append((*x, int(m.regions[1][0]))))
    assert seen == [(0, 1, 7, 9)]


def test_scratchpads_outlive_a_run_until_reset() -> None:
    m = machine()
    m.regions[1][:] = 5
    m.run([program(load())])
    m.run([program(load(sram=1))])
    assert m.tiles[0].act[:16].tolist() == [5] * 16
    m.reset()
    assert not m.tiles[0].act.any()
