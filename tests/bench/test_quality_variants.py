"""Names of precisions in `dpubench quality`."""

from __future__ import annotations

from pathlib import Path

import pytest
from dpu.bench.quality.plan import label, program_path
from dpu.bench.quality.variants import parse_variant
from dpu.errors import DpuError
from dpu.passes.collectors import ABSMAX, Collector
from dpu.passes.policy import policy_names


def test_suffixes_come_in_any_order_and_are_written_in_one() -> None:
    found = parse_variant("w8a8-static+smooth+percentile")
    assert (found.policy.name, found.gptq, found.collector, found.smooth) == (
        "w8a8-static",
        False,
        Collector("percentile"),
        True,
    )
    assert found.label == "w8a8-static+percentile+smooth" == label("w8a8-static+percentile99.99+smooth")
    assert label("w4a8+smooth+mean+gptq") == "w4a8+gptq+mean+smooth"
    assert label("w8a8+percentile99.9") == "w8a8+percentile99.9"
    plain = parse_variant("w8a8")
    assert (plain.gptq, plain.collector, plain.smooth, plain.label) == (False, ABSMAX, False, "w8a8")
    assert program_path(Path("w"), "w4a8+smooth+gptq") == Path("w/programs/w4a8+gptq+smooth.dpu")


def test_policy_files_with_suffixes(tmp_path: Path) -> None:
    file = tmp_path / "a+b.json"
    file.write_text('{"format": "dpu.policy/1", "name": "mine", "default": {"weights": 4}}')
    assert label(str(file)) == "mine"
    assert label(f"{file}+smooth+gptq") == "mine+gptq+smooth"


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        (
            "w8a8+foo",
            [
                "error[E501]: --precisions w8a8+foo: no such suffix '+foo'",
                "  try: suffixes are +gptq, +smooth, +mean, +percentile (or such as +percentile99.9)",
            ],
        ),
        (
            "w8a8+smooth+smooth",
            [
                "error[E501]: --precisions w8a8+smooth+smooth: '+smooth' is there twice",
                "  try: leave out one of the two",
            ],
        ),
        (
            "w8a8+mean+percentile",
            [
                "error[E501]: --precisions w8a8+mean+percentile: '+mean' and '+percentile' are two collectors",
                "  try: leave out one of the two",
            ],
        ),
        (
            "w8a8+percentile20",
            [
                "error[E501]: --precisions w8a8+percentile20: 20 is not between 50 and 100",
                "  try: such as percentile99.9",
            ],
        ),
        (
            "w8a8+gptq",
            ["error[E501]: --precisions w8a8+gptq: policy 'w8a8' has no int4 weights", "  try: see --help"],
        ),
    ],
)
def test_what_is_refused(name: str, lines: list[str]) -> None:
    with pytest.raises(DpuError) as e:
        parse_variant(name)
    assert e.value.text().splitlines() == lines


def test_an_unknown_policy_is_refused_by_its_own_name() -> None:
    with pytest.raises(DpuError) as e:
        parse_variant("w2a2+smooth")
    assert e.value.text().splitlines() == [
        "error[E503]: --precision w2a2: not available",
        f"  try: one of {', '.join(policy_names())}",
    ]
