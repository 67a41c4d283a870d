// 512 bits to 256 bits, in the HBM's clock: pieces of at most 8 beats become AXI3 bursts of at most 16.
// The lower half of a beat goes first. The two answers of a beat are joined, the worse response counts.
// W leaves through registers, since an HBM port is far away.

module dpu_f2_narrow (
  input  logic               clk_i,
  input  logic               rst_ni,

  // wide
  input  logic               ar_valid_i,
  output logic               ar_ready_o,
  input  dpu_f2_pkg::piece_t ar_i,
  output logic               r_valid_o,
  input  logic               r_ready_i,
  output dpu_f2_pkg::mem_r_t r_o,
  input  logic               aw_valid_i,
  output logic               aw_ready_o,
  input  dpu_f2_pkg::piece_t aw_i,
  input  logic               w_valid_i,
  output logic               w_ready_o,
  input  dpu_f2_pkg::mem_w_t w_i,
  output logic               b_valid_o,
  input  logic               b_ready_i,
  output logic [1:0]         b_o,

  // narrow
  output logic               ar_valid_o,
  input  logic               ar_ready_i,
  output dpu_f2_pkg::hbm_a_t ar_o,
  input  logic               r_valid_i,
  output logic               r_ready_o,
  input  dpu_f2_pkg::hbm_r_t r_i,
  output logic               aw_valid_o,
  input  logic               aw_ready_i,
  output dpu_f2_pkg::hbm_a_t aw_o,
  output logic               w_valid_o,
  input  logic               w_ready_i,
  output dpu_f2_pkg::hbm_w_t w_o,
  input  logic               b_valid_i,
  output logic               b_ready_o,
  input  logic [1:0]         b_i
);

  import dpu_f2_pkg::*;

  // Waiver: outputs that nobody here needs.
  /* verilator lint_off PINCONNECTEMPTY */

  assign ar_valid_o = ar_valid_i;
  assign ar_ready_o = ar_ready_i;
  assign ar_o       = '{addr: ar_i.addr, len: {ar_i.len, 1'b1}};
  assign aw_valid_o = aw_valid_i;
  assign aw_ready_o = aw_ready_i;
  assign aw_o       = '{addr: aw_i.addr, len: {aw_i.len, 1'b1}};
  assign b_valid_o  = b_valid_i;
  assign b_ready_o  = b_ready_i;
  assign b_o        = b_i;

  // Reads: the lower half waits for the upper one.

  logic         upper_q;
  logic [255:0] lower_q;
  logic [1:0]   resp_q;

  assign r_valid_o = r_valid_i & upper_q;
  assign r_ready_o = ~upper_q | r_ready_i;
  assign r_o       = '{data: {r_i.data, lower_q}, resp: (r_i.resp > resp_q) ? r_i.resp : resp_q, last: r_i.last};

  always_ff @(posedge clk_i) begin
    if (r_valid_i && !upper_q) begin
      lower_q <= r_i.data;
      resp_q  <= r_i.resp;
    end
  end

  // Writes.

  logic   w_upper_q, half_ready;
  hbm_w_t half;

  assign half = w_upper_q ? '{data: w_i.data[511:256], strb: w_i.strb[63:32], last: w_i.last} :
                            '{data: w_i.data[255:0], strb: w_i.strb[31:0], last: 1'b0};
  assign w_ready_o = half_ready & w_upper_q;

  dpu_fifo #(
    .Width($bits(hbm_w_t)),
    .Depth(2)
  ) u_w (
    .clk_i,
    .rst_ni,
    .clear_i   (1'b0),
    .wr_valid_i(w_valid_i),
    .wr_ready_o(half_ready),
    .wr_data_i (half),
    .rd_valid_o(w_valid_o),
    .rd_ready_i(w_ready_i),
    .rd_data_o (w_o),
    .count_o()
  );

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      upper_q   <= 1'b0;
      w_upper_q <= 1'b0;
    end else begin
      if (r_valid_i && r_ready_o) upper_q <= ~upper_q;
      if (w_valid_i && half_ready) w_upper_q <= ~w_upper_q;
    end
  end

  /* verilator lint_on PINCONNECTEMPTY */

endmodule
