"""What a full-size export needs beyond the tiny one: CLIP's vocabulary, realistic weights, room, progress."""

from __future__ import annotations

import gzip
from itertools import islice, product
from pathlib import Path

import numpy as np
import pytest
import torch
from dpu.errors import DpuError
from dpu.frontend import weight_files
from dpu.frontend.clip_vocabulary import SIZE, VOCABULARY, byte_characters, clip_tokenizer, find_vocabulary
from dpu.frontend.seeded import BEGIN_OF_TEXT, GEGLU_SPIKE, NORM_OUTLIER, realistic_tensor, seeded_tensor
from dpu.frontend.weight_files import read_header, write_weights


def vocabulary(folder: Path, rules: int = SIZE - 514) -> Path:
    """A file like CLIP's: a heading, then merge rules; the first ones make the word `cat`."""
    characters = byte_characters()
    words = [("c", "a"), ("ca", "t</w>")]
    pairs = (p for p in product(characters, characters) if p != ("c", "a"))
    lines = ["#version", *(" ".join(p) for p in [*words, *islice(pairs, rules - len(words))]), "left over"]
    path = folder / VOCABULARY
    path.write_bytes(gzip.compress("\n".join(lines).encode()))
    return path


def test_the_vocabulary_of_an_installed_package_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "open_clip"
    package.mkdir()
    (package / "__init__.py").write_text("raise RuntimeError('nothing of it is run')\n")
    file = vocabulary(package)
    monkeypatch.syspath_prepend(tmp_path)
    assert find_vocabulary() == file


def test_ids_are_those_of_clip(tmp_path: Path) -> None:
    made = clip_tokenizer(vocabulary(tmp_path))
    assert len(made) == SIZE
    assert (made.bos_token_id, made.eos_token_id) == (SIZE - 2, SIZE - 1)
    # "!" is byte 33 and token 0; bytes that end a word follow those that do not; rules follow both.
    assert made("! cat")["input_ids"] == [SIZE - 2, 256, 513, SIZE - 1]


def test_a_short_vocabulary_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="merge rules, CLIP has 48894"):
        clip_tokenizer(vocabulary(tmp_path, rules=100))


def outliers(value: torch.Tensor, plain: torch.Tensor) -> torch.Tensor:
    """Where the two differ."""
    return torch.nonzero(value != plain)


def test_realistic_weights_differ_where_trained_ones_do() -> None:
    def both(part: str, name: str, shape: tuple[int, ...]) -> tuple[torch.Tensor, torch.Tensor]:
        return realistic_tensor(0, part, name, shape), seeded_tensor(0, part, name, shape)

    table, plain = both("text_encoder", "embeddings.position_embedding.weight", (77, 768))
    assert outliers(table, plain)[:, 0].tolist() == [0]
    assert table[0].max() == BEGIN_OF_TEXT
    norm, plain = both("unet", "mid_block.attentions.0.transformer_blocks.0.norm1.weight", (1280,))
    at = outliers(norm, plain)[:, 0]
    assert len(at) == 3
    torch.testing.assert_close(norm[at], plain[at] * NORM_OUTLIER)
    stem = "mid_block.attentions.0.transformer_blocks.0.ff.net"
    up, plain = both("unet", f"{stem}.0.proj.weight", (4096, 64))
    rows = sorted(set(outliers(up, plain)[:, 0].tolist()))
    assert len(rows) == 4
    assert [r + 2048 for r in rows[:2]] == rows[2:]  # value and gate of the same units
    torch.testing.assert_close(up[rows], plain[rows] * GEGLU_SPIKE)
    down, plain = both("unet", f"{stem}.2.weight", (64, 2048))
    assert sorted(set(outliers(down, plain)[:, 1].tolist())) == rows[:2]
    for part, name in (("unet", "conv_in.weight"), ("vae", "decoder.conv_in.weight")):
        assert torch.equal(*both(part, name, (16, 4, 3, 3)))


def test_the_text_embedding_of_the_first_token_is_the_outlier(tmp_path: Path) -> None:
    from dpu.frontend.sdxl import export_tiny
    from dpu.runtime.pipeline import Pipeline, Request
    from dpu.runtime.pipeline_files import FolderFiles

    export_tiny(tmp_path / "tiny", realistic=True)
    hidden = Pipeline(FolderFiles(tmp_path / "tiny")).encode(Request("a red fox")).encoder_hidden_states[-1]
    assert 700 < np.abs(hidden[0]).max() < 950
    assert np.abs(hidden[1:]).max() < 60


def test_no_room_is_an_error_before_the_first_byte(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(name: str) -> torch.Tensor:
        raise AssertionError(name)

    free = type("Usage", (), {"free": 7})
    monkeypatch.setattr(weight_files.shutil, "disk_usage", lambda _: free)
    with pytest.raises(DpuError, match=r"GB of weights, 0\.0 GB free"):
        write_weights(tmp_path / "w.safetensors", {"a": (4,)}, torch.float16, never)
    assert not list(tmp_path.iterdir())


def test_progress_and_scalars(tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    shapes: dict[str, tuple[int, ...]] = {"a": (2, 3), "b": ()}
    path = tmp_path / "w.safetensors"
    write_weights(path, shapes, torch.float16, lambda n: torch.ones(shapes[n]), lambda *x: seen.append(x))
    assert seen == [(12, 14), (14, 14)]
    assert read_header(path)["b"].load() == 1
