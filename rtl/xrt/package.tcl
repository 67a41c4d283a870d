# Packages the kernel's sources as an IP and the IP as a Vitis object (.xo).
#
#   vivado -mode batch -source package.tcl -tclargs FOLDER PART XO
#
# FOLDER holds src/*.sv, sources.txt (their names, in the order that compiles) and kernel.xml; the IP is built in it.
# Commands: UG835 (Vivado Tcl), UG1700 2026.1 "Packaging the RTL Code as a Vitis XO", UG1393 2022.1 "package_xo Command".

if {[llength $argv] != 3} {
  error "package.tcl: [llength $argv] arguments, expected FOLDER PART XO"
}
lassign $argv folder part xo
set kernel dpu

create_project -force package $folder/project -part $part
set listed [open $folder/sources.txt]
set names [split [string trim [read $listed]] "\n"]
close $listed
foreach name $names {
  add_files -norecurse $folder/src/$name
}
set_property top $kernel [current_fileset]
update_compile_order -fileset sources_1

ipx::package_project -root_dir $folder/ip -vendor dpu.dev -library kernel -taxonomy /KernelIP -import_files -force
set core [ipx::current_core]
set_property name $kernel $core
set_property version 1.0 $core

# Interfaces are inferred from the names of ports; each belongs to the one clock.
set masters [lsort [get_property NAME [ipx::get_bus_interfaces -of_objects $core -filter {NAME =~ m*_axi}]]]
foreach bus [concat s_axi_control $masters] {
  ipx::associate_bus_interfaces -busif $bus -clock ap_clk $core
}
ipx::associate_bus_interfaces -clock ap_clk -reset ap_rst_n $core

set_property sdx_kernel true $core
set_property sdx_kernel_type rtl $core
set_property supported_families {} $core
set_property auto_family_support_level level_2 $core
ipx::create_xgui_files $core
ipx::update_checksums $core
ipx::check_integrity -kernel $core
ipx::save_core $core
close_project

package_xo -force -xo_path $xo -kernel_name $kernel -ip_directory $folder/ip -kernel_xml $folder/kernel.xml
