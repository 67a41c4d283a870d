// LOAD: copies strided runs from DRAM into ACT, WGT, VBUF, PARAM or a gate table; padding, int4 expansion, corner-turn.
// Checker -> burst generator -> AXI read -> ring of bytes -> cell walker -> write port; up to four words at once.
// Addresses run ahead into the next words; data come, and words complete, in order.

module dpu_load
  import dpu_dma_pkg::*;
#(
  parameter int unsigned Cols = 8,
  parameter int unsigned Lanes = 8,
  parameter int unsigned ActWords = 8192,
  parameter int unsigned WgtWords = 4096,
  parameter int unsigned VbufWords = 4096,
  parameter int unsigned ParamWords = 16384,
  parameter int unsigned Bursts = 256  // between address and last beat
) (
  input  logic                            clk_i,
  input  logic                            rst_ni,
  input  logic                            stop_i,
  output logic                            quiet_o,

  input  logic                            start_valid_i,
  output logic                            start_ready_o,
  input  dpu_pkg::word_t                  word_i,
  input  logic [31:0]                     index_i,
  output logic                            done_o,
  output logic                            busy_o,
  output logic                            stall_o,
  output dpu_pkg::fault_t                 fault_o,
  input  dpu_pkg::region_t [7:0]          regions_i,

  output logic                            ar_valid_o,
  output dpu_pkg::axi_addr_t              ar_addr_o,
  output logic [7:0]                      ar_len_o,
  input  logic                            ar_ready_i,
  input  logic                            r_valid_i,
  input  dpu_pkg::beat_t                  r_data_i,
  input  logic [1:0]                      r_resp_i,
  input  logic                            r_last_i,
  output logic                            r_ready_o,

  output logic                            act_wr_valid_o,
  output logic [$clog2(ActWords)-1:0]     act_wr_addr_o,
  output logic [Cols*8-1:0]               act_wr_data_o,
  input  logic                            act_wr_ready_i,
  output logic                            wgt_wr_valid_o,
  output logic [$clog2(WgtWords)-1:0]     wgt_wr_addr_o,
  output logic [Cols*8-1:0]               wgt_wr_data_o,
  input  logic                            wgt_wr_ready_i,
  output logic                            vbuf_wr_valid_o,
  output logic [$clog2(VbufWords)-1:0]    vbuf_wr_addr_o,
  output logic [Cols*16-1:0]              vbuf_wr_data_o,
  input  logic                            vbuf_wr_ready_i,
  output logic                            param_wr_valid_o,
  output logic [$clog2(ParamWords)-1:0]   param_wr_addr_o,
  output logic [$clog2(Lanes+1)-1:0]      param_wr_count_o,
  output logic [Lanes*32-1:0]             param_wr_data_o,
  input  logic                            param_wr_ready_i,
  output logic                            table_wr_valid_o,
  output logic [0:0]                      table_wr_slot_o,
  output logic                            table_wr_header_o,
  output logic [7:0]                      table_wr_index_o,
  output logic [127:0]                    table_wr_data_o,

  output logic [31:0]                     read_bytes_o
);

  import dpu_isa_pkg::*;

  localparam int unsigned ParamStep = Lanes < 16 ? Lanes : 16;
  localparam int unsigned RowBytes = Cols > 32 ? 2 * Cols : 64;
  localparam int unsigned RingBytes = 1 << $clog2(RowBytes + 128);
  localparam int unsigned LevelW = $clog2(RingBytes) + 1;
  localparam int unsigned InFlight = dpu_pkg::WordsInFlight;
  localparam int unsigned HeldW = $clog2(InFlight + 1);

  // Words held, their indices, and whether anything went wrong.
  logic [HeldW-1:0]            held_q;
  slot_t                       slot_q;
  logic [InFlight-1:0][31:0]   index_q;
  logic [InFlight-1:0][63:0]   fault_address_q;
  logic                        halt, halt_q, start;

  assign halt          = halt_q | stop_i;
  assign start_ready_o = held_q != HeldW'(InFlight) && !halt;
  assign start         = start_valid_i & start_ready_o;

  // Checked words wait for the burst generator and for the walker.
  logic   checked, check_busy, runs_valid, runs_ready, walk_valid, walk_ready;
  runs_t  check_runs, runs;
  walk_t  check_walk, walk;
  logic [63:0] check_address;

  dpu_dma_check #(
    .Store(1'b0), .Cols(Cols),
    .ActWords(ActWords), .WgtWords(WgtWords), .VbufWords(VbufWords), .ParamWords(ParamWords)
  ) u_check (
    .clk_i,
    .rst_ni,
    .regions_i,
    .valid_i         (start),
    .word_i          (dma_word_t'(word_i)),
    .slot_i          (slot_q),
    .busy_o          (check_busy),
    .valid_o         (checked),
    .runs_o          (check_runs),
    .walk_o          (check_walk),
    .fault_address_o (check_address)
  );

  // Waiver: these two never fill up, at most InFlight words are held.
  /* verilator lint_off PINCONNECTEMPTY */
  dpu_fifo #(.Width($bits(runs_t)), .Depth(InFlight)) u_runs (
    .clk_i, .rst_ni, .clear_i(1'b0),
    .wr_valid_i(checked), .wr_ready_o(), .wr_data_i(check_runs),
    .rd_valid_o(runs_valid), .rd_ready_i(runs_ready), .rd_data_o(runs), .count_o()
  );
  dpu_fifo #(.Width($bits(walk_t)), .Depth(InFlight)) u_walks (
    .clk_i, .rst_ni, .clear_i(1'b0),
    .wr_valid_i(checked), .wr_ready_o(), .wr_data_i(check_walk),
    .rd_valid_o(walk_valid), .rd_ready_i(walk_ready), .rd_data_o(walk), .count_o()
  );
  /* verilator lint_on PINCONNECTEMPTY */

  // Addresses.
  typedef struct packed {
    slot_t                  slot;
    logic                   counted;
    logic [63:0]            address;
    logic [BurstBytesW-1:0] bytes;
  } burst_t;

  logic   gen_valid, gen_ready, gen_none, ar_free, ar_load, burst_valid, burst_space, burst_pop;
  error_e gen_code;
  burst_t gen, burst;
  logic   ar_valid_q;
  logic [57:0] ar_beat_q;
  logic [5:0]  ar_len_q;
  // Waiver: LOAD finds the end of a word in its walker.
  /* verilator lint_off UNUSEDSIGNAL */
  logic   gen_last;
  /* verilator lint_on UNUSEDSIGNAL */

  dpu_dma_bursts u_bursts (
    .clk_i,
    .rst_ni,
    .job_valid_i (runs_valid),
    .job_ready_o (runs_ready),
    .job_i       (runs),
    .valid_o     (gen_valid),
    .ready_i     (gen_ready),
    .none_o      (gen_none),
    .code_o      (gen_code),
    .slot_o      (gen.slot),
    .counted_o   (gen.counted),
    .address_o   (gen.address),
    .bytes_o     (gen.bytes),
    .last_o      (gen_last)
  );

  // Nothing goes on behind an illegal word.
  assign ar_free   = !ar_valid_q || ar_ready_i;
  assign gen_ready = gen_none ? gen_code == ErrorNone : ar_free && burst_space && !halt;
  assign ar_load   = gen_valid & gen_ready & ~gen_none;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) ar_valid_q <= 1'b0;
    else         ar_valid_q <= ar_load | (ar_valid_q & ~ar_ready_i);
  end
  always_ff @(posedge clk_i) begin
    if (ar_load) begin
      ar_beat_q <= gen.address[63:6];
      ar_len_q  <= 6'((13'(gen.address[5:0]) + gen.bytes - 13'd1) >> 6);
    end
  end
  assign ar_valid_o = ar_valid_q;
  assign ar_addr_o  = {ar_beat_q, 6'b0};
  assign ar_len_o   = {2'b0, ar_len_q};

  // Waiver: only whether there is room matters.
  /* verilator lint_off PINCONNECTEMPTY */
  dpu_fifo #(.Width($bits(burst_t)), .Depth(Bursts)) u_open (
    .clk_i, .rst_ni, .clear_i(1'b0),
    .wr_valid_i(ar_load), .wr_ready_o(burst_space), .wr_data_i(gen),
    .rd_valid_o(burst_valid), .rd_ready_i(burst_pop), .rd_data_o(burst), .count_o()
  );
  /* verilator lint_on PINCONNECTEMPTY */

  assign quiet_o = ~burst_valid;

  // Beats: the bytes of each that are wanted go into the ring. After a fault they are taken and dropped.
  logic                   inside_q;  // not the first beat of its burst
  logic [BurstBytesW-1:0] left_q, left;
  logic [5:0]             first;
  logic [BeatBytesW-1:0]  room, count;
  logic                   beat_last, beat, push, beat_bad;
  logic [57:0]            beat_at_q;
  logic [LevelW-1:0]      level;

  assign first     = inside_q ? '0 : burst.address[5:0];
  assign left      = inside_q ? left_q : burst.bytes;
  assign room      = BeatBytesW'(7'd64) - {1'b0, first};
  assign beat_last = left <= BurstBytesW'(room);
  assign count     = beat_last ? left[BeatBytesW-1:0] : room;
  assign r_ready_o = burst_valid && (halt || level <= LevelW'(RingBytes - 64));
  assign beat      = r_valid_i & r_ready_o;
  assign burst_pop = beat & beat_last;
  assign beat_bad  = beat && !halt && r_resp_i != 2'b00;
  assign push      = beat && !halt && r_resp_i == 2'b00;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni)   inside_q <= 1'b0;
    else if (beat) inside_q <= ~beat_last;
  end
  always_ff @(posedge clk_i) begin
    if (beat) begin
      left_q    <= left - BurstBytesW'(room);
      beat_at_q <= (inside_q ? beat_at_q : burst.address[63:6]) + 58'd1;
    end
  end

  assign read_bytes_o = push && burst.counted ? 32'(count) : '0;

  // The ring, the walker, the write ports.
  logic                    pop_valid, step_valid, step_ready, wrote, write_done, write_fault;
  logic [$clog2(RowBytes):0] pop_count;
  logic [7:0]              pop_fill;
  logic [RowBytes*8-1:0]  ring_word;
  step_t                   step;
  error_e                  write_code;
  slot_t                   write_slot;

  dpu_dma_ring #(.InBytes(64), .OutBytes(RowBytes), .Bytes(RingBytes)) u_ring (
    .clk_i,
    .rst_ni,
    .push_valid_i (push),
    .push_data_i  (r_data_i),
    .push_first_i (first),
    .push_count_i (count),
    .pop_valid_i  (pop_valid),
    .pop_first_i  ('0),
    .pop_count_i  (pop_count),
    .pop_fill_i   (pop_fill),
    .word_o       (ring_word),
    .level_o      (level)
  );

  dpu_dma_walk #(.Cols(Cols), .ParamStep(ParamStep)) u_walk (
    .clk_i,
    .rst_ni,
    .job_valid_i (walk_valid),
    .job_ready_o (walk_ready),
    .job_i       (walk),
    .valid_o     (step_valid),
    .ready_i     (step_ready),
    .step_o      (step)
  );

  dpu_load_write #(
    .Cols(Cols), .Lanes(Lanes), .ActWords(ActWords), .WgtWords(WgtWords), .VbufWords(VbufWords),
    .ParamWords(ParamWords), .ParamStep(ParamStep), .WordBytes(RowBytes), .LevelW(LevelW)
  ) u_write (
    .clk_i,
    .rst_ni,
    .halt_i       (halt),
    .job_start_i  (walk_valid & walk_ready),
    .job_i        (walk),
    .step_valid_i (step_valid),
    .step_ready_o (step_ready),
    .step_i       (step),
    .level_i      (level),
    .pop_valid_o  (pop_valid),
    .pop_count_o  (pop_count),
    .pop_fill_o   (pop_fill),
    .word_i       (ring_word),
    .wrote_o      (wrote),
    .done_o       (write_done),
    .fault_o      (write_fault),
    .fault_code_o (write_code),
    .fault_slot_o (write_slot),
    .*
  );

  assign done_o = write_done;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      held_q <= '0;
      slot_q <= '0;
    end else begin
      held_q <= held_q + HeldW'(start) - HeldW'(write_done);
      if (start) slot_q <= slot_q + SlotW'(1);
    end
  end
  always_ff @(posedge clk_i) begin
    if (start) index_q[slot_q] <= index_i;
    if (checked) fault_address_q[check_runs.slot] <= check_address;
  end

  // The first fault ends it: the tile stops all engines, and only a reset helps.
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      halt_q  <= 1'b0;
      fault_o <= '0;
    end else begin
      fault_o <= '0;
      if (stop_i) halt_q <= 1'b1;
      if (write_fault && !halt) begin
        halt_q  <= 1'b1;
        fault_o <= '{
          valid: 1'b1, code: write_code, index: index_q[write_slot], address: fault_address_q[write_slot]
        };
      end else if (beat_bad) begin
        halt_q  <= 1'b1;
        fault_o <= '{
          valid: 1'b1, code: ErrorDram, index: index_q[burst.slot],
          address: {inside_q ? beat_at_q : burst.address[63:6], first}
        };
      end
    end
  end

  assign busy_o  = ar_valid_q | beat | wrote | check_busy;
  assign stall_o = held_q != '0 && !busy_o;

`ifndef SYNTHESIS
  // Waiver: the assertions sample the asynchronous reset on purpose.
  /* verilator lint_off SYNCASYNCNET */
  LastBeat: assert property (@(posedge clk_i) disable iff (!rst_ni) beat |-> r_last_i == beat_last);
  InPage: assert property (
    @(posedge clk_i) disable iff (!rst_ni) ar_valid_o |-> 7'(ar_addr_o[11:6]) + 7'(ar_len_o) < 7'd64);
  /* verilator lint_on SYNCASYNCNET */
`endif

endmodule
