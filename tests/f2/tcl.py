"""Runs the project's Tcl and constraints in tclsh, with a stub for each of Vivado's commands that they may use.

A stub takes the options that the command has (AMD UG835 2024.1, "Vivado Design Suite Tcl Command Reference", of those
in use here; `package_xo`: UG1393 2022.1; constraints: UG903), refuses others, writes down its call and answers with a
given text. What is no Tcl and no stub is an error, as it would be in Vivado.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

# Options of each command; a trailing colon: the option takes a value.
COMMANDS: dict[str, str] = {
    "add_cells_to_pblock": "-top -quiet",
    "add_files": "-norecurse -fileset: -quiet",
    "close_project": "-delete",
    "create_generated_clock": "-name: -source: -master_clock: -divide_by: -multiply_by:",
    "create_ip": "-name: -vendor: -library: -version: -module_name: -dir: -force",
    "create_pblock": "-quiet",
    "create_project": "-force -part: -in_memory",
    "current_fileset": "",
    "encrypt": "-k: -key: -lang: -quiet",
    "generate_target": "-force -quiet",
    "get_cells": "-hierarchical -filter: -regexp -quiet -of_objects:",
    "get_clocks": "-of_objects: -quiet -include_generated_clocks",
    "get_files": "-quiet -of_objects: -all",
    "get_ips": "-quiet",
    "get_pblocks": "-quiet",
    "get_pins": "-hierarchical -filter: -quiet -of_objects:",
    "get_ports": "-quiet",
    "get_property": "-quiet",
    "ipx::associate_bus_interfaces": "-busif: -clock: -reset:",
    "ipx::check_integrity": "-kernel -quiet",
    "ipx::create_xgui_files": "",
    "ipx::current_core": "",
    "ipx::get_bus_interfaces": "-of_objects: -filter:",
    "ipx::package_project": "-root_dir: -vendor: -library: -taxonomy: -import_files -force",
    "ipx::save_core": "",
    "ipx::update_checksums": "",
    "package_xo": "-force -xo_path: -kernel_name: -ip_directory: -kernel_xml: -ctrl_protocol:",
    "print": "",
    "read_ip": "-quiet",
    "read_verilog": "-sv -library:",
    "read_xdc": "-ref: -unmanaged -quiet",
    "report_timing_summary": "-file: -quiet",
    "resize_pblock": "-add: -remove:",
    "set_clock_groups": "-asynchronous -group: -name:",
    "set_false_path": "-from: -to: -through: -setup -hold",
    "set_max_delay": "-from: -to: -datapath_only",
    "set_property": "-dict: -quiet",
    "synth_design": "-mode: -top: -part: -generic: -verilog_define: -keep_equivalent_registers -flatten_hierarchy:",
    "synth_ip": "-force -quiet",
    "update_compile_order": "-fileset:",
    "write_checkpoint": "-force",
}

_STUB = r"""
set ::log [open [lindex $argv 0] w]
fconfigure $::log -translation lf
proc ::stub {name options answer arguments} {
  puts -nonewline $::log [join [concat [list $name] $arguments] \x1f]\x1e
  set known {}
  foreach o $options { dict set known [string trimright $o :] [string match *: $o] }
  for {set i 0} {$i < [llength $arguments]} {incr i} {
    set word [lindex $arguments $i]
    if {[regexp {^-[a-z_]+$} $word]} {
      if {![dict exists $known $word]} { error "$name has no option $word" }
      if {[dict get $known $word]} {
        incr i
        if {$i >= [llength $arguments]} { error "$name $word: the value is missing" }
      }
    }
  }
  return $answer
}
"""


def run_tcl(
    script: Path,
    arguments: Sequence[str] = (),
    answers: Mapping[str, str] | None = None,
    variables: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> list[list[str]]:
    """The calls of stubs that a script makes, in order; the test fails with the script's error.

    `answers` are what commands return, `variables` what is set before.
    """
    tclsh = shutil.which("tclsh")
    if tclsh is None:
        pytest.skip("no tclsh: install tcl")
    stubs = [_STUB]
    for name in {n.rpartition("::")[0] for n in COMMANDS if "::" in n}:
        stubs.append(f"namespace eval {name} {{}}")
    for name, options in COMMANDS.items():
        answer = (answers or {}).get(name, f"<{name}>")
        stubs.append(f"proc {name} args {{ ::stub {{{name}}} {{{options}}} {{{answer}}} $args }}")
    stubs += [f"set {name} {{{value}}}" for name, value in (variables or {}).items()]
    with tempfile.TemporaryDirectory() as folder:
        log, driver = Path(folder) / "log", Path(folder) / "driver.tcl"
        given = " ".join(f"{{{a}}}" for a in arguments)
        stubs += [f"set argv [list {given}]", "set argc [llength $argv]", f"source {{{script}}}", "close $::log"]
        driver.write_text("\n".join(stubs) + "\n")
        done = subprocess.run([tclsh, driver, log], capture_output=True, text=True, check=False, cwd=cwd)
        assert not done.returncode, done.stderr
        return [call.split("\x1f") for call in log.read_text().split("\x1e") if call]
