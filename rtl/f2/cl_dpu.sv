// The custom logic of an AWS F2 card: a DPU, HBM and the way between them and the shell (README.md has the picture).
// Ports are the shell's (ports.csv); parameters are those of `dpu_top`. Tiles run on the shell's clock of 250 MHz.
// OCL: registers. PCIS: the host's window on HBM. PCIM: the read-back engine. What else the shell has is tied off.

module cl_dpu #(
  parameter int unsigned Tiles         = 1,
  parameter int unsigned Cols          = 8,
  parameter int unsigned Lanes         = 8,
  parameter bit          Packed        = 1'b1,
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
  parameter int unsigned MemoryMib     = 16384,
  parameter logic [31:0] ShellId0      = 32'hF0D0_1D0F,  // PCI device, vendor (Amazon's, its range for custom logic)
  parameter logic [31:0] ShellId1      = 32'h0001_1D0F   // subsystem, its vendor
) (
  // clocks, resets, identity
  input  logic         clk_main_a0,
  /* verilator lint_off SYNCASYNCNET */  // assertions sample the reset on purpose
  input  logic         rst_main_n,
  /* verilator lint_on SYNCASYNCNET */
  input  logic         clk_hbm_ref,
  input  logic         sh_cl_flr_assert,
  output logic         cl_sh_flr_done,
  output logic [31:0]  cl_sh_status0,
  output logic [31:0]  cl_sh_status1,
  output logic [31:0]  cl_sh_status2,
  output logic [31:0]  cl_sh_id0,
  output logic [31:0]  cl_sh_id1,
  input  logic [31:0]  sh_cl_ctl0,
  input  logic [31:0]  sh_cl_ctl1,
  input  logic [31:0]  sh_cl_ctl2,
  input  logic [15:0]  sh_cl_status_vdip,
  output logic [15:0]  cl_sh_status_vled,
  input  logic [1:0]   sh_cl_pwr_state,
  output logic         cl_sh_dma_wr_full,
  output logic         cl_sh_dma_rd_full,

  // PCIM, AXI4 to the host's memory
  output logic [15:0]  cl_sh_pcim_awid,
  output logic [63:0]  cl_sh_pcim_awaddr,
  output logic [7:0]   cl_sh_pcim_awlen,
  output logic [2:0]   cl_sh_pcim_awsize,
  output logic [1:0]   cl_sh_pcim_awburst,
  output logic [3:0]   cl_sh_pcim_awcache,
  output logic         cl_sh_pcim_awlock,
  output logic [2:0]   cl_sh_pcim_awprot,
  output logic [3:0]   cl_sh_pcim_awqos,
  output logic [54:0]  cl_sh_pcim_awuser,
  output logic         cl_sh_pcim_awvalid,
  input  logic         sh_cl_pcim_awready,
  output logic [15:0]  cl_sh_pcim_wid,
  output logic [511:0] cl_sh_pcim_wdata,
  output logic [63:0]  cl_sh_pcim_wstrb,
  output logic         cl_sh_pcim_wlast,
  output logic [63:0]  cl_sh_pcim_wuser,
  output logic         cl_sh_pcim_wvalid,
  input  logic         sh_cl_pcim_wready,
  input  logic [15:0]  sh_cl_pcim_bid,
  input  logic [1:0]   sh_cl_pcim_bresp,
  input  logic         sh_cl_pcim_bvalid,
  output logic         cl_sh_pcim_bready,
  output logic [15:0]  cl_sh_pcim_arid,
  output logic [63:0]  cl_sh_pcim_araddr,
  output logic [7:0]   cl_sh_pcim_arlen,
  output logic [2:0]   cl_sh_pcim_arsize,
  output logic [1:0]   cl_sh_pcim_arburst,
  output logic [3:0]   cl_sh_pcim_arcache,
  output logic         cl_sh_pcim_arlock,
  output logic [2:0]   cl_sh_pcim_arprot,
  output logic [3:0]   cl_sh_pcim_arqos,
  output logic [54:0]  cl_sh_pcim_aruser,
  output logic         cl_sh_pcim_arvalid,
  input  logic         sh_cl_pcim_arready,
  input  logic [15:0]  sh_cl_pcim_rid,
  input  logic [511:0] sh_cl_pcim_rdata,
  input  logic [1:0]   sh_cl_pcim_rresp,
  input  logic         sh_cl_pcim_rlast,
  input  logic [63:0]  sh_cl_pcim_ruser,
  input  logic         sh_cl_pcim_rvalid,
  output logic         cl_sh_pcim_rready,
  input  logic [1:0]   cfg_max_payload,
  input  logic [2:0]   cfg_max_read_req,

  // DDR4
  input  logic         CLK_DIMM_DP,
  input  logic         CLK_DIMM_DN,
  output logic         M_ACT_N,
  output logic [17:0]  M_MA,
  output logic [1:0]   M_BA,
  output logic [1:0]   M_BG,
  output logic [1:0]   M_CKE,
  output logic [1:0]   M_ODT,
  output logic [1:0]   M_CS_N,
  output logic [1:0]   M_CLK_DN,
  output logic [1:0]   M_CLK_DP,
  output logic         M_PAR,
  inout  wire  [63:0]  M_DQ,
  inout  wire  [7:0]   M_ECC,
  inout  wire  [17:0]  M_DQS_DP,
  inout  wire  [17:0]  M_DQS_DN,
  output logic         RST_DIMM_N,
  input  logic [7:0]   sh_cl_ddr_stat_addr,
  input  logic [31:0]  sh_cl_ddr_stat_wdata,
  input  logic         sh_cl_ddr_stat_wr,
  input  logic         sh_cl_ddr_stat_rd,
  input  logic [2:0]   sh_cl_ddr_stat_user,
  output logic         cl_sh_ddr_stat_ack,
  output logic [31:0]  cl_sh_ddr_stat_rdata,
  output logic [7:0]   cl_sh_ddr_stat_int,

  // interrupts
  output logic [15:0]  cl_sh_apppf_irq_req,
  input  logic [15:0]  sh_cl_apppf_irq_ack,

  // PCIS, AXI4 from the host (AppPF BAR4)
  input  logic [15:0]  sh_cl_dma_pcis_awid,
  input  logic [63:0]  sh_cl_dma_pcis_awaddr,
  input  logic [7:0]   sh_cl_dma_pcis_awlen,
  input  logic [2:0]   sh_cl_dma_pcis_awsize,
  input  logic [1:0]   sh_cl_dma_pcis_awburst,
  input  logic [3:0]   sh_cl_dma_pcis_awcache,
  input  logic         sh_cl_dma_pcis_awlock,
  input  logic [2:0]   sh_cl_dma_pcis_awprot,
  input  logic [3:0]   sh_cl_dma_pcis_awqos,
  input  logic [54:0]  sh_cl_dma_pcis_awuser,
  input  logic         sh_cl_dma_pcis_awvalid,
  output logic         cl_sh_dma_pcis_awready,
  input  logic [15:0]  sh_cl_dma_pcis_wid,
  input  logic [511:0] sh_cl_dma_pcis_wdata,
  input  logic [63:0]  sh_cl_dma_pcis_wstrb,
  input  logic         sh_cl_dma_pcis_wlast,
  input  logic [63:0]  sh_cl_dma_pcis_wuser,
  input  logic         sh_cl_dma_pcis_wvalid,
  output logic         cl_sh_dma_pcis_wready,
  output logic [15:0]  cl_sh_dma_pcis_bid,
  output logic [1:0]   cl_sh_dma_pcis_bresp,
  output logic         cl_sh_dma_pcis_bvalid,
  input  logic         sh_cl_dma_pcis_bready,
  input  logic [15:0]  sh_cl_dma_pcis_arid,
  input  logic [63:0]  sh_cl_dma_pcis_araddr,
  input  logic [7:0]   sh_cl_dma_pcis_arlen,
  input  logic [2:0]   sh_cl_dma_pcis_arsize,
  input  logic [1:0]   sh_cl_dma_pcis_arburst,
  input  logic [3:0]   sh_cl_dma_pcis_arcache,
  input  logic         sh_cl_dma_pcis_arlock,
  input  logic [2:0]   sh_cl_dma_pcis_arprot,
  input  logic [3:0]   sh_cl_dma_pcis_arqos,
  input  logic [54:0]  sh_cl_dma_pcis_aruser,
  input  logic         sh_cl_dma_pcis_arvalid,
  output logic         cl_sh_dma_pcis_arready,
  output logic [15:0]  cl_sh_dma_pcis_rid,
  output logic [511:0] cl_sh_dma_pcis_rdata,
  output logic [1:0]   cl_sh_dma_pcis_rresp,
  output logic         cl_sh_dma_pcis_rlast,
  output logic [63:0]  cl_sh_dma_pcis_ruser,
  output logic         cl_sh_dma_pcis_rvalid,
  input  logic         sh_cl_dma_pcis_rready,

  // OCL, AXI4-Lite from the host (AppPF BAR0)
  input  logic [31:0]  ocl_cl_awaddr,
  input  logic [54:0]  ocl_cl_awuser,
  input  logic         ocl_cl_awvalid,
  output logic         cl_ocl_awready,
  input  logic [31:0]  ocl_cl_wdata,
  input  logic [3:0]   ocl_cl_wstrb,
  input  logic         ocl_cl_wvalid,
  output logic         cl_ocl_wready,
  output logic [1:0]   cl_ocl_bresp,
  output logic         cl_ocl_bvalid,
  input  logic         ocl_cl_bready,
  input  logic [31:0]  ocl_cl_araddr,
  input  logic [54:0]  ocl_cl_aruser,
  input  logic         ocl_cl_arvalid,
  output logic         cl_ocl_arready,
  output logic [31:0]  cl_ocl_rdata,
  output logic [1:0]   cl_ocl_rresp,
  output logic         cl_ocl_rvalid,
  input  logic         ocl_cl_rready,

  // SDA, AXI4-Lite from the host (MgmtPF BAR4)
  input  logic [31:0]  sda_cl_awaddr,
  input  logic         sda_cl_awvalid,
  output logic         cl_sda_awready,
  input  logic [31:0]  sda_cl_wdata,
  input  logic [3:0]   sda_cl_wstrb,
  input  logic         sda_cl_wvalid,
  output logic         cl_sda_wready,
  output logic [1:0]   cl_sda_bresp,
  output logic         cl_sda_bvalid,
  input  logic         sda_cl_bready,
  input  logic [31:0]  sda_cl_araddr,
  input  logic         sda_cl_arvalid,
  output logic         cl_sda_arready,
  output logic [31:0]  cl_sda_rdata,
  output logic [1:0]   cl_sda_rresp,
  output logic         cl_sda_rvalid,
  input  logic         sda_cl_rready,

  // virtual JTAG
  input  logic         drck,
  input  logic         shift,
  input  logic         tdi,
  input  logic         update,
  input  logic         sel,
  output logic         tdo,
  input  logic         tms,
  input  logic         tck,
  input  logic         runtest,
  input  logic         reset,
  input  logic         capture,
  input  logic         bscanid_en,

  // counters of 4 ns
  input  logic [63:0]  sh_cl_glcount0,
  input  logic [63:0]  sh_cl_glcount1,

  // HBM monitor
  input  logic         hbm_apb_preset_n_1,
  output logic [21:0]  hbm_apb_paddr_1,
  output logic [2:0]   hbm_apb_pprot_1,
  output logic         hbm_apb_psel_1,
  output logic         hbm_apb_penable_1,
  output logic         hbm_apb_pwrite_1,
  output logic [31:0]  hbm_apb_pwdata_1,
  output logic [3:0]   hbm_apb_pstrb_1,
  output logic         hbm_apb_pready_1,
  output logic [31:0]  hbm_apb_prdata_1,
  output logic         hbm_apb_pslverr_1,
  input  logic         hbm_apb_preset_n_0,
  output logic [21:0]  hbm_apb_paddr_0,
  output logic [2:0]   hbm_apb_pprot_0,
  output logic         hbm_apb_psel_0,
  output logic         hbm_apb_penable_0,
  output logic         hbm_apb_pwrite_0,
  output logic [31:0]  hbm_apb_pwdata_0,
  output logic [3:0]   hbm_apb_pstrb_0,
  output logic         hbm_apb_pready_0,
  output logic [31:0]  hbm_apb_prdata_0,
  output logic         hbm_apb_pslverr_0,

  // PCIe between chips
  input  logic         PCIE_EP_PERSTN,
  input  logic         PCIE_EP_REF_CLK_P,
  input  logic         PCIE_EP_REF_CLK_N,
  output logic [7:0]   PCIE_EP_TXP,
  output logic [7:0]   PCIE_EP_TXN,
  input  logic [7:0]   PCIE_EP_RXP,
  input  logic [7:0]   PCIE_EP_RXN,
  output logic         PCIE_RP_PERSTN,
  input  logic         PCIE_RP_REF_CLK_P,
  input  logic         PCIE_RP_REF_CLK_N,
  output logic [7:0]   PCIE_RP_TXP,
  output logic [7:0]   PCIE_RP_TXN,
  input  logic [7:0]   PCIE_RP_RXP,
  input  logic [7:0]   PCIE_RP_RXN
);

  import dpu_f2_pkg::*;

  // Waiver: outputs that nobody here needs.
  /* verilator lint_off PINCONNECTEMPTY */

  localparam int unsigned Clients = Tiles + 2;  // of memory: tiles, PCIS, copy engine
  localparam int unsigned Ways = 2;  // ports of the HBM for each: one moves 57.6 bytes a cycle of this clock
  localparam int unsigned HbmUsed = Clients * Ways;
  localparam int unsigned Pcis = Tiles, Copy = Tiles + 1;
  localparam int unsigned OclW = 26;  // BAR0 has 64 MiB
  localparam int unsigned DpuW = $clog2(dpu_isa_pkg::RegSpaceBytes);
  localparam logic [63:0] MemoryBytes = 64'(MemoryMib) << 20;

  logic clk, rst_n, hbm_clk, hbm_rst_n, ref_rst_n;
  assign clk   = clk_main_a0;
  assign rst_n = rst_main_n;

  dpu_f2_clocks u_clocks (
    .clk_main_i (clk),
    .rst_main_ni(rst_n),
    .clk_ref_i  (clk_hbm_ref),
    .clk_hbm_o  (hbm_clk),
    .rst_hbm_no (hbm_rst_n)
  );

  dpu_f2_sync u_ref_reset (
    .clk_i (clk_hbm_ref),
    .rst_ni(rst_n),
    .data_i(1'b1),
    .data_o(ref_rst_n)
  );

  // Registers: OCL to the DPU's and to the custom logic's.

  logic             reset_start, reset_busy, drain, dpu_rst_n, ocl_quiet;
  logic [1:0]       x_awvalid, x_awready, x_wvalid, x_wready, x_bvalid, x_bready;
  logic [1:0]       x_arvalid, x_arready, x_rvalid, x_rready;
  logic [OclW-1:0]  x_awaddr, x_araddr;
  logic [31:0]      x_wdata;
  logic [3:0]       x_wstrb;
  logic [1:0][31:0] x_rdata;

  dpu_f2_ocl #(
    .AddrW(OclW)
  ) u_ocl (
    .clk_i    (clk),
    .rst_ni   (rst_n),
    .away_i   (reset_busy),
    .quiet_o  (ocl_quiet),
    .awvalid_i(ocl_cl_awvalid),
    .awready_o(cl_ocl_awready),
    .awaddr_i (ocl_cl_awaddr[OclW-1:0]),
    .wvalid_i (ocl_cl_wvalid),
    .wready_o (cl_ocl_wready),
    .wdata_i  (ocl_cl_wdata),
    .wstrb_i  (ocl_cl_wstrb),
    .bvalid_o (cl_ocl_bvalid),
    .bready_i (ocl_cl_bready),
    .arvalid_i(ocl_cl_arvalid),
    .arready_o(cl_ocl_arready),
    .araddr_i (ocl_cl_araddr[OclW-1:0]),
    .rvalid_o (cl_ocl_rvalid),
    .rready_i (ocl_cl_rready),
    .rdata_o  (cl_ocl_rdata),
    .awvalid_o(x_awvalid), .awready_i(x_awready), .awaddr_o(x_awaddr),
    .wvalid_o (x_wvalid), .wready_i(x_wready), .wdata_o(x_wdata), .wstrb_o(x_wstrb),
    .bvalid_i (x_bvalid), .bready_o(x_bready),
    .arvalid_o(x_arvalid), .arready_i(x_arready), .araddr_o(x_araddr),
    .rvalid_i (x_rvalid), .rready_o(x_rready), .rdata_i(x_rdata)
  );

  assign cl_ocl_bresp = RespOkay;
  assign cl_ocl_rresp = RespOkay;

  logic            wr_valid, rd_valid;
  logic [OclW-1:2] wr_addr, rd_addr;
  logic [31:0]     wr_data, wr_mask, rd_data;
  logic            pause, copy_start, copy_abort, copy_busy, copy_idle, copy_done, copy_failed, pcim_timeout;
  logic            pcis_error, memory_lost, hbm_ready, irq_clear;
  logic [2:0]      dpu_status;
  logic [63:0]     copy_src, copy_dst;
  logic [31:0]     copy_bytes, copied;
  logic [4:0]      irq_level;
  copy_error_e     copy_error;

  dpu_axil #(
    .AddrW(OclW)
  ) u_axil (
    .clk_i     (clk),
    .rst_ni    (rst_n),
    .awvalid_i (x_awvalid[1]), .awready_o(x_awready[1]), .awaddr_i(x_awaddr),
    .wvalid_i  (x_wvalid[1]), .wready_o(x_wready[1]), .wdata_i(x_wdata), .wstrb_i(x_wstrb),
    .bvalid_o  (x_bvalid[1]), .bready_i(x_bready[1]), .bresp_o(),
    .arvalid_i (x_arvalid[1]), .arready_o(x_arready[1]), .araddr_i(x_araddr),
    .rvalid_o  (x_rvalid[1]), .rready_i(x_rready[1]), .rdata_o(x_rdata[1]), .rresp_o(),
    .wr_valid_o(wr_valid), .wr_addr_o(wr_addr), .wr_data_o(wr_data), .wr_mask_o(wr_mask),
    .rd_valid_o(rd_valid), .rd_addr_o(rd_addr), .rd_data_i(rd_data)
  );

  dpu_f2_regs #(
    .Tiles     (Tiles),
    .ArchDigest(ArchDigest),
    .MemoryMib (MemoryMib)
  ) u_regs (
    .clk_i         (clk),
    .rst_ni        (rst_n),
    .wr_valid_i    (wr_valid),
    .wr_addr_i     (wr_addr),
    .wr_data_i     (wr_data),
    .wr_mask_i     (wr_mask),
    .rd_valid_i    (rd_valid),
    .rd_addr_i     (rd_addr),
    .rd_data_o     (rd_data),
    .hbm_ready_i   (hbm_ready),
    .power_i       (sh_cl_pwr_state),
    .pcim_timeout_i(pcim_timeout),
    .pcis_error_i  (pcis_error),
    .memory_lost_i (memory_lost),
    .dpu_done_i    (dpu_status[1]),
    .dpu_error_i   (dpu_status[2]),
    .global_count_i(sh_cl_glcount0),
    .reset_o       (reset_start),
    .reset_busy_i  (reset_busy),
    .pause_o       (pause),
    .copy_start_o  (copy_start),
    .copy_abort_o  (copy_abort),
    .copy_src_o    (copy_src),
    .copy_dst_o    (copy_dst),
    .copy_bytes_o  (copy_bytes),
    .copy_busy_i   (copy_busy),
    .copy_done_i   (copy_done),
    .copy_failed_i (copy_failed),
    .copy_error_i  (copy_error),
    .copied_i      (copied),
    .irq_level_o   (irq_level),
    .irq_clear_o   (irq_clear)
  );

  dpu_f2_irq u_irq (
    .clk_i  (clk),
    .rst_ni (rst_n),
    .level_i(irq_level),
    .clear_i(irq_clear),
    .req_o  (cl_sh_apppf_irq_req[0]),
    .ack_i  (sh_cl_apppf_irq_ack[0])
  );

  assign cl_sh_apppf_irq_req[15:1] = '0;

  // Memory, clients and HBM ports.

  logic [Clients-1:0]      hold, drains, idle;
  logic [Clients-1:0]      ar_valid, ar_ready, r_valid, r_ready, aw_valid, aw_ready, w_valid, w_ready, b_valid, b_ready;
  logic [Clients-1:0][0:0] ar_id, r_id;
  mem_a_t [Clients-1:0]    ar, aw;
  mem_r_t [Clients-1:0]    r;
  mem_w_t [Clients-1:0]    w;
  logic [Clients-1:0][1:0] b;

  logic [HbmUsed-1:0]      h_ar_valid, h_ar_ready, h_r_valid, h_r_ready, h_aw_valid, h_aw_ready;
  logic [HbmUsed-1:0]      h_w_valid, h_w_ready, h_b_valid, h_b_ready;
  hbm_a_t [HbmUsed-1:0]    h_ar, h_aw;
  hbm_r_t [HbmUsed-1:0]    h_r;
  hbm_w_t [HbmUsed-1:0]    h_w;
  logic [HbmUsed-1:0][1:0] h_b;

  dpu_f2_memory #(
    .Clients    (Clients),
    .Ways       (Ways),
    .MemoryBytes(MemoryBytes)
  ) u_memory (
    .clk_i     (clk),
    .rst_ni    (rst_n),
    .hbm_clk_i (hbm_clk),
    .hbm_rst_ni(hbm_rst_n),
    .hold_i    (hold), .drain_i(drains), .idle_o(idle),
    .ar_valid_i(ar_valid), .ar_ready_o(ar_ready), .ar_id_i(ar_id), .ar_i(ar),
    .r_valid_o (r_valid), .r_ready_i(r_ready), .r_id_o(r_id), .r_o(r),
    .aw_valid_i(aw_valid), .aw_ready_o(aw_ready), .aw_i(aw),
    .w_valid_i (w_valid), .w_ready_o(w_ready), .w_i(w),
    .b_valid_o (b_valid), .b_ready_i(b_ready), .b_o(b),
    .ar_valid_o(h_ar_valid), .ar_ready_i(h_ar_ready), .ar_o(h_ar),
    .r_valid_i (h_r_valid), .r_ready_o(h_r_ready), .r_i(h_r),
    .aw_valid_o(h_aw_valid), .aw_ready_i(h_aw_ready), .aw_o(h_aw),
    .w_valid_o (h_w_valid), .w_ready_i(h_w_ready), .w_o(h_w),
    .b_valid_i (h_b_valid), .b_ready_o(h_b_ready), .b_i(h_b)
  );

  logic             hbm_up;
  logic [1:0]       mon_psel, mon_penable, mon_pwrite, mon_pready, mon_pslverr;
  logic [1:0][21:0] mon_paddr;
  logic [1:0][31:0] mon_pwdata, mon_prdata;

  dpu_f2_hbm #(
    .Ports(HbmUsed)
  ) u_hbm (
    .clk_i        (hbm_clk),
    .rst_ni       (hbm_rst_n),
    .clk_ref_i    (clk_hbm_ref),
    .rst_apb_ni   (ref_rst_n),
    .ready_o      (hbm_up),
    .ar_valid_i   (h_ar_valid), .ar_ready_o(h_ar_ready), .ar_i(h_ar),
    .r_valid_o    (h_r_valid), .r_ready_i(h_r_ready), .r_o(h_r),
    .aw_valid_i   (h_aw_valid), .aw_ready_o(h_aw_ready), .aw_i(h_aw),
    .w_valid_i    (h_w_valid), .w_ready_o(h_w_ready), .w_i(h_w),
    .b_valid_o    (h_b_valid), .b_ready_i(h_b_ready), .b_o(h_b),
    .mon_preset_ni({hbm_apb_preset_n_1, hbm_apb_preset_n_0}),
    .mon_paddr_o  (mon_paddr),
    .mon_psel_o   (mon_psel),
    .mon_penable_o(mon_penable),
    .mon_pwrite_o (mon_pwrite),
    .mon_pwdata_o (mon_pwdata),
    .mon_pready_o (mon_pready),
    .mon_prdata_o (mon_prdata),
    .mon_pslverr_o(mon_pslverr)
  );

  dpu_f2_sync u_hbm_ready (
    .clk_i (clk),
    .rst_ni(rst_n),
    .data_i(hbm_up),
    .data_o(hbm_ready)
  );

  assign hbm_apb_paddr_1   = mon_paddr[1];
  assign hbm_apb_paddr_0   = mon_paddr[0];
  assign hbm_apb_pprot_1   = '0;
  assign hbm_apb_pprot_0   = '0;
  assign hbm_apb_psel_1    = mon_psel[1];
  assign hbm_apb_psel_0    = mon_psel[0];
  assign hbm_apb_penable_1 = mon_penable[1];
  assign hbm_apb_penable_0 = mon_penable[0];
  assign hbm_apb_pwrite_1  = mon_pwrite[1];
  assign hbm_apb_pwrite_0  = mon_pwrite[0];
  assign hbm_apb_pwdata_1  = mon_pwdata[1];
  assign hbm_apb_pwdata_0  = mon_pwdata[0];
  assign hbm_apb_pstrb_1   = '0;
  assign hbm_apb_pstrb_0   = '0;
  assign hbm_apb_pready_1  = mon_pready[1];
  assign hbm_apb_pready_0  = mon_pready[0];
  assign hbm_apb_prdata_1  = mon_prdata[1];
  assign hbm_apb_prdata_0  = mon_prdata[0];
  assign hbm_apb_pslverr_1 = mon_pslverr[1];
  assign hbm_apb_pslverr_0 = mon_pslverr[0];

  // The DPU. A pause, or a power state just below a cut of the clocks, keeps its tiles from new memory accesses.

  logic [Tiles-1:0][7:0]   t_ar_len, t_aw_len;
  logic [Tiles-1:0][63:0]  t_ar_addr, t_aw_addr, t_w_strb;
  logic [Tiles-1:0][511:0] t_r_data, t_w_data;
  logic [Tiles-1:0][1:0]   t_r_resp;
  logic [Tiles-1:0]        t_r_last, t_w_last;

  dpu_f2_reset u_reset (
    .clk_i     (clk),
    .rst_ni    (rst_n),
    .start_i   (reset_start),
    .busy_o    (reset_busy),
    .drain_o   (drain),
    .quiet_i   (&idle[Tiles-1:0] & copy_idle & ocl_quiet),
    .dpu_rst_no(dpu_rst_n)
  );

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
    .clk_i           (clk),
    .rst_ni          (dpu_rst_n),
    .s_axil_awvalid_i(x_awvalid[0]),
    .s_axil_awready_o(x_awready[0]),
    .s_axil_awaddr_i (x_awaddr[DpuW-1:0]),
    .s_axil_wvalid_i (x_wvalid[0]),
    .s_axil_wready_o (x_wready[0]),
    .s_axil_wdata_i  (x_wdata),
    .s_axil_wstrb_i  (x_wstrb),
    .s_axil_bvalid_o (x_bvalid[0]),
    .s_axil_bready_i (x_bready[0]),
    .s_axil_bresp_o(),
    .s_axil_arvalid_i(x_arvalid[0]),
    .s_axil_arready_o(x_arready[0]),
    .s_axil_araddr_i (x_araddr[DpuW-1:0]),
    .s_axil_rvalid_o (x_rvalid[0]),
    .s_axil_rready_i (x_rready[0]),
    .s_axil_rdata_o  (x_rdata[0]),
    .s_axil_rresp_o(),
    .m_axi_arvalid_o (ar_valid[Tiles-1:0]),
    .m_axi_arready_i (ar_ready[Tiles-1:0]),
    .m_axi_arid_o    (ar_id[Tiles-1:0]),
    .m_axi_araddr_o  (t_ar_addr),
    .m_axi_arlen_o   (t_ar_len),
    .m_axi_arsize_o(),
    .m_axi_arburst_o(),
    .m_axi_rvalid_i  (r_valid[Tiles-1:0]),
    .m_axi_rready_o  (r_ready[Tiles-1:0]),
    .m_axi_rid_i     (r_id[Tiles-1:0]),
    .m_axi_rdata_i   (t_r_data),
    .m_axi_rresp_i   (t_r_resp),
    .m_axi_rlast_i   (t_r_last),
    .m_axi_awvalid_o (aw_valid[Tiles-1:0]),
    .m_axi_awready_i (aw_ready[Tiles-1:0]),
    .m_axi_awid_o(),
    .m_axi_awaddr_o  (t_aw_addr),
    .m_axi_awlen_o   (t_aw_len),
    .m_axi_awsize_o(),
    .m_axi_awburst_o(),
    .m_axi_wvalid_o  (w_valid[Tiles-1:0]),
    .m_axi_wready_i  (w_ready[Tiles-1:0]),
    .m_axi_wdata_o   (t_w_data),
    .m_axi_wstrb_o   (t_w_strb),
    .m_axi_wlast_o   (t_w_last),
    .m_axi_bvalid_i  (b_valid[Tiles-1:0]),
    .m_axi_bready_o  (b_ready[Tiles-1:0]),
    .m_axi_bid_i     ('0),
    .m_axi_bresp_i   (b[Tiles-1:0]),
    .irq_o(),
    .status_o        (dpu_status),
    .events_o()
  );

  for (genvar t = 0; t < Tiles; t++) begin : gen_tile
    assign ar[t]       = '{addr: t_ar_addr[t], len: t_ar_len[t]};
    assign aw[t]       = '{addr: t_aw_addr[t], len: t_aw_len[t]};
    assign w[t]        = '{data: t_w_data[t], strb: t_w_strb[t], last: t_w_last[t]};
    assign t_r_data[t] = r[t].data;
    assign t_r_resp[t] = r[t].resp;
    assign t_r_last[t] = r[t].last;
    assign hold[t]     = pause | (sh_cl_pwr_state == 2'b11);
    assign drains[t]   = drain;
  end

  // The host's window.

  dpu_f2_pcis #(
    .MemoryBytes(MemoryBytes)
  ) u_pcis (
    .clk_i       (clk),
    .rst_ni      (rst_n),
    .ready_i     (hbm_ready),
    .error_o     (pcis_error),
    .lost_o      (memory_lost),
    .s_ar_valid_i(sh_cl_dma_pcis_arvalid),
    .s_ar_ready_o(cl_sh_dma_pcis_arready),
    .s_ar_id_i   (sh_cl_dma_pcis_arid),
    .s_ar_i      ({sh_cl_dma_pcis_araddr, sh_cl_dma_pcis_arlen}),
    .s_ar_size_i (sh_cl_dma_pcis_arsize),
    .s_ar_burst_i(sh_cl_dma_pcis_arburst),
    .s_r_valid_o (cl_sh_dma_pcis_rvalid),
    .s_r_ready_i (sh_cl_dma_pcis_rready),
    .s_r_id_o    (cl_sh_dma_pcis_rid),
    .s_r_o       ({cl_sh_dma_pcis_rdata, cl_sh_dma_pcis_rresp, cl_sh_dma_pcis_rlast}),
    .s_aw_valid_i(sh_cl_dma_pcis_awvalid),
    .s_aw_ready_o(cl_sh_dma_pcis_awready),
    .s_aw_id_i   (sh_cl_dma_pcis_awid),
    .s_aw_i      ({sh_cl_dma_pcis_awaddr, sh_cl_dma_pcis_awlen}),
    .s_aw_size_i (sh_cl_dma_pcis_awsize),
    .s_aw_burst_i(sh_cl_dma_pcis_awburst),
    .s_w_valid_i (sh_cl_dma_pcis_wvalid),
    .s_w_ready_o (cl_sh_dma_pcis_wready),
    .s_w_i       ({sh_cl_dma_pcis_wdata, sh_cl_dma_pcis_wstrb, sh_cl_dma_pcis_wlast}),
    .s_b_valid_o (cl_sh_dma_pcis_bvalid),
    .s_b_ready_i (sh_cl_dma_pcis_bready),
    .s_b_id_o    (cl_sh_dma_pcis_bid),
    .m_ar_valid_o(ar_valid[Pcis]), .m_ar_ready_i(ar_ready[Pcis]), .m_ar_o(ar[Pcis]),
    .m_r_valid_i (r_valid[Pcis]), .m_r_ready_o(r_ready[Pcis]), .m_r_i(r[Pcis]),
    .m_aw_valid_o(aw_valid[Pcis]), .m_aw_ready_i(aw_ready[Pcis]), .m_aw_o(aw[Pcis]),
    .m_w_valid_o (w_valid[Pcis]), .m_w_ready_i(w_ready[Pcis]), .m_w_o(w[Pcis]),
    .m_b_valid_i (b_valid[Pcis]), .m_b_ready_o(b_ready[Pcis]), .m_b_i(b[Pcis])
  );

  assign cl_sh_dma_pcis_bresp = RespOkay;
  assign cl_sh_dma_pcis_ruser = '0;
  assign cl_sh_dma_wr_full    = 1'b0;
  assign cl_sh_dma_rd_full    = 1'b0;
  assign ar_id[Pcis]          = 1'b0;
  assign hold[Pcis]           = 1'b0;
  assign drains[Pcis]         = 1'b0;

  // The read-back engine: reads memory, writes the host.

  mem_a_t pcim_aw;

  dpu_f2_copy u_copy (
    .clk_i     (clk),
    .rst_ni    (rst_n),
    .ready_i   (hbm_ready),
    .start_i   (copy_start),
    .abort_i   (copy_abort | drain),
    .src_i     (copy_src),
    .dst_i     (copy_dst),
    .bytes_i   (copy_bytes),
    .busy_o    (copy_busy),
    .idle_o    (copy_idle),
    .done_o    (copy_done),
    .failed_o  (copy_failed),
    .error_o   (copy_error),
    .timeout_o (pcim_timeout),
    .copied_o  (copied),
    .ar_valid_o(ar_valid[Copy]), .ar_ready_i(ar_ready[Copy]), .ar_o(ar[Copy]),
    .r_valid_i (r_valid[Copy]), .r_ready_o(r_ready[Copy]), .r_i(r[Copy]),
    .aw_valid_o(cl_sh_pcim_awvalid), .aw_ready_i(sh_cl_pcim_awready), .aw_o(pcim_aw),
    .w_valid_o (cl_sh_pcim_wvalid), .w_ready_i(sh_cl_pcim_wready), .w_data_o(cl_sh_pcim_wdata),
    .w_last_o  (cl_sh_pcim_wlast),
    .b_valid_i (sh_cl_pcim_bvalid), .b_ready_o(cl_sh_pcim_bready), .b_resp_i(sh_cl_pcim_bresp)
  );

  assign ar_id[Copy]    = 1'b0;
  assign aw_valid[Copy] = 1'b0;
  assign aw[Copy]       = '0;
  assign w_valid[Copy]  = 1'b0;
  assign w[Copy]        = '0;
  assign b_ready[Copy]  = 1'b0;
  assign hold[Copy]     = 1'b0;
  assign drains[Copy]   = 1'b0;

  assign cl_sh_pcim_awid    = '0;
  assign cl_sh_pcim_awaddr  = pcim_aw.addr;
  assign cl_sh_pcim_awlen   = pcim_aw.len;
  assign cl_sh_pcim_awsize  = 3'd6;
  assign cl_sh_pcim_awburst = 2'b01;
  assign cl_sh_pcim_awcache = '0;
  assign cl_sh_pcim_awlock  = 1'b0;
  assign cl_sh_pcim_awprot  = '0;
  assign cl_sh_pcim_awqos   = '0;
  assign cl_sh_pcim_awuser  = '0;
  assign cl_sh_pcim_wid     = '0;
  assign cl_sh_pcim_wstrb   = '1;
  assign cl_sh_pcim_wuser   = '0;
  assign cl_sh_pcim_arid    = '0;
  assign cl_sh_pcim_araddr  = '0;
  assign cl_sh_pcim_arlen   = '0;
  assign cl_sh_pcim_arsize  = 3'd6;
  assign cl_sh_pcim_arburst = 2'b01;
  assign cl_sh_pcim_arcache = '0;
  assign cl_sh_pcim_arlock  = 1'b0;
  assign cl_sh_pcim_arprot  = '0;
  assign cl_sh_pcim_arqos   = '0;
  assign cl_sh_pcim_aruser  = '0;
  assign cl_sh_pcim_arvalid = 1'b0;
  assign cl_sh_pcim_rready  = 1'b1;

  // SDA has nothing behind it, but answers: an access that the shell must time out costs the host microseconds.

  dpu_axil #(
    .AddrW(22)
  ) u_sda (
    .clk_i     (clk),
    .rst_ni    (rst_n),
    .awvalid_i (sda_cl_awvalid), .awready_o(cl_sda_awready), .awaddr_i(sda_cl_awaddr[21:0]),
    .wvalid_i  (sda_cl_wvalid), .wready_o(cl_sda_wready), .wdata_i(sda_cl_wdata), .wstrb_i(sda_cl_wstrb),
    .bvalid_o  (cl_sda_bvalid), .bready_i(sda_cl_bready), .bresp_o(cl_sda_bresp),
    .arvalid_i (sda_cl_arvalid), .arready_o(cl_sda_arready), .araddr_i(sda_cl_araddr[21:0]),
    .rvalid_o  (cl_sda_rvalid), .rready_i(sda_cl_rready), .rdata_o(cl_sda_rdata), .rresp_o(cl_sda_rresp),
    .wr_valid_o(), .wr_addr_o(), .wr_data_o(), .wr_mask_o(),
    .rd_valid_o(), .rd_addr_o(), .rd_data_i({DeadWord, 16'd0})
  );

  // The DIMM is not used; its pins must still end in the shell's own block.

  sh_ddr #(
    .DDR_PRESENT(0)
  ) u_sh_ddr (
    .clk                  (clk),
    .rst_n                (rst_n),
    .stat_clk             (clk),
    .stat_rst_n           (rst_n),
    .CLK_DIMM_DP,
    .CLK_DIMM_DN,
    .M_ACT_N,
    .M_MA,
    .M_BA,
    .M_BG,
    .M_CKE,
    .M_ODT,
    .M_CS_N,
    .M_CLK_DN,
    .M_CLK_DP,
    .M_PAR,
    .M_DQ,
    .M_ECC,
    .M_DQS_DP,
    .M_DQS_DN,
    .cl_RST_DIMM_N        (RST_DIMM_N),
    .cl_sh_ddr_axi_awid   ('0),
    .cl_sh_ddr_axi_awaddr ('0),
    .cl_sh_ddr_axi_awlen  ('0),
    .cl_sh_ddr_axi_awsize ('0),
    .cl_sh_ddr_axi_awvalid(1'b0),
    .cl_sh_ddr_axi_awburst('0),
    .cl_sh_ddr_axi_awuser ('0),
    .cl_sh_ddr_axi_awready(),
    .cl_sh_ddr_axi_wdata  ('0),
    .cl_sh_ddr_axi_wstrb  ('0),
    .cl_sh_ddr_axi_wlast  (1'b0),
    .cl_sh_ddr_axi_wvalid (1'b0),
    .cl_sh_ddr_axi_wready(),
    .cl_sh_ddr_axi_bid(),
    .cl_sh_ddr_axi_bresp(),
    .cl_sh_ddr_axi_bvalid(),
    .cl_sh_ddr_axi_bready (1'b0),
    .cl_sh_ddr_axi_arid   ('0),
    .cl_sh_ddr_axi_araddr ('0),
    .cl_sh_ddr_axi_arlen  ('0),
    .cl_sh_ddr_axi_arsize ('0),
    .cl_sh_ddr_axi_arvalid(1'b0),
    .cl_sh_ddr_axi_arburst('0),
    .cl_sh_ddr_axi_aruser ('0),
    .cl_sh_ddr_axi_arready(),
    .cl_sh_ddr_axi_rid(),
    .cl_sh_ddr_axi_rdata(),
    .cl_sh_ddr_axi_rresp(),
    .cl_sh_ddr_axi_rlast(),
    .cl_sh_ddr_axi_rvalid(),
    .cl_sh_ddr_axi_rready (1'b0),
    .sh_ddr_stat_bus_addr ('0),
    .sh_ddr_stat_bus_wdata('0),
    .sh_ddr_stat_bus_wr   (1'b0),
    .sh_ddr_stat_bus_rd   (1'b0),
    .sh_ddr_stat_bus_ack(),
    .sh_ddr_stat_bus_rdata(),
    .ddr_sh_stat_int(),
    .sh_cl_ddr_is_ready()
  );

  assign cl_sh_ddr_stat_ack   = 1'b1;
  assign cl_sh_ddr_stat_rdata = '0;
  assign cl_sh_ddr_stat_int   = '0;

  // The rest of the shell.

  assign cl_sh_flr_done    = 1'b1;
  assign cl_sh_status0     = '0;
  assign cl_sh_status1     = '0;
  assign cl_sh_status2     = '0;
  assign cl_sh_id0         = ShellId0;
  assign cl_sh_id1         = ShellId1;
  assign cl_sh_status_vled = 16'({hbm_ready, copy_busy, dpu_status});
  assign tdo               = 1'b0;
  assign PCIE_EP_TXP       = '0;
  assign PCIE_EP_TXN       = '0;
  assign PCIE_RP_PERSTN    = 1'b0;
  assign PCIE_RP_TXP       = '0;
  assign PCIE_RP_TXN       = '0;

  logic unused;
  assign unused = ^{
    sh_cl_flr_assert, sh_cl_ctl0, sh_cl_ctl1, sh_cl_ctl2, sh_cl_status_vdip, sh_cl_glcount1,
    sh_cl_pcim_bid, sh_cl_pcim_arready, sh_cl_pcim_rid, sh_cl_pcim_rdata, sh_cl_pcim_rresp, sh_cl_pcim_rlast,
    sh_cl_pcim_ruser, sh_cl_pcim_rvalid, cfg_max_payload, cfg_max_read_req,
    sh_cl_ddr_stat_addr, sh_cl_ddr_stat_wdata, sh_cl_ddr_stat_wr, sh_cl_ddr_stat_rd, sh_cl_ddr_stat_user,
    sh_cl_apppf_irq_ack[15:1],
    sh_cl_dma_pcis_awcache, sh_cl_dma_pcis_awlock, sh_cl_dma_pcis_awprot, sh_cl_dma_pcis_awqos, sh_cl_dma_pcis_awuser,
    sh_cl_dma_pcis_wid, sh_cl_dma_pcis_wuser, sh_cl_dma_pcis_arcache, sh_cl_dma_pcis_arlock, sh_cl_dma_pcis_arprot,
    sh_cl_dma_pcis_arqos, sh_cl_dma_pcis_aruser,
    ocl_cl_awaddr[31:OclW], ocl_cl_awuser, ocl_cl_araddr[31:OclW], ocl_cl_aruser, sda_cl_awaddr[31:22],
    sda_cl_araddr[31:22], drck, shift, tdi, update, sel, tms, tck, runtest, reset, capture, bscanid_en,
    PCIE_EP_PERSTN, PCIE_EP_REF_CLK_P, PCIE_EP_REF_CLK_N, PCIE_EP_RXP, PCIE_EP_RXN, PCIE_RP_REF_CLK_P,
    PCIE_RP_REF_CLK_N, PCIE_RP_RXP, PCIE_RP_RXN, idle[Copy:Pcis], r_id[Copy:Pcis], aw_ready[Copy], w_ready[Copy],
    b_valid[Copy], b[Copy]
  };

  /* verilator lint_on PINCONNECTEMPTY */

endmodule
