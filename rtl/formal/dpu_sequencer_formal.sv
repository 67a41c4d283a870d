// Proof that dispatch, the four queues and the semaphores do not deadlock under the program verifier's rules.
// Any program of `Words` words whose stream order has a token for each wait and never more than the maximum (rule 3 of
// codegen/verify); engines of any speed, each in order. Small depths: `Depth` words a queue, `InFlight` in an engine.

module dpu_sequencer_formal #(
  parameter int unsigned Words    = 3,
  parameter int unsigned Depth    = 1,
  parameter int unsigned InFlight = 2,
  parameter bit          Verified = 1'b1,  // programs keep the rule
  parameter logic [15:0] Used = 16'h1111   // semaphores in use: one of each pair; the others are its copies
) (
  input logic             clk_i,
  input logic             word_valid_i,                 // fetch may be late
  input logic [3:0]       start_ready_i,
  input logic [3:0]       done_i,
  input logic [Words-1:0][1:0]  engine_i,               // the program: sampled while in reset
  input logic [Words-1:0][15:0] wait_i,
  input logic [Words-1:0][15:0] signal_i,
  input logic [Words-1:0]       drain_i
);

  import dpu_isa_pkg::*;

  localparam int unsigned Max = MaxTokens;
  localparam int unsigned IndexW = $clog2(Words + 1);

  logic rst_ni;
  dpu_formal_reset u_reset (.clk_i, .rst_no(rst_ni));

  // The program.
  logic [Words-1:0][1:0]  engine_q;
  logic [Words-1:0][15:0] wait_q, signal_q;
  logic [Words-1:0]       drain_q;
  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      {engine_q, drain_q} <= {engine_i, drain_i};
      wait_q   <= wait_i & {Words{Used}};
      signal_q <= signal_i & {Words{Used}};
    end
  end

  logic [IndexW-1:0] index_q;  // dispatched
  dma_word_t         next;
  logic              word_valid, word_ready, ended, end_now, irq;
  logic [31:0]       index;
  logic [3:0]        push_valid, push_ready;
  dpu_pkg::fault_t   fault;
  engine_e           fault_engine;
  always_comb begin
    next = '0;
    if (index_q == IndexW'(Words)) next.opcode = OpcodeEnd;
    else begin
      next.opcode      = 8'(engine_q[index_q]) + 8'd1;
      next.wait_mask   = wait_q[index_q] & Used;  // a constant zero for the others
      next.signal_mask = signal_q[index_q] & Used;
      next.flags       = drain_q[index_q] ? 8'(FlagDrain) : '0;
    end
  end
  assign word_valid = word_valid_i & ~ended;
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) index_q <= '0;
    else if (word_valid && word_ready && !end_now) index_q <= index_q + IndexW'(1);
  end

  dpu_dispatch u_dispatch (
    .clk_i, .rst_ni, .stop_i(1'b0), .start_i(1'b0), .program_i('0), .word_valid_i(word_valid), .word_ready_o(word_ready),
    .word_i(dpu_pkg::word_t'(next)), .word_error_i(1'b0), .exhausted_i(1'b0), .push_valid_o(push_valid),
    .push_ready_i(push_ready), .index_o(index), .end_o(end_now), .ended_o(ended), .irq_o(irq), .fault_o(fault),
    .fault_engine_o(fault_engine)
  );

  logic [3:0][15:0] wait_mask, signal_mask;
  logic [3:0]       wait_ready, wait_take, start_valid, signal_valid, signal_ready, idle, running;
  for (genvar e = 0; e < 4; e++) begin : gen_queue
    logic [31:0]     wait_remote, signal_remote, word_index, at;
    dpu_pkg::word_t  word;
    dpu_pkg::event_t happened;
    logic            held, tokenless;
    dpu_queue #(.Depth(Depth), .IsLoad(e == 0), .IsStore(e == 3), .InFlight(InFlight)) u_queue (
      .clk_i, .rst_ni, .clear_i(1'b0), .stop_i(1'b0), .push_valid_i(push_valid[e]), .push_ready_o(push_ready[e]),
      .push_word_i(dpu_pkg::word_t'(next)), .push_index_i(index), .wait_mask_o(wait_mask[e]), .wait_remote_o(wait_remote),
      .wait_ready_i(wait_ready[e]), .wait_take_o(wait_take[e]), .start_valid_o(start_valid[e]),
      .start_ready_i(start_ready_i[e]), .word_o(word), .index_o(word_index), .done_i(done_i[e]),
      .signal_valid_o(signal_valid[e]), .signal_mask_o(signal_mask[e]), .signal_remote_o(signal_remote),
      .signal_ready_i(signal_ready[e]), .held_o(held), .tokenless_o(tokenless), .idle_o(idle[e]), .at_o(at),
      .event_o(happened)
    );
    assign running[e] = u_queue.running_q != '0;
  end

  logic [0:0] remote_full;
  dpu_semaphores u_semaphores (
    .clk_i, .rst_ni, .wait_mask_i(wait_mask), .wait_remote_i('0), .wait_ready_o(wait_ready), .wait_take_i(wait_take),
    .signal_mask_i(signal_mask), .signal_ready_o(signal_ready), .signal_give_i(signal_valid & signal_ready),
    .remote_token_i('0), .remote_full_o(remote_full)
  );

  // Rule 3, word by word in stream order: every wait finds a token, no count passes the maximum. Rule 2: no own pair.
  logic [Words-1:0]     legal;
  logic [Words:0][63:0][1:0] count;  // of semaphore (c, p, k), before each word
  assign count[0] = '0;
  for (genvar w = 0; w < Words; w++) begin : gen_word
    always_comb begin
      count[w+1] = count[w];
      legal[w]   = wait_q[w][4*engine_q[w]+:4] == '0 && signal_q[w][4*engine_q[w]+:4] == '0;
      for (int unsigned p = 0; p < 4; p++) begin
        for (int unsigned k = 0; k < 4; k++) begin
          if (wait_q[w][4*p+k]) begin
            if (count[w+1][{engine_q[w], 2'(p), 2'(k)}] == '0) legal[w] = 1'b0;
            count[w+1][{engine_q[w], 2'(p), 2'(k)}] -= 2'd1;
          end
        end
      end
      for (int unsigned c = 0; c < 4; c++) begin
        for (int unsigned k = 0; k < 4; k++) begin
          if (signal_q[w][4*c+k]) begin
            if (count[w+1][{2'(c), engine_q[w], 2'(k)}] == 2'(Max)) legal[w] = 1'b0;
            count[w+1][{2'(c), engine_q[w], 2'(k)}] += 2'd1;
          end
        end
      end
    end
  end

  // What could happen in this cycle if fetch and engines did all they may: dispatch, start, end of a word, signals.
  logic [3:0] may_push, may_start, may_retire;
  logic       word_next, alive, finished, happens;
  assign word_next  = !ended && (index_q == IndexW'(Words) || push_ready[engine_q[index_q < IndexW'(Words) ? index_q : '0]]);
  assign may_start  = start_valid;
  assign may_retire = signal_valid & signal_ready;
  assign may_push   = {3'b0, word_next};
  assign finished   = ended & (idle == '1);
  assign alive      = (may_push | may_start | may_retire | running) != '0;

  assign happens    = (word_valid && word_ready) || (start_valid & start_ready_i) != '0 || done_i != '0 || may_retire != '0;

  always_comb begin
    if (rst_ni) begin
      assume ((done_i & ~running) == '0);
      assume (!Verified || legal == '1);
      // A cycle in which nothing happens changes nothing; such cycles are left out.
      assume (!alive || happens);

      NoDeadlock: assert (finished || alive);
      NoTokenLost: assert (({u_semaphores.give} & u_semaphores.full_q) == '0);
      NoTokenMadeUp: assert ((u_semaphores.take & ~u_semaphores.some_q) == '0);
      NoFault: assert (!fault.valid);
      CoverFinished: cover (finished && wait_q[1] != '0 && wait_q[2] != '0);
      CoverFull: cover (u_semaphores.full_q != '0 && (signal_valid & ~signal_ready) != '0);
      CoverQueueFull: cover (word_valid && !word_ready && index_q == IndexW'(2));
      CoverWaits: cover ((wait_mask[1] != '0) && !wait_ready[1] && (wait_mask[2] != '0) && !wait_ready[2]);
    end
  end

endmodule
