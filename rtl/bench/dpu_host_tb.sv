// The host side for the bench: AXI4-Lite, registers, control and the counters of each tile.
// The tiles are inputs: what they report, and what their engines do. The soft reset is real for the counters.
// Registers are reached only through the bus, as a host does.

module dpu_host_tb #(
  parameter int unsigned Tiles      = 3,
  parameter int unsigned Cols       = 16,
  parameter int unsigned Lanes      = 8,
  parameter logic [63:0] ArchDigest = 64'h0123_4567_89ab_cdef,
  parameter int unsigned Watchdog   = 1000
) (
  input  logic                         clk_i,
  input  logic                         rst_ni,

  input  logic                         awvalid_i,
  output logic                         awready_o,
  input  logic [13:0]                  awaddr_i,
  input  logic                         wvalid_i,
  output logic                         wready_o,
  input  logic [31:0]                  wdata_i,
  input  logic [3:0]                   wstrb_i,
  output logic                         bvalid_o,
  input  logic                         bready_i,
  output logic [1:0]                   bresp_o,
  input  logic                         arvalid_i,
  output logic                         arready_o,
  input  logic [13:0]                  araddr_i,
  output logic                         rvalid_o,
  input  logic                         rready_i,
  output logic [31:0]                  rdata_o,
  output logic [1:0]                   rresp_o,
  output logic                         irq_o,

  output dpu_pkg::region_t [7:0]       regions_o,
  output logic [Tiles-1:0][63:0]       program_o,
  output logic [Tiles-1:0][31:0]       words_o,
  output logic                         tile_start_o,
  output logic                         tile_stop_o,
  output logic                         alive_o,  // the tiles are not in reset
  input  logic [Tiles-1:0]             tile_busy_i,
  input  logic [Tiles-1:0]             tile_quiet_i,
  input  logic [Tiles-1:0]             tile_progress_i,
  input  logic [Tiles-1:0]             tile_irq_i,
  input  dpu_pkg::report_t [Tiles-1:0] tile_fault_i,
  input  dpu_pkg::report_t [Tiles-1:0] tile_stuck_i,

  // counters, the same events for each tile in `count_i`
  input  logic [Tiles-1:0]             count_i,
  input  logic [3:0]                   done_i,
  input  logic [3:0]                   busy_i,
  input  logic [3:0]                   wait_i,
  input  logic [3:0]                   port_i,
  input  logic [3:0]                   empty_i,
  input  logic [3:0][31:0]             at_i,
  input  logic [31:0]                  fetched_i,
  input  logic [31:0]                  overflows_i,
  input  logic [31:0]                  nans_i,
  input  logic [31:0]                  read_bytes_i,
  input  logic [31:0]                  written_bytes_i
);

  logic                   wr_valid, rd_valid, start, reset, busy, done, irq_error, cnt_read;
  logic [13:2]            wr_addr, rd_addr;
  logic [31:0]            wr_data, wr_mask, rd_data, watchdog;
  dpu_pkg::report_t       error;
  logic [63:0]            cycles;
  logic [7:2]             cnt_offset;
  logic [Tiles-1:0][63:0] cnt_value;
  logic [Tiles-1:0]       cnt_wide, cnt_high;

  // Waiver: also an output for the bench.
  /* verilator lint_off SYNCASYNCNET */
  logic                   tile_rst_n;
  /* verilator lint_on SYNCASYNCNET */

  assign alive_o = tile_rst_n;

  dpu_axil u_axil (
    .clk_i, .rst_ni, .awvalid_i, .awready_o, .awaddr_i, .wvalid_i, .wready_o, .wdata_i, .wstrb_i, .bvalid_o, .bready_i,
    .bresp_o, .arvalid_i, .arready_o, .araddr_i, .rvalid_o, .rready_i, .rdata_o, .rresp_o,
    .wr_valid_o(wr_valid), .wr_addr_o(wr_addr), .wr_data_o(wr_data), .wr_mask_o(wr_mask),
    .rd_valid_o(rd_valid), .rd_addr_o(rd_addr), .rd_data_i(rd_data)
  );

  dpu_regs #(
    .Tiles(Tiles), .Cols(Cols), .Lanes(Lanes), .ArchDigest(ArchDigest), .Watchdog(Watchdog)
  ) u_regs (
    .clk_i, .rst_ni,
    .wr_valid_i(wr_valid), .wr_addr_i(wr_addr), .wr_data_i(wr_data), .wr_mask_i(wr_mask),
    .rd_valid_i(rd_valid), .rd_addr_i(rd_addr), .rd_data_o(rd_data),
    .regions_o, .program_o, .words_o, .watchdog_o(watchdog), .start_o(start), .reset_o(reset), .irq_o,
    .busy_i(busy), .done_i(done), .tile_busy_i, .error_i(error), .cycles_i(cycles),
    .irq_end_i(tile_irq_i != '0), .irq_error_i(irq_error),
    .cnt_read_o(cnt_read), .cnt_offset_o(cnt_offset), .cnt_value_i(cnt_value), .cnt_wide_i(cnt_wide),
    .cnt_high_i(cnt_high)
  );

  dpu_control #(
    .Tiles(Tiles)
  ) u_control (
    .clk_i, .rst_ni, .start_i(start), .reset_i(reset), .watchdog_i(watchdog), .busy_o(busy), .done_o(done),
    .error_o(error), .cycles_o(cycles), .irq_error_o(irq_error), .tile_start_o, .tile_stop_o, .tile_rst_no(tile_rst_n),
    .tile_busy_i, .tile_quiet_i, .tile_progress_i, .tile_fault_i, .tile_stuck_i
  );

  for (genvar t = 0; t < Tiles; t++) begin : gen_tile
    dpu_counters u_counters (
      .clk_i,
      .rst_ni         (tile_rst_n),
      .clear_i        (tile_start_o),
      .done_i         (done_i & {4{count_i[t]}}),
      .busy_i         (busy_i & {4{count_i[t]}}),
      .wait_i         (wait_i & {4{count_i[t]}}),
      .port_i         (port_i & {4{count_i[t]}}),
      .empty_i        (empty_i & {4{count_i[t]}}),
      .at_i,
      .fetched_i,
      .overflows_i    (overflows_i & {32{count_i[t]}}),
      .nans_i         (nans_i & {32{count_i[t]}}),
      .read_bytes_i   (read_bytes_i & {32{count_i[t]}}),
      .written_bytes_i(written_bytes_i & {32{count_i[t]}}),
      .read_i         (cnt_read),
      .offset_i       (cnt_offset),
      .value_o        (cnt_value[t]),
      .wide_o         (cnt_wide[t]),
      .high_o         (cnt_high[t])
    );
  end

endmodule
