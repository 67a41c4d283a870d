// One memory port from the shell's clock to the HBM's: a buffer between clocks for each channel.
// Deep enough that neither side waits for the pointers of the other.

module dpu_f2_cross (
  input  logic               clk_i,
  input  logic               rst_ni,
  input  logic               hbm_clk_i,
  input  logic               hbm_rst_ni,

  // in clk_i
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

  // in hbm_clk_i
  output logic               ar_valid_o,
  input  logic               ar_ready_i,
  output dpu_f2_pkg::piece_t ar_o,
  input  logic               r_valid_i,
  output logic               r_ready_o,
  input  dpu_f2_pkg::mem_r_t r_i,
  output logic               aw_valid_o,
  input  logic               aw_ready_i,
  output dpu_f2_pkg::piece_t aw_o,
  output logic               w_valid_o,
  input  logic               w_ready_i,
  output dpu_f2_pkg::mem_w_t w_o,
  input  logic               b_valid_i,
  output logic               b_ready_o,
  input  logic [1:0]         b_i
);

  import dpu_f2_pkg::*;

  dpu_f2_async_fifo #(
    .Width($bits(piece_t)),
    .Depth(16)
  ) u_ar (
    .wr_clk_i(clk_i), .wr_rst_ni(rst_ni), .wr_valid_i(ar_valid_i), .wr_ready_o(ar_ready_o), .wr_data_i(ar_i),
    .rd_clk_i(hbm_clk_i), .rd_rst_ni(hbm_rst_ni), .rd_valid_o(ar_valid_o), .rd_ready_i(ar_ready_i), .rd_data_o(ar_o)
  );

  dpu_f2_async_fifo #(
    .Width($bits(piece_t)),
    .Depth(16)
  ) u_aw (
    .wr_clk_i(clk_i), .wr_rst_ni(rst_ni), .wr_valid_i(aw_valid_i), .wr_ready_o(aw_ready_o), .wr_data_i(aw_i),
    .rd_clk_i(hbm_clk_i), .rd_rst_ni(hbm_rst_ni), .rd_valid_o(aw_valid_o), .rd_ready_i(aw_ready_i), .rd_data_o(aw_o)
  );

  dpu_f2_async_fifo #(
    .Width($bits(mem_w_t)),
    .Depth(32)
  ) u_w (
    .wr_clk_i(clk_i), .wr_rst_ni(rst_ni), .wr_valid_i(w_valid_i), .wr_ready_o(w_ready_o), .wr_data_i(w_i),
    .rd_clk_i(hbm_clk_i), .rd_rst_ni(hbm_rst_ni), .rd_valid_o(w_valid_o), .rd_ready_i(w_ready_i), .rd_data_o(w_o)
  );

  dpu_f2_async_fifo #(
    .Width($bits(mem_r_t)),
    .Depth(32)
  ) u_r (
    .wr_clk_i(hbm_clk_i), .wr_rst_ni(hbm_rst_ni), .wr_valid_i(r_valid_i), .wr_ready_o(r_ready_o), .wr_data_i(r_i),
    .rd_clk_i(clk_i), .rd_rst_ni(rst_ni), .rd_valid_o(r_valid_o), .rd_ready_i(r_ready_i), .rd_data_o(r_o)
  );

  dpu_f2_async_fifo #(
    .Width(2),
    .Depth(16)
  ) u_b (
    .wr_clk_i(hbm_clk_i), .wr_rst_ni(hbm_rst_ni), .wr_valid_i(b_valid_i), .wr_ready_o(b_ready_o), .wr_data_i(b_i),
    .rd_clk_i(clk_i), .rd_rst_ni(rst_ni), .rd_valid_o(b_valid_o), .rd_ready_i(b_ready_i), .rd_data_o(b_o)
  );

endmodule
