"""How large the RTL is: modules synthesised by Yosys one by one, and what their cells take on an FPGA or in silicon."""
