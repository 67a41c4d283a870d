// Cuts a client's AXI4 bursts into pieces of at most 8 beats that stay within 512 bytes, gives each its place in HBM, deals
// them out to `Ways` ports in turn and joins the answers: one port of the HBM is slower than a client.
// Order is kept over all IDs. An access beyond `MemoryBytes` goes to address 0, writes nothing and is answered DECERR.
// `hold_i`: no new burst is taken. `drain_i`: the client is gone; what it owes is sent without strobes, answers are dropped.

module dpu_f2_split #(
  parameter int unsigned IdW         = 1,
  parameter logic [63:0] MemoryBytes = 64'h4_0000_0000,
  parameter int unsigned Ways        = 2,
  parameter int unsigned Pieces      = 64  // under way, each direction
) (
  input  logic               clk_i,
  input  logic               rst_ni,
  input  logic               hold_i,
  input  logic               drain_i,
  output logic               idle_o,

  // client
  input  logic               ar_valid_i,
  output logic               ar_ready_o,
  input  logic [IdW-1:0]     ar_id_i,
  input  dpu_f2_pkg::mem_a_t ar_i,
  output logic               r_valid_o,
  input  logic               r_ready_i,
  output logic [IdW-1:0]     r_id_o,
  output dpu_f2_pkg::mem_r_t r_o,
  input  logic               aw_valid_i,
  output logic               aw_ready_o,
  input  logic [IdW-1:0]     aw_id_i,
  input  dpu_f2_pkg::mem_a_t aw_i,
  input  logic               w_valid_i,
  output logic               w_ready_o,
  input  dpu_f2_pkg::mem_w_t w_i,
  output logic               b_valid_o,
  input  logic               b_ready_i,
  output logic [IdW-1:0]     b_id_o,
  output logic [1:0]         b_o,

  // memory
  output logic [Ways-1:0]               ar_valid_o,
  input  logic [Ways-1:0]               ar_ready_i,
  output dpu_f2_pkg::piece_t            ar_o,
  input  logic [Ways-1:0]               r_valid_i,
  output logic [Ways-1:0]               r_ready_o,
  input  dpu_f2_pkg::mem_r_t [Ways-1:0] r_i,
  output logic [Ways-1:0]               aw_valid_o,
  input  logic [Ways-1:0]               aw_ready_i,
  output dpu_f2_pkg::piece_t            aw_o,
  output logic [Ways-1:0]               w_valid_o,
  input  logic [Ways-1:0]               w_ready_i,
  output dpu_f2_pkg::mem_w_t            w_o,
  input  logic [Ways-1:0]               b_valid_i,
  output logic [Ways-1:0]               b_ready_o,
  input  logic [Ways-1:0][1:0]          b_i
);

  import dpu_f2_pkg::*;

  localparam int unsigned WayW = (Ways > 1) ? $clog2(Ways) : 1;

  typedef logic [WayW-1:0] way_t;

  // Waiver: outputs that nobody here needs.
  /* verilator lint_off PINCONNECTEMPTY */

  // A burst whose pieces go out.
  typedef struct packed {
    logic                valid;
    logic [IdW-1:0]      id;
    logic                miss;
    logic [HbmAddrW-1:6] addr;
    logic [8:0]          left;  // beats
  } burst_t;

  // A piece that was sent.
  typedef struct packed {
    logic [IdW-1:0] id;
    logic           miss;
    logic           last;  // of its burst
    way_t           way;
  } sent_t;

  typedef struct packed {
    logic [2:0] len;
    logic       miss;
    logic       last;
    way_t       way;
  } owed_t;

  function automatic burst_t start(input logic [IdW-1:0] id, input mem_a_t a);
    return '{valid: 1'b1, id: id, miss: a.addr >= MemoryBytes, addr: a.addr[HbmAddrW-1:6], left: {1'b0, a.len} + 9'd1};
  endfunction

  // Beats of the next piece.
  function automatic logic [3:0] beats(input logic [2:0] slot, input logic [8:0] left);
    logic [3:0] room;
    room = 4'd8 - {1'b0, slot};
    return (left < 9'(room)) ? 4'(left) : room;
  endfunction

  function automatic burst_t advance(input burst_t b);
    burst_t     next;
    logic [3:0] n;
    n         = beats(b.addr[8:6], b.left);
    next      = b;
    next.left = b.left - 9'(n);
    next.addr = b.addr + (HbmAddrW - 6)'(n);
    if (next.left == '0) next.valid = 1'b0;
    return next;
  endfunction

  function automatic piece_t piece(input logic miss, input logic [HbmAddrW-1:6] addr, input logic [3:0] n);
    return '{addr: miss ? '0 : spread({addr, 6'd0}), len: 3'(n - 4'd1)};
  endfunction

  function automatic way_t turn(input way_t way);
    return (way == way_t'(Ways - 1)) ? '0 : way + way_t'(1);
  endfunction

  function automatic logic [Ways-1:0] only(input way_t way, input logic valid);
    logic [Ways-1:0] bits;
    bits      = '0;
    bits[way] = valid;
    return bits;
  endfunction

  logic take;
  assign take = ~hold_i & ~drain_i;

  // Reads.

  burst_t     read_q;
  sent_t      r_head;
  mem_r_t     r_in;
  way_t       ar_way_q;
  logic [3:0] read_n;
  logic       r_space, r_open, ar_offer, ar_fire, r_here, r_take, r_pop;

  assign ar_ready_o = ~read_q.valid & take;
  assign ar_offer   = read_q.valid & r_space;
  assign ar_valid_o = only(ar_way_q, ar_offer);
  assign read_n     = beats(read_q.addr[8:6], read_q.left);
  assign ar_o       = piece(read_q.miss, read_q.addr, read_n);
  assign ar_fire    = ar_offer & ar_ready_i[ar_way_q];

  assign r_in       = r_i[r_head.way];
  assign r_here     = r_valid_i[r_head.way] & r_open;
  assign r_take     = r_open & (r_ready_i | drain_i);
  assign r_valid_o  = r_here & ~drain_i;
  assign r_ready_o  = only(r_head.way, r_take);
  assign r_pop      = r_here & r_take & r_in.last;
  assign r_id_o     = r_head.id;
  assign r_o        = '{data: r_in.data, resp: r_head.miss ? RespDecodeError : r_in.resp, last: r_in.last & r_head.last};

  dpu_fifo #(
    .Width($bits(sent_t)),
    .Depth(Pieces)
  ) u_reads (
    .clk_i,
    .rst_ni,
    .clear_i   (1'b0),
    .wr_valid_i(ar_fire),
    .wr_ready_o(r_space),
    .wr_data_i ({read_q.id, read_q.miss, read_q.left == 9'(read_n), ar_way_q}),
    .rd_valid_o(r_open),
    .rd_ready_i(r_pop),
    .rd_data_o (r_head),
    .count_o()
  );

  // Writes: `owed` are pieces whose data are still to come, `sent` those without a response.

  burst_t     write_q;
  sent_t      b_head;
  owed_t      w_head;
  way_t       aw_way_q;
  logic [3:0] write_n;
  logic       b_space, b_open, w_space, w_open, aw_offer, aw_fire, w_offer, w_fire, w_end, b_here, b_take, b_fire;
  logic [2:0] beat_q;
  logic [1:0] b_in, worst_q, worst;

  assign aw_ready_o = ~write_q.valid & take;
  assign aw_offer   = write_q.valid & b_space & w_space;
  assign aw_valid_o = only(aw_way_q, aw_offer);
  assign write_n    = beats(write_q.addr[8:6], write_q.left);
  assign aw_o       = piece(write_q.miss, write_q.addr, write_n);
  assign aw_fire    = aw_offer & aw_ready_i[aw_way_q];

  assign w_offer   = w_open & (w_valid_i | drain_i);
  assign w_valid_o = only(w_head.way, w_offer);
  assign w_ready_o = w_open & w_ready_i[w_head.way] & ~drain_i;
  assign w_fire    = w_offer & w_ready_i[w_head.way];
  assign w_end     = beat_q == w_head.len;
  assign w_o       = '{data: w_i.data, strb: (w_head.miss | drain_i) ? '0 : w_i.strb, last: w_end};

  // The client hears of its last piece only.
  assign b_in      = b_i[b_head.way];
  assign worst     = (b_in > worst_q) ? b_in : worst_q;
  assign b_here    = b_valid_i[b_head.way] & b_open;
  assign b_take    = b_open & (~b_head.last | b_ready_i | drain_i);
  assign b_valid_o = b_here & b_head.last & ~drain_i;
  assign b_ready_o = only(b_head.way, b_take);
  assign b_fire    = b_here & b_take;
  assign b_id_o    = b_head.id;
  assign b_o       = b_head.miss ? RespDecodeError : worst;

  dpu_fifo #(
    .Width($bits(owed_t)),
    .Depth(8)
  ) u_owed (
    .clk_i,
    .rst_ni,
    .clear_i   (1'b0),
    .wr_valid_i(aw_fire),
    .wr_ready_o(w_space),
    .wr_data_i ({aw_o.len, write_q.miss, write_q.left == 9'(write_n), aw_way_q}),
    .rd_valid_o(w_open),
    .rd_ready_i(w_fire & w_end),
    .rd_data_o (w_head),
    .count_o()
  );

  dpu_fifo #(
    .Width($bits(sent_t)),
    .Depth(Pieces)
  ) u_sent (
    .clk_i,
    .rst_ni,
    .clear_i   (1'b0),
    .wr_valid_i(aw_fire),
    .wr_ready_o(b_space),
    .wr_data_i ({write_q.id, write_q.miss, write_q.left == 9'(write_n), aw_way_q}),
    .rd_valid_o(b_open),
    .rd_ready_i(b_fire),
    .rd_data_o (b_head),
    .count_o()
  );

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      read_q   <= '0;
      write_q  <= '0;
      ar_way_q <= '0;
      aw_way_q <= '0;
      beat_q   <= '0;
      worst_q  <= RespOkay;
    end else begin
      if (ar_valid_i && ar_ready_o) read_q <= start(ar_id_i, ar_i);
      else if (ar_fire) read_q <= advance(read_q);
      if (aw_valid_i && aw_ready_o) write_q <= start(aw_id_i, aw_i);
      else if (aw_fire) write_q <= advance(write_q);
      if (ar_fire) ar_way_q <= turn(ar_way_q);
      if (aw_fire) aw_way_q <= turn(aw_way_q);
      if (w_fire) beat_q <= w_end ? '0 : beat_q + 3'd1;
      if (b_fire) worst_q <= b_head.last ? RespOkay : worst;
    end
  end

  assign idle_o = ~read_q.valid & ~r_open & ~write_q.valid & ~w_open & ~b_open;

`ifndef SYNTHESIS
  // A client's bursts stay within 4 KiB and say where they end. Waiver: they sample the asynchronous reset on purpose.
  /* verilator lint_off SYNCASYNCNET */
  ReadStaysIn4K: assert property (@(posedge clk_i) disable iff (!rst_ni)
    ar_valid_i |-> 9'(ar_i.addr[11:6]) + 9'(ar_i.len) < 9'd64);
  WriteStaysIn4K: assert property (@(posedge clk_i) disable iff (!rst_ni)
    aw_valid_i |-> 9'(aw_i.addr[11:6]) + 9'(aw_i.len) < 9'd64);
  LastIsLast: assert property (@(posedge clk_i) disable iff (!rst_ni)
    w_valid_i && w_ready_o |-> w_i.last == (w_end && w_head.last));
  /* verilator lint_on SYNCASYNCNET */
`endif

  // What a client's last beat is follows from its address; of its address 64 bytes are the finest.
  logic unused;
  assign unused = ^{w_i.last, w_head.last, ar_i.addr[5:0], aw_i.addr[5:0]};

  /* verilator lint_on PINCONNECTEMPTY */

endmodule
