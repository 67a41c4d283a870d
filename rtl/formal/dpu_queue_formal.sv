// Proof of dpu_queue: words start once, in order, with their tokens and DRAIN met, and give their signals once, in order;
// its rings never over- or underflow; and it serves every word (a ranking, below). One word, the `tag_q`-th, is any.
// Assumed of the engine: `done_i` only for a word that started before this cycle. Semaphores and engine are free otherwise.

module dpu_queue_formal #(
  parameter int unsigned Depth    = 3,
  parameter int unsigned InFlight = 4
) (
  input logic           clk_i,
  input logic           stop_i,
  input logic           push_valid_i,
  input dpu_pkg::word_t push_word_i,
  input logic           wait_ready_i,
  input logic           start_ready_i,
  input logic           done_i,
  input logic           signal_ready_i,
  input logic [7:0]     any_i  // sampled while in reset
);

  localparam int unsigned PtrW = $clog2(InFlight);

  logic               rst_ni, push_ready, wait_take, start_valid, signal_valid, held, tokenless, idle;
  logic [15:0]        wait_mask, signal_mask;
  logic [31:0]        wait_remote, index, signal_remote, at;
  dpu_pkg::word_t     word;
  dpu_pkg::event_t    unused_event;
  logic [7:0]         pushed_q, started_q, done_q, retired_q, tag_q;

  dpu_formal_reset u_reset (.clk_i, .rst_no(rst_ni));
  dpu_queue #(.Depth(Depth), .IsLoad(1'b1), .IsStore(1'b1), .InFlight(InFlight)) dut (
    .*, .clear_i(1'b0), .push_ready_o(push_ready), .push_index_i(32'(pushed_q)), .wait_mask_o(wait_mask),
    .wait_remote_o(wait_remote), .wait_take_o(wait_take), .start_valid_o(start_valid), .word_o(word), .index_o(index),
    .signal_valid_o(signal_valid), .signal_mask_o(signal_mask), .signal_remote_o(signal_remote), .held_o(held),
    .tokenless_o(tokenless), .idle_o(idle), .at_o(at), .event_o(unused_event)
  );

  // Words by number: pushed >= started >= done >= retired.
  logic                   push, start, retire;
  dpu_isa_pkg::dma_word_t pushed, out, kept_q;
  assign push   = push_valid_i & push_ready;
  assign start  = start_valid & start_ready_i;
  assign retire = signal_valid & signal_ready_i;
  assign pushed = dpu_isa_pkg::dma_word_t'(push_word_i);
  assign out    = dpu_isa_pkg::dma_word_t'(word);

  always_ff @(posedge clk_i) begin
    if (!rst_ni) tag_q <= any_i;
    if (push && pushed_q == tag_q) kept_q <= pushed;
  end
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) {pushed_q, started_q, done_q, retired_q} <= '0;
    else begin
      pushed_q  <= pushed_q + 8'(push);
      started_q <= started_q + 8'(start);
      done_q    <= done_q + 8'(done_i);
      retired_q <= retired_q + 8'(retire);
    end
  end

  logic [7:0] waiting, running, ended, ahead_start, ahead_retire;
  assign waiting      = pushed_q - started_q;
  assign running      = started_q - done_q;
  assign ended        = done_q - retired_q;
  assign ahead_start  = tag_q - started_q;   // words before the followed one, if it waits
  assign ahead_retire = tag_q - retired_q;   // the same, if it started

  // The ranking of the followed word: steps (start, done, signals) that it and the words before it still have to do.
  logic       pending, served;
  logic [9:0] rank, rank_q;
  logic       pending_q, served_q;
  function automatic logic [7:0] upto(input logic [7:0] tag, input logic [7:0] from, input logic [7:0] present);
    return (tag - from < present) ? tag - from + 8'd1 : '0;
  endfunction
  assign pending = tag_q - retired_q < pushed_q - retired_q;
  assign rank    = 10'(upto(tag_q, started_q, pushed_q - started_q)) + 10'(upto(tag_q, done_q, pushed_q - done_q)) +
                   10'(upto(tag_q, retired_q, pushed_q - retired_q));
  // The environment does what is asked of it: tokens come, the engine takes a word, ends one, signals find room.
  assign served  = !stop_i && wait_ready_i && start_ready_i && (running == '0 || done_i) && signal_ready_i;
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      pending_q <= 1'b0;
      served_q  <= 1'b0;
      rank_q    <= '0;
    end else begin
      pending_q <= pending;
      served_q  <= served;
      rank_q    <= rank;
    end
  end

  // Where things are, for induction.
  logic [7:0] fifo_slot, ring_slot;
  function automatic logic [7:0] wrap(input logic [7:0] x, input int unsigned by);
    return x >= 8'(by) ? x - 8'(by) : x;
  endfunction
  assign fifo_slot = wrap(8'(dut.u_fifo.rd_ptr_q) + ahead_start, Depth);
  assign ring_slot = wrap(8'(dut.retire_ptr_q) + ahead_retire, InFlight);

  // Of a word only what the queue reads; that FIFOs keep whole words is dpu_fifo's proof.
  typedef struct packed {
    logic [7:0]  flags;
    logic [15:0] wait_mask, signal_mask;
    logic [31:0] remote;
  } part_t;
  function automatic part_t part(input dpu_isa_pkg::dma_word_t x);
    return '{flags: x.flags, wait_mask: x.wait_mask, signal_mask: x.signal_mask, remote: x.remote};
  endfunction
  logic [543:0] in_fifo;
  assign in_fifo = dut.u_fifo.mem[fifo_slot[$clog2(Depth)-1:0]];
  logic [79:0]  in_ring;
  assign in_ring = dut.kept[ring_slot[PtrW-1:0]];

  logic [3:0][31:0] kept_index;  // of words in the engine, oldest first
  for (genvar i = 0; i < 4; i++) begin : gen_kept
    assign kept_index[i] = dut.kept[PtrW'(wrap(8'(dut.done_ptr_q) + 8'(i), InFlight))][31:0];
  end

  always_comb begin
    if (rst_ni) begin
      assume (!done_i || running != '0);

      NoOverflow: assert (waiting <= 8'(Depth) && running + ended <= 8'(InFlight) &&
                          !(start && running + ended == 8'(InFlight)));
      NoUnderflow: assert (!(start && waiting == '0) && !(retire && ended + 8'(done_i) == '0));
      InOrder: assert (!held || index == 32'(started_q));
      SameWord: assert (!(start_valid && started_q == tag_q) || part(out) == part(kept_q));
      Tokens: assert (!start || (wait_ready_i && wait_mask == out.wait_mask && wait_remote == out.remote));
      TakenOnce: assert (wait_take == start);
      Drained: assert (!(start && (out.flags & dpu_isa_pkg::FlagDrain) != '0) || running == '0);
      Stopped: assert (!(start && stop_i));
      SignalsOfWord: assert (!(signal_valid && retired_q == tag_q && started_q != tag_q) ||
                             (signal_mask == kept_q.signal_mask && signal_remote == kept_q.remote));
      AfterDone: assert (!signal_valid || ended != '0 || done_i);
      Idle: assert (idle == (pushed_q == retired_q));
      AtMeansOldest: assert (!(running != '0) || at == 32'(done_q));
      Ranking: assert (!(pending && pending_q) || rank <= rank_q);
      Served: assert (!(pending_q && served_q) || !pending || rank < rank_q);
      // for induction
      Counts: assert (8'(dut.running_q) == running && 8'(dut.ended_q) == ended && 8'(dut.u_fifo.count_q) == waiting);
      Pointers: assert (dut.u_fifo.rd_ptr_q < 2'(Depth) && dut.u_fifo.wr_ptr_q < 2'(Depth) &&
                        8'(dut.u_fifo.wr_ptr_q) == wrap(8'(dut.u_fifo.rd_ptr_q) + waiting, Depth));
      Ring: assert (8'(dut.done_ptr_q) == wrap(8'(dut.retire_ptr_q) + ended, InFlight) &&
                    8'(dut.start_ptr_q) == wrap(8'(dut.retire_ptr_q) + ended + running, InFlight));
      OldestIndex: assert (waiting == '0 || dut.u_fifo.mem[dut.u_fifo.rd_ptr_q][543:512] == 32'(started_q));
      SecondIndex: assert (waiting < 8'd2 ||
          dut.u_fifo.mem[2'(wrap(8'(dut.u_fifo.rd_ptr_q) + 8'd1, Depth))][543:512] == 32'(8'(started_q + 8'd1)));
      ThirdIndex: assert (waiting < 8'd3 ||
          dut.u_fifo.mem[2'(wrap(8'(dut.u_fifo.rd_ptr_q) + 8'd2, Depth))][543:512] == 32'(8'(started_q + 8'd2)));
      RunningIndices: assert ((running < 8'd1 || kept_index[0] == 32'(done_q)) &&
                              (running < 8'd2 || kept_index[1] == 32'(8'(done_q + 8'd1))) &&
                              (running < 8'd3 || kept_index[2] == 32'(8'(done_q + 8'd2))) &&
                              (running < 8'd4 || kept_index[3] == 32'(8'(done_q + 8'd3))));
      KeptWaiting: assert (!(ahead_start < waiting) || part(dpu_isa_pkg::dma_word_t'(in_fifo[511:0])) == part(kept_q));
      KeptStarted: assert (!(ahead_retire < running + ended) ||
                           (in_ring[79:64] == kept_q.signal_mask && in_ring[63:32] == kept_q.remote));
      CoverFull: cover (waiting == 8'(Depth) && running + ended == 8'(InFlight) && push_valid_i);
      CoverDrain: cover (start && (out.flags & dpu_isa_pkg::FlagDrain) != '0 && done_q == 8'd2);
      CoverHeldBack: cover (ended == 8'(InFlight) && held);
      CoverIdleAgain: cover (idle && retired_q == 8'd3);
      CoverServed: cover (pending && served && rank == 10'd5);
    end
  end

endmodule
