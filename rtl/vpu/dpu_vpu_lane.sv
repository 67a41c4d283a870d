// One lane: conversion, two affine steps, the function, the second operation, requantisation, conversion.
// A step that the word does not have passes its value on; every word takes the same number of cycles.
// Stage numbers are those of dpu_vpu_pkg; valid_i[k] and control_i[k] belong to the registers of stage k.

module dpu_vpu_lane
  import dpu_fp_pkg::*;
  import dpu_isa_pkg::*;
  import dpu_vpu_pkg::*;
(
  input  logic                      clk_i,
  input  logic                      rst_ni,

  input  logic [StageOut-1:0]       valid_i,
  input  control_t                  control_i [Stages],
  input  gate_config_t [1:0]        gate_i,

  // operands in stage 0; factor 5 is the immediate of the second operation
  input  logic [31:0]               a_i,
  input  logic [31:0]               sub_i,
  input  logic [31:0]               b_i,
  input  logic [Factors:0][31:0]    factor_i,

  // positions of the second operand and r while the function is at work
  input  logic [WaitW-1:0]          wait_wr_i,
  input  logic [WaitW-1:0]          wait_rd_i,

  output logic                      table_valid_o,
  output logic [0:0]                table_slot_o,
  output logic [7:0]                table_index_o,
  input  gate_entry_t               table_entry_i,

  // RECIP and RSQRT are computed outside, from the argument
  output logic [31:0]               argument_o,
  input  logic [31:0]               narrow_i,

  output logic [31:0]               out_o,  // as stored, in the low bits
  output logic [31:0]               tap_o,  // before requantisation
  output logic                      odd_o  // float16 overflow, NaN to integer
);

  localparam logic [31:0] Offset = 32'hC300_0000;  // -128

  function automatic logic [31:0] convert(format_e format, logic signed [32:0] x);
    case (format)
      FormatI32: return i33_to_f32(x);
      FormatF16: return f16_to_f32(x[15:0]);
      default:   return ftz(x[31:0]);
    endcase
  endfunction

  // Stage 1: the integer difference. Stage 2: all in float32, operand B is chosen where it is a factor.
  logic signed [32:0]     a1_q;
  logic [31:0]            b1_q, elem;
  logic [Factors:0][31:0] f1_q;
  logic [31:0]            a1_2_q, b1_2_q, a2_2_q, b2_2_q, r_2_q, second_2_q;
  logic [31:0]            x2_q;

  assign elem = (valid_i[1] && (control_i[1].a2_elem || control_i[1].b2_elem || control_i[1].op2_elem)) ?
                convert(control_i[1].b_format, $signed({b1_q[31], b1_q})) : '0;

  always_ff @(posedge clk_i) begin
    if (valid_i[0]) begin
      a1_q <= $signed({a_i[31], a_i}) - (control_i[0].subtract ? $signed({sub_i[31], sub_i}) : 33'sd0);
      b1_q <= b_i;
      f1_q <= factor_i;
    end
    if (valid_i[1]) begin
      x2_q       <= convert(control_i[1].a_format, a1_q);
      a1_2_q     <= f1_q[FactorA1];
      b1_2_q     <= f1_q[FactorB1];
      a2_2_q     <= control_i[1].a2_elem ? elem : f1_q[FactorA2];
      b2_2_q     <= control_i[1].b2_elem ? elem : f1_q[FactorB2];
      r_2_q      <= f1_q[FactorR];
      second_2_q <= control_i[1].op2_elem ? elem : f1_q[Factors];
    end
  end

  // Stages 3 to 6: the affine steps, one operation each.
  logic [31:0] x3_q, x4_q, x5_q, x6_q;
  logic [31:0] b1_3_q, a2_3_q, a2_4_q, b2_3_q, b2_4_q, b2_5_q;

  always_ff @(posedge clk_i) begin
    if (valid_i[2]) begin
      x3_q   <= control_i[2].factor[FactorA1] ? fmul(x2_q, a1_2_q) : x2_q;
      b1_3_q <= b1_2_q;
      a2_3_q <= a2_2_q;
      b2_3_q <= b2_2_q;
    end
    if (valid_i[3]) begin
      x4_q   <= control_i[3].factor[FactorB1] ? fadd(x3_q, b1_3_q) : x3_q;
      a2_4_q <= a2_3_q;
      b2_4_q <= b2_3_q;
    end
    if (valid_i[4]) begin
      x5_q   <= control_i[4].factor[FactorA2] ? fmul(x4_q, a2_4_q) : x4_q;
      b2_5_q <= b2_4_q;
    end
    if (valid_i[5]) x6_q <= control_i[5].factor[FactorB2] ? fadd(x5_q, b2_5_q) : x5_q;
  end

  // What comes after the function waits in a small memory.
  logic [1:0][31:0] wait_mem [2**WaitW];

  always_ff @(posedge clk_i) begin
    if (valid_i[StageX] && (control_i[StageX].op2 != Op2None || control_i[StageX].factor[FactorR])) begin
      wait_mem[wait_wr_i] <= {r_2_q, second_2_q};
    end
  end

  // The function. It is also the way of values that have none.
  logic [31:0] function_y;
  logic        unused_valid;

  assign argument_o = x6_q;

  dpu_func u_func (
    .clk_i,
    .rst_ni,
    .valid_i (valid_i[StageArg]),
    .func_i  (control_i[StageArg].func),
    .slot_i  (control_i[StageArg].slot),
    .gate_i  (gate_i[control_i[StageArg].slot]),
    .x_i     (x6_q),
    .table_valid_o,
    .table_slot_o,
    .table_index_o,
    .table_entry_i,
    .valid_o (unused_valid),
    .y_o     (function_y)
  );

  // Second operation, requantisation (r, then the offset), conversion.
  logic [31:0] y_1_q, r_1_q, y_2_q, z_2_q, y_3_q, z_3_q, out_q, tap_q;
  logic        odd_q;

  function automatic logic [31:0] second(op2_e op2, logic [31:0] a, logic [31:0] b);
    case (op2)
      Op2Mul:         return fmul(a, b);
      Op2Add, Op2Max: return fmax_or_add(op2 == Op2Max, a, b);
      default:        return a;
    endcase
  endfunction

  function automatic logic [32:0] store(format_e format, logic [31:0] z);
    f16_result_t half;
    i8_result_t  byte_result;
    i15_result_t planes;
    logic [14:0] units;
    if (!(format inside {FormatF16, FormatI8, FormatI8Offset, FormatI15Split})) return {1'b0, z};
    units = round_units(z[30:0], format == FormatF16);  // one rounding for all of them
    case (format)
      FormatF16: begin
        half = f32_units_to_f16(z, units);
        return {half.overflow, 16'd0, half.half};
      end
      FormatI15Split: begin
        planes = f32_units_to_i15(z, units);
        return {planes.nan, 16'd0, planes.hi, planes.lo};
      end
      default: begin
        byte_result = f32_units_to_i8(z, units, format == FormatI8Offset);
        return {byte_result.nan, 24'd0, byte_result.q};
      end
    endcase
  endfunction

  always_ff @(posedge clk_i) begin
    if (valid_i[StageY] && !control_i[StageY].drop) begin
      y_1_q <= second(control_i[StageY].op2,
                      (control_i[StageY].func inside {FunctionRecip, FunctionRsqrt}) ? narrow_i : function_y,
                      wait_mem[wait_rd_i][0]);
      r_1_q <= wait_mem[wait_rd_i][1];
    end
    if (valid_i[StageY+1]) begin
      z_2_q <= control_i[StageY+1].factor[FactorR] ? fmul(y_1_q, r_1_q) : y_1_q;
      y_2_q <= y_1_q;
    end
    if (valid_i[StageY+2]) begin
      z_3_q <= (control_i[StageY+2].d_format == FormatI8Offset) ? fadd(z_2_q, Offset) : z_2_q;
      y_3_q <= y_2_q;
    end
    if (valid_i[StageY+3]) begin
      {odd_q, out_q} <= store(control_i[StageY+3].d_format, z_3_q);
      tap_q          <= y_3_q;
    end
  end

  assign out_o = out_q;
  assign tap_o = tap_q;
  assign odd_o = odd_q;

endmodule
