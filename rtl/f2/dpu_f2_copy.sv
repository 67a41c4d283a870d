// The read-back engine: copies device memory into the host's, whose loads over PCIe would be a thousand times slower.
// A chunk is at most 64 beats and crosses no 4 KiB on either side. It is offered to PCIM only when all its beats are here,
// so that the shell never waits for HBM. Done means: every write response has come.
// After a timeout the engine reports at once, but finishes what it owes the bus before it takes another START.

module dpu_f2_copy #(
  parameter int unsigned Timeout = dpu_f2_pkg::HostTimeout,
  localparam int unsigned Beats  = 256,  // of the buffer: one chunk goes out while reads of three are under way
  localparam int unsigned Chunks = 16
) (
  input  logic                    clk_i,
  input  logic                    rst_ni,
  input  logic                    ready_i,  // HBM has started up

  // registers
  input  logic                    start_i,
  input  logic                    abort_i,
  input  logic [63:0]             src_i,
  input  logic [63:0]             dst_i,
  input  logic [31:0]             bytes_i,
  output logic                    busy_o,
  output logic                    idle_o,  // owes nothing to any bus
  output logic                    done_o,  // pulses
  output logic                    failed_o,
  output dpu_f2_pkg::copy_error_e error_o,  // with failed_o
  output logic                    timeout_o,  // of the host
  output logic [31:0]             copied_o,

  // memory
  output logic                    ar_valid_o,
  input  logic                    ar_ready_i,
  output dpu_f2_pkg::mem_a_t      ar_o,
  input  logic                    r_valid_i,
  output logic                    r_ready_o,
  input  dpu_f2_pkg::mem_r_t      r_i,

  // PCIM
  output logic                    aw_valid_o,
  input  logic                    aw_ready_i,
  output dpu_f2_pkg::mem_a_t      aw_o,
  output logic                    w_valid_o,
  input  logic                    w_ready_i,
  output logic [511:0]            w_data_o,
  output logic                    w_last_o,
  input  logic                    b_valid_i,
  output logic                    b_ready_o,
  input  logic [1:0]              b_resp_i
);

  import dpu_f2_pkg::*;

  // Waiver: outputs that nobody here needs.
  /* verilator lint_off PINCONNECTEMPTY */

  localparam int unsigned LevelW = $clog2(Beats + 1);
  localparam int unsigned OwedW  = $clog2(Chunks + 1);
  localparam int unsigned TimeW  = $clog2(Timeout + 1);

  logic             busy_q;  // as the host sees it
  logic             stop_q;  // start no chunk
  logic [63:6]      src_q, dst_q;
  logic [31:6]      left_q, copied_q;
  logic [LevelW-1:0] reserved_q;  // beats asked for and not yet taken out of the buffer
  logic [TimeW-1:0] time_q;
  logic             expired;

  // The next chunk, and its read.

  logic [6:0] to_src, to_dst, chunk;
  logic       chunk_space, ar_fire;

  assign to_src = 7'd64 - {1'b0, src_q[11:6]};
  assign to_dst = 7'd64 - {1'b0, dst_q[11:6]};

  always_comb begin
    chunk = (to_src < to_dst) ? to_src : to_dst;
    if (left_q < 26'(chunk)) chunk = 7'(left_q);
  end

  logic ar_valid_q;  // the address stays until it is taken, whatever comes
  mem_a_t ar_q;

  assign ar_valid_o = ar_valid_q;
  assign ar_o       = ar_q;
  assign ar_fire    = busy_q & ~stop_q & ~expired & ~ar_valid_q & (left_q != '0) & chunk_space &
                      (reserved_q + LevelW'(chunk) <= LevelW'(Beats));

  // Chunks that were read, in order.

  mem_a_t head;
  logic   head_valid, head_take;

  dpu_fifo #(
    .Width($bits(mem_a_t)),
    .Depth(4)
  ) u_chunks (
    .clk_i,
    .rst_ni,
    .clear_i   (stop_q),
    .wr_valid_i(ar_fire),
    .wr_ready_o(chunk_space),
    .wr_data_i ({dst_q, 6'd0, 8'(chunk - 7'd1)}),
    .rd_valid_o(head_valid),
    .rd_ready_i(head_take),
    .rd_data_o (head),
    .count_o()
  );

  // Their data.

  logic              beat_valid, beat_take;
  logic [LevelW-1:0] level;

  dpu_fifo #(
    .Width(512),
    .Depth(Beats)
  ) u_beats (
    .clk_i,
    .rst_ni,
    .clear_i   (1'b0),
    .wr_valid_i(r_valid_i),
    .wr_ready_o(r_ready_o),
    .wr_data_i (r_i.data),
    .rd_valid_o(beat_valid),
    .rd_ready_i(beat_take),
    .rd_data_o (w_data_o),
    .count_o   (level)
  );

  // Writes to the host. Address and data are offered together.

  logic              aw_q, w_q;  // offered
  mem_a_t            write_q;
  logic [7:0]        beat_q;
  logic              sending, owed_space, owed_valid, b_fire;
  logic [7:0]        owed_len;
  logic [OwedW-1:0]  owed;

  assign sending    = aw_q | w_q;
  assign head_take  = head_valid & ~stop_q & ~expired & ~sending & owed_space & (level > LevelW'(head.len));
  assign aw_valid_o = aw_q;
  assign aw_o       = write_q;
  assign w_valid_o  = w_q;
  assign w_last_o   = beat_q == write_q.len;
  // When stopped, what is in the buffer is thrown away, but for a chunk that was begun.
  assign beat_take  = w_q ? w_ready_i : (stop_q & beat_valid);
  assign b_ready_o  = 1'b1;
  assign b_fire     = b_valid_i & owed_valid;

  dpu_fifo #(
    .Width(8),
    .Depth(Chunks)
  ) u_owed (
    .clk_i,
    .rst_ni,
    .clear_i   (1'b0),
    .wr_valid_i(head_take),
    .wr_ready_o(owed_space),
    .wr_data_i (head.len),
    .rd_valid_o(owed_valid),
    .rd_ready_i(b_valid_i),
    .rd_data_o (owed_len),
    .count_o   (owed)
  );

  // Ends.

  logic        quiet, moves, argument, memory_bad, host_bad;
  copy_error_e error_q;

  assign quiet      = ~ar_valid_q & (reserved_q == '0) & ~sending & (owed == '0);
  assign idle_o     = quiet & ~busy_q;
  assign moves      = ar_fire | (ar_valid_o & ar_ready_i) | (r_valid_i & r_ready_o) | head_take | b_valid_i |
                      (aw_q & aw_ready_i) | (w_q & w_ready_i);
  assign expired    = time_q == TimeW'(Timeout);
  assign memory_bad = r_valid_i & r_ready_o & (r_i.resp != RespOkay);
  assign host_bad   = b_fire & (b_resp_i != RespOkay);
  assign argument   = (bytes_i == '0) | (bytes_i[5:0] != '0) | (src_i[5:0] != '0) | (dst_i[5:0] != '0);
  assign timeout_o  = busy_q & expired & (sending | (owed != '0));
  assign busy_o     = busy_q;
  assign copied_o   = {copied_q, 6'd0};

  always_comb begin
    done_o   = 1'b0;
    failed_o = 1'b0;
    error_o  = CopyOk;
    if (start_i && !busy_q) begin
      failed_o = 1'b1;
      if (argument) error_o = CopyArgument;
      else if (!ready_i) error_o = CopyNotReady;
      else if (sending || owed != '0) error_o = CopyHostTimeout;
      else if (!quiet) error_o = CopyMemoryTimeout;
      else failed_o = 1'b0;
    end else if (busy_q && expired) begin
      failed_o = 1'b1;
      error_o  = (error_q != CopyOk) ? error_q : timeout_o ? CopyHostTimeout : CopyMemoryTimeout;
    end else if (busy_q && quiet && stop_q) begin
      failed_o = 1'b1;
      error_o  = error_q;
    end else if (busy_q && quiet && left_q == '0) begin
      done_o = 1'b1;
    end
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      busy_q     <= 1'b0;
      stop_q     <= 1'b0;
      src_q      <= '0;
      dst_q      <= '0;
      left_q     <= '0;
      copied_q   <= '0;
      reserved_q <= '0;
      time_q     <= '0;
      ar_valid_q <= 1'b0;
      ar_q       <= '0;
      aw_q       <= 1'b0;
      w_q        <= 1'b0;
      write_q    <= '0;
      beat_q     <= '0;
      error_q    <= CopyOk;
    end else begin
      if (ar_fire) begin
        ar_valid_q <= 1'b1;
        ar_q       <= '{addr: {src_q, 6'd0}, len: 8'(chunk - 7'd1)};
        src_q      <= src_q + 58'(chunk);
        dst_q      <= dst_q + 58'(chunk);
        left_q     <= left_q - 26'(chunk);
      end else if (ar_ready_i) begin
        ar_valid_q <= 1'b0;
      end
      reserved_q <= reserved_q + (ar_fire ? LevelW'(chunk) : '0) - LevelW'(beat_take);

      if (head_take) begin
        aw_q    <= 1'b1;
        w_q     <= 1'b1;
        write_q <= head;
        beat_q  <= '0;
      end else begin
        if (aw_ready_i) aw_q <= 1'b0;
        if (w_q && w_ready_i) begin
          beat_q <= beat_q + 8'd1;
          if (w_last_o) w_q <= 1'b0;
        end
      end
      if (b_fire && b_resp_i == RespOkay) copied_q <= copied_q + 26'(owed_len) + 26'd1;

      time_q <= (busy_q && !moves) ? time_q + TimeW'(1) : '0;
      if (busy_q && (memory_bad || host_bad || abort_i || expired)) stop_q <= 1'b1;
      if (busy_q && error_q == CopyOk) begin
        if (memory_bad) error_q <= CopyMemory;
        else if (host_bad) error_q <= CopyHost;
        else if (abort_i) error_q <= CopyAborted;
      end
      if (done_o || failed_o) busy_q <= 1'b0;
      if (start_i && !busy_q && !failed_o) begin
        busy_q   <= 1'b1;
        stop_q   <= 1'b0;
        error_q  <= CopyOk;
        src_q    <= src_i[63:6];
        dst_q    <= dst_i[63:6];
        left_q   <= bytes_i[31:6];
        copied_q <= '0;
      end
    end
  end

  // Bursts of the memory end where their lengths say.
  logic unused;
  assign unused = r_i.last;

  /* verilator lint_on PINCONNECTEMPTY */

endmodule
