"""Which card it was, for records of measurements: instance, image and SDK."""

from __future__ import annotations

from pathlib import Path

from ...errors import DpuError, refusing
from ...files import sha256
from ...measurement import DeviceIdentity

_ASSET = Path("devices") / "virtual" / "dmi" / "id" / "board_asset_tag"


def identity(where: str, image: str, library: str, sysfs: Path, stand_in: str) -> DeviceIdentity:
    """The identity of the card at `where`; an EC2 instance on Nitro has its id as the asset tag of its board.

    Raises:
        DpuError: E523, nothing stands in for the card, and it does not show which it is.
    """
    asset = sysfs / _ASSET
    marks = {
        "instance": asset.read_text().strip() if asset.is_file() else "",
        "afi": image,
        "sdk_sha256": sha256(_loaded(library)),
    }
    hint = "measure on an F2 instance, with the image that --image AGFI names"
    with refusing(where, "does not show which card it is", hint=hint, code="E523"):
        return DeviceIdentity(target="f2", name=f"AWS F2, {where}", marks=marks, stand_in=stand_in)


def _loaded(library: str) -> Path:
    """The file behind a library of this process.

    Raises:
        DpuError: E432, it is not loaded.
    """
    if Path(library).is_absolute():
        return Path(library)
    for line in Path("/proc/self/maps").read_text().splitlines():
        path = line.partition("/")[2]
        if path and Path(path).name.startswith(library):
            return Path("/", path)
    raise DpuError(library, "is not loaded", code="E432")
