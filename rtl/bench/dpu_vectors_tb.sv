// Every function of dpu_fp_pkg behind one set of ports, and the pipelined function units behind another.
// op_i picks the function that y_o shows, without a clock; only that one is evaluated.
// The units run on clk_i, with a table RAM of two slots as LOAD writes it.

module dpu_vectors_tb
  import dpu_fp_pkg::*;
  import dpu_isa_pkg::*;
(
  // functions
  input  logic [3:0]   op_i,
  input  logic [31:0]  a_i,
  input  logic [31:0]  b_i,
  input  logic         sign_i,  // bit 32 of a 33-bit integer
  output logic [31:0]  y_o,

  // units
  input  logic         clk_i,
  input  logic         rst_ni,
  input  logic         table_wr_valid_i,
  input  logic [0:0]   table_wr_slot_i,
  input  logic         table_wr_header_i,
  input  logic [7:0]   table_wr_index_i,
  input  logic [127:0] table_wr_data_i,
  input  logic         func_valid_i,
  input  logic [3:0]   func_i,
  input  logic [0:0]   slot_i,
  input  logic         recip_valid_i,
  input  logic         rsqrt_i,
  input  logic [31:0]  x_i,
  output logic [7:0]   latency_o,
  output logic         func_valid_o,
  output logic [31:0]  func_y_o,
  output logic         recip_valid_o,
  output logic [31:0]  recip_y_o
);

  always_comb begin
    unique case (op_i)
      4'd0:    y_o = ftz(a_i);
      4'd1:    y_o = fadd(a_i, b_i);
      4'd2:    y_o = fmul(a_i, b_i);
      4'd3:    y_o = fmax(a_i, b_i);
      4'd4:    y_o = i32_to_f32(a_i);
      4'd5:    y_o = i33_to_f32({sign_i, a_i});
      4'd6:    y_o = f16_to_f32(a_i[15:0]);
      4'd7:    y_o = 32'(f32_to_f16(a_i));
      4'd8:    y_o = 32'(f32_to_i8(a_i));
      4'd9:    y_o = 32'(f32_to_i8_offset(a_i));
      4'd10:   y_o = 32'(f32_to_i15(a_i));
      4'd11:   y_o = fmul_split(a_i, b_i);
      4'd12:   y_o = fmax_or_add(sign_i, a_i, b_i);
      4'd13:   y_o = fadd_positive(a_i, b_i);
      default: y_o = '0;
    endcase
  end

  gate_entry_t  table_q [512];
  gate_config_t [1:0] config_q;
  gate_entry_t  entry_q;
  logic         table_valid;
  logic [0:0]   table_slot;
  logic [7:0]   table_index;

  always_ff @(posedge clk_i) begin
    if (table_wr_valid_i) begin
      if (table_wr_header_i) config_q[table_wr_slot_i] <= gate_config(table_wr_data_i);
      else table_q[{table_wr_slot_i, table_wr_index_i}] <= gate_entry(table_wr_data_i);
    end
    if (table_valid) entry_q <= table_q[{table_slot, table_index}];
  end

  dpu_func u_func (
    .clk_i,
    .rst_ni,
    .valid_i      (func_valid_i),
    .func_i       (function_e'(func_i)),
    .slot_i,
    .gate_i       (config_q[slot_i]),
    .x_i,
    .table_valid_o(table_valid),
    .table_slot_o (table_slot),
    .table_index_o(table_index),
    .table_entry_i(entry_q),
    .valid_o      (func_valid_o),
    .y_o          (func_y_o)
  );

  dpu_recip u_recip (
    .clk_i,
    .rst_ni,
    .valid_i(recip_valid_i),
    .rsqrt_i,
    .x_i,
    .valid_o(recip_valid_o),
    .y_o    (recip_y_o)
  );

  assign latency_o = 8'(FuncLatency);

endmodule
