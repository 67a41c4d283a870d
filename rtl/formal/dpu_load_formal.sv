// Proof of dpu_load: AXI rules of its read channels, a beat is taken for each that was asked for, its ring never over- or underflows.
// Any words, regions and ports; `stop_i` at any time. Small buffers, `Bursts` bursts between address and last beat.
// Assumed of memory: beats come only for addresses that it took, in order, the last of a burst marked.

module dpu_load_formal
  import dpu_dma_pkg::*;
#(
  parameter int unsigned Bursts = 2,
  parameter int unsigned Cols   = 8,
  parameter bit          Whole  = 1'b0  // the burst generator's part is checked too, not assumed
) (
  input logic                   clk_i,
  input logic                   stop_i,
  input logic                   start_valid_i,
  input dpu_pkg::word_t         word_i,
  input logic [31:0]            index_i,
  input dpu_pkg::region_t [7:0] regions_i,
  input logic                   ar_ready_i,
  input logic                   r_valid_i,
  input dpu_pkg::beat_t         r_data_i,
  input logic [1:0]             r_resp_i,
  input logic                   act_wr_ready_i,
  input logic                   wgt_wr_ready_i,
  input logic                   vbuf_wr_ready_i,
  input logic                   param_wr_ready_i
);

  logic               rst_ni, quiet, start_ready, done, ar_valid, r_ready, r_last;
  dpu_pkg::axi_addr_t ar_addr;
  logic [7:0]         ar_len;
  dpu_pkg::fault_t    fault;

  dpu_formal_reset u_reset (.clk_i, .rst_no(rst_ni));
  // Waiver: what is not looked at is left open, so that the solver does not see it.
  dpu_load #(
    .Cols(Cols), .Lanes(8), .ActWords(16), .WgtWords(16), .VbufWords(16), .ParamWords(64), .Bursts(Bursts)
  ) dut (
    .clk_i, .rst_ni, .stop_i, .quiet_o(quiet), .start_valid_i, .start_ready_o(start_ready), .word_i, .index_i,
    .done_o(done), .busy_o(), .stall_o(), .fault_o(fault), .regions_i, .ar_valid_o(ar_valid), .ar_addr_o(ar_addr),
    .ar_len_o(ar_len), .ar_ready_i, .r_valid_i, .r_data_i, .r_resp_i, .r_last_i(r_last), .r_ready_o(r_ready),
    .act_wr_valid_o(), .act_wr_addr_o(), .act_wr_data_o(), .act_wr_ready_i, .wgt_wr_valid_o(), .wgt_wr_addr_o(),
    .wgt_wr_data_o(), .wgt_wr_ready_i, .vbuf_wr_valid_o(), .vbuf_wr_addr_o(), .vbuf_wr_data_o(), .vbuf_wr_ready_i,
    .param_wr_valid_o(), .param_wr_addr_o(), .param_wr_count_o(), .param_wr_data_o(), .param_wr_ready_i,
    .table_wr_valid_o(), .table_wr_slot_o(), .table_wr_header_o(), .table_wr_index_o(), .table_wr_data_o(),
    .read_bytes_o()
  );

  // Memory: lengths of the bursts it took, oldest first, and beats of the oldest that it sent.
  logic [Bursts-1:0][7:0] len_q;
  logic [7:0]             open_q, sent_q, len_last_q;
  logic                   asked, beat, wait_q, stop_q, held_back_q;
  dpu_pkg::axi_addr_t     addr_q;
  assign asked  = ar_valid & ar_ready_i;
  assign beat   = r_valid_i & r_ready;
  assign r_last = sent_q == len_q[0];
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      open_q      <= '0;
      sent_q      <= '0;
      wait_q      <= 1'b0;
      stop_q      <= 1'b0;
      held_back_q <= 1'b0;
    end else begin
      open_q      <= open_q + 8'(asked) - 8'(beat & r_last);
      sent_q      <= beat ? (r_last ? '0 : sent_q + 8'd1) : sent_q;
      wait_q      <= ar_valid & ~ar_ready_i;
      stop_q      <= stop_q | stop_i;
      held_back_q <= held_back_q | (r_valid_i & ~r_ready);
    end
  end
  always_ff @(posedge clk_i) begin
    {addr_q, len_last_q} <= {ar_addr, ar_len};
    for (int unsigned i = 0; i < Bursts; i++) begin
      if (asked && open_q - 8'(beat & r_last) == 8'(i)) len_q[i] <= ar_len;
      else if (beat && r_last && i + 1 < Bursts) len_q[i] <= len_q[(i + 1) % Bursts];
    end
  end

  // For induction. The bursts in `u_open` are those that memory owes, and the one whose address waits in its register.
  function automatic logic [7:0] length(input logic [89:0] burst);  // burst_t: slot, counted, address, bytes
    return 8'((14'(burst[18:13]) + 14'(burst[12:0]) - 14'd1) >> 6);
  endfunction
  function automatic logic fits(input logic [89:0] burst);
    return burst[12:0] != '0 && 14'(burst[24:13]) + 14'(burst[12:0]) <= 14'd4096;
  endfunction
  logic [1:0][89:0] entry;  // oldest first
  logic [7:0]       entries;
  for (genvar i = 0; i < 2; i++) begin : gen_entry
    assign entry[i] = 90'(dut.u_open.mem[dut.u_open.rd_ptr_q + 1'(i)]);
  end
  assign entries = 8'(dut.u_open.count_q);

  // A word that will be done in the next cycle, and a fault: of another word it may be, in the same cycle.
  logic  ends, faults;
  slot_t fault_slot;
  assign ends       = dut.u_write.s2_take && dut.u_write.s2_q.last && dut.u_write.s2_q.code == dpu_isa_pkg::ErrorNone;
  assign faults     = (dut.write_fault && !dut.halt) || dut.beat_bad;
  assign fault_slot = (dut.write_fault && !dut.halt) ? dut.write_slot : dut.burst.slot;

  always_comb begin
    if (rst_ni) begin
      // proved of dpu_dma_bursts behind dpu_dma_check
      if (!Whole) assume (!(dut.gen_valid && !dut.gen_none) || dut.gen.bytes != '0);
      assume (!r_valid_i || open_q != '0);
      assume (!stop_q || stop_i);

      ArStays: assert (!wait_q || (ar_valid && ar_addr == addr_q && ar_len == len_last_q));
      ArAligned: assert (!ar_valid || (ar_addr[5:0] == '0 && ar_len < 8'd64));
      ArInPage: assert (!ar_valid || 9'(ar_addr[11:6]) + 9'(ar_len) < 9'd64);
      LastBeat: assert (!beat || dut.beat_last == r_last);
      Owed: assert (!(open_q != '0) || dut.burst_valid);
      Quiet: assert (!quiet || (open_q == '0 && !ar_valid));
      TakesAfterStop: assert (!(stop_q && open_q != '0) || r_ready);
      RingNoOverflow: assert (!dut.push || dut.level <= 8'(dut.RingBytes - 64));
      RingNoUnderflow: assert (!Whole || !dut.pop_valid || 32'(dut.pop_count) <= 32'(dut.level));
      Held: assert (!Whole || (dut.held_q <= 3'd4 && !(done && dut.held_q == '0)));
      OneFault: assert (!Whole || !(ends && faults && fault_slot == dut.u_write.s2_q.slot));
      // for induction
      Entries: assert (entries == open_q + 8'(ar_valid) && entries <= 8'd2);
      Fit: assert ((entries < 8'd1 || fits(entry[0])) && (entries < 8'd2 || fits(entry[1])));
      Lengths: assert ((open_q < 8'd1 || len_q[0] == length(entry[0])) && (open_q < 8'd2 || len_q[1] == length(entry[1])));
      Register: assert (!ar_valid || ar_len == length(entry[open_q[0]]));
      InPageRegister: assert (!ar_valid || ar_addr[11:6] == entry[open_q[0]][24:19]);
      Place: assert (dut.inside_q == (sent_q != '0));
      Rest: assert (!dut.inside_q || (open_q != '0 && sent_q <= len_q[0] && dut.left_q != '0 && dut.left_q <= 13'd4095 &&
                    8'((14'(dut.left_q) + 14'd63) >> 6) == len_q[0] + 8'd1 - sent_q));
      Ends: assert (8'(dut.u_open.wr_ptr_q) == 8'(1'(8'(dut.u_open.rd_ptr_q) + entries)));
      CoverBurst: cover (beat && r_last && sent_q == 8'd2);
      CoverDone: cover (done && open_q == '0);
      CoverFault: cover (fault.valid && fault.code == dpu_isa_pkg::ErrorRegion);
      CoverStopped: cover (stop_q && beat && r_last);
      CoverWait: cover (wait_q && asked && open_q == 8'd1);
    end
  end

endmodule
