// The queue of one engine: words wait here for their tokens and for DRAIN, then go to the engine in order.
// A word takes all its tokens in the cycle in which the engine accepts it. Words that ended give their signals in
// order, all signals of a word at once; a full semaphore holds back this word's signals and those of later ones.

module dpu_queue #(
  parameter int unsigned Depth    = 8,
  parameter bit          IsLoad   = 1'b0,  // takes remote tokens
  parameter bit          IsStore  = 1'b0,  // gives remote tokens
  parameter int unsigned InFlight = 16     // words between start and their signals
) (
  input  logic                  clk_i,
  input  logic                  rst_ni,
  input  logic                  clear_i,  // a stream begins: the report of the current word
  input  logic                  stop_i,

  // from dispatch
  input  logic                  push_valid_i,
  output logic                  push_ready_o,
  input  dpu_pkg::word_t        push_word_i,
  input  logic [31:0]           push_index_i,

  // semaphores: tokens that the oldest word needs, and whether all are there
  output logic [15:0]           wait_mask_o,
  output logic [31:0]           wait_remote_o,
  input  logic                  wait_ready_i,
  output logic                  wait_take_o,

  // engine
  output logic                  start_valid_o,
  input  logic                  start_ready_i,
  output dpu_pkg::word_t        word_o,
  output logic [31:0]           index_o,
  input  logic                  done_i,

  // semaphores: signals of the oldest word that ended
  output logic                  signal_valid_o,
  output logic [15:0]           signal_mask_o,
  output logic [31:0]           signal_remote_o,
  input  logic                  signal_ready_i,

  // for counters and for the end of the stream
  output logic                  held_o,       // a word waits here
  output logic                  tokenless_o,  // it waits for a token
  output logic                  idle_o,       // nothing here, nothing in the engine, all signals given
  output logic [31:0]           at_o,         // index of the current word
  output dpu_pkg::event_t       event_o
);

  import dpu_isa_pkg::*;

  localparam int unsigned PtrW   = $clog2(InFlight);
  localparam int unsigned CountW = $clog2(InFlight + 1);

  // Words that wait.

  logic      start, rd_valid;
  dma_word_t word;
  logic      unused;
  logic [$clog2(Depth + 1)-1:0] count;

  dpu_fifo #(
    .Width (32 + WordBits),
    .Depth (Depth)
  ) u_fifo (
    .clk_i,
    .rst_ni,
    .clear_i   (1'b0),
    .wr_valid_i(push_valid_i),
    .wr_ready_o(push_ready_o),
    .wr_data_i ({push_index_i, push_word_i}),
    .rd_valid_o(rd_valid),
    .rd_ready_i(start),
    .rd_data_o ({index_o, word_o}),
    .count_o   (count)
  );

  assign word   = dma_word_t'(word_o);  // the header is the same in all words
  assign unused = ^{word, count};

  // The start of a word. Counts of words: in the engine, and ended but with signals to give.

  logic [CountW-1:0] running_q, ended_q;
  logic              drained, room, retire;

  assign drained       = ((word.flags & FlagDrain) == '0) | (running_q == '0);
  assign room          = running_q + ended_q != CountW'(InFlight);
  assign wait_mask_o   = rd_valid ? word.wait_mask : '0;
  assign wait_remote_o = (IsLoad && rd_valid) ? word.remote : '0;
  assign start_valid_o = rd_valid & wait_ready_i & drained & room & ~stop_i;
  assign start         = start_valid_o & start_ready_i;
  assign wait_take_o   = start;

  // What is kept of words that started: a ring with three ends, started, ended and retired.

  typedef struct packed {
    logic [15:0] mask;
    logic [31:0] remote;
    logic [31:0] index;
  } kept_t;

  kept_t           kept [InFlight];
  logic [PtrW-1:0] start_ptr_q, done_ptr_q, retire_ptr_q;
  logic [31:0]     at_q;

  function automatic logic [PtrW-1:0] next(input logic [PtrW-1:0] ptr);
    return (ptr == PtrW'(InFlight - 1)) ? '0 : ptr + PtrW'(1);
  endfunction

  always_ff @(posedge clk_i) begin
    if (start) begin
      kept[start_ptr_q] <= '{mask: word.signal_mask, remote: IsStore ? word.remote : '0, index: index_o};
    end
  end

  assign signal_valid_o  = (ended_q != '0) | done_i;
  assign signal_mask_o   = kept[retire_ptr_q].mask;
  assign signal_remote_o = kept[retire_ptr_q].remote;
  assign retire          = signal_valid_o & signal_ready_i;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      running_q    <= '0;
      ended_q      <= '0;
      start_ptr_q  <= '0;
      done_ptr_q   <= '0;
      retire_ptr_q <= '0;
      at_q         <= '0;
    end else begin
      if (start != done_i) running_q <= start ? running_q + CountW'(1) : running_q - CountW'(1);
      if (done_i != retire) ended_q <= done_i ? ended_q + CountW'(1) : ended_q - CountW'(1);
      if (start) start_ptr_q <= next(start_ptr_q);
      if (done_i) done_ptr_q <= next(done_ptr_q);
      if (retire) retire_ptr_q <= next(retire_ptr_q);
      if (clear_i) at_q <= '0;
      else if (done_i) at_q <= kept[done_ptr_q].index;
    end
  end

  // The oldest word in the engine, else the one that waits, else the last that ended.
  always_comb begin
    at_o = at_q;
    if (running_q != '0) at_o = kept[done_ptr_q].index;
    else if (rd_valid) at_o = index_o;
  end

  assign held_o      = rd_valid;
  assign tokenless_o = rd_valid & ~wait_ready_i;
  assign idle_o      = ~rd_valid & (running_q == '0) & (ended_q == '0);
  assign event_o     = '{start: start, done: done_i, start_index: index_o, done_index: kept[done_ptr_q].index};

`ifndef SYNTHESIS
  // Waiver: the assertion samples the asynchronous reset on purpose.
  /* verilator lint_off SYNCASYNCNET */
  // A word ends after it started.
  DoneOfRunning: assert property (@(posedge clk_i) disable iff (!rst_ni) done_i |-> running_q != '0);
  /* verilator lint_on SYNCASYNCNET */
`endif

endmodule
