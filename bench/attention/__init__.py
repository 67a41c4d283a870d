"""Attention with many keys: what 8- and 15-bit probabilities and int8 operands cost in SQNR, and 15 bits in cycles."""
