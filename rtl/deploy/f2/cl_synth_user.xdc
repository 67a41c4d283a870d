# Constraints of synthesis alone: none. The shell's clocks come from the HDK, the HBM's clock from its MMCM.
