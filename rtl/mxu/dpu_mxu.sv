// Matrix engine: MM words, ACT x WGT into ACC, with row maxima into PARAM. One row of activations a cycle.
// check -> loader (weights, one tile ahead) -> streamer (rows) -> array -> drain (ACC) -> row maximum (PARAM).
// A word is in each of the first three, several are in the array; they finish in order.

module dpu_mxu
  import dpu_mxu_pkg::*;
#(
  parameter int unsigned Cols = 8,
  parameter int unsigned Lanes = 8,
  parameter int unsigned ActWords = 1024,
  parameter int unsigned WgtWords = 1024,
  parameter int unsigned AccWords = 1024,
  parameter int unsigned ParamWords = 1024,
  parameter bit          Packed = 1'b0,  // two columns on one multiplier
  localparam int unsigned ActAw = $clog2(ActWords),
  localparam int unsigned WgtAw = $clog2(WgtWords),
  localparam int unsigned AccAw = $clog2(AccWords),
  localparam int unsigned ParamAw = $clog2(ParamWords)
) (
  input  logic                clk_i,
  input  logic                rst_ni,
  input  logic                stop_i,

  input  logic                start_valid_i,
  output logic                start_ready_o,
  input  dpu_pkg::word_t      word_i,
  input  logic [31:0]         index_i,
  output logic                done_o,
  output logic                busy_o,
  output logic                stall_o,
  output dpu_pkg::fault_t     fault_o,

  output logic                act_rd_valid_o,
  output logic [ActAw-1:0]    act_rd_addr_o,
  input  logic [Cols*8-1:0]   act_rd_data_i,

  output logic                wgt_rd_valid_o,
  output logic [WgtAw-1:0]    wgt_rd_addr_o,
  input  logic [Cols*8-1:0]   wgt_rd_data_i,

  output logic                acc_rd_valid_o,
  output logic [AccAw-1:0]    acc_rd_addr_o,
  input  logic [Cols*32-1:0]  acc_rd_data_i,
  output logic                acc_wr_valid_o,
  output logic [AccAw-1:0]    acc_wr_addr_o,
  output logic [Cols*32-1:0]  acc_wr_data_o,

  output logic                param_rd_valid_o,
  output logic [ParamAw-1:0]  param_rd_addr_o,
  input  logic [Lanes*32-1:0] param_rd_data_i,
  output logic                param_wr_valid_o,
  output logic [ParamAw-1:0]  param_wr_addr_o,
  output logic [31:0]         param_wr_data_o
);

  logic check_held, loader_held, streamer_held, drain_held, rowmax_held, failed;
  logic job_valid, job_ready, next_valid, next_ready, tile_ready, tile_enter;
  job_t job, next;
  row_t row, sum_row;

  // Words.

  dpu_pkg::fault_t check_fault, weight_fault;
  logic            behind_held;

  assign behind_held = loader_held || streamer_held || drain_held || rowmax_held;

  dpu_mxu_check #(
    .Cols      (Cols),
    .ActWords  (ActWords),
    .WgtWords  (WgtWords),
    .AccWords  (AccWords),
    .ParamWords(ParamWords)
  ) u_check (
    .clk_i,
    .rst_ni,
    .stop_i,
    .start_valid_i,
    .start_ready_o,
    .word_i,
    .index_i,
    .job_valid_o(job_valid),
    .job_ready_i(job_ready),
    .job_o      (job),
    .idle_i     (!behind_held && !failed),
    .held_o     (check_held),
    .fault_o    (check_fault)
  );

  logic                shadow_valid, column_rd_valid, column_rd_ready, column_used;
  logic [$clog2(Cols)-1:0] shadow_row;
  logic [ParamAw-1:0]  column_rd_addr;
  logic [Cols*32-1:0]  column;

  dpu_mxu_loader #(
    .Cols      (Cols),
    .Lanes     (Lanes),
    .WgtWords  (WgtWords),
    .ParamWords(ParamWords)
  ) u_loader (
    .clk_i,
    .rst_ni,
    .job_valid_i     (job_valid),
    .job_ready_o     (job_ready),
    .job_i           (job),
    .next_valid_o    (next_valid),
    .next_ready_i    (next_ready),
    .next_o          (next),
    .tile_ready_o    (tile_ready),
    .tile_enter_i    (tile_enter),
    .wgt_rd_valid_o,
    .wgt_rd_addr_o,
    .wgt_rd_data_i,
    .shadow_valid_o  (shadow_valid),
    .shadow_row_o    (shadow_row),
    .param_rd_valid_o(column_rd_valid),
    .param_rd_ready_i(column_rd_ready),
    .param_rd_addr_o (column_rd_addr),
    .param_rd_data_i,
    .column_used_o   (column_used),
    .column_o        (column),
    .held_o          (loader_held),
    .failed_o        (failed),
    .fault_o         (weight_fault)
  );

  dpu_mxu_streamer #(
    .Cols    (Cols),
    .ActWords(ActWords)
  ) u_streamer (
    .clk_i,
    .rst_ni,
    .next_valid_i  (next_valid),
    .next_ready_o  (next_ready),
    .next_i        (next),
    .tile_ready_i  (tile_ready),
    .tile_enter_o  (tile_enter),
    .act_rd_valid_o,
    .act_rd_addr_o,
    .row_o         (row),
    .held_o        (streamer_held)
  );

  // Rows: ACT answers in the cycle after the address.

  logic act_valid_q, act_swap_q;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      act_valid_q <= 1'b0;
      act_swap_q  <= 1'b0;
    end else begin
      act_valid_q <= act_rd_valid_o;
      act_swap_q  <= tile_enter;
    end
  end

  typedef logic [Cols-1:0][7:0] bytes_t;
  typedef logic [Cols-1:0][31:0] sums_t;

  sums_t sum;

  dpu_mxu_array #(
    .Cols  (Cols),
    .Packed(Packed)
  ) u_array (
    .clk_i,
    .rst_ni,
    .shadow_valid_i(shadow_valid),
    .shadow_row_i  (shadow_row),
    .shadow_data_i (bytes_t'(wgt_rd_data_i)),
    .valid_i       (act_valid_q),
    .swap_i        (act_swap_q),
    .act_i         (bytes_t'(act_rd_data_i)),
    .column_used_i (column_used),
    .column_i      (sums_t'(column)),
    .sum_o         (sum)
  );

  dpu_mxu_drain #(
    .Cols    (Cols),
    .Packed  (Packed),
    .AccWords(AccWords)
  ) u_drain (
    .clk_i,
    .rst_ni,
    .valid_i(act_rd_valid_o),
    .row_i  (row),
    .sum_i  (sum),
    .acc_rd_valid_o,
    .acc_rd_addr_o,
    .acc_rd_data_i,
    .acc_wr_valid_o,
    .acc_wr_addr_o,
    .acc_wr_data_o,
    .row_o  (sum_row),
    .held_o (drain_held)
  );

  logic               max_rd_valid, last;
  logic [ParamAw-1:0] max_rd_addr;

  dpu_mxu_rowmax #(
    .Cols      (Cols),
    .ParamWords(ParamWords)
  ) u_rowmax (
    .clk_i,
    .rst_ni,
    .valid_i         (acc_wr_valid_o),
    .row_i           (sum_row),
    .sum_i           (acc_wr_data_o),
    .param_rd_valid_o(max_rd_valid),
    .param_rd_addr_o (max_rd_addr),
    .param_rd_data_i (param_rd_data_i[31:0]),
    .param_wr_valid_o,
    .param_wr_addr_o,
    .param_wr_data_o,
    .last_o          (last),
    .held_o          (rowmax_held)
  );

  // PARAM's read port: a row maximum cannot wait, a column vector can.

  assign param_rd_valid_o = max_rd_valid || column_rd_valid;
  assign param_rd_addr_o  = max_rd_valid ? max_rd_addr : column_rd_addr;
  assign column_rd_ready  = !max_rd_valid;

  // After a weight of -128 nothing is reported as done any more.

  assign done_o  = last && !failed;
  assign busy_o  = act_rd_valid_o;
  assign stall_o = !act_rd_valid_o && (check_held || behind_held) && !failed;
  assign fault_o = check_fault.valid ? check_fault : weight_fault;

endmodule
