// STORE: copies strided cells from ACT, VBUF or PARAM into runs in DRAM, the mirror image of LOAD.
// Checker -> cell walker -> scratchpad read -> ring of bytes -> AXI write beats behind the burst generator's addresses.
// Up to four words at once; a word is done when the response to its last burst is here.

module dpu_store
  import dpu_dma_pkg::*;
#(
  parameter int unsigned Cols = 8,
  parameter int unsigned Lanes = 8,
  parameter int unsigned ActWords = 8192,
  parameter int unsigned VbufWords = 4096,
  parameter int unsigned ParamWords = 16384,
  parameter int unsigned Ahead = 8,    // bursts between address and data
  parameter int unsigned Bursts = 256  // between address and response
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

  output logic                            aw_valid_o,
  output dpu_pkg::axi_addr_t              aw_addr_o,
  output logic [7:0]                      aw_len_o,
  input  logic                            aw_ready_i,
  output logic                            w_valid_o,
  output dpu_pkg::beat_t                  w_data_o,
  output logic [63:0]                     w_strb_o,
  output logic                            w_last_o,
  input  logic                            w_ready_i,
  input  logic                            b_valid_i,
  input  logic [1:0]                      b_resp_i,
  output logic                            b_ready_o,

  output logic                            act_rd_valid_o,
  output logic [$clog2(ActWords)-1:0]     act_rd_addr_o,
  input  logic                            act_rd_ready_i,
  input  logic [Cols*8-1:0]               act_rd_data_i,
  output logic                            vbuf_rd_valid_o,
  output logic [$clog2(VbufWords)-1:0]    vbuf_rd_addr_o,
  input  logic                            vbuf_rd_ready_i,
  input  logic [Cols*16-1:0]              vbuf_rd_data_i,
  output logic                            param_rd_valid_o,
  output logic [$clog2(ParamWords)-1:0]   param_rd_addr_o,
  input  logic                            param_rd_ready_i,
  // Waiver: at most a beat of scalars is read at once.
  /* verilator lint_off UNUSEDSIGNAL */
  input  logic [Lanes*32-1:0]             param_rd_data_i,
  /* verilator lint_on UNUSEDSIGNAL */

  output logic [31:0]                     written_bytes_o
);

  import dpu_isa_pkg::*;

  localparam int unsigned ParamStep = Lanes < 16 ? Lanes : 16;
  localparam int unsigned RowBytes = Cols > 32 ? 2 * Cols : 64;
  localparam int unsigned RingBytes = 1 << $clog2(2 * RowBytes + 128);
  localparam int unsigned RowW = $clog2(RowBytes);
  localparam int unsigned LevelW = $clog2(RingBytes) + 1;
  localparam int unsigned AheadW = $clog2(Ahead + 1);
  localparam int unsigned InFlight = dpu_pkg::WordsInFlight;
  localparam int unsigned HeldW = $clog2(InFlight + 1);

  // Words held, their indices, and whether anything went wrong.
  logic [HeldW-1:0]          held_q;
  slot_t                     slot_q;
  logic [InFlight-1:0][31:0] index_q;
  logic [InFlight-1:0][63:0] fault_address_q;
  logic                      halt, halt_q, start;

  assign halt          = halt_q | stop_i;
  assign start_ready_o = held_q != HeldW'(InFlight) && !halt;
  assign start         = start_valid_i & start_ready_o;

  // Checked words wait for the burst generator and for the walker.
  logic   checked, check_busy, runs_valid, runs_ready, walk_valid, walk_ready;
  runs_t  check_runs, runs;
  walk_t  check_walk, walk;
  logic [63:0] check_address;

  dpu_dma_check #(
    .Store(1'b1), .Cols(Cols), .ActWords(ActWords), .WgtWords(1), .VbufWords(VbufWords), .ParamWords(ParamWords)
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

  // Reads: a step is read when the ring will have room for it.
  logic              step_valid, step_ready, read, port_ready, read_q, take_param_q, take_vbuf_q;
  logic [LevelW-1:0] claimed_q;    // bytes in the ring or on their way
  logic [RowW:0]     read_bytes_q;
  logic              pop_valid;
  logic [6:0]        pop_count;
  // Waiver: STORE's steps are data of one kind.
  /* verilator lint_off UNUSEDSIGNAL */
  step_t             step;
  /* verilator lint_on UNUSEDSIGNAL */

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

  logic step_go;
  assign step_go = step_valid && !step.empty && !halt &&
      claimed_q <= LevelW'(RingBytes - RowBytes);
  assign act_rd_valid_o   = step_go && step.buffer == BufferAct;
  assign vbuf_rd_valid_o  = step_go && step.buffer == BufferVbuf;
  assign param_rd_valid_o = step_go && step.buffer == BufferParam;
  assign act_rd_addr_o    = step.addr[$clog2(ActWords)-1:0];
  assign vbuf_rd_addr_o   = step.addr[$clog2(VbufWords)-1:0];
  assign param_rd_addr_o  = step.addr[$clog2(ParamWords)-1:0];

  always_comb begin
    case (step.buffer)
      BufferVbuf:  port_ready = vbuf_rd_ready_i;
      BufferParam: port_ready = param_rd_ready_i;
      default:     port_ready = act_rd_ready_i;
    endcase
  end
  assign read       = step_go & port_ready;
  assign step_ready = read | (step.empty && step.code == ErrorNone);

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      read_q    <= 1'b0;
      claimed_q <= '0;
    end else begin
      read_q <= read;
      if (read || pop_valid) begin
        claimed_q <= claimed_q + (read ? LevelW'(step.bytes) : '0) - (pop_valid ? LevelW'(pop_count) : '0);
      end
    end
  end
  always_ff @(posedge clk_i) begin
    if (read) begin
      read_bytes_q <= (RowW + 1)'(step.bytes);
      take_param_q <= step.buffer == BufferParam;
      take_vbuf_q  <= step.buffer == BufferVbuf;
    end
  end

  logic [RowBytes*8-1:0] row;
  logic [LevelW-1:0]     level;
  logic [5:0]            first;
  always_comb begin
    row = '0;
    if (read_q) begin
      if (take_param_q)     row[ParamStep*32-1:0] = param_rd_data_i[ParamStep*32-1:0];
      else if (take_vbuf_q) row[Cols*16-1:0] = vbuf_rd_data_i;
      else                  row[Cols*8-1:0] = act_rd_data_i;
    end
  end

  dpu_dma_ring #(.InBytes(RowBytes), .OutBytes(64), .Bytes(RingBytes)) u_ring (
    .clk_i,
    .rst_ni,
    .push_valid_i (read_q),
    .push_data_i  (row),
    .push_first_i ('0),
    .push_count_i (read_bytes_q),
    .pop_valid_i  (pop_valid),
    .pop_first_i  (first),
    .pop_count_i  (pop_count),
    .pop_fill_i   (8'h00),
    .word_o       (w_data_o),
    .level_o      (level)
  );

  // Addresses. A mark (a word that stores nothing, or an illegal one) passes through the responses only.
  typedef struct packed {
    logic   none;
    error_e code;
    slot_t  slot;
    logic   last;
    logic [63:0] address;
  } response_t;
  typedef struct packed {
    logic [5:0]             first;
    logic [BurstBytesW-1:0] bytes;
  } beats_t;

  logic        gen_valid, gen_ready, aw_free, aw_load, aw_fire;
  response_t   gen, open;
  beats_t      gen_beats, aw_beats_q, beats;
  logic        open_space, open_valid, open_pop, beats_valid, beats_pop;
  logic [AheadW-1:0] beats_count;
  logic        aw_valid_q, illegal_q;
  logic [57:0] aw_beat_q;
  logic [5:0]  aw_len_q;
  // Waiver: a STORE counts all that it writes.
  /* verilator lint_off UNUSEDSIGNAL */
  logic        gen_counted;
  /* verilator lint_on UNUSEDSIGNAL */

  dpu_dma_bursts u_bursts (
    .clk_i,
    .rst_ni,
    .job_valid_i (runs_valid),
    .job_ready_o (runs_ready),
    .job_i       (runs),
    .valid_o     (gen_valid),
    .ready_i     (gen_ready),
    .none_o      (gen.none),
    .code_o      (gen.code),
    .slot_o      (gen.slot),
    .counted_o   (gen_counted),
    .address_o   (gen.address),
    .bytes_o     (gen_beats.bytes),
    .last_o      (gen.last)
  );

  // Data follow their address: a burst's beats are known to the data side when its address was taken.
  assign gen_beats.first = gen.address[5:0];
  assign aw_fire   = aw_valid_q & aw_ready_i;
  assign aw_free   = (!aw_valid_q || aw_ready_i) && beats_count + AheadW'(aw_valid_q) < AheadW'(Ahead);
  assign gen_ready = open_space && !halt && !illegal_q && (gen.none || aw_free);
  assign aw_load   = gen_valid & gen_ready & ~gen.none;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      aw_valid_q <= 1'b0;
      illegal_q  <= 1'b0;
    end else begin
      aw_valid_q <= aw_load | (aw_valid_q & ~aw_fire);
      if (gen_valid && gen_ready && gen.code != ErrorNone) illegal_q <= 1'b1;
    end
  end
  always_ff @(posedge clk_i) begin
    if (aw_load) begin
      aw_beat_q  <= gen.address[63:6];
      aw_len_q   <= 6'((13'(gen.address[5:0]) + gen_beats.bytes - 13'd1) >> 6);
      aw_beats_q <= gen_beats;
    end
  end
  assign aw_valid_o = aw_valid_q;
  assign aw_addr_o  = {aw_beat_q, 6'b0};
  assign aw_len_o   = {2'b0, aw_len_q};

  // Waiver: there is always room, see aw_free; and only whether there is room matters.
  /* verilator lint_off PINCONNECTEMPTY */
  dpu_fifo #(.Width($bits(beats_t)), .Depth(Ahead)) u_beats (
    .clk_i, .rst_ni, .clear_i(1'b0),
    .wr_valid_i(aw_fire), .wr_ready_o(), .wr_data_i(aw_beats_q),
    .rd_valid_o(beats_valid), .rd_ready_i(beats_pop), .rd_data_o(beats), .count_o(beats_count)
  );
  dpu_fifo #(.Width($bits(response_t)), .Depth(Bursts)) u_open (
    .clk_i, .rst_ni, .clear_i(1'b0),
    .wr_valid_i(gen_valid & gen_ready), .wr_ready_o(open_space), .wr_data_i(gen),
    .rd_valid_o(open_valid), .rd_ready_i(open_pop), .rd_data_o(open), .count_o()
  );
  /* verilator lint_on PINCONNECTEMPTY */

  // Beats. After a fault those still owed leave with their strobes low.
  logic                   inside_q, w_valid_q, w_last_q, w_free, beat, beat_last;
  logic [BurstBytesW-1:0] left_q, left;
  logic [BeatBytesW-1:0]  room, w_bytes_q;
  logic [63:0]            w_strb_q;

  function automatic logic [63:0] strobes(input logic [5:0] from, input logic [BeatBytesW-1:0] bytes);
    return ~(64'('1) << bytes) << from;
  endfunction

  assign first     = inside_q ? '0 : beats.first;
  assign left      = inside_q ? left_q : beats.bytes;
  assign room      = BeatBytesW'(7'd64) - {1'b0, first};
  assign beat_last = left <= BurstBytesW'(room);
  assign pop_count = beat_last ? left[BeatBytesW-1:0] : room;
  assign w_free    = !w_valid_q || w_ready_i;
  assign beat      = beats_valid && w_free && (halt || level >= LevelW'(pop_count));
  assign pop_valid = beat & ~halt;
  assign beats_pop = beat & beat_last;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      inside_q  <= 1'b0;
      w_valid_q <= 1'b0;
    end else begin
      if (beat) inside_q <= ~beat_last;
      w_valid_q <= beat | (w_valid_q & ~w_ready_i);
    end
  end
  always_ff @(posedge clk_i) begin
    if (beat) begin
      left_q    <= left - BurstBytesW'(room);
      w_last_q  <= beat_last;
      w_strb_q  <= halt ? '0 : strobes(first, pop_count);
      w_bytes_q <= halt ? '0 : pop_count;
    end
  end
  assign w_valid_o       = w_valid_q;
  assign w_strb_o        = w_strb_q;
  assign w_last_o        = w_last_q;
  assign written_bytes_o = w_valid_q && w_ready_i ? 32'(w_bytes_q) : '0;

  // Responses, in order.
  logic good;
  assign b_ready_o = open_valid & ~open.none;
  assign open_pop  = open_valid & (open.none | b_valid_i);
  assign good      = open.none ? open.code == ErrorNone : b_resp_i == 2'b00;
  assign quiet_o   = ~open_valid;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      held_q  <= '0;
      slot_q  <= '0;
      done_o  <= 1'b0;
      halt_q  <= 1'b0;
      fault_o <= '0;
    end else begin
      held_q  <= held_q + HeldW'(start) - HeldW'(done_o);
      if (start) slot_q <= slot_q + SlotW'(1);
      done_o  <= open_pop & open.last & good & ~halt;
      fault_o <= '0;
      if (stop_i) halt_q <= 1'b1;
      // The first fault ends it: the tile stops all engines, and only a reset helps.
      if (open_pop && !good && !halt) begin
        halt_q  <= 1'b1;
        fault_o <= '{
          valid: 1'b1, code: open.none ? open.code : ErrorDram, index: index_q[open.slot],
          address: open.none ? fault_address_q[open.slot] : open.address
        };
      end
    end
  end
  always_ff @(posedge clk_i) begin
    if (start) index_q[slot_q] <= index_i;
    if (checked) fault_address_q[check_runs.slot] <= check_address;
  end

  assign busy_o  = aw_valid_q | (w_valid_q & w_ready_i) | read | check_busy;
  assign stall_o = held_q != '0 && !busy_o;

`ifndef SYNTHESIS
  // Waiver: the assertions sample the asynchronous reset on purpose.
  /* verilator lint_off SYNCASYNCNET */
  InPage: assert property (
    @(posedge clk_i) disable iff (!rst_ni) aw_valid_o |-> 7'(aw_addr_o[11:6]) + 7'(aw_len_o) < 7'd64);
  Strobed: assert property (@(posedge clk_i) disable iff (!rst_ni) w_valid_o |-> halt || w_strb_o != '0);
  /* verilator lint_on SYNCASYNCNET */
`endif

endmodule
