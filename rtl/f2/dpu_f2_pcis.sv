// The host's window on device memory: PCIS (AXI4, 512 bits, 16-bit IDs) to a memory port without IDs; order is kept.
// A read waits for the writes that were taken before it: its data say that those are in HBM, since a host's writes are posted
// and it sees no response. Writes that come after it wait until it is sent, so that it does not wait for ever.
// The shell must always get an answer, OKAY and in time. So an access outside HBM, of a kind that is not supported, or
// while HBM starts up is answered here: reads with the dead pattern, writes dropped, `error_o` pulsed. If memory makes no
// progress for `Timeout` cycles, everything is answered here from then on (`lost_o`, until the image is loaded again).

module dpu_f2_pcis #(
  parameter logic [63:0] MemoryBytes = 64'h4_0000_0000,
  parameter int unsigned Timeout     = dpu_f2_pkg::MemoryTimeout,
  parameter int unsigned Bursts      = 32  // under way, each direction; the shell has no more
) (
  input  logic                             clk_i,
  input  logic                             rst_ni,
  input  logic                             ready_i,  // HBM has started up
  output logic                             error_o,
  output logic                             lost_o,

  // shell
  input  logic                             s_ar_valid_i,
  output logic                             s_ar_ready_o,
  input  logic [dpu_f2_pkg::ShellIdW-1:0]  s_ar_id_i,
  input  dpu_f2_pkg::mem_a_t               s_ar_i,
  input  logic [2:0]                       s_ar_size_i,
  input  logic [1:0]                       s_ar_burst_i,
  output logic                             s_r_valid_o,
  input  logic                             s_r_ready_i,
  output logic [dpu_f2_pkg::ShellIdW-1:0]  s_r_id_o,
  output dpu_f2_pkg::mem_r_t               s_r_o,
  input  logic                             s_aw_valid_i,
  output logic                             s_aw_ready_o,
  input  logic [dpu_f2_pkg::ShellIdW-1:0]  s_aw_id_i,
  input  dpu_f2_pkg::mem_a_t               s_aw_i,
  input  logic [2:0]                       s_aw_size_i,
  input  logic [1:0]                       s_aw_burst_i,
  input  logic                             s_w_valid_i,
  output logic                             s_w_ready_o,
  input  dpu_f2_pkg::mem_w_t               s_w_i,
  output logic                             s_b_valid_o,
  input  logic                             s_b_ready_i,
  output logic [dpu_f2_pkg::ShellIdW-1:0]  s_b_id_o,

  // memory
  output logic                             m_ar_valid_o,
  input  logic                             m_ar_ready_i,
  output dpu_f2_pkg::mem_a_t               m_ar_o,
  input  logic                             m_r_valid_i,
  output logic                             m_r_ready_o,
  input  dpu_f2_pkg::mem_r_t               m_r_i,
  output logic                             m_aw_valid_o,
  input  logic                             m_aw_ready_i,
  output dpu_f2_pkg::mem_a_t               m_aw_o,
  output logic                             m_w_valid_o,
  input  logic                             m_w_ready_i,
  output dpu_f2_pkg::mem_w_t               m_w_o,
  input  logic                             m_b_valid_i,
  output logic                             m_b_ready_o,
  input  logic [1:0]                       m_b_i
);

  import dpu_f2_pkg::*;

  // Waiver: outputs that nobody here needs.
  /* verilator lint_off PINCONNECTEMPTY */

  localparam int unsigned TimeW = $clog2(Timeout + 1);
  localparam int unsigned DoneW = $clog2(Bursts + 1);

  // What is known of a burst until it is answered. `here`: it does not go to memory.
  typedef struct packed {
    logic [ShellIdW-1:0] id;
    logic [7:0]          len;
    logic                here;
  } burst_t;

  function automatic logic reaches(input mem_a_t a, input logic [2:0] size, input logic [1:0] kind);
    logic in_hbm;
    in_hbm = (a.addr >= PcisBase) & (a.addr - PcisBase < MemoryBytes);
    return in_hbm & ((a.len == '0) | ((size == 3'd6) & (kind == 2'b01)));
  endfunction

  function automatic mem_a_t device(input mem_a_t a);
    return '{addr: (a.addr - PcisBase) & ~64'h3f, len: a.len};
  endfunction

  logic lost_q;

  // Reads.

  burst_t     r_head;
  logic       ar_here, ar_go, ar_waits, ar_held_q, r_space, r_open, r_here, r_last, r_bad;
  logic       aw_here, aw_go, aw_held_q, w_space, w_open, w_head, w_here, w_end, b_space, b_open, b_here, b_fire;
  logic [7:0] beat_q;

  assign ar_here      = lost_q | ~ready_i | ~reaches(s_ar_i, s_ar_size_i, s_ar_burst_i);
  assign ar_go        = ~b_open | ar_held_q;
  assign ar_waits     = s_ar_valid_i & r_space & ~ar_here & ~ar_go;
  assign m_ar_valid_o = s_ar_valid_i & r_space & ~ar_here & ar_go;
  assign m_ar_o       = device(s_ar_i);
  assign s_ar_ready_o = r_space & (ar_here | (ar_go & m_ar_ready_i));

  assign r_here      = r_head.here | lost_q;
  assign r_last      = beat_q == r_head.len;
  assign r_bad       = r_here | (m_r_i.resp != RespOkay);
  assign s_r_valid_o = r_open & (r_here | m_r_valid_i);
  assign s_r_id_o    = r_head.id;
  assign s_r_o       = '{data: r_bad ? DeadBeat : m_r_i.data, resp: RespOkay, last: r_last};
  assign m_r_ready_o = lost_q | (r_open & ~r_here & s_r_ready_i);

  dpu_fifo #(
    .Width($bits(burst_t)),
    .Depth(Bursts)
  ) u_reads (
    .clk_i,
    .rst_ni,
    .clear_i   (1'b0),
    .wr_valid_i(s_ar_valid_i & s_ar_ready_o),
    .wr_ready_o(r_space),
    .wr_data_i ({s_ar_id_i, s_ar_i.len, ar_here}),
    .rd_valid_o(r_open),
    .rd_ready_i(s_r_valid_o & s_r_ready_i & r_last),
    .rd_data_o (r_head),
    .count_o()
  );

  // Writes: `data` are the bursts whose last beat is still to come, `answers` those without a response.

  burst_t             b_head;
  logic [DoneW-1:0]   done_q;  // bursts that all beats have come of, not answered

  assign aw_here      = lost_q | ~ready_i | ~reaches(s_aw_i, s_aw_size_i, s_aw_burst_i);
  assign aw_go        = ~ar_waits | aw_held_q;
  assign m_aw_valid_o = s_aw_valid_i & w_space & b_space & ~aw_here & aw_go;
  assign m_aw_o       = device(s_aw_i);
  assign s_aw_ready_o = w_space & b_space & (aw_here | (aw_go & m_aw_ready_i));

  assign w_here      = w_head | lost_q;
  assign m_w_valid_o = s_w_valid_i & w_open & ~w_here;
  assign m_w_o       = s_w_i;
  assign s_w_ready_o = w_open & (w_here | m_w_ready_i);
  assign w_end       = s_w_valid_i & s_w_ready_o & s_w_i.last;

  assign b_here      = b_head.here | lost_q;
  assign s_b_valid_o = b_open & (b_here ? done_q != '0 : m_b_valid_i);
  assign s_b_id_o    = b_head.id;
  assign m_b_ready_o = lost_q | (b_open & ~b_here & s_b_ready_i);
  assign b_fire      = s_b_valid_o & s_b_ready_i;

  dpu_fifo #(
    .Width(1),
    .Depth(Bursts)
  ) u_data (
    .clk_i,
    .rst_ni,
    .clear_i   (1'b0),
    .wr_valid_i(s_aw_valid_i & s_aw_ready_o),
    .wr_ready_o(w_space),
    .wr_data_i (aw_here),
    .rd_valid_o(w_open),
    .rd_ready_i(w_end),
    .rd_data_o (w_head),
    .count_o()
  );

  dpu_fifo #(
    .Width($bits(burst_t)),
    .Depth(Bursts)
  ) u_answers (
    .clk_i,
    .rst_ni,
    .clear_i   (1'b0),
    .wr_valid_i(s_aw_valid_i & s_aw_ready_o),
    .wr_ready_o(b_space),
    .wr_data_i ({s_aw_id_i, s_aw_i.len, aw_here}),
    .rd_valid_o(b_open),
    .rd_ready_i(b_fire),
    .rd_data_o (b_head),
    .count_o()
  );

  // Waiting for memory and nothing moves there.

  logic             waits, moves;
  logic [TimeW-1:0] time_q;

  assign waits = (m_ar_valid_o & ~m_ar_ready_i) | (m_aw_valid_o & ~m_aw_ready_i) | (m_w_valid_o & ~m_w_ready_i) |
                 (r_open & ~r_here & ~m_r_valid_i) | (b_open & ~b_here & (done_q != '0) & ~m_b_valid_i);
  assign moves = (m_ar_valid_o & m_ar_ready_i) | (m_aw_valid_o & m_aw_ready_i) | (m_w_valid_o & m_w_ready_i) |
                 (m_r_valid_i & m_r_ready_o) | (m_b_valid_i & m_b_ready_o);

  assign lost_o  = lost_q;
  assign error_o = (s_ar_valid_i & s_ar_ready_o & ar_here) | (s_aw_valid_i & s_aw_ready_o & aw_here) |
                   (m_r_valid_i & m_r_ready_o & (m_r_i.resp != RespOkay)) |
                   (m_b_valid_i & m_b_ready_o & (m_b_i != RespOkay)) | (time_q == TimeW'(Timeout));

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      ar_held_q <= 1'b0;
      aw_held_q <= 1'b0;
      beat_q    <= '0;
      done_q    <= '0;
      time_q    <= '0;
      lost_q    <= 1'b0;
    end else begin
      // What is offered to memory stays.
      ar_held_q <= m_ar_valid_o & ~m_ar_ready_i;
      aw_held_q <= m_aw_valid_o & ~m_aw_ready_i;
      if (s_r_valid_o && s_r_ready_i) beat_q <= r_last ? '0 : beat_q + 8'd1;
      if (w_end && !b_fire) done_q <= done_q + DoneW'(1);
      if (b_fire && !w_end) done_q <= done_q - DoneW'(1);
      time_q <= (waits && !moves && !lost_q) ? time_q + TimeW'(1) : '0;
      if (time_q == TimeW'(Timeout)) lost_q <= 1'b1;
    end
  end

  // The end of a read is counted here; the length of a write is that of its data.
  logic unused;
  assign unused = ^{m_r_i.last, b_head.len};

  /* verilator lint_on PINCONNECTEMPTY */

endmodule
