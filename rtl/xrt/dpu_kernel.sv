// The DPU as a kernel of Xilinx's runtime: ap_ctrl_hs registers, commands from memory, dpu_top.
// Memory ports 0 to Tiles - 1 are those of the tiles; the last one fetches commands and writes the report.
// rtl/xrt/kernel.py has the contract; the top that is packaged (`packaging.top`) gives each port its own name.

module dpu_kernel #(
  parameter int unsigned Tiles         = 1,
  parameter int unsigned Cols          = 8,
  parameter int unsigned Lanes         = 8,
  parameter bit          Packed        = 1'b0,
  parameter int unsigned ActWords      = 8192,
  parameter int unsigned WgtWords      = 4096,
  parameter int unsigned AccWords      = 2048,
  parameter int unsigned VbufWords     = 4096,
  parameter int unsigned ParamWords    = 16384,
  parameter int unsigned ActBanks      = 2,
  parameter int unsigned WgtBanks      = 2,
  parameter int unsigned AccBanks      = 4,
  parameter int unsigned VbufBanks     = 2,
  parameter int unsigned LoadQueue     = 16,
  parameter int unsigned MxuQueue      = 8,
  parameter int unsigned VpuQueue      = 8,
  parameter int unsigned StoreQueue    = 8,
  parameter logic [63:0] ArchDigest    = '0,
  parameter int unsigned RemoteLatency = 40,
  parameter int unsigned Watchdog      = 1 << 20,
  localparam int unsigned Ports = Tiles + 1
) (
  input  logic                                   clk_i,
  input  logic                                   rst_ni,

  // AXI4-Lite, control registers
  input  logic                                   s_axil_awvalid_i,
  output logic                                   s_axil_awready_o,
  input  logic [dpu_kernel_pkg::ControlBits-1:0] s_axil_awaddr_i,
  input  logic                                   s_axil_wvalid_i,
  output logic                                   s_axil_wready_o,
  input  logic [31:0]                            s_axil_wdata_i,
  input  logic [3:0]                             s_axil_wstrb_i,
  output logic                                   s_axil_bvalid_o,
  input  logic                                   s_axil_bready_i,
  output logic [1:0]                             s_axil_bresp_o,
  input  logic                                   s_axil_arvalid_i,
  output logic                                   s_axil_arready_o,
  input  logic [dpu_kernel_pkg::ControlBits-1:0] s_axil_araddr_i,
  output logic                                   s_axil_rvalid_o,
  input  logic                                   s_axil_rready_i,
  output logic [31:0]                            s_axil_rdata_o,
  output logic [1:0]                             s_axil_rresp_o,

  // AXI4, one port a tile and one for commands
  output logic [Ports-1:0]                       m_axi_arvalid_o,
  input  logic [Ports-1:0]                       m_axi_arready_i,
  output logic [Ports-1:0][0:0]                  m_axi_arid_o,
  output logic [Ports-1:0][63:0]                 m_axi_araddr_o,
  output logic [Ports-1:0][7:0]                  m_axi_arlen_o,
  output logic [Ports-1:0][2:0]                  m_axi_arsize_o,
  output logic [Ports-1:0][1:0]                  m_axi_arburst_o,
  input  logic [Ports-1:0]                       m_axi_rvalid_i,
  output logic [Ports-1:0]                       m_axi_rready_o,
  input  logic [Ports-1:0][0:0]                  m_axi_rid_i,
  input  logic [Ports-1:0][511:0]                m_axi_rdata_i,
  input  logic [Ports-1:0][1:0]                  m_axi_rresp_i,
  input  logic [Ports-1:0]                       m_axi_rlast_i,
  output logic [Ports-1:0]                       m_axi_awvalid_o,
  input  logic [Ports-1:0]                       m_axi_awready_i,
  output logic [Ports-1:0][0:0]                  m_axi_awid_o,
  output logic [Ports-1:0][63:0]                 m_axi_awaddr_o,
  output logic [Ports-1:0][7:0]                  m_axi_awlen_o,
  output logic [Ports-1:0][2:0]                  m_axi_awsize_o,
  output logic [Ports-1:0][1:0]                  m_axi_awburst_o,
  output logic [Ports-1:0]                       m_axi_wvalid_o,
  input  logic [Ports-1:0]                       m_axi_wready_i,
  output logic [Ports-1:0][511:0]                m_axi_wdata_o,
  output logic [Ports-1:0][63:0]                 m_axi_wstrb_o,
  output logic [Ports-1:0]                       m_axi_wlast_o,
  input  logic [Ports-1:0]                       m_axi_bvalid_i,
  output logic [Ports-1:0]                       m_axi_bready_o,
  input  logic [Ports-1:0][0:0]                  m_axi_bid_i,
  input  logic [Ports-1:0][1:0]                  m_axi_bresp_i,

  output logic                                   irq_o,

  // as of dpu_top; left open in a product
  output dpu_pkg::event_t [Tiles-1:0][3:0]       events_o
);

  localparam int unsigned RegAddrW = $clog2(dpu_isa_pkg::RegSpaceBytes);

  logic                start, done;
  dpu_pkg::axi_addr_t  commands, report;

  logic                reg_awvalid, reg_awready, reg_wvalid, reg_wready, reg_bvalid, reg_bready;
  logic                reg_arvalid, reg_arready, reg_rvalid, reg_rready;
  logic [RegAddrW-1:0] reg_addr;
  logic [31:0]         reg_wdata, reg_rdata;
  logic [1:0]          reg_bresp, reg_rresp;
  logic                irq;
  logic [2:0]          status;

  dpu_kernel_control u_control (
    .clk_i,
    .rst_ni,
    .awvalid_i (s_axil_awvalid_i),
    .awready_o (s_axil_awready_o),
    .awaddr_i  (s_axil_awaddr_i),
    .wvalid_i  (s_axil_wvalid_i),
    .wready_o  (s_axil_wready_o),
    .wdata_i   (s_axil_wdata_i),
    .wstrb_i   (s_axil_wstrb_i),
    .bvalid_o  (s_axil_bvalid_o),
    .bready_i  (s_axil_bready_i),
    .bresp_o   (s_axil_bresp_o),
    .arvalid_i (s_axil_arvalid_i),
    .arready_o (s_axil_arready_o),
    .araddr_i  (s_axil_araddr_i),
    .rvalid_o  (s_axil_rvalid_o),
    .rready_i  (s_axil_rready_i),
    .rdata_o   (s_axil_rdata_o),
    .rresp_o   (s_axil_rresp_o),
    .start_o   (start),
    .done_i    (done),
    .commands_o(commands),
    .report_o  (report),
    .irq_o
  );

  dpu_kernel_commands u_commands (
    .clk_i,
    .rst_ni,
    .start_i      (start),
    .done_o       (done),
    .commands_i   (commands),
    .report_i     (report),
    .reg_awvalid_o(reg_awvalid),
    .reg_awready_i(reg_awready),
    .reg_addr_o   (reg_addr),
    .reg_wvalid_o (reg_wvalid),
    .reg_wready_i (reg_wready),
    .reg_wdata_o  (reg_wdata),
    .reg_bvalid_i (reg_bvalid),
    .reg_bready_o (reg_bready),
    .reg_arvalid_o(reg_arvalid),
    .reg_arready_i(reg_arready),
    .reg_rvalid_i (reg_rvalid),
    .reg_rready_o (reg_rready),
    .reg_rdata_i  (reg_rdata),
    .ar_valid_o   (m_axi_arvalid_o[Tiles]),
    .ar_ready_i   (m_axi_arready_i[Tiles]),
    .ar_addr_o    (m_axi_araddr_o[Tiles]),
    .r_valid_i    (m_axi_rvalid_i[Tiles]),
    .r_ready_o    (m_axi_rready_o[Tiles]),
    .r_data_i     (m_axi_rdata_i[Tiles]),
    .r_resp_i     (m_axi_rresp_i[Tiles]),
    .aw_valid_o   (m_axi_awvalid_o[Tiles]),
    .aw_ready_i   (m_axi_awready_i[Tiles]),
    .aw_addr_o    (m_axi_awaddr_o[Tiles]),
    .w_valid_o    (m_axi_wvalid_o[Tiles]),
    .w_ready_i    (m_axi_wready_i[Tiles]),
    .w_data_o     (m_axi_wdata_o[Tiles]),
    .b_valid_i    (m_axi_bvalid_i[Tiles]),
    .b_ready_o    (m_axi_bready_o[Tiles]),
    .b_resp_i     (m_axi_bresp_i[Tiles])
  );

  // Single beats of 64 bytes.
  assign m_axi_arid_o[Tiles]    = 1'b0;
  assign m_axi_arlen_o[Tiles]   = '0;
  assign m_axi_arsize_o[Tiles]  = 3'd6;
  assign m_axi_arburst_o[Tiles] = 2'b01;
  assign m_axi_awid_o[Tiles]    = 1'b0;
  assign m_axi_awlen_o[Tiles]   = '0;
  assign m_axi_awsize_o[Tiles]  = 3'd6;
  assign m_axi_awburst_o[Tiles] = 2'b01;
  assign m_axi_wstrb_o[Tiles]   = '1;
  assign m_axi_wlast_o[Tiles]   = 1'b1;

  dpu_top #(
    .Tiles        (Tiles),
    .Cols         (Cols),
    .Lanes        (Lanes),
    .Packed       (Packed),
    .ActWords     (ActWords),
    .WgtWords     (WgtWords),
    .AccWords     (AccWords),
    .VbufWords    (VbufWords),
    .ParamWords   (ParamWords),
    .ActBanks     (ActBanks),
    .WgtBanks     (WgtBanks),
    .AccBanks     (AccBanks),
    .VbufBanks    (VbufBanks),
    .LoadQueue    (LoadQueue),
    .MxuQueue     (MxuQueue),
    .VpuQueue     (VpuQueue),
    .StoreQueue   (StoreQueue),
    .ArchDigest   (ArchDigest),
    .RemoteLatency(RemoteLatency),
    .Watchdog     (Watchdog)
  ) u_dpu (
    .clk_i,
    .rst_ni,
    .s_axil_awvalid_i(reg_awvalid),
    .s_axil_awready_o(reg_awready),
    .s_axil_awaddr_i (reg_addr),
    .s_axil_wvalid_i (reg_wvalid),
    .s_axil_wready_o (reg_wready),
    .s_axil_wdata_i  (reg_wdata),
    .s_axil_wstrb_i  (4'hf),
    .s_axil_bvalid_o (reg_bvalid),
    .s_axil_bready_i (reg_bready),
    .s_axil_bresp_o  (reg_bresp),
    .s_axil_arvalid_i(reg_arvalid),
    .s_axil_arready_o(reg_arready),
    .s_axil_araddr_i (reg_addr),
    .s_axil_rvalid_o (reg_rvalid),
    .s_axil_rready_i (reg_rready),
    .s_axil_rdata_o  (reg_rdata),
    .s_axil_rresp_o  (reg_rresp),
    .m_axi_arvalid_o (m_axi_arvalid_o[Tiles-1:0]),
    .m_axi_arready_i (m_axi_arready_i[Tiles-1:0]),
    .m_axi_arid_o    (m_axi_arid_o[Tiles-1:0]),
    .m_axi_araddr_o  (m_axi_araddr_o[Tiles-1:0]),
    .m_axi_arlen_o   (m_axi_arlen_o[Tiles-1:0]),
    .m_axi_arsize_o  (m_axi_arsize_o[Tiles-1:0]),
    .m_axi_arburst_o (m_axi_arburst_o[Tiles-1:0]),
    .m_axi_rvalid_i  (m_axi_rvalid_i[Tiles-1:0]),
    .m_axi_rready_o  (m_axi_rready_o[Tiles-1:0]),
    .m_axi_rid_i     (m_axi_rid_i[Tiles-1:0]),
    .m_axi_rdata_i   (m_axi_rdata_i[Tiles-1:0]),
    .m_axi_rresp_i   (m_axi_rresp_i[Tiles-1:0]),
    .m_axi_rlast_i   (m_axi_rlast_i[Tiles-1:0]),
    .m_axi_awvalid_o (m_axi_awvalid_o[Tiles-1:0]),
    .m_axi_awready_i (m_axi_awready_i[Tiles-1:0]),
    .m_axi_awid_o    (m_axi_awid_o[Tiles-1:0]),
    .m_axi_awaddr_o  (m_axi_awaddr_o[Tiles-1:0]),
    .m_axi_awlen_o   (m_axi_awlen_o[Tiles-1:0]),
    .m_axi_awsize_o  (m_axi_awsize_o[Tiles-1:0]),
    .m_axi_awburst_o (m_axi_awburst_o[Tiles-1:0]),
    .m_axi_wvalid_o  (m_axi_wvalid_o[Tiles-1:0]),
    .m_axi_wready_i  (m_axi_wready_i[Tiles-1:0]),
    .m_axi_wdata_o   (m_axi_wdata_o[Tiles-1:0]),
    .m_axi_wstrb_o   (m_axi_wstrb_o[Tiles-1:0]),
    .m_axi_wlast_o   (m_axi_wlast_o[Tiles-1:0]),
    .m_axi_bvalid_i  (m_axi_bvalid_i[Tiles-1:0]),
    .m_axi_bready_o  (m_axi_bready_o[Tiles-1:0]),
    .m_axi_bid_i     (m_axi_bid_i[Tiles-1:0]),
    .m_axi_bresp_i   (m_axi_bresp_i[Tiles-1:0]),
    .irq_o           (irq),
    .status_o        (status),
    .events_o
  );

  // Commands wait by polling; single beats have one ID and end with the first; dpu_top answers OKAY only.
  logic unused;
  assign unused = ^{irq, status, reg_bresp, reg_rresp, m_axi_rid_i[Tiles], m_axi_rlast_i[Tiles], m_axi_bid_i[Tiles]};

endmodule
