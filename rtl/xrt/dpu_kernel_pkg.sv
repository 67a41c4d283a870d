// What the kernel's commands and control registers mean.
// Generated from rtl/xrt/kernel.py by `python -m dpu.rtl.xrt.kernel`; do not edit.
// A command is 64 bits: value, operation, zeros, byte address of a register of dpu_top.

package dpu_kernel_pkg;

  // Waiver: a module uses some of these only.
  /* verilator lint_off UNUSEDPARAM */
  parameter int unsigned ControlBits = 12;
  parameter int unsigned CtrlAddr    = 0;
  parameter int unsigned GieAddr     = 4;
  parameter int unsigned IerAddr     = 8;
  parameter int unsigned IsrAddr     = 12;
  parameter int unsigned ArgAddr     = 16;
  parameter int unsigned Scalars     = 4;
  /* verilator lint_on UNUSEDPARAM */

  typedef enum logic [3:0] {
    OpEnd   = 4'd0,
    OpWrite = 4'd1,
    OpWait  = 4'd2,
    OpRead  = 4'd3
  } op_e;

  typedef struct packed {
    logic [31:0]                                   value;
    op_e                                           op;
    logic [27:$clog2(dpu_isa_pkg::RegSpaceBytes)]  zero;
    logic [$clog2(dpu_isa_pkg::RegSpaceBytes)-1:0] address;
  } command_t;

endpackage
