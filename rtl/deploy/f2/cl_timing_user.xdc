# What crosses from one clock to another (rtl/f2/dpu_f2_async_fifo.sv, dpu_f2_sync.sv).

# Gray-coded pointers and single bits: into the first of two registers. Not longer than a period of the faster clock
# (450 MHz), so that no two bits of a pointer arrive more than a step apart.
set_max_delay -datapath_only 2.2 -to [get_pins -hierarchical -filter {NAME =~ */u_sync_*/first_q_reg[*]/D}]
set_false_path -to [get_pins -hierarchical -filter {NAME =~ */u_hbm_ready/first_q_reg[*]/D}]

# Resets are asserted at once and released through two registers of their clock.
set_false_path -to [get_pins -hierarchical -filter {NAME =~ */u_clocks/u_reset/*_q_reg[*]/CLR}]
set_false_path -to [get_pins -hierarchical -filter {NAME =~ */u_ref_reset/*_q_reg[*]/CLR}]

# A word in the memory of such a buffer is there two cycles before its pointer is seen on the other side.
set_max_delay -datapath_only 2.2 -from [get_cells -hierarchical -filter {NAME =~ */u_cross/*/mem_reg*}]
