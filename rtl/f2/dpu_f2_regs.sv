// Registers of the custom logic: identity, state, control, copy engine, interrupts, the global counter (README.md).
// Written and read through `dpu_axil`; what is not assigned reads as 0xDEAD and the low half of its address, so that all
// ones always mean a dead bus.

module dpu_f2_regs #(
  parameter int unsigned Tiles      = 1,
  parameter logic [63:0] ArchDigest = '0,
  parameter logic [31:0] MemoryMib  = 32'd16384,
  localparam int unsigned AddrW = 26
) (
  input  logic                    clk_i,
  input  logic                    rst_ni,

  input  logic                    wr_valid_i,
  input  logic [AddrW-1:2]        wr_addr_i,
  input  logic [31:0]             wr_data_i,
  input  logic [31:0]             wr_mask_i,
  input  logic                    rd_valid_i,
  input  logic [AddrW-1:2]        rd_addr_i,
  output logic [31:0]             rd_data_o,  // two cycles after rd_valid_i

  // state
  input  logic                    hbm_ready_i,
  input  logic [1:0]              power_i,
  input  logic                    pcim_timeout_i,
  input  logic                    pcis_error_i,
  input  logic                    memory_lost_i,
  input  logic                    dpu_done_i,  // levels
  input  logic                    dpu_error_i,
  input  logic [63:0]             global_count_i,

  // control
  output logic                    reset_o,
  input  logic                    reset_busy_i,
  output logic                    pause_o,

  // copy engine
  output logic                    copy_start_o,
  output logic                    copy_abort_o,
  output logic [63:0]             copy_src_o,
  output logic [63:0]             copy_dst_o,
  output logic [31:0]             copy_bytes_o,
  input  logic                    copy_busy_i,
  input  logic                    copy_done_i,  // pulses
  input  logic                    copy_failed_i,
  input  dpu_f2_pkg::copy_error_e copy_error_i,
  input  logic [31:0]             copied_i,

  // interrupt
  output logic [4:0]              irq_level_o,
  output logic                    irq_clear_o
);

  import dpu_f2_pkg::*;

  localparam logic [31:0] Id = 32'h4450_5546;  // "DPUF"
  localparam logic [31:0] Version = 32'h0001_0000;  // of this block: major, minor
  localparam int unsigned Block = 'h10_0000;
  localparam int unsigned RegId = 'h00, RegVersion = 'h04, RegDigestLo = 'h08, RegDigestHi = 'h0C, RegTiles = 'h10;
  localparam int unsigned RegMemory = 'h14, RegStatus = 'h18, RegControl = 'h1C, RegSrcLo = 'h20, RegSrcHi = 'h24;
  localparam int unsigned RegDstLo = 'h28, RegDstHi = 'h2C, RegBytes = 'h30, RegCopyControl = 'h34;
  localparam int unsigned RegCopyStatus = 'h38, RegCopied = 'h3C, RegIrqEnable = 'h40, RegIrqPending = 'h44;
  localparam int unsigned RegScratch = 'h48, RegCountLo = 'h4C, RegCountHi = 'h50;

  function automatic logic [31:0] merge(input logic [31:0] old, input logic [31:0] data, input logic [31:0] mask);
    return (data & mask) | (old & ~mask);
  endfunction

  function automatic logic at(input logic [AddrW-1:2] addr, input int unsigned offset);
    return addr == (AddrW-2)'((Block + offset) / 4);
  endfunction

  // Writes.

  logic [4:0]  written;
  logic        pause_q;
  logic [63:0] src_q, dst_q;
  logic [31:0] bytes_q, scratch_q;
  logic [4:0]  irq_enable_q;

  assign written      = wr_data_i[4:0] & wr_mask_i[4:0];
  assign reset_o      = wr_valid_i & at(wr_addr_i, RegControl) & written[0];
  assign pause_o      = pause_q;
  assign copy_start_o = wr_valid_i & at(wr_addr_i, RegCopyControl) & written[0];
  assign copy_abort_o = wr_valid_i & at(wr_addr_i, RegCopyControl) & written[1];
  assign copy_src_o   = src_q;
  assign copy_dst_o   = dst_q;
  assign copy_bytes_o = bytes_q;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      pause_q      <= 1'b0;
      src_q        <= '0;
      dst_q        <= '0;
      bytes_q      <= '0;
      scratch_q    <= '0;
      irq_enable_q <= '0;
    end else if (wr_valid_i) begin
      if (at(wr_addr_i, RegControl) && wr_mask_i[1]) pause_q <= wr_data_i[1];
      if (at(wr_addr_i, RegSrcLo)) src_q[31:0] <= merge(src_q[31:0], wr_data_i, wr_mask_i);
      if (at(wr_addr_i, RegSrcHi)) src_q[63:32] <= merge(src_q[63:32], wr_data_i, wr_mask_i);
      if (at(wr_addr_i, RegDstLo)) dst_q[31:0] <= merge(dst_q[31:0], wr_data_i, wr_mask_i);
      if (at(wr_addr_i, RegDstHi)) dst_q[63:32] <= merge(dst_q[63:32], wr_data_i, wr_mask_i);
      if (at(wr_addr_i, RegBytes)) bytes_q <= merge(bytes_q, wr_data_i, wr_mask_i);
      if (at(wr_addr_i, RegScratch)) scratch_q <= merge(scratch_q, wr_data_i, wr_mask_i);
      if (at(wr_addr_i, RegIrqEnable)) irq_enable_q <= 5'(merge(32'(irq_enable_q), wr_data_i, wr_mask_i));
    end
  end

  // What happened. An event in the cycle in which it is cleared stays.

  logic        warned_q, late_q, refused_q, done_q, failed_q, dpu_done_q, dpu_error_q;
  logic [1:0]  copy_clear;
  logic [4:0]  pending_q, pending_set, pending_clear;
  copy_error_e copy_error_q;

  assign copy_clear    = (wr_valid_i && at(wr_addr_i, RegCopyStatus)) ? written[2:1] : '0;
  assign pending_clear = (wr_valid_i && at(wr_addr_i, RegIrqPending)) ? written : '0;
  assign pending_set   = {(power_i != '0) & ~warned_q, copy_failed_i, copy_done_i, dpu_error_i & ~dpu_error_q,
                          dpu_done_i & ~dpu_done_q};
  assign irq_level_o   = pending_q & irq_enable_q;
  assign irq_clear_o   = pending_clear != '0;

  logic status_write;
  assign status_write = wr_valid_i & at(wr_addr_i, RegStatus);

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      warned_q     <= 1'b0;
      late_q       <= 1'b0;
      refused_q    <= 1'b0;
      done_q       <= 1'b0;
      failed_q     <= 1'b0;
      copy_error_q <= CopyOk;
      pending_q    <= '0;
      dpu_done_q   <= 1'b0;
      dpu_error_q  <= 1'b0;
    end else begin
      warned_q    <= (power_i != '0) | (warned_q & ~(status_write & written[1]));
      late_q      <= pcim_timeout_i | (late_q & ~(status_write & written[2]));
      refused_q   <= pcis_error_i | (refused_q & ~(status_write & written[3]));
      done_q      <= copy_done_i | (done_q & ~copy_clear[0] & ~copy_start_o);
      failed_q    <= copy_failed_i | (failed_q & ~copy_clear[1] & ~copy_start_o);
      pending_q   <= (pending_q & ~pending_clear) | pending_set;
      dpu_done_q  <= dpu_done_i;
      dpu_error_q <= dpu_error_i;
      if (copy_failed_i) copy_error_q <= copy_error_i;
      else if (copy_clear[1] || copy_start_o) copy_error_q <= CopyOk;
    end
  end

  // Reads.

  logic [31:0] found, data_q, count_high_q;

  assign rd_data_o = data_q;  // stays until the next read

  always_comb begin
    found = {DeadWord, rd_addr_i[15:2], 2'b00};
    if (at(rd_addr_i, RegId)) found = Id;
    if (at(rd_addr_i, RegVersion)) found = Version;
    if (at(rd_addr_i, RegDigestLo)) found = ArchDigest[31:0];
    if (at(rd_addr_i, RegDigestHi)) found = ArchDigest[63:32];
    if (at(rd_addr_i, RegTiles)) found = 32'(Tiles);
    if (at(rd_addr_i, RegMemory)) found = MemoryMib;
    if (at(rd_addr_i, RegStatus)) begin
      found = {22'd0, power_i, 3'd0, memory_lost_i, refused_q, late_q, warned_q, hbm_ready_i};
    end
    if (at(rd_addr_i, RegControl)) found = {30'd0, pause_q, reset_busy_i};
    if (at(rd_addr_i, RegSrcLo)) found = src_q[31:0];
    if (at(rd_addr_i, RegSrcHi)) found = src_q[63:32];
    if (at(rd_addr_i, RegDstLo)) found = dst_q[31:0];
    if (at(rd_addr_i, RegDstHi)) found = dst_q[63:32];
    if (at(rd_addr_i, RegBytes)) found = bytes_q;
    if (at(rd_addr_i, RegCopyControl)) found = '0;
    if (at(rd_addr_i, RegCopyStatus)) found = {16'd0, copy_error_q, 5'd0, failed_q, done_q, copy_busy_i};
    if (at(rd_addr_i, RegCopied)) found = copied_i;
    if (at(rd_addr_i, RegIrqEnable)) found = 32'(irq_enable_q);
    if (at(rd_addr_i, RegIrqPending)) found = 32'(pending_q);
    if (at(rd_addr_i, RegScratch)) found = scratch_q;
    if (at(rd_addr_i, RegCountLo)) found = global_count_i[31:0];
    if (at(rd_addr_i, RegCountHi)) found = count_high_q;
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      data_q       <= '0;
      count_high_q <= '0;
    end else if (rd_valid_i) begin
      data_q <= found;
      if (at(rd_addr_i, RegCountLo)) count_high_q <= global_count_i[63:32];
    end
  end

endmodule
