"""CLIP's vocabulary, where an installed package ships it: a tokenizer for full-size pipelines that come without one.

`open_clip_torch` holds the file of the original CLIP (`pip install --no-deps open_clip_torch`: nothing of it is run).
"""

from __future__ import annotations

import gzip
from importlib.util import find_spec
from pathlib import Path
from typing import Any

VOCABULARY = "bpe_simple_vocab_16e6.txt.gz"
PACKAGES = ("open_clip", "clip")
SIZE = 49408  # tokens of CLIP
_MERGES = (
    SIZE - 2 - 512
)  # rules that CLIP takes of the file: its tokens are 512 bytes, one a rule, and two special ones


def find_vocabulary() -> Path | None:
    """The file in an installed package, which is not imported."""
    for package in PACKAGES:
        spec = find_spec(package)
        for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
            if (Path(folder) / VOCABULARY).is_file():
                return Path(folder) / VOCABULARY
    return None


def byte_characters() -> list[str]:
    """The character that stands for each byte, in the order of CLIP's token ids: printable bytes, then the others."""
    printable = [*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAC + 1), *range(0xAE, 0xFF + 1)]
    rest = [b for b in range(256) if b not in printable]
    return [chr(b) for b in printable] + [chr(256 + i) for i in range(len(rest))]


def clip_tokenizer(file: Path, tokens: int = 77) -> Any:
    """The tokenizer of the vocabulary in `file`.

    Raises:
        ValueError: the file holds too few merge rules.
        OSError: it cannot be read.
    """
    from transformers import CLIPTokenizer

    lines = gzip.decompress(file.read_bytes()).decode("utf-8").split("\n")[1 : _MERGES + 1]
    merges = [tuple(line.split()) for line in lines]
    if len(merges) != _MERGES or any(len(m) != 2 for m in merges):
        raise ValueError(f"{file} holds {len(merges)} merge rules, CLIP has {_MERGES}")
    characters = byte_characters()
    names = [*characters, *(c + "</w>" for c in characters), *("".join(m) for m in merges)]
    names += ["<|startoftext|>", "<|endoftext|>"]
    made: Any = CLIPTokenizer
    return made(vocab={name: i for i, name in enumerate(names)}, merges=merges, model_max_length=tokens)
