// Stands in for the vector engine where only control is tested: a word takes a few cycles and does nothing.
// Its cycles are the word's tag; a word with the TRAP flag ends in a numeric fault.
// The rest of the ports is quiet.

module dpu_vpu #(
  parameter int unsigned Cols = 8, Lanes = 8, ActWords = 1024, AccWords = 1024, VbufWords = 1024, ParamWords = 1024
) (
  input  logic clk_i, rst_ni, stop_i,
  input  logic start_valid_i, output logic start_ready_o, input dpu_pkg::word_t word_i, input logic [31:0] index_i,
  output logic done_o, busy_o, stall_o, output dpu_pkg::fault_t fault_o,
  output logic acc_rd_valid_o, output logic [$clog2(AccWords)-1:0] acc_rd_addr_o, input logic acc_rd_ready_i, input logic [Cols*32-1:0] acc_rd_data_i,
  output logic vbuf_rd_valid_o, output logic [$clog2(VbufWords)-1:0] vbuf_rd_addr_o, input logic [Cols*16-1:0] vbuf_rd_data_i,
  output logic vbuf_wr_valid_o, output logic [$clog2(VbufWords)-1:0] vbuf_wr_addr_o, output logic [Cols*16-1:0] vbuf_wr_data_o,
  output logic act_wr_valid_o, output logic [$clog2(ActWords)-1:0] act_wr_addr_o, output logic [Cols*8-1:0] act_wr_data_o,
  output logic param_rd_valid_o, output logic [$clog2(ParamWords)-1:0] param_rd_addr_o, input logic [Lanes*32-1:0] param_rd_data_i,
  output logic red_rd_valid_o, output logic [$clog2(ParamWords)-1:0] red_rd_addr_o, input logic [Lanes*32-1:0] red_rd_data_i,
  output logic param_wr_valid_o, output logic [$clog2(ParamWords)-1:0] param_wr_addr_o, output logic [$clog2(Lanes+1)-1:0] param_wr_count_o, output logic [Lanes*32-1:0] param_wr_data_o, input logic param_wr_ready_i,
  input logic table_wr_valid_i, input logic [0:0] table_wr_slot_i, input logic table_wr_header_i, input logic [7:0] table_wr_index_i, input logic [127:0] table_wr_data_i,
  output logic [31:0] overflows_o, nans_o
);
  logic        busy_q;
  logic [15:0] left_q;
  logic        trap_q;
  logic [31:0] index_q;
  dpu_isa_pkg::header_word_t word;

  assign word          = dpu_isa_pkg::header_word_t'(word_i);
  assign start_ready_o = ~busy_q;
  assign done_o        = busy_q & (left_q == '0) & ~stop_i;
  assign busy_o        = busy_q;
  assign stall_o       = 1'b0;
  assign fault_o       = '{valid: done_o & trap_q, code: dpu_isa_pkg::ErrorNumeric, index: index_q, address: '0};

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      busy_q <= 1'b0;
      left_q <= '0;
      trap_q <= 1'b0;
      index_q <= '0;
    end else if (start_valid_i && start_ready_o) begin
      busy_q <= 1'b1;
      left_q <= word.tag;
      trap_q <= (word.flags & dpu_isa_pkg::FlagTrap) != '0;
      index_q <= index_i;
    end else if (left_q != '0) begin
      left_q <= left_q - 16'd1;
    end else if (!stop_i) begin
      busy_q <= 1'b0;
    end
  end

  assign {acc_rd_valid_o, acc_rd_addr_o, vbuf_rd_valid_o, vbuf_rd_addr_o, vbuf_wr_valid_o, vbuf_wr_addr_o, vbuf_wr_data_o, act_wr_valid_o, act_wr_addr_o, act_wr_data_o,
    param_rd_valid_o, param_rd_addr_o, red_rd_valid_o, red_rd_addr_o, param_wr_valid_o, param_wr_addr_o, param_wr_count_o, param_wr_data_o, overflows_o, nans_o} = '0;

  logic unused;
  assign unused = ^{word, index_i, acc_rd_ready_i, acc_rd_data_i, vbuf_rd_data_i, param_rd_data_i, red_rd_data_i, param_wr_ready_i, table_wr_valid_i, table_wr_slot_i, table_wr_header_i, table_wr_index_i, table_wr_data_i};
endmodule
