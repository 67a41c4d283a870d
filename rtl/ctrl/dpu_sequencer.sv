// The control side of a tile: fetch, dispatch, one queue an engine, semaphores, and signals to other tiles.
// Hands words to the engines when their tokens are there, and passes on the signals of those that ended.
// The tile is busy from `start_i` until END was dispatched, all engines are done and all signals have arrived.

module dpu_sequencer #(
  parameter int unsigned Tiles         = 1,
  parameter int unsigned LoadQueue     = 16,
  parameter int unsigned MxuQueue      = 8,
  parameter int unsigned VpuQueue      = 8,
  parameter int unsigned StoreQueue    = 8,
  parameter int unsigned RemoteLatency = 40
) (
  input  logic                      clk_i,
  input  logic                      rst_ni,
  input  logic                      stop_i,

  input  logic                      start_i,
  input  dpu_pkg::axi_addr_t        program_i,
  input  logic [31:0]               words_i,
  output logic                      busy_o,
  output logic                      ended_o,     // END was dispatched
  output logic                      irq_o,       // the tile ends, and END asked for the interrupt
  output logic                      quiet_o,     // no read is open
  output logic                      progress_o,  // a word moved on

  // AXI read of instructions
  output logic                      ar_valid_o,
  input  logic                      ar_ready_i,
  output dpu_pkg::axi_addr_t        ar_addr_o,
  output logic [7:0]                ar_len_o,
  input  logic                      r_valid_i,
  output logic                      r_ready_o,
  input  dpu_pkg::beat_t            r_data_i,
  input  logic [1:0]                r_resp_i,

  // engines, by `engine_e`
  output logic [3:0]                start_valid_o,
  input  logic [3:0]                start_ready_i,
  output dpu_pkg::word_t [3:0]      word_o,
  output logic [3:0][31:0]          index_o,
  input  logic [3:0]                done_i,

  // tokens from and to the other tiles, by tile
  input  logic [Tiles-1:0]          remote_token_i,
  output logic [Tiles-1:0]          remote_full_o,
  output logic [Tiles-1:0]          remote_token_o,
  input  logic [Tiles-1:0]          remote_full_i,

  // for counters and error reports
  output logic [3:0]                held_o,
  output logic [3:0]                tokenless_o,
  output logic [3:0]                idle_o,
  output logic [3:0][31:0]          at_o,
  output logic [31:0]               fetched_o,
  output dpu_pkg::event_t [3:0]     events_o,
  output dpu_pkg::report_t          fault_o
);

  import dpu_isa_pkg::*;

  localparam int unsigned Load  = 32'(EngineLoad);
  localparam int unsigned Store = 32'(EngineStore);
  localparam int unsigned Depth [4] = '{LoadQueue, MxuQueue, VpuQueue, StoreQueue};

  // Fetch and dispatch.

  logic                word_valid, word_ready, word_error, exhausted, end_now, irq_wanted;
  dpu_pkg::word_t      next_word;
  logic [31:0]         next_index;
  logic [3:0]          push_valid, push_ready;

  dpu_fetch u_fetch (
    .clk_i,
    .rst_ni,
    .stop_i,
    .start_i,
    .program_i,
    .words_i,
    .end_i       (end_now),
    .ar_valid_o,
    .ar_ready_i,
    .ar_addr_o,
    .ar_len_o,
    .r_valid_i,
    .r_ready_o,
    .r_data_i,
    .r_resp_i,
    .word_valid_o(word_valid),
    .word_ready_i(word_ready),
    .word_o      (next_word),
    .word_error_o(word_error),
    .exhausted_o (exhausted),
    .quiet_o
  );

  assign fault_o.tile = '0;  // control knows it
  assign fetched_o    = next_index;

  dpu_dispatch #(
    .Tiles(Tiles)
  ) u_dispatch (
    .clk_i,
    .rst_ni,
    .stop_i,
    .start_i,
    .program_i,
    .word_valid_i  (word_valid),
    .word_ready_o  (word_ready),
    .word_i        (next_word),
    .word_error_i  (word_error),
    .exhausted_i   (exhausted),
    .push_valid_o  (push_valid),
    .push_ready_i  (push_ready),
    .index_o       (next_index),
    .end_o         (end_now),
    .ended_o,
    .irq_o         (irq_wanted),
    .fault_o       (fault_o.fault),
    .fault_engine_o(fault_o.engine)
  );

  // Queues. A STORE's signals to its own tile and to others are given together.

  logic [3:0][15:0] wait_mask, signal_mask;
  logic [3:0][31:0] wait_remote, signal_remote;
  logic [3:0]       wait_ready, wait_take, signal_valid, signal_ready, signal_room, signal_give;
  logic             remote_room, remote_idle;

  for (genvar e = 0; e < 4; e++) begin : gen_queue
    dpu_queue #(
      .Depth  (Depth[e]),
      .IsLoad (e == Load),
      .IsStore(e == Store)
    ) u_queue (
      .clk_i,
      .rst_ni,
      .clear_i        (start_i),
      .stop_i,
      .push_valid_i   (push_valid[e]),
      .push_ready_o   (push_ready[e]),
      .push_word_i    (next_word),
      .push_index_i   (next_index),
      .wait_mask_o    (wait_mask[e]),
      .wait_remote_o  (wait_remote[e]),
      .wait_ready_i   (wait_ready[e]),
      .wait_take_o    (wait_take[e]),
      .start_valid_o  (start_valid_o[e]),
      .start_ready_i  (start_ready_i[e]),
      .word_o         (word_o[e]),
      .index_o        (index_o[e]),
      .done_i         (done_i[e]),
      .signal_valid_o (signal_valid[e]),
      .signal_mask_o  (signal_mask[e]),
      .signal_remote_o(signal_remote[e]),
      .signal_ready_i (signal_ready[e]),
      .held_o         (held_o[e]),
      .tokenless_o    (tokenless_o[e]),
      .idle_o         (idle_o[e]),
      .at_o           (at_o[e]),
      .event_o        (events_o[e])
    );

    assign signal_ready[e] = signal_room[e] & ((e != Store) | remote_room | (signal_remote[e] == '0));
    assign signal_give[e]  = signal_valid[e] & signal_ready[e];
  end

  dpu_semaphores #(
    .Tiles(Tiles)
  ) u_semaphores (
    .clk_i,
    .rst_ni,
    .wait_mask_i   (wait_mask),
    .wait_remote_i (wait_remote[Load]),
    .wait_ready_o  (wait_ready),
    .wait_take_i   (wait_take),
    .signal_mask_i (signal_mask),
    .signal_ready_o(signal_room),
    .signal_give_i (signal_give),
    .remote_token_i,
    .remote_full_o
  );

  dpu_remote #(
    .Tiles  (Tiles),
    .Latency(RemoteLatency)
  ) u_remote (
    .clk_i,
    .rst_ni,
    .signal_give_i (signal_give[Store]),
    .signal_mask_i (signal_remote[Store][Tiles-1:0]),
    .signal_ready_o(remote_room),
    .token_o       (remote_token_o),
    .full_i        (remote_full_i),
    .idle_o        (remote_idle)
  );

  // Dispatch refuses words that name other tiles than there are; queues but those of LOAD and STORE name none.
  logic unused;
  assign unused = ^{wait_remote, signal_remote};

  // Begin and end.

  logic busy_q, ends, moved_q;

  assign ends = busy_q & ended_o & (idle_o == '1) & quiet_o & remote_idle & ~stop_i;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      busy_q  <= 1'b0;
      moved_q <= 1'b0;
    end else begin
      if (start_i) busy_q <= 1'b1;
      else if (ends) busy_q <= 1'b0;
      moved_q <= r_valid_i | (word_valid & word_ready) | (wait_take != '0) | (done_i != '0) | (remote_token_i != '0);
    end
  end

  assign busy_o     = busy_q;
  assign irq_o      = ends & irq_wanted;
  assign progress_o = moved_q;

endmodule
