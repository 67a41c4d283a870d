"""One set of names for a part's inputs and outputs, whatever its exporter called them.

| part | inputs | outputs |
|---|---|---|
| `unet` | `sample`, `timestep`, `encoder_hidden_states`, `text_embeds`, `time_ids` | `out_sample` |
| `vae_decoder` | `latent` | `image` |
| `text_encoder`, `text_encoder_2` | `input_ids` | `hidden_states` (of the layer before the last), `text_embeds` |

Optimum calls the VAE decoder's `latent_sample` and `sample`, and gives the hidden states of every layer as
`hidden_states.0` to `hidden_states.N`, with the last one's norm and pooling; SDXL reads `hidden_states.N-1` and
`text_embeds` only, so the other outputs and what only they need are left out.
"""

from __future__ import annotations

from collections.abc import Sequence

TOKENS = 77
"""Tokens of a prompt: CLIP has no others. An input whose number of tokens is open gets this many."""

_INPUTS = {"vae_decoder": {"latent_sample": "latent"}}
_OUTPUTS = {"vae_decoder": {"sample": "image"}}
_TOKEN_AXIS = {"encoder_hidden_states": 1, "input_ids": 1}
_LAYER = "hidden_states."


def input_name(part: str, name: str) -> str:
    """The canonical name of an input."""
    return _INPUTS.get(part, {}).get(name, name)


def outputs(part: str, names: Sequence[str]) -> dict[str, str]:
    """The outputs that are wanted, in canonical order: name in the file -> canonical name."""
    layers = sorted(int(n.removeprefix(_LAYER)) for n in names if n.startswith(_LAYER) and n[len(_LAYER) :].isdigit())
    if part.startswith("text_encoder") and len(layers) > 1:
        chosen = {f"{_LAYER}{layers[-2]}": "hidden_states"}
        return chosen | ({"text_embeds": "text_embeds"} if "text_embeds" in names else {})
    return {n: _OUTPUTS.get(part, {}).get(n, n) for n in names}


def open_tokens(name: str, axis: int) -> bool:
    """Whether an open dimension of an input is the number of tokens."""
    return _TOKEN_AXIS.get(name) == axis
