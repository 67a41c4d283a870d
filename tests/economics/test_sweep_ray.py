"""A sweep on a Ray cluster of two nodes of this machine: the same table as local processes make, byte for byte."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from dpu.bench.sweep import Axes, run
from dpu.bench.sweep_run import local
from dpu.bench.sweep_run import ray as on_ray
from dpu.bench.sweep_work import Images
from dpu.ir.arch import load_arch
from dpu.simulator.economics.inputs import scenario, silicon

ray = pytest.importorskip("ray", reason="needs the extra `ray`: pip install -e '.[ray]'")
pytestmark = pytest.mark.slow


@pytest.fixture
def cluster() -> Iterator[str]:
    """The address of a cluster of two nodes, one core each."""
    from ray.cluster_utils import Cluster

    nodes = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    nodes.add_node(num_cpus=1)
    ray.init(address=nodes.address, log_to_driver=False)
    yield nodes.address
    ray.shutdown()
    nodes.shutdown()


def test_two_nodes_make_the_same_table(cluster: str, tmp_path: Path) -> None:
    assert len([n for n in ray.nodes() if n["Alive"]]) == 2
    axes = Axes(
        base=load_arch("dpu_32tops"),
        settings=(("tiles", (2, 4)), ("dram.bits", (128, 256))),
        precisions=("w8a8",),
        steps=(4, 20),
        images=(Images(),),
        scenarios=(scenario("scenario_a"),),
    )
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
    here = run(axes, silicon(), tmp_path / "here", tmp_path / "cache_here", local(1))
    there = run(axes, silicon(), tmp_path / "there", tmp_path / "cache_there", on_ray(cluster))
    assert there == here
    cached = [{p.name: p.read_bytes() for p in (tmp_path / c).rglob("*.json")} for c in ("cache_here", "cache_there")]
    assert len(cached[0]) == 4
    assert cached[0] == cached[1]
