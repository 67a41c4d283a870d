# The HBM IP that rtl/f2/dpu_f2_hbm.sv instantiates: both stacks, 16 GiB, 32 ports of AXI3 with the switch between them.
# The shell wants the APB monitor (AFI creation fails without it), and the errata want the IP's own address map at 16 GB
# (aws-fpga, Shell Interface Specification and ERRATA as of v2.3.2). Properties: AMD PG276, AXI HBM Controller.
# Set by synth_cl_dpu.tcl: ip_dir.

create_ip -name hbm -vendor xilinx.com -library ip -module_name hbm_dpu -dir $ip_dir -force
set_property -dict [list \
  CONFIG.USER_HBM_DENSITY {16GB} \
  CONFIG.USER_HBM_STACK {2} \
  CONFIG.USER_AXI_CLK_FREQ {450} \
  CONFIG.USER_AXI_CLK1_FREQ {450} \
  CONFIG.USER_HBM_REF_CLK_0 {100} \
  CONFIG.USER_HBM_REF_CLK_1 {100} \
  CONFIG.USER_SWITCH_ENABLE_00 {TRUE} \
  CONFIG.USER_SWITCH_ENABLE_01 {TRUE} \
  CONFIG.USER_APB_EN {TRUE} \
  CONFIG.USER_MON_APB_EN {TRUE} \
] [get_ips hbm_dpu]
set_property generate_synth_checkpoint false [get_files hbm_dpu.xci]
generate_target all [get_ips hbm_dpu]
