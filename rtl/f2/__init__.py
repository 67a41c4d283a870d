"""The custom logic of an AWS F2 card: `build.library` builds its Verilated model, `card.Card` drives it."""
