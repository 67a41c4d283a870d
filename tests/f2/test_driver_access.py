"""What the driver stands on: settings, the SDK's structs, sysfs, huge pages and their physical addresses."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

import numpy as np
import pytest
from dpu.errors import DpuError
from dpu.ir.isa import Buffer, Opcode, word
from dpu.runtime.f2 import sdk
from dpu.runtime.f2.host_memory import HUGE, HostMemory
from dpu.runtime.f2.identity import identity
from dpu.runtime.f2.interrupts import Interrupts
from dpu.runtime.f2.program import stored
from dpu.runtime.f2.sdk import Info, Metrics, SdkCard, SlotSpec
from dpu.runtime.f2.settings import Settings
from dpu.runtime.f2.sysfs import SysfsCard, translation

BDF = "0000:34:00.0"


def text_of(e: pytest.ExceptionInfo[DpuError]) -> str:
    return str(e.value)


def test_structs_have_the_layout_of_the_sdk() -> None:
    # Packed sums of the members of the public headers: 2 * 4 + 4 = 12 before the ids, 64 + 8 of those, 2 * 58 of the
    # slot, 4 of the shell version; metrics: 484 is 204 + 8 + 2 * 12 + 16 + 12 + 8 + 12 + 8 + 8 + 16 + 168.
    assert [ctypes.sizeof(s) for s in (sdk.ResourceMap, SlotSpec, sdk.MetaIds, Metrics)] == [58, 116, 72, 440]
    assert [getattr(Info, n).offset for n in ("ids", "spec", "sh_version", "metrics")] == [12, 84, 200, 204]
    assert Info.metrics.offset + Metrics.power_mean.offset == 484
    assert Info.room.offset == 708


def test_settings_come_from_the_environment() -> None:
    found = Settings.of(
        {"DPU_F2_ACCESS": "sysfs", "DPU_F2_DEVICES": f"{BDF},0000:35:00.0", "DPU_F2_STALL_SECONDS": "3"}
    )
    assert (found.access, found.devices, found.stall_seconds) == ("sysfs", (BDF, "0000:35:00.0"), 3.0)
    assert Settings.of({}) == Settings()


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("ACCESS", "xdma", "error[E501]: DPU_F2_ACCESS: 'xdma' is no choice\n  try: one of sdk, sysfs"),
        ("STALL_SECONDS", "soon", "error[E501]: DPU_F2_STALL_SECONDS: 'soon' is no number\n  try: see --help"),
        ("WALL_SECONDS", "-1", "error[E501]: DPU_F2_WALL_SECONDS: -1 is not positive\n  try: see --help"),
        (
            "CHUNK",
            "12288",
            "error[E501]: DPU_F2_CHUNK: 12288 is no size of a buffer\n  try: 4096 times a power of two, up to 2097152",
        ),
    ],
)
def test_settings_that_cannot_be(name: str, value: str, text: str) -> None:
    with pytest.raises(DpuError) as e:
        Settings.of({f"DPU_F2_{name}": value})
    assert text_of(e) == text


def test_no_library(tmp_path: Path) -> None:
    path = tmp_path / "libfpga_mgmt.so"
    with pytest.raises(DpuError) as e:
        SdkCard(0, str(path))
    assert text_of(e) == (
        f"error[E432]: {path}: cannot be loaded ({path}: cannot open shared object file: No such file or directory)\n"
        "  why: target f2 reaches the card through it\n"
        "  try: on an F2 instance: source sdk_setup.sh of aws-fpga; without a card: --card stand-in"
    )


def test_a_library_that_is_another_one() -> None:
    with pytest.raises(DpuError) as e:
        SdkCard(0, "libm.so.6")
    assert text_of(e) == "error[E432]: libm.so.6: has no fpga_mgmt_init\n  try: install the F2 branch of aws-fpga"


# Sysfs


def device(root: Path, vendor: str = "0x1d0f", bar4: str = "resource4_wc") -> Path:
    folder = root / "bus" / "pci" / "devices" / BDF
    folder.mkdir(parents=True)
    (folder / "vendor").write_text(vendor + "\n")
    for name, size in (("resource0", 2 << 20), (bar4, 1 << 20)):
        with (folder / name).open("wb") as f:
            f.truncate(size)
    return folder


def test_sysfs_reads_and_writes_the_resource_files(tmp_path: Path) -> None:
    folder = device(tmp_path)
    card = SysfsCard(0, BDF, tmp_path)
    card.attach()
    card.poke(0x100048, 0xA5A55A5A)
    card.burst(128, np.arange(64, dtype=np.uint8))
    assert card.peek(0x100048) == 0xA5A55A5A
    assert card.loads(130, 4).tolist() == [2, 3, 4, 5]
    assert card.describe().loaded and not card.simulated and card.untranslated() == ""
    card.close()
    assert (folder / "resource0").read_bytes()[0x100048:0x10004C] == b"\x5a\x5a\xa5\xa5"
    assert (folder / "resource4_wc").read_bytes()[128:192] == bytes(range(64))
    for action in (lambda: card.load("agfi-1"), card.clear):
        with pytest.raises(DpuError, match=r"E432.*PCI device 0000:34:00.0: sysfs cannot"):
            action()


def test_sysfs_without_write_combining_or_device(tmp_path: Path) -> None:
    device(tmp_path, bar4="resource4")
    card = SysfsCard(0, BDF, tmp_path)
    card.attach()
    card.close()
    with pytest.raises(DpuError) as e:
        SysfsCard(0, "0000:99:00.0", tmp_path)
    assert "error[E432]: PCI device 0000:99:00.0: no such device (" in text_of(e)
    assert text_of(e).endswith(
        "  try: lspci -d 1d0f: lists the cards; give DPU_F2_DEVICES their addresses, slot by slot"
    )


def test_sysfs_with_another_vendor_or_without_bars(tmp_path: Path) -> None:
    folder = device(tmp_path, "0x10ee")
    with pytest.raises(DpuError, match="vendor 0x10ee, expected 0x1d0f"):
        SysfsCard(0, BDF, tmp_path)
    (folder / "vendor").write_text("0x1d0f")
    (folder / "resource0").unlink()
    with pytest.raises(DpuError, match=r"E432.*resource0 cannot be mapped"):
        SysfsCard(0, BDF, tmp_path).attach()


@pytest.mark.parametrize(("kind", "says"), [("identity", ""), ("DMA", "group type DMA"), (None, "group type unknown")])
def test_iommu(tmp_path: Path, kind: str | None, says: str) -> None:
    folder = device(tmp_path)
    group = tmp_path / "kernel" / "iommu_groups" / "7"
    group.mkdir(parents=True)
    if kind:
        (group / "type").write_text(kind + "\n")
    (folder / "iommu_group").symlink_to(group)
    found = translation(tmp_path, BDF)
    assert (says in found) if says else not found


# Host memory


def pagemap(path: Path, memory: HostMemory, frames: np.ndarray) -> None:
    with path.open("wb") as f:
        os.pwrite(f.fileno(), frames.astype("<u8").tobytes(), memory.view.ctypes.data // 4096 * 8)


def test_physical_addresses_come_from_the_page_map(tmp_path: Path) -> None:
    memory = HostMemory(2 * HUGE, tmp_path, tmp_path / "pagemap")
    one, other = (first + np.arange(512, dtype=np.uint64) for first in (0x70000, 0x30000))
    frames = np.concatenate([one, other]) | np.uint64(1 << 63)
    pagemap(tmp_path / "pagemap", memory, frames)
    assert memory.physical(0) == 0x70000 << 12
    assert memory.physical(5000) == (0x70000 << 12) + 5000
    assert memory.physical(HUGE + 64) == (0x30000 << 12) + 64
    frames[7] += np.uint64(1)
    pagemap(tmp_path / "pagemap", memory, frames)
    with pytest.raises(DpuError, match=r"E436.*a huge page is not in one piece"):
        memory.physical(0)
    memory.close()


@pytest.mark.parametrize("entry", [0, 1 << 63])
def test_a_kernel_that_does_not_tell(tmp_path: Path, entry: int) -> None:
    memory = HostMemory(HUGE, tmp_path, tmp_path / "pagemap")
    pagemap(tmp_path / "pagemap", memory, np.full(512, entry, np.uint64))
    with pytest.raises(DpuError) as e:
        memory.physical(0)
    assert text_of(e) == (
        f"error[E436]: {tmp_path / 'pagemap'}: does not say where a page is\n"
        "  why: the card writes results to host memory by physical address\n"
        "  try: run as root, or with the capability CAP_SYS_ADMIN"
    )
    (tmp_path / "pagemap").write_bytes(b"")
    with pytest.raises(DpuError, match=r"E436.*ends before this process's memory"):
        memory.physical(0)
    (tmp_path / "pagemap").unlink()
    with pytest.raises(DpuError, match=r"E436.*cannot be read \(No such file or directory\)"):
        memory.physical(0)
    memory.close()


def test_a_folder_that_is_no_hugetlbfs(tmp_path: Path) -> None:
    with pytest.raises(DpuError) as e:
        HostMemory(HUGE, tmp_path)
    assert text_of(e) == (
        f"error[E436]: {tmp_path}: is no hugetlbfs\n"
        "  why: the card writes results to host memory by physical address\n"
        "  try: mount -t hugetlbfs none /dev/hugepages, or name the mount in DPU_F2_HUGEPAGES"
    )


def test_no_huge_pages_left(tmp_path: Path) -> None:
    (tmp_path / "mounts").write_text(f"none / ext4 rw 0 0\nnone {tmp_path} hugetlbfs rw 0 0\n")
    with pytest.raises(DpuError) as e:
        HostMemory(4 * HUGE, tmp_path / "missing", mounts=tmp_path / "mounts")
    assert text_of(e) == (
        f"error[E436]: {tmp_path / 'missing'}: has no 8 MiB of huge pages (No such file or directory)\n"
        "  why: the card writes results to host memory by physical address\n"
        "  try: sysctl vm.nr_hugepages=12, as root"
    )


# Interrupts and programs


def test_interrupts_come_through_the_event_file(tmp_path: Path) -> None:
    path = tmp_path / "events"
    os.mkfifo(path)
    interrupts = Interrupts(str(path))
    assert interrupts.enabled and not interrupts.take()
    with path.open("wb") as f:
        f.write(b"\1\0\0\0")
        f.flush()
        assert interrupts.wait(0.0)
        assert not interrupts.take()
    assert interrupts.text == f"interrupts of {path}"
    interrupts.close()
    none = Interrupts(str(tmp_path / "none"))
    assert not none.enabled and not none.wait(0.0)
    assert none.text == f"polling ({tmp_path / 'none'} does not exist)"


def test_the_identity_of_a_card(tmp_path: Path) -> None:
    folder = tmp_path / "devices" / "virtual" / "dmi" / "id"
    folder.mkdir(parents=True)
    (folder / "board_asset_tag").write_text("i-0123456789abcdef0\n")
    image = "agfi-0123456789abcdef0"
    ctypes.CDLL("libm.so.6")
    found = identity("slot 0", image, "libm.so.6", tmp_path, "")
    assert (found.target, found.marks["instance"], found.marks["afi"]) == ("f2", "i-0123456789abcdef0", image)
    assert len(found.marks["sdk_sha256"]) == 64
    with pytest.raises(DpuError) as e:
        identity("slot 0", "agfi-standin", "libm.so.6", tmp_path, "")
    assert text_of(e).startswith("error[E523]: slot 0: does not show which card it is (")
    assert "'agfi-standin' is no afi of a f2 device" in text_of(e)
    assert identity("slot 0", "agfi-standin", "libm.so.6", tmp_path / "none", "the RTL").stand_in == "the RTL"
    with pytest.raises(DpuError, match=r"E432.*libnone.so: is not loaded"):
        identity("slot 0", image, "libnone.so", tmp_path, "")


def test_what_a_program_stores() -> None:
    def store(base: int, offset: int, inner: int, n: list[int], stride: list[int]) -> np.ndarray:
        return word(Opcode.STORE, base=base, offset=offset, inner=inner, n=n, dstride=stride, buffer=Buffer.VBUF)

    words = np.concatenate(
        [
            store(3, 1000, 64, [4, 1, 1], [256, 0, 0]),  # 1000 to 1000 + 3 * 256 + 64
            store(3, 5000, 32, [2, 3, 1], [-100, 50, 0]),  # 4900 to 5000 + 2 * 50 + 32
            store(2, 0, 0, [9, 9, 9], [9999, 9999, 9999]),  # a fence
            word(Opcode.END),
        ]
    )
    assert stored([words]) == {3: (1000, 5132)}
    assert stored([words, np.concatenate([store(3, 64, 64, [1, 1, 1], [0, 0, 0])])]) == {3: (64, 5132)}
