// The DPU: tiles, host registers, and the wires that carry tokens between tiles.
// Host side: AXI4-Lite registers and an interrupt. Memory side: one AXI4 port of 512 bits a tile.
// `events_o` shows starts and ends of words of each tile's engines; leave it open in a product.

module dpu_top #(
  parameter int unsigned Tiles         = 1,
  parameter int unsigned Cols          = 8,
  parameter int unsigned Lanes         = 8,
  parameter bit          Packed        = 1'b0,  // for an FPGA: two columns of the array on one multiplier
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
  localparam int unsigned AxilAddrW = $clog2(dpu_isa_pkg::RegSpaceBytes)
) (
  input  logic                                     clk_i,
  input  logic                                     rst_ni,

  // AXI4-Lite, host registers
  input  logic                                     s_axil_awvalid_i,
  output logic                                     s_axil_awready_o,
  input  logic [AxilAddrW-1:0]                     s_axil_awaddr_i,
  input  logic                                     s_axil_wvalid_i,
  output logic                                     s_axil_wready_o,
  input  logic [31:0]                              s_axil_wdata_i,
  input  logic [3:0]                               s_axil_wstrb_i,
  output logic                                     s_axil_bvalid_o,
  input  logic                                     s_axil_bready_i,
  output logic [1:0]                               s_axil_bresp_o,
  input  logic                                     s_axil_arvalid_i,
  output logic                                     s_axil_arready_o,
  input  logic [AxilAddrW-1:0]                     s_axil_araddr_i,
  output logic                                     s_axil_rvalid_o,
  input  logic                                     s_axil_rready_i,
  output logic [31:0]                              s_axil_rdata_o,
  output logic [1:0]                               s_axil_rresp_o,

  // AXI4, one port a tile
  output logic [Tiles-1:0]                         m_axi_arvalid_o,
  input  logic [Tiles-1:0]                         m_axi_arready_i,
  output logic [Tiles-1:0][0:0]                    m_axi_arid_o,
  output logic [Tiles-1:0][63:0]                   m_axi_araddr_o,
  output logic [Tiles-1:0][7:0]                    m_axi_arlen_o,
  output logic [Tiles-1:0][2:0]                    m_axi_arsize_o,
  output logic [Tiles-1:0][1:0]                    m_axi_arburst_o,
  input  logic [Tiles-1:0]                         m_axi_rvalid_i,
  output logic [Tiles-1:0]                         m_axi_rready_o,
  input  logic [Tiles-1:0][0:0]                    m_axi_rid_i,
  input  logic [Tiles-1:0][511:0]                  m_axi_rdata_i,
  input  logic [Tiles-1:0][1:0]                    m_axi_rresp_i,
  input  logic [Tiles-1:0]                         m_axi_rlast_i,
  output logic [Tiles-1:0]                         m_axi_awvalid_o,
  input  logic [Tiles-1:0]                         m_axi_awready_i,
  output logic [Tiles-1:0][0:0]                    m_axi_awid_o,
  output logic [Tiles-1:0][63:0]                   m_axi_awaddr_o,
  output logic [Tiles-1:0][7:0]                    m_axi_awlen_o,
  output logic [Tiles-1:0][2:0]                    m_axi_awsize_o,
  output logic [Tiles-1:0][1:0]                    m_axi_awburst_o,
  output logic [Tiles-1:0]                         m_axi_wvalid_o,
  input  logic [Tiles-1:0]                         m_axi_wready_i,
  output logic [Tiles-1:0][511:0]                  m_axi_wdata_o,
  output logic [Tiles-1:0][63:0]                   m_axi_wstrb_o,
  output logic [Tiles-1:0]                         m_axi_wlast_o,
  input  logic [Tiles-1:0]                         m_axi_bvalid_i,
  output logic [Tiles-1:0]                         m_axi_bready_o,
  input  logic [Tiles-1:0][0:0]                    m_axi_bid_i,
  input  logic [Tiles-1:0][1:0]                    m_axi_bresp_i,

  output logic                                     irq_o,
  output logic [2:0]                               status_o,  // busy, done, error: register STATUS as levels

  // per tile: LOAD, MXU, VPU, STORE (index is `engine_e`)
  output dpu_pkg::event_t [Tiles-1:0][3:0]         events_o
);

  import dpu_pkg::*;

  // Registers.

  logic                      wr_valid, rd_valid;
  logic [AxilAddrW-1:2]      wr_addr, rd_addr;
  logic [31:0]               wr_data, wr_mask, rd_data;
  region_t [7:0]             regions;
  axi_addr_t [Tiles-1:0]     programs;
  logic [Tiles-1:0][31:0]    words;
  logic [31:0]               watchdog;
  logic                      start, reset, busy, done, irq_error;
  report_t                   error;
  logic [63:0]               cycles;
  logic                      cnt_read;
  logic [7:2]                cnt_offset;
  logic [Tiles-1:0][63:0]    cnt_value;
  logic [Tiles-1:0]          cnt_wide, cnt_high;

  // Tiles.

  logic                      tile_start, tile_stop, tile_rst_n;
  logic [Tiles-1:0]          tile_busy, tile_quiet, tile_progress, tile_irq;
  report_t [Tiles-1:0]       tile_fault, tile_stuck;
  logic [Tiles-1:0][Tiles-1:0] token_out, token_in, full_out, full_in;  // [tile][other tile]

  dpu_axil #(
    .AddrW(AxilAddrW)
  ) u_axil (
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
    .wr_valid_o(wr_valid),
    .wr_addr_o (wr_addr),
    .wr_data_o (wr_data),
    .wr_mask_o (wr_mask),
    .rd_valid_o(rd_valid),
    .rd_addr_o (rd_addr),
    .rd_data_i (rd_data)
  );

  dpu_regs #(
    .Tiles     (Tiles),
    .Cols      (Cols),
    .Lanes     (Lanes),
    .ArchDigest(ArchDigest),
    .Watchdog  (Watchdog)
  ) u_regs (
    .clk_i,
    .rst_ni,
    .wr_valid_i  (wr_valid),
    .wr_addr_i   (wr_addr),
    .wr_data_i   (wr_data),
    .wr_mask_i   (wr_mask),
    .rd_valid_i  (rd_valid),
    .rd_addr_i   (rd_addr),
    .rd_data_o   (rd_data),
    .regions_o   (regions),
    .program_o   (programs),
    .words_o     (words),
    .watchdog_o  (watchdog),
    .start_o     (start),
    .reset_o     (reset),
    .irq_o,
    .busy_i      (busy),
    .done_i      (done),
    .tile_busy_i (tile_busy),
    .error_i     (error),
    .cycles_i    (cycles),
    .irq_end_i   (tile_irq != '0),
    .irq_error_i (irq_error),
    .cnt_read_o  (cnt_read),
    .cnt_offset_o(cnt_offset),
    .cnt_value_i (cnt_value),
    .cnt_wide_i  (cnt_wide),
    .cnt_high_i  (cnt_high)
  );

  dpu_control #(
    .Tiles(Tiles)
  ) u_control (
    .clk_i,
    .rst_ni,
    .start_i        (start),
    .reset_i        (reset),
    .watchdog_i     (watchdog),
    .busy_o         (busy),
    .done_o         (done),
    .error_o        (error),
    .cycles_o       (cycles),
    .irq_error_o    (irq_error),
    .tile_start_o   (tile_start),
    .tile_stop_o    (tile_stop),
    .tile_rst_no    (tile_rst_n),
    .tile_busy_i    (tile_busy),
    .tile_quiet_i   (tile_quiet),
    .tile_progress_i(tile_progress),
    .tile_fault_i   (tile_fault),
    .tile_stuck_i   (tile_stuck)
  );

  assign status_o = {error.fault.valid, done, busy};

  for (genvar t = 0; t < Tiles; t++) begin : gen_tile
    // A token that tile t sends to tile s is one that tile s gets from tile t.
    for (genvar s = 0; s < Tiles; s++) begin : gen_token
      assign token_in[t][s] = token_out[s][t];
      assign full_in[t][s]  = full_out[s][t];
    end

    dpu_tile #(
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
      .RemoteLatency(RemoteLatency)
    ) u_tile (
      .clk_i,
      .rst_ni        (tile_rst_n),
      .start_i       (tile_start),
      .stop_i        (tile_stop),
      .program_i     (programs[t]),
      .words_i       (words[t]),
      .regions_i     (regions),
      .busy_o        (tile_busy[t]),
      .quiet_o       (tile_quiet[t]),
      .progress_o    (tile_progress[t]),
      .irq_o         (tile_irq[t]),
      .fault_o       (tile_fault[t]),
      .stuck_o       (tile_stuck[t]),
      .cnt_read_i    (cnt_read),
      .cnt_offset_i  (cnt_offset),
      .cnt_value_o   (cnt_value[t]),
      .cnt_wide_o    (cnt_wide[t]),
      .cnt_high_o    (cnt_high[t]),
      .remote_token_i(token_in[t]),
      .remote_full_o (full_out[t]),
      .remote_token_o(token_out[t]),
      .remote_full_i (full_in[t]),
      .ar_valid_o    (m_axi_arvalid_o[t]),
      .ar_ready_i    (m_axi_arready_i[t]),
      .ar_id_o       (m_axi_arid_o[t]),
      .ar_addr_o     (m_axi_araddr_o[t]),
      .ar_len_o      (m_axi_arlen_o[t]),
      .r_valid_i     (m_axi_rvalid_i[t]),
      .r_ready_o     (m_axi_rready_o[t]),
      .r_id_i        (m_axi_rid_i[t]),
      .r_data_i      (m_axi_rdata_i[t]),
      .r_resp_i      (m_axi_rresp_i[t]),
      .r_last_i      (m_axi_rlast_i[t]),
      .aw_valid_o    (m_axi_awvalid_o[t]),
      .aw_ready_i    (m_axi_awready_i[t]),
      .aw_addr_o     (m_axi_awaddr_o[t]),
      .aw_len_o      (m_axi_awlen_o[t]),
      .w_valid_o     (m_axi_wvalid_o[t]),
      .w_ready_i     (m_axi_wready_i[t]),
      .w_data_o      (m_axi_wdata_o[t]),
      .w_strb_o      (m_axi_wstrb_o[t]),
      .w_last_o      (m_axi_wlast_o[t]),
      .b_valid_i     (m_axi_bvalid_i[t]),
      .b_ready_o     (m_axi_bready_o[t]),
      .b_resp_i      (m_axi_bresp_i[t]),
      .events_o      (events_o[t])
    );

    // Full beats of 64 bytes, incrementing.
    assign m_axi_arsize_o[t]  = 3'd6;
    assign m_axi_arburst_o[t] = 2'b01;
    assign m_axi_awid_o[t]    = 1'b0;
    assign m_axi_awsize_o[t]  = 3'd6;
    assign m_axi_awburst_o[t] = 2'b01;
  end

  // STORE is the only writer.
  logic unused;
  assign unused = ^m_axi_bid_i;

endmodule
