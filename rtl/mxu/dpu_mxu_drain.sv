// Behind the array: adds what ACC holds to the sums of a row and writes ACC, a row a cycle.
// The record of a row waits here while the row is in the array; its ACC word is read one cycle before its sums come.
// The same row may come back after three cycles. dpu_mxu_rowmax follows.

module dpu_mxu_drain
  import dpu_mxu_pkg::*;
#(
  parameter int unsigned Cols = 8,
  parameter bit          Packed = 1'b0,
  parameter int unsigned AccWords = 1024,
  localparam int unsigned AccAw = $clog2(AccWords)
) (
  input  logic               clk_i,
  input  logic               rst_ni,

  input  logic               valid_i,   // the row is addressed in ACT
  input  row_t               row_i,
  input  logic [Cols-1:0][31:0] sum_i,

  output logic               acc_rd_valid_o,
  output logic [AccAw-1:0]   acc_rd_addr_o,
  input  logic [Cols*32-1:0] acc_rd_data_i,
  output logic               acc_wr_valid_o,
  output logic [AccAw-1:0]   acc_wr_addr_o,
  output logic [Cols*32-1:0] acc_wr_data_o,

  // with acc_wr_*
  output row_t               row_o,

  output logic               held_o
);

  localparam int unsigned Delay = array_latency(Cols, Packed);  // from the ACT address to the ACC address

  typedef row_t [Delay:0] rows_t;

  logic [Delay-1:0] valid_q;
  row_t [Delay-1:0] row_q;
  rows_t            row;
  logic             sum_valid_q, wr_valid_q;
  row_t             sum_row_q, wr_row_q;

  assign held_o = valid_q != '0 || sum_valid_q || wr_valid_q;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      valid_q     <= '0;
      sum_valid_q <= 1'b0;
      wr_valid_q  <= 1'b0;
    end else begin
      valid_q     <= {valid_q[Delay-2:0], valid_i};
      sum_valid_q <= valid_q[Delay-1];
      wr_valid_q  <= sum_valid_q;
    end
  end

  assign row = rows_t'({row_q, row_i});

  always_ff @(posedge clk_i) begin
    if (valid_i || valid_q != '0) row_q <= row[Delay-1:0];
  end

  assign acc_rd_valid_o = valid_q[Delay-1] && row[Delay].add;
  assign acc_rd_addr_o  = row[Delay].acc[AccAw-1:0];

  always_ff @(posedge clk_i) begin
    if (valid_q[Delay-1]) sum_row_q <= row[Delay];
    if (sum_valid_q) begin
      wr_row_q <= sum_row_q;
      for (int unsigned c = 0; c < Cols; c++) begin
        acc_wr_data_o[c*32+:32] <= sum_i[c] + (sum_row_q.add ? acc_rd_data_i[c*32+:32] : '0);
      end
    end
  end

  assign acc_wr_valid_o = wr_valid_q;
  assign acc_wr_addr_o  = wr_row_q.acc[AccAw-1:0];
  assign row_o          = wr_row_q;

`ifndef SYNTHESIS
  // Waiver: the assertion samples the asynchronous reset on purpose.
  /* verilator lint_off SYNCASYNCNET */
  SumIsWritten: assert property (@(posedge clk_i) disable iff (!rst_ni)
    acc_rd_valid_o |-> !(sum_valid_q && sum_row_q.acc == row[Delay].acc) &&
                       !(wr_valid_q && wr_row_q.acc == row[Delay].acc));
  /* verilator lint_on SYNCASYNCNET */
`endif

endmodule
