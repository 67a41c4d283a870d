# Floorplan: a tile a die region (SLR). The HBM's pins are in SLR0, the shell's PCIe side in SLR1.
# Whole clock regions of the customer's area only (aws-fpga v2.0.2, small_shell_level_1_fp_cl.xdc; rtl/size/device.py
# has the sites). Not placed yet: the first build shows whether the parts of clock regions left out are needed.

create_pblock pblock_dpu_slr0
resize_pblock pblock_dpu_slr0 -add {CLOCKREGION_X0Y0:CLOCKREGION_X3Y3 CLOCKREGION_X4Y0:CLOCKREGION_X7Y0}
resize_pblock pblock_dpu_slr0 -add {CLOCKREGION_X4Y3:CLOCKREGION_X4Y3 CLOCKREGION_X5Y1:CLOCKREGION_X5Y3}
resize_pblock pblock_dpu_slr0 -add {CLOCKREGION_X6Y1:CLOCKREGION_X6Y1}
set_property parent pblock_CL [get_pblocks pblock_dpu_slr0]

create_pblock pblock_dpu_slr1
resize_pblock pblock_dpu_slr1 -add {CLOCKREGION_X0Y4:CLOCKREGION_X3Y7 CLOCKREGION_X5Y4:CLOCKREGION_X5Y7}
resize_pblock pblock_dpu_slr1 -add {CLOCKREGION_X4Y4:CLOCKREGION_X4Y4 CLOCKREGION_X4Y6:CLOCKREGION_X4Y7}
set_property parent pblock_CL [get_pblocks pblock_dpu_slr1]

create_pblock pblock_dpu_slr2
resize_pblock pblock_dpu_slr2 -add {CLOCKREGION_X0Y8:CLOCKREGION_X7Y11}
set_property parent pblock_CL [get_pblocks pblock_dpu_slr2]

# An arch of fewer tiles leaves regions empty: what is not there is not an error.
add_cells_to_pblock pblock_dpu_slr2 [get_cells -quiet {WRAPPER/CL/u_dpu/gen_tile[2].u_tile}] -quiet
add_cells_to_pblock pblock_dpu_slr1 [get_cells -quiet {WRAPPER/CL/u_dpu/gen_tile[1].u_tile}] -quiet
add_cells_to_pblock pblock_dpu_slr0 [get_cells -quiet {WRAPPER/CL/u_dpu/gen_tile[0].u_tile}] -quiet
add_cells_to_pblock pblock_dpu_slr0 [get_cells {WRAPPER/CL/u_hbm WRAPPER/CL/u_memory}]
add_cells_to_pblock pblock_dpu_slr1 [get_cells {WRAPPER/CL/u_ocl WRAPPER/CL/u_pcis WRAPPER/CL/u_copy}]
