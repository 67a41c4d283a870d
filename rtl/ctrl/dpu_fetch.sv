// Reads a tile's stream of instruction words from DRAM ahead of dispatch, in bursts that stay inside 4 KiB.
// Room is reserved before a burst is asked for, so read data is never refused. Nothing beyond `words_i` is read.
// A bus error travels with its word and counts only if the word is reached; `exhausted_o`: no word is left, and no END.

module dpu_fetch #(
  parameter int unsigned FifoWords = 64
) (
  input  logic               clk_i,
  input  logic               rst_ni,
  input  logic               stop_i,

  input  logic               start_i,      // with program_i and words_i
  input  dpu_pkg::axi_addr_t program_i,
  input  logic [31:0]        words_i,
  input  logic               end_i,        // END was dispatched: forget the rest

  // AXI read, from the multiplexer
  output logic               ar_valid_o,
  input  logic               ar_ready_i,
  output dpu_pkg::axi_addr_t ar_addr_o,
  output logic [7:0]         ar_len_o,
  input  logic               r_valid_i,
  output logic               r_ready_o,
  input  dpu_pkg::beat_t     r_data_i,
  input  logic [1:0]         r_resp_i,

  // to dispatch, in stream order
  output logic               word_valid_o,
  input  logic               word_ready_i,
  output dpu_pkg::word_t     word_o,
  output logic               word_error_o,  // DRAM answered with an error
  output logic               exhausted_o,

  output logic               quiet_o        // no read is open
);

  import dpu_pkg::*;

  localparam int unsigned Burst  = 16;
  localparam int unsigned CountW = $clog2(FifoWords + 1);
  localparam int unsigned PageW  = $clog2(MaxBurstBeats);

  logic              active_q;
  axi_addr_t         next_q;         // address of the next burst
  logic [31:0]       left_q;         // words not yet asked for
  logic [CountW-1:0] owed_q;         // beats to come
  logic [CountW-1:0] used_q;         // beats to come and words in the buffer
  logic [CountW-1:0] filled;

  logic [CountW-1:0] beats;
  logic              asked, arrived, taken;

  // The length of the next burst: to the end of the page, of the stream, or Burst.
  always_comb begin
    beats = CountW'(Burst);
    if (left_q < 32'(Burst)) beats = CountW'(left_q);
    if (MaxBurstBeats - 32'(next_q[6+:PageW]) < 32'(beats)) begin
      beats = CountW'(MaxBurstBeats - 32'(next_q[6+:PageW]));
    end
  end

  assign ar_valid_o = active_q & ~stop_i & ~end_i & (left_q != '0) & (32'(used_q) + 32'(beats) <= FifoWords);
  assign ar_addr_o  = next_q;
  assign ar_len_o   = 8'(beats) - 8'd1;
  assign asked      = ar_valid_o & ar_ready_i;
  assign r_ready_o  = 1'b1;
  assign arrived    = r_valid_i;
  assign taken      = word_valid_o & word_ready_i;
  assign quiet_o    = owed_q == '0;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      active_q <= 1'b0;
      next_q   <= '0;
      left_q   <= '0;
      owed_q   <= '0;
      used_q   <= '0;
    end else begin
      if (start_i) begin
        active_q <= 1'b1;
        next_q   <= program_i;
        left_q   <= words_i;
      end else if (end_i) begin
        active_q <= 1'b0;
      end else if (asked) begin
        next_q <= next_q + (64'(beats) << 6);
        left_q <= left_q - 32'(beats);
      end
      owed_q <= owed_q + (asked ? beats : '0) - CountW'(arrived);
      if (start_i || end_i) used_q <= '0;
      else used_q <= used_q + (asked ? beats : '0) - CountW'(taken);
    end
  end

  logic room;

  dpu_fifo #(
    .Width (1 + BeatBits),
    .Depth (FifoWords)
  ) u_fifo (
    .clk_i,
    .rst_ni,
    .clear_i   (end_i),
    .wr_valid_i(arrived & active_q),
    .wr_ready_o(room),
    .wr_data_i ({r_resp_i != 2'b00, r_data_i}),
    .rd_valid_o(word_valid_o),
    .rd_ready_i(word_ready_i),
    .rd_data_o ({word_error_o, word_o}),
    .count_o   (filled)
  );

  assign exhausted_o = active_q & (left_q == '0) & (owed_q == '0) & (filled == '0);

  logic unused;
  assign unused = room;

`ifndef SYNTHESIS
  // Waiver: the assertion samples the asynchronous reset on purpose.
  /* verilator lint_off SYNCASYNCNET */
  // Room was reserved for every beat, and no beat comes that was not asked for.
  Room: assert property (@(posedge clk_i) disable iff (!rst_ni) arrived |-> room & (owed_q != '0));
  /* verilator lint_on SYNCASYNCNET */
`endif

endmodule
