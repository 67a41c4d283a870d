"""The tile as a kernel of Xilinx's runtime: what of it host, RTL and the packaging agree on (`kernel.py`), the RTL."""
