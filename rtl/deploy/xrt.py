"""A device binary for an Alveo card: sources and XML into a folder, packaged by Vivado, linked by Vitis."""

from __future__ import annotations

from pathlib import Path

from ...errors import DpuError
from ...ir.arch import Arch
from .. import toolchain
from ..model import KERNEL
from ..xrt.kernel import FOLDER, NAME
from ..xrt.packaging import PLATFORMS, kernel_xml, link_config, top
from .steps import Copy, Run, Step, Write


def build_plan(arch: Arch, card: str, work: Path, output: Path, jobs: int) -> list[Step]:
    """From the sources to `output`, an .xclbin for the card, built below `work`.

    Raises:
        DpuError: E501, there is no such card; E422, its memory is smaller than the arch says.
    """
    if card not in PLATFORMS:
        raise DpuError("--card", f"value is '{card}'", hint=f"one of {', '.join(PLATFORMS)}", code="E501")
    platform = PLATFORMS[card]
    if arch.dram.bytes > platform.hbm_bytes:
        what = f"has {platform.hbm_bytes >> 30} GiB of HBM, arch '{arch.name}' counts on {arch.dram.bytes >> 30}"
        raise DpuError(f"--card {card}", what, hint="give an arch with dram.bytes of that size", code="E422")
    folder = (work / f"xrt-{arch.name}-{card}").absolute()
    kernel = folder / "kernel"
    sources = toolchain.sources(KERNEL)
    names = [*(p.name for p in sources), f"{NAME}.sv"]
    object_file, config = folder / f"{NAME}.xo", folder / "link.cfg"
    return [
        Copy(tuple(sources), kernel / "src"),
        Write(kernel / "src" / f"{NAME}.sv", top(arch)),
        Write(kernel / "sources.txt", "".join(f"{n}\n" for n in names)),
        Write(kernel / "kernel.xml", kernel_xml(arch.tiles)),
        Write(config, link_config(arch, card)),
        Run(
            ("vivado", "-mode", "batch", "-nojournal", "-log", str(folder / "package.log"), "-source",
             str(FOLDER / "package.tcl"), "-tclargs", str(kernel), platform.part, str(object_file))
        ),
        Run(
            ("v++", "--link", "--target", "hw", "--config", str(config), "--temp_dir", str(folder / "link"),
             "--jobs", str(jobs), "--output", str(output.absolute()), str(object_file))
        ),
    ]  # fmt: skip
