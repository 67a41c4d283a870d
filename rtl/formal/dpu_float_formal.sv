// The functions of dpu_fp_pkg side by side, each an output of its own, for the comparison with IEEE 754 in floats.py.
// Combinational: `a_i` and `b_i` are any bits. NaN and overflow flags are the top bits of their output.
// A bug is seeded into a copy of the package.

module dpu_float_formal (
  input  logic [31:0] a_i,
  input  logic [31:0] b_i,
  output logic [31:0] fadd_o,
  output logic [31:0] fmul_o,
  output logic [31:0] fmax_o,
  output logic [31:0] fmax_or_add_0_o,
  output logic [31:0] fmax_or_add_1_o,
  output logic [31:0] fadd_positive_o,
  output logic [31:0] ftz_o,
  output logic [31:0] i32_to_f32_o,
  output logic [31:0] i33_to_f32_o,  // of {b_i[0], a_i}
  output logic [31:0] f16_to_f32_o,
  output logic [16:0] f32_to_f16_o,
  output logic [8:0]  f32_to_i8_o,
  output logic [8:0]  f32_to_i8_offset_o,
  output logic [16:0] f32_to_i15_o
);

  import dpu_fp_pkg::*;

  assign fadd_o             = fadd(a_i, b_i);
  assign fmul_o             = fmul(a_i, b_i);
  assign fmax_o             = fmax(a_i, b_i);
  assign fmax_or_add_0_o    = fmax_or_add(1'b0, a_i, b_i);
  assign fmax_or_add_1_o    = fmax_or_add(1'b1, a_i, b_i);
  assign fadd_positive_o    = fadd_positive(a_i, b_i);
  assign ftz_o              = ftz(a_i);
  assign i32_to_f32_o       = i32_to_f32($signed(a_i));
  assign i33_to_f32_o       = i33_to_f32($signed({b_i[0], a_i}));
  assign f16_to_f32_o       = f16_to_f32(a_i[15:0]);
  assign f32_to_f16_o       = f32_to_f16(a_i);
  assign f32_to_i8_o        = f32_to_i8(a_i);
  assign f32_to_i8_offset_o = f32_to_i8_offset(a_i);
  assign f32_to_i15_o       = f32_to_i15(a_i);

endmodule
