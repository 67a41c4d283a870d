"""Proofs of the RTL: `python -m dpu.rtl.formal`, see README.md."""
