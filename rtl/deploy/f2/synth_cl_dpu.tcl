# Synthesis of the custom logic, sourced by the HDK's build_all.tcl (aws-fpga v2.0.2 to v2.3.2, small shell).
# Set by the HDK: CL, DEVICE_TYPE, HDK_SHELL_DIR, build_dir, src_post_enc_dir, constraints_dir, and the procedure print.
# sources.txt has the files in an order that compiles, generics.txt the parameters of the arch.

source ${HDK_SHELL_DIR}/build/scripts/synth_cl_header.tcl

proc dpu_lines {path} {
  set file [open $path]
  set lines [split [string trim [read $file]] "\n"]
  close $file
  return $lines
}

print "Reading the sources of ${CL}"
foreach name [dpu_lines ${src_post_enc_dir}/sources.txt] {
  read_verilog -sv ${src_post_enc_dir}/$name
}

print "Making the HBM IP"
set ip_dir ${build_dir}/ip
file mkdir $ip_dir
source ${build_dir}/scripts/hbm.tcl

print "Reading constraints"
foreach name {cl_synth_user.xdc cl_timing_user.xdc} {
  read_xdc ${constraints_dir}/$name
  set_property PROCESSING_ORDER LATE [get_files $name]
}

print "Synthesising ${CL}"
update_compile_order -fileset sources_1
set generics {}
foreach line [dpu_lines ${src_post_enc_dir}/generics.txt] {
  lappend generics -generic $line
}
synth_design -mode out_of_context -top ${CL} -part ${DEVICE_TYPE} \
  -verilog_define XSDB_SLV_DIS -keep_equivalent_registers {*}$generics

source ${HDK_SHELL_DIR}/build/scripts/synth_cl_footer.tcl
