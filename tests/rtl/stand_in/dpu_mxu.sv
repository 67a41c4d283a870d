// Stands in for the matrix engine where only control is tested: a word takes a few cycles and does nothing.
// Its cycles are the word's tag, so that programs can make it slow.
// The rest of the ports is quiet.

module dpu_mxu #(
  parameter int unsigned Cols = 8, Lanes = 8, ActWords = 1024, WgtWords = 1024, AccWords = 1024, ParamWords = 1024,
  /* verilator lint_off UNUSEDPARAM */
  parameter bit Packed = 1'b0
  /* verilator lint_on UNUSEDPARAM */
) (
  input  logic clk_i, rst_ni, stop_i,
  input  logic start_valid_i, output logic start_ready_o, input dpu_pkg::word_t word_i, input logic [31:0] index_i,
  output logic done_o, busy_o, stall_o, output dpu_pkg::fault_t fault_o,
  output logic act_rd_valid_o, output logic [$clog2(ActWords)-1:0] act_rd_addr_o, input logic [Cols*8-1:0] act_rd_data_i,
  output logic wgt_rd_valid_o, output logic [$clog2(WgtWords)-1:0] wgt_rd_addr_o, input logic [Cols*8-1:0] wgt_rd_data_i,
  output logic acc_rd_valid_o, output logic [$clog2(AccWords)-1:0] acc_rd_addr_o, input logic [Cols*32-1:0] acc_rd_data_i,
  output logic acc_wr_valid_o, output logic [$clog2(AccWords)-1:0] acc_wr_addr_o, output logic [Cols*32-1:0] acc_wr_data_o,
  output logic param_rd_valid_o, output logic [$clog2(ParamWords)-1:0] param_rd_addr_o, input logic [Lanes*32-1:0] param_rd_data_i,
  output logic param_wr_valid_o, output logic [$clog2(ParamWords)-1:0] param_wr_addr_o, output logic [31:0] param_wr_data_o
);
  logic        busy_q;
  logic [15:0] left_q;
  dpu_isa_pkg::header_word_t word;

  assign word          = dpu_isa_pkg::header_word_t'(word_i);
  assign start_ready_o = ~busy_q;
  assign done_o        = busy_q & (left_q == '0) & ~stop_i;
  assign busy_o        = busy_q;
  assign stall_o       = 1'b0;
  assign fault_o       = '0;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      busy_q <= 1'b0;
      left_q <= '0;
    end else if (start_valid_i && start_ready_o) begin
      busy_q <= 1'b1;
      left_q <= word.tag;
    end else if (left_q != '0) begin
      left_q <= left_q - 16'd1;
    end else if (!stop_i) begin
      busy_q <= 1'b0;
    end
  end

  assign {act_rd_valid_o, act_rd_addr_o, wgt_rd_valid_o, wgt_rd_addr_o, acc_rd_valid_o, acc_rd_addr_o, acc_wr_valid_o, acc_wr_addr_o, acc_wr_data_o,
   param_rd_valid_o, param_rd_addr_o, param_wr_valid_o, param_wr_addr_o, param_wr_data_o} = '0;

  logic unused;
  assign unused = ^{word, index_i, act_rd_data_i, wgt_rd_data_i, acc_rd_data_i, param_rd_data_i};
endmodule
