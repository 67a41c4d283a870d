// The host's registers: docs/regmap.md, behind the accesses that `dpu_axil` decodes.
// Holds what the host sets; shows what control and the tiles' counters report. Reading the low half of a counter
// keeps its high half for the next read. What is not listed reads as zero, writes to it are ignored.

module dpu_regs #(
  parameter int unsigned Tiles      = 1,
  parameter int unsigned Cols       = 8,
  parameter int unsigned Lanes      = 8,
  parameter logic [63:0] ArchDigest = '0,
  parameter int unsigned Watchdog   = 1 << 20,
  localparam int unsigned AddrW = $clog2(dpu_isa_pkg::RegSpaceBytes)
) (
  input  logic                           clk_i,
  input  logic                           rst_ni,

  input  logic                           wr_valid_i,
  input  logic [AddrW-1:2]               wr_addr_i,
  input  logic [31:0]                    wr_data_i,
  input  logic [31:0]                    wr_mask_i,
  input  logic                           rd_valid_i,
  input  logic [AddrW-1:2]               rd_addr_i,
  output logic [31:0]                    rd_data_o,  // two cycles after rd_valid_i

  // set by the host
  output dpu_pkg::region_t [7:0]         regions_o,
  output dpu_pkg::axi_addr_t [Tiles-1:0] program_o,
  output logic [Tiles-1:0][31:0]         words_o,
  output logic [31:0]                    watchdog_o,
  output logic                           start_o,
  output logic                           reset_o,
  output logic                           irq_o,

  // state
  input  logic                           busy_i,
  input  logic                           done_i,
  input  logic [Tiles-1:0]               tile_busy_i,
  input  dpu_pkg::report_t               error_i,
  input  logic [63:0]                    cycles_i,
  input  logic                           irq_end_i,
  input  logic                           irq_error_i,

  // the tiles' counters: value of offset cnt_offset_o one cycle after cnt_read_o
  output logic                           cnt_read_o,
  output logic [7:2]                     cnt_offset_o,
  input  logic [Tiles-1:0][63:0]         cnt_value_i,
  input  logic [Tiles-1:0]               cnt_wide_i,
  input  logic [Tiles-1:0]               cnt_high_i
);

  import dpu_isa_pkg::*;

  localparam int unsigned TileStride = RegTileProgramLoStride;
  localparam int unsigned TileCount  = RegTileProgramLoCount;
  localparam int unsigned TileW      = (Tiles > 1) ? $clog2(Tiles) : 1;

  function automatic logic [31:0] merge(input logic [31:0] old, input logic [31:0] data, input logic [31:0] mask);
    return (data & mask) | (old & ~mask);
  endfunction

  function automatic logic at(input logic [AddrW-1:2] addr, input int unsigned offset);
    return addr == (AddrW-2)'(offset / 4);
  endfunction

  // Which tile's block an address lies in, and whether there is one.
  typedef struct packed {
    logic             valid;
    logic [TileW-1:0] tile;
  } block_t;

  function automatic block_t block_of(input logic [AddrW-1:2] addr);
    logic [31:0] bytes, number;
    bytes  = {(32 - AddrW)'(0), addr, 2'b00};
    number = (bytes - RegTileProgramLo) / TileStride;
    return '{valid: (bytes >= RegTileProgramLo) & (number < TileCount) & (number < Tiles), tile: TileW'(number)};
  endfunction

  // Writes.

  dpu_pkg::region_t [7:0] regions_q;
  logic [Tiles-1:0][63:0] program_q;
  logic [Tiles-1:0][31:0] words_q;
  logic [31:0]            watchdog_q;
  logic [1:0]             irq_enable_q, irq_status_q, irq_clear;
  logic [31:0]            written;
  logic                   irq_q;

  assign written   = wr_data_i & wr_mask_i;
  assign start_o   = wr_valid_i & at(wr_addr_i, RegCtrl) & written[RegCtrlStartLsb];
  assign reset_o   = wr_valid_i & at(wr_addr_i, RegCtrl) & written[RegCtrlResetLsb];
  assign irq_clear = (wr_valid_i && at(wr_addr_i, RegIrqStatus)) ? written[1:0] : '0;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      irq_enable_q <= '0;
      irq_status_q <= '0;
      irq_q        <= 1'b0;
      watchdog_q   <= Watchdog;
    end else begin
      if (wr_valid_i && at(wr_addr_i, RegIrqEnable)) begin
        irq_enable_q <= 2'(merge(32'(irq_enable_q), wr_data_i, wr_mask_i));
      end
      if (wr_valid_i && at(wr_addr_i, RegWatchdog)) watchdog_q <= merge(watchdog_q, wr_data_i, wr_mask_i);
      // An event in the cycle in which it is cleared stays.
      irq_status_q <= (irq_status_q & ~irq_clear) | {irq_error_i, irq_end_i};
      irq_q        <= (irq_status_q & irq_enable_q) != '0;
    end
  end

  for (genvar i = 0; i < BaseRegisters; i++) begin : gen_base
    always_ff @(posedge clk_i or negedge rst_ni) begin
      if (!rst_ni) begin
        regions_q[i] <= '0;
      end else if (wr_valid_i) begin
        if (at(wr_addr_i, RegBaseLo + RegBaseLoStride * i)) begin
          regions_q[i].base[31:0] <= {merge(regions_q[i].base[31:0], wr_data_i, wr_mask_i)} & ~32'h3f;
        end
        if (at(wr_addr_i, RegBaseHi + RegBaseHiStride * i)) begin
          regions_q[i].base[63:32] <= merge(regions_q[i].base[63:32], wr_data_i, wr_mask_i);
        end
        if (at(wr_addr_i, RegLimitLo + RegLimitLoStride * i)) begin
          regions_q[i].limit[31:0] <= merge(regions_q[i].limit[31:0], wr_data_i, wr_mask_i);
        end
        if (at(wr_addr_i, RegLimitHi + RegLimitHiStride * i)) begin
          regions_q[i].limit[63:32] <= merge(regions_q[i].limit[63:32], wr_data_i, wr_mask_i);
        end
      end
    end
  end

  for (genvar t = 0; t < Tiles; t++) begin : gen_tile
    always_ff @(posedge clk_i or negedge rst_ni) begin
      if (!rst_ni) begin
        program_q[t] <= '0;
        words_q[t]   <= '0;
      end else if (wr_valid_i) begin
        if (at(wr_addr_i, RegTileProgramLo + TileStride * t)) begin
          program_q[t][31:0] <= merge(program_q[t][31:0], wr_data_i, wr_mask_i) & ~32'h3f;
        end
        if (at(wr_addr_i, RegTileProgramHi + TileStride * t)) begin
          program_q[t][63:32] <= merge(program_q[t][63:32], wr_data_i, wr_mask_i);
        end
        if (at(wr_addr_i, RegTileProgramWords + TileStride * t)) begin
          words_q[t] <= merge(words_q[t], wr_data_i, wr_mask_i);
        end
      end
    end
  end

  assign regions_o  = regions_q;
  assign program_o  = program_q;
  assign words_o    = words_q;
  assign watchdog_o = watchdog_q;
  assign irq_o      = irq_q;

  // Reads, first cycle: the register, or which tile to take it from. Second cycle: the half of it.

  typedef struct packed {
    logic        wide;
    logic [63:0] value;
  } found_t;

  found_t           found_d, found_q, chosen;
  block_t           rd_block;
  logic             tiled_q, valid_q, high;
  logic [TileW-1:0] tile_q;
  logic [AddrW-1:2] addr_q, kept_addr_q;
  logic [31:0]      kept_q, data_q;

  assign rd_block     = block_of(rd_addr_i);
  assign cnt_read_o   = rd_valid_i;
  assign cnt_offset_o = rd_addr_i[7:2];

  always_comb begin
    found_d = '0;
    if (rd_valid_i) begin  // an idle port costs no simulation time
      if (at(rd_addr_i, RegId)) found_d.value[31:0] = RegIdValue;
      if (at(rd_addr_i, RegAbi)) found_d.value[31:0] = AbiVersion;
      if (at(rd_addr_i, RegArchDigestLo)) found_d.value[31:0] = ArchDigest[31:0];
      if (at(rd_addr_i, RegArchDigestHi)) found_d.value[31:0] = ArchDigest[63:32];
      if (at(rd_addr_i, RegShape)) begin
        found_d.value[RegShapeTilesLsb+:RegShapeTilesW] = RegShapeTilesW'(Tiles);
        found_d.value[RegShapeColsLsb+:RegShapeColsW]   = RegShapeColsW'(Cols);
        found_d.value[RegShapeLanesLsb+:RegShapeLanesW] = RegShapeLanesW'(Lanes);
      end
      if (at(rd_addr_i, RegStatus)) begin
        found_d.value[RegStatusBusyLsb]  = busy_i;
        found_d.value[RegStatusDoneLsb]  = done_i;
        found_d.value[RegStatusErrorLsb] = error_i.fault.valid;
      end
      if (at(rd_addr_i, RegTileBusy)) found_d.value[31:0] = 32'(tile_busy_i);
      if (at(rd_addr_i, RegIrqEnable)) found_d.value[1:0] = irq_enable_q;
      if (at(rd_addr_i, RegIrqStatus)) found_d.value[1:0] = irq_status_q;
      if (at(rd_addr_i, RegError)) begin
        found_d.value[RegErrorCodeLsb+:RegErrorCodeW]     = error_i.fault.code;
        found_d.value[RegErrorTileLsb+:RegErrorTileW]     = error_i.tile;
        found_d.value[RegErrorEngineLsb+:RegErrorEngineW] = RegErrorEngineW'(error_i.engine);
      end
      if (at(rd_addr_i, RegErrorWord)) found_d.value[31:0] = error_i.fault.index;
      if (at(rd_addr_i, RegErrorAddressLo)) found_d.value[31:0] = error_i.fault.address[31:0];
      if (at(rd_addr_i, RegErrorAddressHi)) found_d.value[31:0] = error_i.fault.address[63:32];
      if (at(rd_addr_i, RegCyclesLo) || at(rd_addr_i, RegCyclesHi)) found_d = {1'b1, cycles_i};
      if (at(rd_addr_i, RegWatchdog)) found_d.value[31:0] = watchdog_q;
      for (int unsigned i = 0; i < BaseRegisters; i++) begin
        if (at(rd_addr_i, RegBaseLo + RegBaseLoStride * i)) found_d.value[31:0] = regions_q[i].base[31:0];
        if (at(rd_addr_i, RegBaseHi + RegBaseHiStride * i)) found_d.value[31:0] = regions_q[i].base[63:32];
        if (at(rd_addr_i, RegLimitLo + RegLimitLoStride * i)) found_d.value[31:0] = regions_q[i].limit[31:0];
        if (at(rd_addr_i, RegLimitHi + RegLimitHiStride * i)) found_d.value[31:0] = regions_q[i].limit[63:32];
      end
      for (int unsigned t = 0; t < Tiles; t++) begin
        if (at(rd_addr_i, RegTileProgramLo + TileStride * t)) found_d.value[31:0] = program_q[t][31:0];
        if (at(rd_addr_i, RegTileProgramHi + TileStride * t)) found_d.value[31:0] = program_q[t][63:32];
        if (at(rd_addr_i, RegTileProgramWords + TileStride * t)) found_d.value[31:0] = words_q[t];
      end
    end
  end

  assign chosen = found_q | (tiled_q ? {cnt_wide_i[tile_q], cnt_value_i[tile_q]} : '0);
  assign high   = tiled_q ? cnt_high_i[tile_q] : found_q.wide & addr_q[2];

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      valid_q     <= 1'b0;
      found_q     <= '0;
      tiled_q     <= 1'b0;
      tile_q      <= '0;
      addr_q      <= '0;
      kept_q      <= '0;
      kept_addr_q <= '0;
      data_q      <= '0;
    end else begin
      valid_q <= rd_valid_i;
      if (rd_valid_i) begin
        found_q <= found_d;
        tiled_q <= rd_block.valid;
        tile_q  <= rd_block.tile;
        addr_q  <= rd_addr_i;
      end
      if (valid_q) begin
        if (!high) data_q <= chosen.value[31:0];
        else data_q <= (kept_addr_q == addr_q) ? kept_q : chosen.value[63:32];
        if (chosen.wide && !high) begin
          kept_q      <= chosen.value[63:32];
          kept_addr_q <= addr_q + (AddrW-2)'(1);
        end
      end
    end
  end

  assign rd_data_o = data_q;

endmodule
