// Device memory for `Clients` masters: 512 bits of AXI4 each, behind which each has `Ways` AXI3 ports of the HBM of its own.
// Any port reaches all of HBM through its switch, so there is no crossbar here. Port w of client c is number c Ways + w.
// `hold_i`, `drain_i`, `idle_o`: of each client, as `dpu_f2_split` has them.

module dpu_f2_memory #(
  parameter int unsigned Clients     = 3,
  parameter int unsigned Ways        = 2,
  parameter logic [63:0] MemoryBytes = 64'h4_0000_0000,
  localparam int unsigned Ports = Clients * Ways
) (
  input  logic                             clk_i,
  input  logic                             rst_ni,
  input  logic                             hbm_clk_i,
  input  logic                             hbm_rst_ni,

  input  logic [Clients-1:0]               hold_i,
  input  logic [Clients-1:0]               drain_i,
  output logic [Clients-1:0]               idle_o,

  // clients, in clk_i
  input  logic [Clients-1:0]               ar_valid_i,
  output logic [Clients-1:0]               ar_ready_o,
  input  logic [Clients-1:0][0:0]          ar_id_i,
  input  dpu_f2_pkg::mem_a_t [Clients-1:0] ar_i,
  output logic [Clients-1:0]               r_valid_o,
  input  logic [Clients-1:0]               r_ready_i,
  output logic [Clients-1:0][0:0]          r_id_o,
  output dpu_f2_pkg::mem_r_t [Clients-1:0] r_o,
  input  logic [Clients-1:0]               aw_valid_i,
  output logic [Clients-1:0]               aw_ready_o,
  input  dpu_f2_pkg::mem_a_t [Clients-1:0] aw_i,
  input  logic [Clients-1:0]               w_valid_i,
  output logic [Clients-1:0]               w_ready_o,
  input  dpu_f2_pkg::mem_w_t [Clients-1:0] w_i,
  output logic [Clients-1:0]               b_valid_o,
  input  logic [Clients-1:0]               b_ready_i,
  output logic [Clients-1:0][1:0]          b_o,

  // ports of the HBM, in hbm_clk_i
  output logic [Ports-1:0]               ar_valid_o,
  input  logic [Ports-1:0]               ar_ready_i,
  output dpu_f2_pkg::hbm_a_t [Ports-1:0] ar_o,
  input  logic [Ports-1:0]               r_valid_i,
  output logic [Ports-1:0]               r_ready_o,
  input  dpu_f2_pkg::hbm_r_t [Ports-1:0] r_i,
  output logic [Ports-1:0]               aw_valid_o,
  input  logic [Ports-1:0]               aw_ready_i,
  output dpu_f2_pkg::hbm_a_t [Ports-1:0] aw_o,
  output logic [Ports-1:0]               w_valid_o,
  input  logic [Ports-1:0]               w_ready_i,
  output dpu_f2_pkg::hbm_w_t [Ports-1:0] w_o,
  input  logic [Ports-1:0]               b_valid_i,
  output logic [Ports-1:0]               b_ready_o,
  input  logic [Ports-1:0][1:0]          b_i
);

  import dpu_f2_pkg::*;

  // Waiver: outputs that nobody here needs.
  /* verilator lint_off PINCONNECTEMPTY */

  for (genvar c = 0; c < Clients; c++) begin : gen_client
    // Pieces, in the shell's clock.
    logic [Ways-1:0]      s_ar_valid, s_ar_ready, s_r_valid, s_r_ready, s_aw_valid, s_aw_ready;
    logic [Ways-1:0]      s_w_valid, s_w_ready, s_b_valid, s_b_ready;
    piece_t               s_ar, s_aw;
    mem_w_t               s_w;
    mem_r_t [Ways-1:0]    s_r;
    logic [Ways-1:0][1:0] s_b;

    dpu_f2_split #(
      .IdW        (1),
      .Ways       (Ways),
      .MemoryBytes(MemoryBytes)
    ) u_split (
      .clk_i,
      .rst_ni,
      .hold_i    (hold_i[c]),
      .drain_i   (drain_i[c]),
      .idle_o    (idle_o[c]),
      .ar_valid_i(ar_valid_i[c]), .ar_ready_o(ar_ready_o[c]), .ar_id_i(ar_id_i[c]), .ar_i(ar_i[c]),
      .r_valid_o (r_valid_o[c]), .r_ready_i(r_ready_i[c]), .r_id_o(r_id_o[c]), .r_o(r_o[c]),
      .aw_valid_i(aw_valid_i[c]), .aw_ready_o(aw_ready_o[c]), .aw_id_i(1'b0), .aw_i(aw_i[c]),
      .w_valid_i (w_valid_i[c]), .w_ready_o(w_ready_o[c]), .w_i(w_i[c]),
      .b_valid_o (b_valid_o[c]), .b_ready_i(b_ready_i[c]), .b_id_o(), .b_o(b_o[c]),
      .ar_valid_o(s_ar_valid), .ar_ready_i(s_ar_ready), .ar_o(s_ar),
      .r_valid_i (s_r_valid), .r_ready_o(s_r_ready), .r_i(s_r),
      .aw_valid_o(s_aw_valid), .aw_ready_i(s_aw_ready), .aw_o(s_aw),
      .w_valid_o (s_w_valid), .w_ready_i(s_w_ready), .w_o(s_w),
      .b_valid_i (s_b_valid), .b_ready_o(s_b_ready), .b_i(s_b)
    );

    for (genvar w = 0; w < Ways; w++) begin : gen_way
      localparam int unsigned P = c * Ways + w;

      // The same in the HBM's clock.
      logic       h_ar_valid, h_ar_ready, h_r_valid, h_r_ready, h_aw_valid, h_aw_ready;
      logic       h_w_valid, h_w_ready, h_b_valid, h_b_ready;
      piece_t     h_ar, h_aw;
      mem_w_t     h_w;
      mem_r_t     h_r;
      logic [1:0] h_b;

      dpu_f2_cross u_cross (
        .clk_i,
        .rst_ni,
        .hbm_clk_i,
        .hbm_rst_ni,
        .ar_valid_i(s_ar_valid[w]), .ar_ready_o(s_ar_ready[w]), .ar_i(s_ar),
        .r_valid_o (s_r_valid[w]), .r_ready_i(s_r_ready[w]), .r_o(s_r[w]),
        .aw_valid_i(s_aw_valid[w]), .aw_ready_o(s_aw_ready[w]), .aw_i(s_aw),
        .w_valid_i (s_w_valid[w]), .w_ready_o(s_w_ready[w]), .w_i(s_w),
        .b_valid_o (s_b_valid[w]), .b_ready_i(s_b_ready[w]), .b_o(s_b[w]),
        .ar_valid_o(h_ar_valid), .ar_ready_i(h_ar_ready), .ar_o(h_ar),
        .r_valid_i (h_r_valid), .r_ready_o(h_r_ready), .r_i(h_r),
        .aw_valid_o(h_aw_valid), .aw_ready_i(h_aw_ready), .aw_o(h_aw),
        .w_valid_o (h_w_valid), .w_ready_i(h_w_ready), .w_o(h_w),
        .b_valid_i (h_b_valid), .b_ready_o(h_b_ready), .b_i(h_b)
      );

      dpu_f2_narrow u_narrow (
        .clk_i     (hbm_clk_i),
        .rst_ni    (hbm_rst_ni),
        .ar_valid_i(h_ar_valid), .ar_ready_o(h_ar_ready), .ar_i(h_ar),
        .r_valid_o (h_r_valid), .r_ready_i(h_r_ready), .r_o(h_r),
        .aw_valid_i(h_aw_valid), .aw_ready_o(h_aw_ready), .aw_i(h_aw),
        .w_valid_i (h_w_valid), .w_ready_o(h_w_ready), .w_i(h_w),
        .b_valid_o (h_b_valid), .b_ready_i(h_b_ready), .b_o(h_b),
        .ar_valid_o(ar_valid_o[P]), .ar_ready_i(ar_ready_i[P]), .ar_o(ar_o[P]),
        .r_valid_i (r_valid_i[P]), .r_ready_o(r_ready_o[P]), .r_i(r_i[P]),
        .aw_valid_o(aw_valid_o[P]), .aw_ready_i(aw_ready_i[P]), .aw_o(aw_o[P]),
        .w_valid_o (w_valid_o[P]), .w_ready_i(w_ready_i[P]), .w_o(w_o[P]),
        .b_valid_i (b_valid_i[P]), .b_ready_o(b_ready_o[P]), .b_i(b_i[P])
      );
    end
  end

  /* verilator lint_on PINCONNECTEMPTY */

endmodule
