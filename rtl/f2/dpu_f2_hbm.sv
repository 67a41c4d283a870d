// The HBM: AMD's IP on the card, a model elsewhere. `Ports` AXI3 ports of 256 bits, spread over the IP's 32.
// All ports reach all of memory. The IP is generated as `hbm_dpu`: two stacks, 16 GiB, 32 ports, no parity, no ECC scrub,
// APB monitor on, address map left as it is (the shell's errata). `ready_o` (in `clk_i`): both stacks have started up.

module dpu_f2_hbm #(
  parameter int unsigned Ports = 6
) (
  input  logic                             clk_i,
  input  logic                             rst_ni,
  input  logic                             clk_ref_i,  // 100 MHz
  input  logic                             rst_apb_ni,
  output logic                             ready_o,

  input  logic [Ports-1:0]               ar_valid_i,
  output logic [Ports-1:0]               ar_ready_o,
  input  dpu_f2_pkg::hbm_a_t [Ports-1:0] ar_i,
  output logic [Ports-1:0]               r_valid_o,
  input  logic [Ports-1:0]               r_ready_i,
  output dpu_f2_pkg::hbm_r_t [Ports-1:0] r_o,
  input  logic [Ports-1:0]               aw_valid_i,
  output logic [Ports-1:0]               aw_ready_o,
  input  dpu_f2_pkg::hbm_a_t [Ports-1:0] aw_i,
  input  logic [Ports-1:0]               w_valid_i,
  output logic [Ports-1:0]               w_ready_o,
  input  dpu_f2_pkg::hbm_w_t [Ports-1:0] w_i,
  output logic [Ports-1:0]               b_valid_o,
  input  logic [Ports-1:0]               b_ready_i,
  output logic [Ports-1:0][1:0]          b_o,

  // the shell's monitor of each stack's configuration bus
  input  logic [1:0]                       mon_preset_ni,
  output logic [1:0][21:0]                 mon_paddr_o,
  output logic [1:0]                       mon_psel_o,
  output logic [1:0]                       mon_penable_o,
  output logic [1:0]                       mon_pwrite_o,
  output logic [1:0][31:0]                 mon_pwdata_o,
  output logic [1:0]                       mon_pready_o,
  output logic [1:0][31:0]                 mon_prdata_o,
  output logic [1:0]                       mon_pslverr_o
);

  import dpu_f2_pkg::*;

`ifdef SYNTHESIS
  localparam int unsigned Step = HbmPorts / Ports;

  logic [HbmPorts-1:0]        ar_valid, ar_ready, r_valid, r_ready, aw_valid, aw_ready, w_valid, w_ready, b_valid, b_ready;
  hbm_a_t [HbmPorts-1:0]      ar, aw;
  hbm_w_t [HbmPorts-1:0]      w;
  logic [HbmPorts-1:0][255:0] r_data;
  logic [HbmPorts-1:0][1:0]   r_resp, b_resp;
  logic [HbmPorts-1:0]        r_last;
  logic [1:0]                 complete;

  for (genvar p = 0; p < HbmPorts; p++) begin : gen_port
    if (p % Step == 0 && p / Step < Ports) begin : gen_used
      localparam int unsigned C = p / Step;
      assign ar_valid[p]   = ar_valid_i[C];
      assign ar[p]         = ar_i[C];
      assign r_ready[p]    = r_ready_i[C];
      assign aw_valid[p]   = aw_valid_i[C];
      assign aw[p]         = aw_i[C];
      assign w_valid[p]    = w_valid_i[C];
      assign w[p]          = w_i[C];
      assign b_ready[p]    = b_ready_i[C];
      assign ar_ready_o[C] = ar_ready[p];
      assign r_valid_o[C]  = r_valid[p];
      assign r_o[C]        = '{data: r_data[p], resp: r_resp[p], last: r_last[p]};
      assign aw_ready_o[C] = aw_ready[p];
      assign w_ready_o[C]  = w_ready[p];
      assign b_valid_o[C]  = b_valid[p];
      assign b_o[C]        = b_resp[p];
    end else begin : gen_unused
      assign ar_valid[p] = 1'b0;
      assign ar[p]       = '0;
      assign r_ready[p]  = 1'b0;
      assign aw_valid[p] = 1'b0;
      assign aw[p]       = '0;
      assign w_valid[p]  = 1'b0;
      assign w[p]        = '0;
      assign b_ready[p]  = 1'b0;
    end
  end

  // One AXI ID: answers come in order.
  `define DPU_F2_HBM_PORT(NAME, P) \
    .AXI_``NAME``_ACLK(clk_i), .AXI_``NAME``_ARESET_N(rst_ni), \
    .AXI_``NAME``_ARADDR(ar[P].addr), .AXI_``NAME``_ARBURST(2'b01), .AXI_``NAME``_ARID(6'd0), \
    .AXI_``NAME``_ARLEN(ar[P].len), .AXI_``NAME``_ARSIZE(3'd5), .AXI_``NAME``_ARVALID(ar_valid[P]), \
    .AXI_``NAME``_ARREADY(ar_ready[P]), .AXI_``NAME``_RDATA(r_data[P]), .AXI_``NAME``_RDATA_PARITY(), \
    .AXI_``NAME``_RID(), .AXI_``NAME``_RLAST(r_last[P]), .AXI_``NAME``_RRESP(r_resp[P]), \
    .AXI_``NAME``_RVALID(r_valid[P]), .AXI_``NAME``_RREADY(r_ready[P]), \
    .AXI_``NAME``_AWADDR(aw[P].addr), .AXI_``NAME``_AWBURST(2'b01), .AXI_``NAME``_AWID(6'd0), \
    .AXI_``NAME``_AWLEN(aw[P].len), .AXI_``NAME``_AWSIZE(3'd5), .AXI_``NAME``_AWVALID(aw_valid[P]), \
    .AXI_``NAME``_AWREADY(aw_ready[P]), .AXI_``NAME``_WDATA(w[P].data), .AXI_``NAME``_WDATA_PARITY(32'd0), \
    .AXI_``NAME``_WLAST(w[P].last), .AXI_``NAME``_WSTRB(w[P].strb), .AXI_``NAME``_WVALID(w_valid[P]), \
    .AXI_``NAME``_WREADY(w_ready[P]), .AXI_``NAME``_BID(), .AXI_``NAME``_BRESP(b_resp[P]), \
    .AXI_``NAME``_BVALID(b_valid[P]), .AXI_``NAME``_BREADY(b_ready[P]),

  `define DPU_F2_HBM_STACK(S) \
    .HBM_REF_CLK_``S``(clk_ref_i), .MON_APB_``S``_PRESET_N(mon_preset_ni[S]), \
    .APB_``S``_PADDR_MON(mon_paddr_o[S]), .APB_``S``_PSEL_MON(mon_psel_o[S]), \
    .APB_``S``_PENABLE_MON(mon_penable_o[S]), .APB_``S``_PWRITE_MON(mon_pwrite_o[S]), \
    .APB_``S``_PWDATA_MON(mon_pwdata_o[S]), .APB_``S``_PREADY_MON(mon_pready_o[S]), \
    .APB_``S``_PRDATA_MON(mon_prdata_o[S]), .APB_``S``_PSLVERR_MON(mon_pslverr_o[S]), \
    .APB_``S``_PCLK(clk_ref_i), .APB_``S``_PRESET_N(rst_apb_ni), .APB_``S``_PADDR(22'd0), .APB_``S``_PSEL(1'b0), \
    .APB_``S``_PENABLE(1'b0), .APB_``S``_PWRITE(1'b0), .APB_``S``_PWDATA(32'd0), .APB_``S``_PRDATA(), \
    .APB_``S``_PREADY(), .APB_``S``_PSLVERR(), .DRAM_``S``_STAT_CATTRIP(), .DRAM_``S``_STAT_TEMP(),

  hbm_dpu u_hbm (
    `DPU_F2_HBM_PORT(00, 0)
    `DPU_F2_HBM_PORT(01, 1)
    `DPU_F2_HBM_PORT(02, 2)
    `DPU_F2_HBM_PORT(03, 3)
    `DPU_F2_HBM_PORT(04, 4)
    `DPU_F2_HBM_PORT(05, 5)
    `DPU_F2_HBM_PORT(06, 6)
    `DPU_F2_HBM_PORT(07, 7)
    `DPU_F2_HBM_PORT(08, 8)
    `DPU_F2_HBM_PORT(09, 9)
    `DPU_F2_HBM_PORT(10, 10)
    `DPU_F2_HBM_PORT(11, 11)
    `DPU_F2_HBM_PORT(12, 12)
    `DPU_F2_HBM_PORT(13, 13)
    `DPU_F2_HBM_PORT(14, 14)
    `DPU_F2_HBM_PORT(15, 15)
    `DPU_F2_HBM_PORT(16, 16)
    `DPU_F2_HBM_PORT(17, 17)
    `DPU_F2_HBM_PORT(18, 18)
    `DPU_F2_HBM_PORT(19, 19)
    `DPU_F2_HBM_PORT(20, 20)
    `DPU_F2_HBM_PORT(21, 21)
    `DPU_F2_HBM_PORT(22, 22)
    `DPU_F2_HBM_PORT(23, 23)
    `DPU_F2_HBM_PORT(24, 24)
    `DPU_F2_HBM_PORT(25, 25)
    `DPU_F2_HBM_PORT(26, 26)
    `DPU_F2_HBM_PORT(27, 27)
    `DPU_F2_HBM_PORT(28, 28)
    `DPU_F2_HBM_PORT(29, 29)
    `DPU_F2_HBM_PORT(30, 30)
    `DPU_F2_HBM_PORT(31, 31)
    `DPU_F2_HBM_STACK(0)
    `DPU_F2_HBM_STACK(1)
    .apb_complete_0(complete[0]),
    .apb_complete_1(complete[1])
  );

  `undef DPU_F2_HBM_PORT
  `undef DPU_F2_HBM_STACK

  assign ready_o = &complete;
`else
  logic [Ports-1:0] ready;

  for (genvar p = 0; p < Ports; p++) begin : gen_port
    dpu_f2_hbm_model #(
      .Port(p)
    ) u_model (
      .clk_i,
      .rst_ni,
      .ready_o   (ready[p]),
      .ar_valid_i(ar_valid_i[p]), .ar_ready_o(ar_ready_o[p]), .ar_i(ar_i[p]),
      .r_valid_o (r_valid_o[p]), .r_ready_i(r_ready_i[p]), .r_o(r_o[p]),
      .aw_valid_i(aw_valid_i[p]), .aw_ready_o(aw_ready_o[p]), .aw_i(aw_i[p]),
      .w_valid_i (w_valid_i[p]), .w_ready_o(w_ready_o[p]), .w_i(w_i[p]),
      .b_valid_o (b_valid_o[p]), .b_ready_i(b_ready_i[p]), .b_o(b_o[p])
    );
  end

  assign ready_o       = &ready;
  assign mon_paddr_o   = '0;
  assign mon_psel_o    = '0;
  assign mon_penable_o = '0;
  assign mon_pwrite_o  = '0;
  assign mon_pwdata_o  = '0;
  assign mon_pready_o  = '0;
  assign mon_prdata_o  = '0;
  assign mon_pslverr_o = '0;

  logic unused;
  assign unused = ^{clk_ref_i, rst_apb_ni, mon_preset_ni};
`endif

endmodule
